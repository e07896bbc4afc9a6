"""Row 31: programs over tools: the first of a process, the next, a call from inside, a plan of 100
writes, and tokens.

Tokens are those of a scripted model that counts four characters as one: 101 single calls against
one program.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from onetool_ipy import open_toolbox, tool
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.host import Host
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.toolbox import Toolbox
from tests.benchmarks.timing import LeftOut, at_least, at_most, fresh, line, note, take_turns, timed

__all__ = ["ROWS", "run"]

ROWS = (31,)

_CALLS = 100
_TOOLS = '''
from onetool_ipy import open_toolbox, tool
import tempfile, time
@tool("shop.read", read_only=True)
def read(n: int) -> int:
    """Read."""
    return n
box = open_toolbox(tempfile.mkdtemp())
box.adopt(read)
began = time.perf_counter()
box.ask.program("import shop\\nshop.read(n=1)").unwrap()
print(time.perf_counter() - began)
'''
_PLAN = f"import shop\nfor i in range({_CALLS}):\n    shop.write(n=i)\n"


class _Yes(Host):
    """A person who says yes to everything."""

    def ask(self, question: Question) -> Reply:
        return Reply("accept", {"run": list(range(1, len(question.calls) + 1))})


def _box() -> Toolbox:
    project = Path(tempfile.mkdtemp(prefix="onetool-bench-"))
    (project / ".onetool").mkdir()
    # The single calls that a program is compared with are more than an ask makes by default.
    settings = f"version: 1\nask: {{max_calls: {2 * _CALLS}, max_tokens: 10000000}}\n"
    (project / ".onetool" / "onetool.yaml").write_text(settings, encoding="utf-8")
    box = open_toolbox(project)

    @tool("shop.read", read_only=True)
    def read(n: int) -> int:
        """Read."""
        return n

    @tool("shop.write")
    def write(n: int) -> int:
        """Write."""
        return n

    box.adopt(read)
    box.adopt(write)
    box.host = _Yes()
    return box


def run() -> list[dict[str, Any]]:
    try:
        import pydantic_monty  # noqa: F401 - whether it is there
    except ImportError as exc:
        raise LeftOut("the sandbox is not installed") from exc
    note("  programs ...")
    first = take_turns({"first": fresh(_TOOLS)}, 5)["first"]
    with _box() as box:
        many = f"import shop\nfor i in range({_CALLS}):\n    shop.read(n=i)"
        samples = {
            "one": timed(lambda: box.ask.program("import shop\nshop.read(n=1)").unwrap()),
            "many": timed(lambda: box.ask.program(many).unwrap()),
            "plan": timed(lambda: box.ask.program(_PLAN, plan=True)),
            "direct": timed(lambda: [box.call("shop.read", {"n": n}) for n in range(_CALLS)]),
        }
        spent = take_turns(samples, 5)
        for row in box.ask.waiting():
            box.ask.drop(row["id"])
        inside = max(0.0, spent["many"] - spent["one"] - spent["direct"]) / _CALLS
        calls = [("shop.read", {"n": n}) for n in range(_CALLS)]
        single = box.ask(
            "Read them all.", model=ScriptedModel([*calls, "Done."]), max_steps=_CALLS + 1
        )
        program = box.ask(
            "Read them all.", model=ScriptedModel([("program", {"code": many}), "Done."]), code=True
        )
        share = 1 - program.usage.total / single.usage.total
    name = f"{_CALLS} single calls: {single.usage.total:,} tokens"
    return [
        line(31, "a program over tools, the first of a process", first, **at_most(first, 0.8, 0.4)),
        line(31, "the next, with its type check", spent["one"], **at_most(spent["one"], 0.1, 0.03)),
        line(
            31, "a call from inside, over a direct one", inside, **at_most(inside, 0.0004, 0.0001)
        ),
        line(31, f"a plan of {_CALLS} writes", spent["plan"], **at_most(spent["plan"], 0.3)),
        line(
            31,
            "fewer tokens than single calls",
            f"{share:.1%}",
            f"{program.usage.total:,} tokens",
            name=name,
            **at_least(share, 0.95, show=lambda value: f"{value:.0%}"),
        ),
    ]
