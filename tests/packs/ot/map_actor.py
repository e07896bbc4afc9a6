"""`python -m tests.packs.ot.map_actor ROOT ROWS`: a long run of `ot.map` in a process of its own,
to be stopped.

With `STRIKE=ROW,SIGNAL` in its environment the process sends itself that signal when the row is
called. Prints a JSON object: what the frame says of itself, or that it was stopped and with which
words.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from onetool_ipy import open_toolbox

PACK = '''
import os
pack = "geo"
HERE = {here!r}
ROW, _, SIGNAL = os.environ.get("STRIKE", "").partition(",")

def _write(name, text):
    fd = os.open(os.path.join(HERE, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, (text + "\\n").encode())
    finally:
        os.close(fd)

def code(address: str, times: int = 1) -> dict:
    """Find an address."""
    number = int(address)
    if address == ROW:
        os.kill(os.getpid(), int(SIGNAL))
    if number % 100 == 7:
        _write("failed", address)
        raise ValueError(f"no such place: {{address}}")
    found = {{"lat": number * times, "name": f"place {{address}}"}}
    _write("called", address)
    return found

def die_once(address: str) -> str:
    """Take the process down at the first row with a 50, as often as asked; then work."""
    if address == "50":
        try:
            os.close(os.open(os.path.join(HERE, "died"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), 9)
    _write("called", address)
    return address * 2

def pid(address: str) -> int:
    """Tell where it runs."""
    return os.getpid()
'''


def write_project(root: Path) -> None:
    """A project with the pack `geo`, which notes each call that went well in the file `called`."""
    tools = root / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "geo.py").write_text(PACK.format(here=str(root)), encoding="utf-8")
    (root / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")


def called(root: Path) -> list[str]:
    """The rows whose tool went well, once for each time that it did."""
    file = root / "called"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def main() -> None:
    root, rows = Path(sys.argv[1]), int(sys.argv[2])
    said: dict[str, Any]
    with open_toolbox(root) as box:
        try:
            frame = box.ot.map("geo.code", {"address": [str(i) for i in range(rows)]}, workers=8)
        except KeyboardInterrupt as exc:
            said = {"stopped": str(exc)}
        else:
            said = {
                **frame.attrs["onetool"],
                "lat": int(frame["lat"].sum()),
                "ok": int(frame["ok"].sum()),
            }
    print(json.dumps(said), flush=True)  # noqa: T201 - read by the test


if __name__ == "__main__":
    main()
