"""Sum up the reports of a run under Wine: passed and failed by room, and what failed and is ours.

    python summary.py RESULTS_FOLDER ROOM ...

The status is 1 where a test failed for a reason that `cannot.txt` does not give, and where a room
was cut off. A reason counts where the error itself has it (pytest's lines that begin with E), not
where the source of the test does.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def main(folder: Path, rooms: list[str]) -> int:
    lines = (Path(__file__).with_name("cannot.txt")).read_text(encoding="utf-8").splitlines()
    reasons = dict(line.split("\t") for line in lines if line and not line.startswith("#"))
    ours: list[str] = []
    for room in rooms:
        file = folder / f"{room}.jsonl"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        rows = [json.loads(line) for line in text.splitlines()]
        counts = Counter(row["outcome"] for row in rows)
        failed = [row for row in rows if row["outcome"] == "failed"]
        left = [
            row["id"]
            for row in failed
            if not any(sign in error_of(row["text"]) for sign in reasons)
        ]
        ours += left
        if not counts["finished"]:
            ours.append(f"{room}: the run was cut off, see {room}.log")
        sums = f"{room:<10} {counts['passed']:>5} passed {len(left):>4} failed"
        others = f"{len(failed) - len(left):>4} by Wine {counts['skipped']:>4} of other systems"
        sys.stdout.write(f"{sums} {others}\n")
    sys.stdout.write("".join(f"FAILED {name}\n" for name in ours))
    return int(bool(ours))


def error_of(text: str) -> str:
    """Return the lines of a failure that are the error itself; all of it where none is marked."""
    marked = [line for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(marked) or text


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
