"""A profile function that notes which files of a package run."""

from __future__ import annotations

import os
from pathlib import Path
from types import FrameType


class Recorder:
    """Notes the files of the functions that are entered while it is switched on. Code of an import
    is not counted."""

    def __init__(self, package: Path) -> None:
        self.is_on = False
        self.files: set[str] = set()
        self._root = str(package.resolve()) + os.sep

    def __call__(self, frame: FrameType, event: str, _arg: object) -> None:
        if self.is_on and event == "call":
            code = frame.f_code
            if code.co_filename.startswith(self._root) and code.co_name != "<module>":
                self.files.add(code.co_filename[len(self._root) :])
