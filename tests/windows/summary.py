"""Sum up the reports of a run under Wine: passed and failed by room, and what failed and is ours.

    python summary.py RESULTS_FOLDER ROOM ...

The status is 1 where a test failed for a reason that `cannot.txt` does not give, and where a room
was cut off. A reason counts for the tests that its line names, where the error itself has the
line's sign (pytest's lines that begin with E), not where the source of the test does.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

CANNOT = Path(__file__).with_name("cannot.txt")


def main(folder: Path, rooms: list[str], cannot: Path = CANNOT) -> int:
    lines = cannot.read_text(encoding="utf-8").splitlines()
    reasons = [line.split("\t") for line in lines if line and not line.startswith("#")]
    ours: list[str] = []
    needed: set[str] = set()
    for room in rooms:
        rows = rows_of(folder / f"{room}.jsonl")
        counts = Counter(row["outcome"] for row in rows)
        failed = [row for row in rows if row["outcome"] == "failed"]
        left = []
        for row in failed:
            causes = [
                names
                for names, sign, _ in reasons
                if fnmatchcase(row["id"].replace("[", "("), names.replace("[", "("))
                and sign in error_of(row["text"])
            ]
            needed.update(causes)
            if not causes:
                left.append(row["id"])
        ours += left
        if not counts["finished"]:
            ours.append(f"{room}: the run was cut off, see {room}.log")
        sums = f"{room:<10} {counts['passed']:>5} passed {len(left):>4} failed"
        others = f"{len(failed) - len(left):>4} by Wine {counts['skipped']:>4} of other systems"
        sys.stdout.write(f"{sums} {others}\n")
    sys.stdout.write("".join(f"FAILED {name}\n" for name in ours))
    for names, *_ in reasons:
        if names not in needed and any(names.startswith(f"tests/{room}/") for room in rooms):
            sys.stdout.write(f"NOT NEEDED in cannot.txt: {names}\n")
    return int(bool(ours))


def rows_of(file: Path) -> list[dict[str, str]]:
    """Return the last word about each test; one that began and never ended has failed."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    rows: dict[str, dict[str, str]] = {}
    for row in map(json.loads, text.splitlines()):
        # Of a test that passed and whose fixture then failed, the failure counts.
        if row["id"] not in rows or rows[row["id"]]["outcome"] != "failed":
            rows[row["id"]] = row
    for row in rows.values():
        if row["outcome"] == "began":
            row.update(outcome="failed", text="E hung")
    return list(rows.values())


def error_of(text: str) -> str:
    """Return the lines of a failure that are the error itself; all of it where none is marked."""
    marked = [line for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(marked) or text


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
