"""Processes that put tools into one store, all at once or until they are killed; run as a module,
answers with JSON.

    python -m tests.faults.bundle_actors race '{"home": ..., "processes": 16, "each": 5}'

Everything is imported before the first fork, so that the children meet in the store and not on the
way to it. Beside ours stands a careless store without a lock and with files written in place: the
control that the tests must catch.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.base.errors import Conflict

RECORD = {"type": "go", "goTool": {"func": "tools.echo"}, "description": "x" * 3000}


def opened(home: Path) -> Toolbox:
    home.mkdir(parents=True, exist_ok=True)
    config = home / "onetool.yaml"
    if not config.exists():
        config.write_text("version: 1\n")
    return open_toolbox(config, env={"HOME": str(home), "ONETOOL_STATE": str(home / "state")})


def bundle_in(home: Path) -> str:
    with opened(home) as box:
        known = box.bundles.named("b")
        own = box.bundles.new_id() if known is None else known.bundle_id
        if known is None:
            box.bundles.put_bundle(own, slug="b", display_name="B")
        return own


def race(home: str, processes: int, each: int) -> dict[str, Any]:
    """Many processes put the same pairs; says how often each was made, and what is in the store
    then."""
    own = bundle_in(Path(home))
    outcomes = in_children(processes, lambda _: _put_all(Path(home), own, each))
    with opened(Path(home)) as box:
        found = [tool for page in _pages(box, own) for tool in page]
        problems = [str(problem) for problem in box.problems()]
    made = Counter(pair for outcome in outcomes for pair in outcome["made"])
    return {
        "made": sorted(made.values()),
        "refused": sum(outcome["refused"] for outcome in outcomes),
        "stored": len(found),
        "distinct": len({tool.pair for tool in found}),
        "problems": problems,
    }


def slugs(home: str, processes: int) -> dict[str, Any]:
    """Many processes make a bundle of the same slug, each under an id of its own."""

    def act(_: int) -> dict[str, Any]:
        with opened(Path(home)) as box:
            try:
                box.bundles.put_bundle(box.bundles.new_id(), slug="same", display_name="")
            except Conflict:
                return {"made": 0}
            return {"made": 1}

    bundle_in(Path(home))
    outcomes = in_children(processes, act)
    with opened(Path(home)) as box:
        found = [bundle for bundle in box.bundles.list_bundles() if bundle.slug == "same"]
        return {"made": sum(outcome["made"] for outcome in outcomes), "stored": len(found)}


def careless(home: str, processes: int, each: int) -> dict[str, Any]:
    """The control: looks first, then writes, without a lock."""
    folder = Path(home)
    folder.mkdir(parents=True, exist_ok=True)

    def act(_: int) -> dict[str, Any]:
        made = []
        for number in range(each):
            taken = {json.loads(path.read_text())["slug"] for path in folder.glob("*.json")}
            if f"t{number}" not in taken:
                (folder / f".{os.getpid()}").write_text(json.dumps({"slug": f"t{number}"}))
                (folder / f".{os.getpid()}").rename(folder / f"{os.getpid()}-{number}.json")
                made.append(f"t{number}")
        return {"made": made}

    outcomes = in_children(processes, act)
    return {
        "made": sorted(Counter(pair for outcome in outcomes for pair in outcome["made"]).values())
    }


def killed(home: str, rounds: int, seed: int) -> dict[str, Any]:
    """Kill a process while it puts; everything it had acknowledged must be there, and nothing
    half."""
    dice = random.Random(seed)
    own = bundle_in(Path(home))
    (folder,) = (path.parent for path in Path(home).glob("bundles/*/bundle.json"))
    acks = Path(home) / "acks"
    lost, broken, landed = 0, [], 0
    for number in range(rounds):
        pid = os.fork()
        if pid == 0:
            _put_for_ever(Path(home), own, f"r{number}", acks)
        while not acks.exists():
            time.sleep(0.001)  # until it has begun
        time.sleep(dice.uniform(0.0, 0.02))  # the moment of the kill is what the test is about
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        landed += any(path.name.endswith(".tmp") for path in folder.iterdir())
        said = set(acks.read_text().split()) if acks.exists() else set()
        with opened(Path(home)) as box:
            there = {tool.slug for page in _pages(box, own) for tool in page}
            broken += [str(problem) for problem in box.problems()]
            lost += len(said - there)
            for slug in there:
                box.bundles.delete_tool(own, slug, "1")
            box.bundles.put_tool(own, "last", "1", RECORD)
            box.bundles.delete_tool(own, "last", "1")
        acks.unlink(missing_ok=True)
    left = sorted(path.name for path in folder.iterdir() if path.name != "bundle.json")
    return {"lost": lost, "broken": broken, "landed": landed, "left": left}


def in_children(count: int, act: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Run in that many processes, which begin together; gives what each returned."""
    gate, start = os.pipe()
    pipes = []
    for number in range(count):
        answer, write = os.pipe()
        if os.fork() == 0:
            os.close(start)
            os.read(gate, 1)  # until the other end is closed
            _answer(write, lambda number=number: act(number))  # type: ignore[misc]  # bound for this child
        os.close(write)
        pipes.append(answer)
    os.close(gate)
    os.close(start)
    found = []
    for pipe in pipes:
        with open(pipe, "rb") as file:
            found.append(json.loads(file.read()))
    for _ in range(count):
        os.wait()
    return found


def _answer(pipe: int, act: Callable[[], dict[str, Any]]) -> None:
    try:
        os.write(pipe, json.dumps(act()).encode())
    except BaseException:  # the parent must see it, and this process must end
        traceback.print_exc()
    finally:
        os._exit(0)


def _put_all(home: Path, own: str, each: int) -> dict[str, Any]:
    made, refused = [], 0
    with opened(home) as box:
        for number in range(each):
            try:
                box.bundles.put_tool(own, f"t{number}", "1", RECORD)
                made.append(f"t{number}")
            except Conflict:
                refused += 1
    return {"made": made, "refused": refused}


def _put_for_ever(home: Path, own: str, lead: str, acks: Path) -> None:
    try:
        with opened(home) as box:
            for number in range(10**9):
                box.bundles.put_tool(own, f"{lead}-{number}", "1", RECORD)
                fd = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.write(fd, f"{lead}-{number}\n".encode())
                os.close(fd)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _pages(box: Toolbox, own: str) -> list[Any]:
    found, token = [], None
    while True:
        page = box.bundles.list_tools(bundle_ids=[own], page_size=256, page_token=token)
        found.append(page)
        token = page.next_page_token
        if token is None:
            return found


ACTORS: dict[str, Callable[..., dict[str, Any]]] = {
    act.__name__: act for act in (race, slugs, careless, killed)
}

if __name__ == "__main__":
    print(json.dumps(ACTORS[sys.argv[1]](**json.loads(sys.argv[2]))))  # noqa: T201 - read by the test
