"""Wine 8 has no CopyFile2, and a call of it ends the process; shutil does without."""

from importlib import import_module

del import_module("_winapi").CopyFile2
