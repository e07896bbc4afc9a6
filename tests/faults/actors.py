"""Processes that write until something happens to them, forked from one that has everything
imported.

`Stage` starts that one process; `Stage.start` forks an actor from it in a millisecond, so that
thousands can be killed. What an actor has done for good it says in a file of acknowledgements, with
one write each, which a kill cannot tear.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onetool_ipy.base.files import append, locked, write_whole
from onetool_ipy.stores.results import Results
from tests.harness.patience import HANG_S

ROOT = Path(__file__).parents[2]


class Stage:
    """The process that actors are forked from. `start` gives a process id, `wait` what became of
    it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.actors"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, actor: str, **arguments: Any) -> int:
        return int(self._ask({"actor": actor, "arguments": arguments}))

    def wait(self, pid: int) -> int:
        """The exit status; negative: the signal that ended it."""
        return int(self._ask({"wait": pid}))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=HANG_S)
        self._process.stdout.close()

    def _ask(self, question: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def text_of(seed: str, lines: int) -> str:
    return f"{seed} xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * lines


def acknowledged(acks: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in acks.read_text().splitlines()] if acks.exists() else []


def put(folder: str, acks: str, seed: str, lines: int, count: int = 10**9, **options: Any) -> None:
    """Store one result after the other."""
    results = Results(Path(folder), **options)
    for number in range(count):
        mine = f"{seed}-{number}"
        handle = results.put(text_of(mine, lines), tool="faults.put")
        _acknowledge(acks, handle=handle, seed=mine)


def append_records(path: str, seed: str, count: int) -> None:
    for number in range(count):
        append(Path(path), _record(seed, number))


def count_up(path: str, count: int) -> None:
    for _ in range(count):
        with locked(Path(path), 60.0):
            write_whole(Path(path), str(int(Path(path).read_bytes()) + 1).encode())


def rewrite(path: str, lines: int) -> None:
    for data in _contents(lines):
        write_whole(Path(path), data)


ACTORS: dict[str, Callable[..., None]] = {
    actor.__name__: actor for actor in (put, append_records, count_up, rewrite)
}


def _contents(lines: int) -> Iterator[bytes]:
    return itertools.cycle([text_of(f"{number}", lines).encode() for number in range(3)])


def _record(seed: str, number: int) -> bytes:
    return (
        json.dumps({"seed": seed, "number": number, "text": "y" * (number * 37 % 300)}).encode()
        + b"\n"
    )


def _acknowledge(acks: str, **what: str) -> None:
    fd = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps(what).encode() + b"\n")
    os.close(fd)


def _act(question: dict[str, Any]) -> None:
    """Be the actor, in a process of one's own, and never come back."""
    status = 1
    try:
        ACTORS[question["actor"]](**question["arguments"])
        status = 0
    except BaseException:  # whatever it is, the test must see it, and this process must end
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            _, status = os.waitpid(question["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        elif (answer := os.fork()) == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _act(question)
        with contextlib.suppress(BrokenPipeError):
            print(answer, flush=True)  # noqa: T201  # the answer is read by Stage


if __name__ == "__main__":
    main()
