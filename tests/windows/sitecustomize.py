"""What Wine 8 lacks is told to Python: CopyFile2, whose call would end the process (shutil does
without), and symbolic links, of which Wine says that it made them and did not."""

import os
from importlib import import_module

del import_module("_winapi").CopyFile2


def symlink(src: object, dst: object, *_args: object, **_options: object) -> None:
    raise OSError(0, "Wine makes no symbolic links", str(src), 1314, str(dst))


os.symlink = symlink  # type: ignore[assignment]
