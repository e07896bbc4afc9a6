"""What Wine 8 lacks is told to Python: CopyFile2, whose call would end the process (shutil does
without), symbolic links, of which Wine says that it made them and did not, and where a path of more
than 260 characters leads, for which it finds no place: Python then asks for a part of the path."""

import ntpath
import os
from importlib import import_module

del import_module("_winapi").CopyFile2


def symlink(src: object, dst: object, *_args: object, **_options: object) -> None:
    raise OSError(0, "Wine makes no symbolic links", str(src), 1314, str(dst))


os.symlink = symlink  # type: ignore[assignment]

asked = ntpath._getfinalpathname


def final_path(path: str) -> str:
    try:
        return asked(path)
    except OSError as exc:
        if exc.winerror != 234:
            raise
        raise OSError(0, "Wine does not tell where this path leads", path, 1) from None


ntpath._getfinalpathname = final_path
