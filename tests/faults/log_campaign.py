"""Campaigns against the call log and the topics: `python -m tests.faults.log_campaign NAME JSON`
says what it counted.

Runs in a process of its own, since it forks. A worker tells its parent of each thing it was
promised (an ack comes when `record`, `notify` has returned); the parent kills it at a random moment
and counts whether that was inside the store.
"""

from __future__ import annotations

import datetime
import json
import mmap
import os
import random
import signal
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

from onetool_ipy.config.settings import Topic
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.topics import Topics

Ack = Callable[[str], object]
Work = Callable[[Ack, mmap.mmap], None]


def worker_name() -> str:
    """A name for a worker. Numbers of processes come again within a thousand kills."""
    return os.urandom(6).hex()


def clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def record_killed(folder: str, rounds: int, seed: int) -> dict[str, Any]:
    """Workers that only record, with arguments of some kilobytes, so that a write crosses pages.

    In turns with a log of their own: one log keeps the newest 512 MB of calls, and older ones would
    count as lost.
    """
    turns = range(0, rounds, 500)
    found = [_record_killed(f"{folder}-{n}", min(500, rounds - n), seed + n) for n in turns]
    whole = {key: sum((one[key] for one in found), type(found[0][key])()) for key in found[0]}
    return {**whole, "totals_agree": all(one["totals_agree"] for one in found)}


def _record_killed(folder: str, rounds: int, seed: int) -> dict[str, Any]:
    def work(ack: Ack, busy: mmap.mmap) -> None:
        log = CallLog(Path(folder), clock=clock)
        text, name = "x" * 3900, worker_name()
        for number in range(10**9):
            call_id = f"{name}-{number}"
            busy[0] = 1
            log.record(call_id, "a.b", "python", {"q": text}, ok=True, ms=1.0, size=1)
            busy[0] = 0
            ack(call_id)

    acked, landed = campaign(work, rounds, seed)
    return {"landed": landed, "killed": rounds, **_checked(folder, acked)}


def tidy_killed(folder: str, rounds: int, seed: int) -> dict[str, Any]:
    """Workers that record a little and close journals; only a kill inside that counts as landed."""

    def work(ack: Ack, busy: mmap.mmap) -> None:
        log = CallLog(Path(folder), clock=clock, rotate_calls=20, close_calls=1)
        log.usage()
        name = worker_name()
        for number in range(10**9):
            call_id = f"{name}-{number}"
            log.record(
                call_id, f"a.t{number % 5}", "python", {"n": number}, ok=True, ms=1.0, size=1
            )
            ack(call_id)
            if number % 7 == 6:
                busy[0] = 1
                log.tidy()
                busy[0] = 0

    acked, landed = campaign(work, rounds, seed)
    return {"landed": landed, "killed": rounds, **_checked(folder, acked)}


def storm(folder: str, kills: int, processes: int, seed: int) -> dict[str, Any]:
    """So many workers share one log at any time: they record, look and close journals. One after
    the other is killed, and another takes its place."""
    chance = random.Random(seed)

    def work(ack: Ack, busy: mmap.mmap) -> None:
        log = CallLog(Path(folder), clock=clock, rotate_calls=40, close_calls=1)
        name = worker_name()
        for number in range(10**9):
            busy[0] = 1
            log.record(
                f"{name}-{number}", f"a.t{number % 5}", "python", {"n": number}, ok=True, ms=1.0
            )
            busy[0] = 0
            ack(f"{name}-{number}")
            if number % 20 == 19:
                busy[0] = 1
                if number % 40 == 19:
                    own = sum(row.call_id.startswith(name) for row in log.history(limit=None))
                    assert own == number + 1, f"{own} of {number + 1}"
                else:
                    log.tidy()
                busy[0] = 0

    acked: list[str] = []
    landed = died = 0
    workers = [_start(work) for _ in range(processes)]
    for number in range(kills + processes):
        place = chance.randrange(len(workers))
        pid, pipe, busy = workers.pop(place)
        data = _wait(pipe, chance.randrange(12), chance.randrange(20_000))
        landed += busy[0]
        if os.waitpid(pid, os.WNOHANG)[0]:
            died += 1
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        with pipe:
            while more := pipe.read(65_536):
                data += more
        acked += data.decode().split("\n")[:-1]
        if number < kills:
            workers.append(_start(work))
        if number % 100 == 99:
            sys.stderr.write(f"{number + 1} kills, {len(acked)} acked, {died} died\n")
    return {"landed": landed, "killed": kills + processes, "died": died, **_checked(folder, acked)}


def notify_killed(folder: str, rounds: int, seed: int) -> dict[str, Any]:
    """Workers that notify, with messages of some kilobytes."""
    import yaml

    topics = _topics(folder)

    def work(ack: Ack, busy: mmap.mmap) -> None:
        name = worker_name()
        for number in range(10**9):
            message = f"{name}-{number} " + "---\n" * 3000
            busy[0] = 1
            topics.notify("t", message)
            busy[0] = 0
            ack(message.split()[0])

    acked, landed = campaign(work, rounds, seed)
    topics.notify("t", "last")
    text = (Path(folder) / "notes.yaml").read_text(encoding="utf-8")
    found = [
        one["message"]
        for one in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    ]
    whole = [message for message in found[:-1] if message.endswith(" " + "---\n" * 3000)]
    names = [message.split()[0] for message in whole]
    return {
        "landed": landed,
        "killed": rounds,
        "acked": len(acked),
        "lost": len(set(acked) - set(names)),
        "doubled": len(names) - len(set(names)),
        "broken": len(found) - 1 - len(whole),
        "last": found[-1],
    }


def many_records(folder: str, processes: int, each: int) -> dict[str, Any]:
    """Many processes record at once; some look at the same time, and close journals."""

    def work(worker: int) -> None:
        log = CallLog(Path(folder), clock=clock, rotate_calls=100)
        for number in range(each):
            log.record(
                f"{worker}-{number}",
                f"w.t{worker}",
                "python",
                {"n": number},
                ok=number % 4 != 0,
                ms=1.0,
                size=3,
            )
            if worker % 4 == 0 and number % 100 == 50:
                usage = log.usage()
                own = next(row.calls for row in usage.tools if row.tool == f"w.t{worker}")
                assert own == number + 1, f"{own} of {number + 1}"
                log.tidy()

    codes = together(work, processes)
    usage = CallLog(Path(folder), clock=clock).usage()
    rows = CallLog(Path(folder), clock=clock).history(limit=None)
    return {
        "codes": codes,
        "total": usage.total_calls,
        "failures": usage.failures,
        "size": usage.output_chars,
        "by_tool": sorted({row.calls for row in usage.tools}),
        "tools": len(usage.tools),
        "rows": len(rows),
        "distinct": len({row.call_id for row in rows}),
        "problems": [str(one) for one in CallLog(Path(folder), clock=clock).problems()],
        "files": len(list(Path(folder).glob("*.jsonl"))),
    }


def many_notes(folder: str, processes: int, each: int) -> dict[str, Any]:
    """Many processes notify the same topic at once."""
    import yaml

    def work(worker: int) -> None:
        topics = _topics(folder)
        for number in range(each):
            topics.notify("t", f"{worker} {number}\n---\n" + "y" * 500)

    codes = together(work, processes)
    text = (Path(folder) / "notes.yaml").read_text(encoding="utf-8")
    found = [
        one["message"]
        for one in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    ]
    return {"codes": codes, "documents": len(found), "distinct": len(set(found))}


def interrupted(folder: str, rounds: int, seed: int) -> dict[str, Any]:
    """One worker that records, looks and notifies, and is interrupted again and again."""
    import yaml  # before the first interrupt: one inside an import leaves half a module behind

    topics = _topics(folder)

    def work(ack: Ack, busy: mmap.mmap) -> None:
        def interrupt(_number: int, _frame: object) -> None:
            if busy[0]:  # inside the store; elsewhere it would stop this loop
                busy[0] = 0
                busy[8:16] = (int.from_bytes(busy[8:16], "little") + 1).to_bytes(8, "little")
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, interrupt)
        log = CallLog(Path(folder) / "calls", clock=clock, rotate_calls=30, close_calls=1)
        number = 0
        while True:
            try:
                while True:
                    number += 1
                    busy[0] = 1
                    log.record(
                        f"id{number}", "a.b", "python", {"n": number}, ok=True, ms=1.0, size=1
                    )
                    busy[0] = 0
                    ack(f"id{number}")
                    busy[0] = 1
                    if number % 5 == 0:
                        log.usage()
                    if number % 40 == 0:
                        log.tidy()
                    if number % 9 == 0:
                        topics.notify("t", str(number))
                    busy[0] = 0
            except KeyboardInterrupt:
                pass

    acked, landed = campaign(work, 1, seed, interrupts=rounds, spins=300_000)
    topics.notify("t", "last")
    notes = list(yaml.safe_load_all((Path(folder) / "notes.yaml").read_text(encoding="utf-8")))
    bad_notes = sum(set(note) != {"ts", "topic", "message"} for note in notes)
    return {
        "landed": landed,
        "bad_notes": bad_notes,
        **_checked(str(Path(folder) / "calls"), acked),
    }


def campaign(
    work: Work, rounds: int, seed: int, *, interrupts: int = 0, acks: int = 3, spins: int = 20_000
) -> tuple[list[str], int]:
    """Fork a worker, let it go on for a random while, kill it; again and again.

    Gives what was acked, and how many kills (or interrupts) came while the worker was busy in the
    store.
    """
    chance = random.Random(seed)
    acked: list[str] = []
    landed = 0
    for _ in range(rounds):
        pid, opened, busy = _start(work)
        with opened as pipe:
            data = pipe.read(1)  # until it is under way
            for _ in range(max(1, interrupts)):
                data += _wait(pipe, chance.randrange(acks + 1), chance.randrange(spins))
                landed += 0 if interrupts else busy[0]
                os.kill(pid, signal.SIGINT if interrupts else signal.SIGKILL)
            if interrupts:
                data += _wait(pipe, 1, 0)
                os.kill(pid, signal.SIGKILL)
                landed += int.from_bytes(busy[8:16], "little")
            os.waitpid(pid, 0)
            while more := pipe.read(65_536):
                data += more
        acked += data.decode().split("\n")[:-1]
    return acked, landed


def _start(work: Work) -> tuple[int, FileIO, mmap.mmap]:
    """Fork a worker. Gives its number, the pipe of what it acked, and whether it is busy."""
    busy = mmap.mmap(-1, mmap.PAGESIZE)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run_worker(work, writer, busy)
    os.close(writer)
    return pid, FileIO(reader, "r"), busy


def together(work: Callable[[int], None], processes: int) -> list[int]:
    """Run the workers at once; their exit codes."""
    pids = []
    for worker in range(processes):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(worker)
                code = 0
            except BaseException as exc:
                os.write(2, f"worker {worker}: {type(exc).__name__}: {exc}\n".encode())
            finally:
                os._exit(code)
        pids.append(pid)
    return sorted({os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids})


def _run_worker(work: Work, writer: int, busy: mmap.mmap) -> None:
    try:
        work(lambda text: os.write(writer, f"{text}\n".encode()), busy)
    except BaseException as exc:
        os.write(2, f"worker: {type(exc).__name__}: {exc}\n".encode())
    finally:
        os._exit(1)


def _wait(pipe: Any, acks: int, spins: int) -> bytes:
    """Some acks more, then a moment of nothing."""
    data = b"".join(pipe.read(64) for _ in range(acks))
    for _ in range(spins):
        pass
    return data


def _topics(folder: str) -> Topics:
    Path(folder).mkdir(parents=True, exist_ok=True)
    # On a busy machine the last of sixteen processes waits long for the lock.
    return Topics(
        [Topic(pattern="*", file="notes.yaml")], Path(folder), clock=clock, lock_wait_s=120.0
    )


def _checked(folder: str, acked: list[str]) -> dict[str, Any]:
    """What the log holds, seen twice: as it was left, and with all its journals closed."""
    log = CallLog(Path(folder), clock=clock)
    before = log.usage().total_calls
    CallLog(Path(folder), clock=clock, close_calls=1).tidy()
    names = [row.call_id for row in log.history(limit=None)]
    return {
        "acked": len(acked),
        "lost": len(set(acked) - set(names)),
        "doubled": len(names) - len(set(names)),
        "extra": len(set(names) - set(acked)),
        "totals_agree": before == log.usage().total_calls == len(names) == len(log.frame()),
        "problems": [str(one) for one in log.problems()],
        "files": sum(path.stat().st_size > 0 for path in Path(folder).glob("*.jsonl")),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
