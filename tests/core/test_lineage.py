"""Where arguments came from: by identity, through copies and nested calls; never for text and
numbers."""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from onetool_ipy import Toolbox, ToolCallError, tool
from onetool_ipy.core import current
from onetool_ipy.core.lineage import Lineage
from onetool_ipy.core.result import ToolResult
from onetool_ipy.llm import ScriptedModel
from tests.harness.project import Project

NUMBERS = itertools.count(100)


@pytest.fixture
def box(project: Project) -> Toolbox:
    """A toolbox with tools that give, take and hand on data."""
    return project.open(clock=None, tools=(rows, fresh, join, nest, echo, frame))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell of IPython in a project, with the extension and the same tools."""
    (tmp_path / ".onetool").mkdir()
    snippet = (
        "snippets: {join: {params: [first, second], body: 'nb.join(first={{ first }}, second={{"
        " second }})'}}"
    )
    (tmp_path / ".onetool" / "onetool.yaml").write_text(
        f"version: 1\n{snippet}\n", encoding="utf-8"
    )
    monkeypatch.setenv("ONETOOL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ONETOOL_TRUST", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    opened = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    opened.run_line_magic("load_ext", "onetool_ipy")
    for fn in (rows, fresh, join, nest, echo, frame):
        current.require().adopt(fn)
    yield opened
    opened.run_line_magic("unload_ext", "onetool_ipy")
    InteractiveShell.clear_instance()


@tool(read_only=True)
def rows(count: int = 2) -> list[Any]:
    """Give rows."""
    return [{"id": number, "tags": ["a", {"deep": number}]} for number in range(count)]


@tool(read_only=True)
def fresh(count: int = 1) -> list[Any]:
    """Give rows that no other call gives."""
    return [{"id": next(NUMBERS), "tags": ["a", {"deep": next(NUMBERS)}]} for _ in range(count)]


@tool(read_only=True)
def join(
    first: Any = None, second: Any = None, word: str = "", number: float = 0
) -> dict[str, Any]:
    """Make something of two values."""
    return {"joined": [next(NUMBERS)]}


def nest(first: Any = None, second: Any = None) -> dict[str, Any]:
    """Hand its arguments on to another tool."""
    return dict(
        current.require().call("nb.join", {"first": first, "second": second}, source="tool").data
    )


def echo(value: Any) -> Any:
    """Give back what it got."""
    return value


def frame() -> Any:
    """Give a table of its own."""
    import pandas as pd

    return pd.DataFrame({"a": [1, 2]})


def inputs(box: Toolbox, result: ToolResult) -> list[tuple[str, str]]:
    """What the call log says that the arguments of a call came from."""
    call_id = result.meta["call_id"]
    return box.log.family(call_id).calls[call_id].sources


def test_an_argument_comes_from_a_result_its_data_its_frame_and_what_is_inside(
    box: Toolbox,
) -> None:
    result = box.call("nb.rows")
    call_id = result.meta["call_id"]
    for value in (
        result,
        result.data,
        result.data[1],
        result.data[0]["tags"],
        result.data[0]["tags"][1],
        result.df,
        result.df["id"],
        result.df[result.df.id > 0],
        [result.data[0]],
        {"x": (result.data,)},
        result.store(),
    ):
        assert inputs(box, box.call("nb.join", {"first": value, "word": "w"})) == [
            ("first", call_id)
        ], value


def test_text_numbers_and_equal_data_come_from_nowhere(box: Toolbox) -> None:
    result = box.call("nb.rows")
    equal = [{"id": 0, "tags": ["a", {"deep": 0}]}, {"id": 1, "tags": ["a", {"deep": 1}]}]
    assert equal == result.data
    for value in (
        equal,
        result.data[0]["tags"][0],
        result.data[1]["id"],
        list(result.data[0]),
        [],
        None,
        "k3f9a2b7c1d4",
    ):
        assert inputs(box, box.call("nb.join", {"first": value})) == [], value


def test_a_tool_that_hands_its_arguments_on_passes_their_origin_on(box: Toolbox) -> None:
    """A tool gets copies; the calls that it makes with them know where the originals came from, and
    nobody later."""
    first, second = box.call("nb.rows"), box.call("nb.rows", {"count": 1})
    outer = box.call("nb.nest", {"first": first.data[0], "second": [second.data]})
    call_id = outer.meta["call_id"]
    family = box.log.family(call_id)
    expected = [("first", first.meta["call_id"]), ("second", second.meta["call_id"])]
    assert family.calls[call_id].sources == expected
    (inner,) = family.inner[call_id]
    assert (inner.tool, inner.parent, inner.sources) == ("nb.join", call_id, expected)

    echoed = box.call("nb.echo", {"value": first.data})
    assert inputs(box, box.call("nb.join", {"first": echoed.data[0]})) == [
        ("first", echoed.meta["call_id"])
    ]


def test_data_that_python_got_without_its_result_is_known(box: Toolbox) -> None:
    """`nb.rows()` gives the bare value."""
    value = box.pack("nb").rows()  # type: ignore[union-attr]  # it exists
    call_id = box.log.history(limit=1)[0].call_id
    assert inputs(box, box.call("nb.join", {"second": value[0]})) == [("second", call_id)]


def test_a_map_and_its_rows_know_their_data(box: Toolbox) -> None:
    result = box.call("nb.rows")
    table = box.ot.map("nb.echo", [{"value": row} for row in result.data])
    tree = box.ot.origin(table)
    assert tree.tool == "ot.map"
    assert [(part.role, part.tool) for part in tree.parts] == [
        ("data", "nb.rows"),
        *[("called", "nb.echo")] * 2,
    ]
    assert {part.parts[0].call_id for part in tree.parts[1:]} == {result.meta["call_id"]}
    assert box.ot.origin(table[table.ok]).call_id == tree.call_id


def test_an_answer_comes_from_the_calls_of_the_model_and_from_what_was_attached(
    box: Toolbox,
) -> None:
    result = box.call("nb.rows")
    handle = result.store()
    model = ScriptedModel([[("nb.join", {"first": handle})], "Done."])
    answer = box.ask("Go", model=model, attach=[result], approve=["nb.join"])
    tree = answer.origin
    assert (tree.tool, [(part.role, part.tool) for part in tree.parts]) == (
        "ask",
        [("attached", "nb.rows"), ("result", "nb.join")],
    )
    assert [part.tool for part in tree.parts[1].parts] == ["nb.rows"], "its argument is the handle"


@pytest.mark.slow
def test_an_object_is_known_while_it_lives_and_not_by_its_address_after(box: Toolbox) -> None:
    """A table that a tool made itself is not changed; a large list is known by itself only."""
    table = box.call("nb.frame")
    assert inputs(box, box.call("nb.join", {"first": table.data})) == [
        ("first", table.meta["call_id"])
    ]
    assert "onetool" not in table.df.attrs

    large = box.call("nb.rows", {"count": 40_000})
    assert box.lineage.call_of(large.data) == large.meta["call_id"]
    assert box.lineage.call_of(large.data[0]) == ""
    del large
    gc.collect()
    assert not any(
        type(owner[1]).__name__ == "ReferenceType"
        for owner in box.lineage._owners.values()
        if owner[0] != table.meta["call_id"]
    )


def test_only_the_newest_results_are_held(box: Toolbox) -> None:
    first = box.call("nb.rows")
    for _ in range(400):
        box.call("nb.rows")
    assert box.lineage.call_of(first.data) == ""
    assert len(box.lineage._held) <= 300
    assert len(box.lineage._unread) <= 300, "results that nobody hands on do not pile up"
    box.close()
    assert not box.lineage._owners


def test_a_value_that_holds_itself_has_an_origin(box: Toolbox) -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    lineage = Lineage(lambda _handle: "")
    result = ToolResult(True, {"ring": ring}, None, {"call_id": "c1"})
    resolved = box.resolve("nb.rows")
    resolved.id = "c1"
    lineage.end(resolved, result, 10)
    assert lineage.call_of(ring) == "c1"


def _press(lineage: Lineage, rounds: int) -> None:
    """Let eight threads remember small and large results, hand them on, and look for them."""
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(rounds):
                call_id = f"{number}-{turn}"
                data: Any = [{"n": turn}] * 3 if number % 2 else [[turn] for _ in range(300)]
                lineage.remember(call_id, data, 200_000 if number % 4 == 0 else 20)
                lineage.remember(f"t{call_id}", "text", 400_000 if number % 4 == 0 else 4)
                assert lineage.call_of(data[0]) in (call_id, "")
                lineage.data_of(call_id)
                lineage.calls()
        except BaseException as exc:
            faults.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert lineage._total == sum(held.size for held in lineage._held)
    assert 0 < len(lineage._held) <= 300
    assert lineage._total <= 8 << 20


@pytest.mark.slow
def test_the_total_of_what_is_held_is_exact_under_threads(quick_switches: None) -> None:
    """A total that drifted upwards made every later call raise at its end, and none was recorded
    any more."""
    _press(Lineage(lambda _handle: ""), 60)


def test_what_is_found_inside_results_counts_at_once() -> None:
    """The oldest results are let go of when a look inside makes the total too large, not when the
    next call ends."""
    lineage = Lineage(lambda _handle: "")
    for number in range(50):
        lineage.remember(f"call-{number}", [[number] for _ in range(4600)], 20)
    newest = lineage._held[-1].data
    assert isinstance(newest, list)
    assert lineage.call_of(newest[0]) == "call-49"
    assert lineage._total == sum(held.size for held in lineage._held) <= 8 << 20


def test_eight_threads_with_small_and_large_results_are_all_recorded(
    box: Toolbox, quick_switches: None
) -> None:
    assert _record_under_threads(box, 25) == 200


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_million_calls_of_eight_threads_are_all_recorded(
    box: Toolbox, quick_switches: None
) -> None:
    assert _record_under_threads(box, 125_000) == 1_000_000


def _record_under_threads(box: Toolbox, rounds: int) -> int:
    """Make `rounds` calls in each of eight threads, and return how many are in the log."""

    def work(number: int) -> None:
        row: Any = None
        for turn in range(rounds):
            kind = (number + turn) % 4
            if kind == 0:
                row = box.call("nb.rows", {"count": 200 if turn % 50 == 0 else 2}).data[0]
            elif kind == 1:
                box.call("nb.echo", {"value": "x" * (200_000 if turn % 50 == 1 else 20)})
            else:
                box.call("nb.join", {"first": [row], "second": {"n": turn}})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box.lineage._total == sum(held.size for held in box.lineage._held)
    return box.log.usage().total_calls


@pytest.mark.posix("fork")
def test_a_fork_in_the_middle_of_a_change_leaves_the_child_a_lineage_that_works() -> None:
    lineage = Lineage(lambda _handle: "")
    lineage.remember("c1", [{"a": 1}], 10)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lineage._lock:
            entered.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        lineage.remember("c2", [{"a": 2}], 10)
        os._exit(0 if lineage.calls() == {"c1", "c2"} else 1)
    leave.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Let threads take turns after every few instructions, where a lock that is missing shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    "value", [5, "nothing", [], None, object()], ids=["number", "text", "list", "none", "object"]
)
def test_a_value_without_an_origin_is_an_error_that_says_so(box: Toolbox, value: Any) -> None:
    with pytest.raises(ToolCallError, match="No call is known that gave"):
        box.ot.origin(value)


def test_the_tree_says_that_a_tool_changed_and_escapes_what_it_shows(box: Toolbox) -> None:
    result = box.call("nb.join", {"word": "<script>", "first": box.call("nb.rows").data})

    def join(word: str) -> str:
        """Another tool of this name."""
        return word

    box.adopt(join)
    tree = result.origin
    assert "the tool has changed since" in repr(tree)
    assert repr(tree).splitlines()[1].startswith("└─ first: nb.rows")
    bundle = tree._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg ")
    assert "<script>" not in bundle["image/svg+xml"]
    assert "&lt;script&gt;" in bundle["image/svg+xml"]
    assert result.handle is None
    assert box.ot.origin(result.meta["call_id"]).call_id == tree.call_id


def test_the_tree_names_the_tools_that_arguments_came_from(box: Toolbox) -> None:
    """A result as an argument was written as `<ToolResult>`."""
    first, second = box.call("nb.rows"), box.call("nb.fresh")
    for value, text in (
        (first, "first=nb.rows"),
        (first.data, "first=nb.rows"),
        ([first.data[0], second.data[0]], "first=nb.rows, nb.fresh"),
    ):
        line = repr(box.call("nb.join", {"first": value, "number": 2}).origin).splitlines()[0]
        assert line.startswith(f"nb.join number=2 {text}  [")


def test_lineage_is_read_by_another_process(box: Toolbox, project: Project) -> None:
    result = box.call("nb.join", {"first": box.call("nb.rows").data})
    handle = result.store()

    tree = project.open(clock=None).ot.origin(handle)

    assert [each.tool for each in tree.calls()] == ["nb.join", "nb.rows"]
    assert "the tool is gone" in repr(tree)


def test_a_program_knows_its_variables_and_its_calls_know_what_they_were_given(
    box: Toolbox,
) -> None:
    """The program gets copies; its value, and the answer that holds it, came from the program."""
    result = box.call("nb.fresh", {"count": 2})
    code = "import nb\nrows = nb.fresh()\nnb.join(first=data[0], second=[rows[0], {'other': 1}])"
    answer = box.ask.program(code, variables={"data": result, "word": "text"})

    tree = answer.origin
    assert [(part.role, part.tool) for part in tree.parts] == [
        ("data", "nb.fresh"),
        ("called", "nb.fresh"),
        ("called", "nb.join"),
    ]
    assert tree.parts[0].call_id == result.meta["call_id"]
    joined = tree.parts[2]
    assert [(part.role, part.call_id) for part in joined.parts] == [
        ("first", result.meta["call_id"]),
        ("second", tree.parts[1].call_id),
    ]
    assert inputs(box, box.call("nb.join", {"first": answer.value})) == [("first", tree.call_id)]
    assert "program" in repr(tree)


def test_a_program_looks_for_no_origin_of_large_values(box: Toolbox) -> None:
    """Each part of a value would be written as text, so only values of up to a megabyte are known
    by their parts."""
    result = box.call("nb.fresh", {"count": 2})
    large = [*result.data, {"text": "x" * (1 << 20)}]
    answer = box.ask.program("import nb\nnb.join(first=data[0])", variables={"data": large})

    (joined,) = (part for part in answer.origin.parts if part.tool == "nb.join")
    assert joined.parts == ()


class Pipeline:
    """Random calls of all kinds over earlier results. What the log says is compared with what was
    handed over."""

    def __init__(self, shell: Any, seed: int) -> None:
        self.shell = shell
        self.box = current.require()
        self.seed = seed
        self.chance = random.Random(seed)
        self.results: list[ToolResult] = [
            self.box.call("nb.fresh", {"count": self.chance.randint(1, 3)})
        ]

    def run(self) -> None:
        """Make some calls, each of a random kind."""
        kinds = [
            self.call,
            self.nested,
            self.map,
            self.ask,
            self.snippet,
            self.expression,
            self.program,
            self.rows,
        ]
        for _ in range(self.chance.randint(2, 6)):
            self.chance.choice(kinds)()

    def pick(self) -> tuple[Any, set[str]]:
        """Return a value for an argument, and the calls that it came from."""
        result = self.chance.choice(self.results)
        call_id, data = result.meta["call_id"], result.data
        choices: list[tuple[Any, set[str]]] = [
            (self.chance.randint(0, 9), set()),
            ("text", set()),
            ([self.chance.random()], set()),
            (result, {call_id}),
            (data, {call_id}),
            (next(iter(data.values())) if isinstance(data, dict) else data[-1], {call_id}),
            ({"inside": [data]}, {call_id}),
            (result.df, {call_id}),
            (result.store(), {call_id}),
        ]
        return self.chance.choice(choices)

    def pair(self) -> tuple[dict[str, Any], set[tuple[str, str]]]:
        """Return two arguments, and what the log has to say of them."""
        (first, from_first), (second, from_second) = self.pick(), self.pick()
        expected = {("first", each) for each in from_first} | {
            ("second", each) for each in from_second
        }
        return {"first": first, "second": second}, expected

    def keep(self, result: ToolResult, expected: set[tuple[str, str]], kind: str) -> None:
        """Compare, and keep the result for later calls."""
        assert set(inputs(self.box, result)) == expected, (self.seed, kind)
        self.results.append(result)

    def in_cell(self, cell: str, variables: dict[str, Any]) -> Any:
        """Run a cell and return its variable `out`."""
        self.shell.user_ns.update(variables)
        self.shell.run_cell(cell, silent=True).raise_error()
        return self.shell.user_ns["out"]

    def rows(self) -> None:
        self.results.append(self.box.call("nb.fresh", {"count": 1}))

    def call(self) -> None:
        arguments, expected = self.pair()
        self.keep(self.box.call("nb.join", arguments), expected, "call")

    def nested(self) -> None:
        arguments, expected = self.pair()
        result = self.box.call("nb.nest", arguments)
        (inner,) = self.box.log.family(result.meta["call_id"]).inner[result.meta["call_id"]]
        assert set(inner.sources) == expected, (self.seed, "nested")
        self.keep(result, expected, "nested")

    def snippet(self) -> None:
        arguments, expected = self.pair()
        place = {"box": self.box, **arguments}
        self.shell.user_ns.update(place)
        code = "box.call('nb.join', {'first': first, 'second': second})"
        self.keep(self.box.host.run_code(code, "s", place), expected, "snippet")

    def expression(self) -> None:
        arguments, expected = self.pair()
        line = self.chance.choice(
            ["first={first} second={[second][0]}", "first={first} second={{'k': second}['k']}"]
        )
        self.keep(self.in_cell(f"out = %tool nb.join {line}", arguments), expected, "expression")

    def map(self) -> None:
        value, sources = self.pick()
        table = self.box.ot.map("nb.join", [{"first": value}], fresh=True)
        expected = sources if not isinstance(value, str) else set()
        parts = {part.call_id for part in self.box.ot.origin(table).parts if part.role == "data"}
        assert parts == expected, (self.seed, "map")

    def ask(self) -> None:
        handle = self.results[-1].store()
        model = ScriptedModel([[("nb.join", {"first": handle})], "ok"])
        answer = self.box.ask("x", model=model, approve=["nb.join"])
        calls = [each.call_id for each in answer.origin.parts[0].parts]
        assert calls == [self.results[-1].meta["call_id"]], (self.seed, "ask")

    def program(self) -> None:
        """The calls of a program know lists and dicts, and handles; of a table they are given rows
        of their own."""
        value, sources = self.pick()
        code = "import nb\nmine = nb.fresh()\nnb.join(first=value, second=mine)"
        self.in_cell(f"%%tool program @value -o out\n{code}", {"value": value})
        tree = self.shell.user_ns["out"].origin
        # A variable that only has a result inside it is not that result; the call that is given it
        # knows.
        is_whole = not (isinstance(value, dict) and "inside" in value)
        expected = [("value", each) for each in sources if is_whole]
        own, joined = (part for part in tree.parts if part.role == "called")
        assert [(part.role, part.call_id) for part in tree.parts[:-2]] == expected, (
            self.seed,
            "program",
        )
        given = (
            set()
            if isinstance(value, type(self.results[0].df))
            else {("first", each) for each in sources}
        )
        said = {(part.role, part.call_id) for part in joined.parts}
        assert said == {*given, ("second", own.call_id)}, (self.seed, "program")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_random_pipelines_have_the_exact_lineage(shell: Any, seed: int) -> None:
    Pipeline(shell, seed).run()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_random_pipelines_have_the_exact_lineage(shell: Any) -> None:
    for seed in range(1_000):
        Pipeline(shell, seed).run()
