"""Adopting other people's tools: nine kinds of them in a real environment of frameworks, and what
is no tool."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.lowlevel import Server
from mcp.types import Tool as MCPTool

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import DuplicateTool, InvalidTool, OneToolError, UsageProblem
from onetool_ipy.core import current
from onetool_ipy.toolbox import Toolbox
from tests.harness.programs import python
from tests.harness.project import Project
from tests.harness.servers import others_python
from tests.harness.surroundings import ROOT

_PACKS = {
    "langchain": "langchain",
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "llama_index": "llama_index",
    "smolagents": "smolagents",
    "llm": "llm",
    "fastmcp": "plain_server",
    "mcp": "plain",
    "objects": "client",
}
_MORE: dict[str, dict[str, dict[str, Any]]] = {
    "langchain": {"kit": {"kit.drawn": {"content": "a picture", "artifact": [3]}}},
    "pydantic_ai": {"set": {"set.my_add": {"sum": 5}, "set.my_whose": "of Ada"}},
    "openai_agents": {"strict": {"strict.whose": "of Ada"}},
    "llama_index": {"spec": {"spec.add": 4}},
    "smolagents": {"collection": {"collection.add": {"sum": 5}}},
    "llm": {"box": {"box.count": 4, "box.add": {"sum": 5}}},
    "fastmcp": {"context": {"context.whose": "of other"}},
    "mcp": {"context": {"context.whose": "of Context"}},
    "objects": {"module": {"module.price": 6}},
}

Report = Callable[[str], dict[str, Any]]

# The first test with a report waits for the worker, which imports all of a framework: any of them
# may be the first, so each is marked `slow`. `make test` has no environment of frameworks.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return what the worker process of a framework reports; each runs once."""
    reports: dict[str, dict[str, Any]] = {}

    def run(framework: str) -> dict[str, Any]:
        if framework not in reports:
            worker = Path(__file__).with_name("framework_worker.py")
            folder = tmp_path_factory.mktemp(framework)
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [others_python("frameworks"), str(worker), framework, str(folder)]
            ended = subprocess.run(
                command, capture_output=True, text=True, env=env, timeout=280, check=False
            )
            assert ended.returncode == 0, ended.stderr[-3000:]
            reports[framework] = json.loads(ended.stdout.splitlines()[-1])
        return reports[framework]

    return run


@pytest.fixture
def box(project: Project) -> Toolbox:
    return project.open(clock=None)


@pytest.fixture(params=list(_PACKS))
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.slow
def test_the_tools_are_named_after_their_framework_or_object(
    framework: str, report: Report
) -> None:
    names = [f"{_PACKS[framework]}.{name}" for name in ("add", "later", "boom", "large")]
    assert report(framework)["names"] == names
    assert report(framework)["again"] is True


@pytest.mark.slow
def test_a_sync_tool_gives_its_own_value(framework: str, report: Report) -> None:
    assert report(framework)["sync"] == report(framework)["sync_in_async"] == {"sum": 3}


@pytest.mark.slow
def test_an_async_tool_is_called_from_sync_and_async_code(framework: str, report: Report) -> None:
    assert report(framework)["async"] == [{"sum": 2}, {"sum": 2}]


@pytest.mark.slow
def test_the_schema_is_that_of_the_framework(framework: str, report: Report) -> None:
    kind, required, description = report(framework)["schema"]
    assert (kind, required) == ("integer", ["a"])
    assert "Add two numbers." in description


@pytest.mark.slow
def test_bad_arguments_never_reach_the_code(framework: str, report: Report) -> None:
    wrong, missing = report(framework)["bad"]
    assert wrong[0] == missing[0] == "invalid_args"
    assert "'x' is not a whole number" in wrong[1]
    assert "missing argument 'a'" in missing[1]
    assert report(framework)["ran_with_bad"] == 0


@pytest.mark.slow
def test_an_exception_is_a_failure_with_the_real_cause(framework: str, report: Report) -> None:
    cause = "KeyError('the real cause')"
    assert report(framework)["exception"] == [
        "execution_error",
        "KeyError: 'the real cause'",
        cause,
    ]


@pytest.mark.slow
def test_a_large_result_is_whole_here_and_a_handle_for_a_model(
    framework: str, report: Report
) -> None:
    assert report(framework)["large"] == [50_000, ["handle", "preview", "total_lines"]]


@pytest.mark.slow
def test_it_is_a_tool_of_the_cell_that_may_change_things(framework: str, report: Report) -> None:
    assert report(framework)["marks"] == [False, "cell"]


@pytest.mark.slow
def test_what_holds_several_tools_is_adopted_too(framework: str, report: Report) -> None:
    """Toolkits, toolsets, toolboxes, collections, servers with a context, modules; `deps` reach
    those that want it."""
    for label, tools in _MORE[framework].items():
        assert tools.items() <= report(framework)["more"][label].items()
    assert "danger" not in report(framework)["calls"]


@pytest.mark.slow
def test_a_langchain_tool_gets_the_id_of_the_call(report: Report) -> None:
    value = report("langchain")["more"]["kit"]["kit.named"]
    assert value.startswith("3 ")
    assert len(value) > 10


# --- what is no tool, in our own environment


class Shop:
    """A client with tools as methods."""

    def __init__(self, name: str = "one") -> None:
        self.name = name

    def price(self, item: str) -> str:
        """Return the price."""
        return f"{item} at {self.name}"

    @property
    def danger(self) -> None:
        """Delete files."""
        raise AssertionError("A property ran.")


class LooksLikeOne:
    """Has what a tool has, but is none."""

    name, description, args_schema = "search", "Search.", {"type": "object"}

    @property
    def invoke(self) -> None:
        raise AssertionError("A property ran.")


def test_an_object_that_only_looks_like_a_tool_is_none(box: Toolbox) -> None:
    with pytest.raises(
        InvalidTool, match=r"'LooksLikeOne' looks like a tool \(name, description, args_schema\)"
    ):
        box.adopt(LooksLikeOne())


class OwnServer(Server[Any]):
    """A class of the user's own on top of one of a framework."""

    def price(self, item: str) -> str:
        """Return the price."""
        return item


class Runnable(LooksLikeOne):
    """Looks like a tool, and has methods by which a framework would run it."""

    def run(self, text: str) -> str:
        """Run it."""
        return text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Server("plain"), r"'Server' comes from 'mcp\.server\.lowlevel\.server'"),
        (lambda: OwnServer("own"), r"'OwnServer' comes from 'mcp\.server"),
        (
            lambda: MCPTool(name="t", description="T.", inputSchema={"type": "object"}),
            r"'Tool' comes from 'mcp",
        ),
        (Runnable, "'Runnable' looks like a tool"),
    ],
    ids=["a server", "a subclass", "a listed tool", "a look-alike"],
)
def test_an_unknown_object_of_a_framework_is_refused_in_words(
    box: Toolbox, make: Callable[[], object], message: str
) -> None:
    """Its methods run it inside the framework; none of them becomes a tool."""
    before = [spec.name for spec in box.registry.known()]
    with pytest.raises(InvalidTool, match=message) as refused:
        box.adopt([Shop(), make()])
    assert "Known are: langchain-core" in refused.value.hint
    assert [spec.name for spec in box.registry.known()] == before


@pytest.mark.slow
def test_a_class_of_a_module_that_is_called_like_a_framework_is_adopted(box: Toolbox) -> None:
    assert box.adopt(type("Desk", (Shop,), {"__module__": "agents"})()) == ["desk.price"]


@pytest.mark.parametrize("thing", [3, None, {"a": 1}, b"x", 2.5, Shop, []], ids=repr)
def test_what_has_no_tools_is_refused(box: Toolbox, thing: object) -> None:
    with pytest.raises(InvalidTool):
        box.adopt(thing)


def test_a_list_that_holds_itself_is_refused_in_words(box: Toolbox) -> None:
    things: list[Any] = []
    things += [things, len]

    with pytest.raises(InvalidTool, match="holds itself"):
        box.adopt(things)
    assert box.registry.get("nb.len") is None


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no such thing", "not of the form 'module:name'"),
        ("no_such_module:x", "'no_such_module:x' cannot be imported"),
        (
            "json:dump_s",
            "'json:dump_s' cannot be imported: module 'json' has no attribute 'dump_s'",
        ),
    ],
)
def test_a_place_that_names_nothing_is_said(box: Toolbox, place: str, message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        box.adopt(place)


def test_a_place_names_a_function(box: Toolbox) -> None:
    assert box.adopt("textwrap:shorten", pack="words") == ["words.shorten"]
    assert box.call("words.shorten", {"text": "a b c", "width": 3}).error is not None


def test_methods_are_tools_and_no_property_runs(box: Toolbox) -> None:
    assert box.adopt(Shop(), read_only=["price"]) == ["shop.price"]
    assert box.call("shop.price", {"item": "tea"}).data == "tea at one"
    spec = box.registry.require("shop.price")
    assert (spec.read_only, spec.origin) == (True, "cell")
    assert box.pack("shop").price("tea") == "tea at one"  # type: ignore[union-attr]  # it is there


def test_a_read_only_name_that_no_tool_has_is_refused(box: Toolbox) -> None:
    with pytest.raises(
        UsageProblem, match=r"'prices', which is not one of these tools\. Did you mean 'price'"
    ):
        box.adopt(Shop(), read_only="prices")
    assert box.registry.get("shop.price") is None


def test_equal_names_are_an_error_that_says_pack(box: Toolbox) -> None:
    """Two in one list, one of another object, and one of our own."""
    with pytest.raises(DuplicateTool) as two:
        box.adopt([Shop("one"), Shop("two")])
    box.adopt(Shop("one"))
    with pytest.raises(DuplicateTool) as other:
        box.adopt(Shop("two"))
    with pytest.raises(DuplicateTool) as builtin:
        box.adopt([type("Time", (), {"now": lambda self: 1})()])
    assert "pack=" in two.value.hint
    assert "pack=" in other.value.hint
    assert "pack=" in builtin.value.hint
    assert box.call("shop.price", {"item": "tea"}).data == "tea at one"
    assert box.adopt(Shop("two"), pack="second") == ["second.price"]


def test_the_same_thing_again_replaces_its_tools(box: Toolbox) -> None:
    """The same object with fewer methods; and another one from the same cell, which ran again."""
    shop = Shop()
    box.adopt(shop)
    try:
        Shop.offer = lambda self: 1  # type: ignore[attr-defined]  # a method more
        assert box.adopt(shop) == ["shop.price", "shop.offer"]
    finally:
        del Shop.offer  # type: ignore[attr-defined]
    assert box.adopt(shop) == ["shop.price"]
    assert box.registry.get("shop.offer") is None
    try:
        current.enter_cell("1", "cell-1")
        box.adopt(Shop("first"), pack="mine")
        current.enter_cell("2", "cell-1")
        box.adopt(Shop("again"), pack="mine")
    finally:
        current.enter_cell("")
    assert box.call("mine.price", {"item": "tea"}).data == "tea at again"


@pytest.mark.parametrize("pack", ["my pack", "a.b", "a/b", 3])
def test_a_pack_that_is_no_name_is_refused(box: Toolbox, pack: Any) -> None:
    with pytest.raises(InvalidTool, match="not a name for a pack"):
        box.adopt(Shop(), pack=pack)


def test_a_result_that_cannot_be_serialised_is_shown(box: Toolbox) -> None:
    lock = asyncio.Lock()
    box.adopt(type("Vault", (), {"key": lambda self: lock})())
    result = box.call("vault.key", source="model")
    assert result.data is lock
    assert "Lock" in json.dumps(box.outgoing(result))


def test_a_tool_of_another_loop_fails_with_the_reason(box: Toolbox) -> None:
    """It awaits something of the loop that ran where it was made."""
    loop = asyncio.new_event_loop()
    future: asyncio.Future[int] = loop.create_future()

    class Bound:
        async def wait(self) -> int:
            return await future

    try:
        box.adopt(Bound())
        result = box.call("bound.wait")
        assert result.error is not None
        assert "different loop" in result.error.message
    finally:
        loop.close()


# --- frameworks of other versions, as packages on the path


def _fake_framework(folder: Path, version: str, body: str) -> str:
    """Write a package `langchain_core` of some version; return the code of a tool made with it."""
    package = folder / "langchain_core"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text(
        f"class BaseTool:\n    name, description = 'my tool!', 'Do.'\n{body}"
    )
    about = folder / f"langchain_core-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: langchain-core\nVersion: {version}\n"
    )
    return "from langchain_core.tools import BaseTool; thing = BaseTool()"


_SCHEMA = """
    args_schema, response_format, handle_tool_error = SCHEMA, "content", True
    tool_call_schema = args_schema
    async def _arun(self): ...
    _arun.__module__ = "x"
    def model_copy(self, update): return self
    def invoke(self, args): return args
    async def ainvoke(self, args): return args
"""


@pytest.mark.parametrize(
    ("version", "body", "message"),
    [
        ("2.0.1", "", "langchain-core 2.0.1 is not supported. | Supported: langchain-core 1.x."),
        ("0.3.9", "", "langchain-core 0.3.9 is not supported. | Supported: langchain-core 1.x."),
        ("1.9.0", "", "This BaseTool of langchain-core 1.9.0 cannot be read: AttributeError"),
        (
            "1.9.0",
            _SCHEMA.replace("SCHEMA", "{'type': 'objekt'}"),
            "'langchain.my_tool': parameters: ",
        ),
        (
            "1.9.0",
            _SCHEMA.replace("SCHEMA", "{'properties': 7}"),
            "'langchain.my_tool': parameters: ",
        ),
        ("1.9.0", _SCHEMA.replace("SCHEMA", "{}"), "adopted langchain.my_tool"),
        (
            "1.9.0",
            _SCHEMA.replace("SCHEMA", "{}") + "    name = 7\n",
            "7 is not a name for a tool.",
        ),
        (
            "1.9.0",
            _SCHEMA.replace("SCHEMA", "{}") + "    name = '!?'\n",
            "'!?' is not a name for a tool.",
        ),
    ],
)
def test_another_version_or_a_wrong_schema_is_named(
    tmp_path: Path, version: str, body: str, message: str
) -> None:
    """Run in a process of its own, whose path has the framework."""
    setup = _fake_framework(tmp_path / "lib", version, body)
    code = f"""
import sys; sys.path[:0] = [{str(tmp_path / "lib")!r}]
from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import OneToolError
{setup}
with open_toolbox({str(tmp_path)!r}, env={{"ONETOOL_STATE": {str(tmp_path / "state")!r}}}) as box:
    try:
        print("adopted", *box.adopt(thing))
    except OneToolError as exc:
        print(exc.message, "|", exc.hint)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = python(code, check=False, env=env)
    assert message in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.slow
def test_nothing_of_a_framework_is_imported_to_recognise_its_tools(tmp_path: Path) -> None:
    code = f"""
import sys
from onetool_ipy import open_toolbox
class Plain:
    def run(self) -> int:
        "Run."
        return 1
with open_toolbox({str(tmp_path)!r}, env={{"ONETOOL_STATE": {str(tmp_path / "state")!r}}}) as box:
    print(box.adopt(Plain()))
print({{name.partition(".")[0] for name in sys.modules}} & {{
    "langchain_core", "pydantic_ai", "agents", "llama_index", "smolagents", "llm", "fastmcp"}})
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [others_python("frameworks"), "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert ended.stdout.splitlines() == ["['plain.run']", "set()"]


def _named(name: str, value: int) -> Callable[[], int]:
    def fn() -> int:
        return value

    fn.__name__ = fn.__qualname__ = name
    return fn


def _state(box: Toolbox) -> dict[str, Any]:
    """Every tool of the session, and what it gives."""
    return {name: box.call(name).data for name in box.session.specs}


def test_a_list_in_which_one_fails_registers_and_replaces_nothing(box: Toolbox) -> None:
    """The second name is one of ours: neither is the first one registered, nor is an older tool
    replaced."""
    box.adopt([_named("read_file", 1), _named("newer", 2)], pack="mine")
    before = _state(box)
    with pytest.raises(DuplicateTool, match=r"fs\.read_file"):
        box.adopt([_named("newone", 3), _named("read_file", 4)], pack="fs")
    assert box.registry.get("fs.newone") is None
    shop = Shop()
    box.adopt(shop)
    with pytest.raises(DuplicateTool):
        box.adopt([shop, _named("sleep", 5), type("Time", (), {"now": lambda self: 1})()])
    assert box.call("shop.price", {"item": "tea"}).data == "tea at one"
    box.session.specs.pop("shop.price")
    assert _state(box) == before


@pytest.mark.slow
@given(
    lists=st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "b", "c", "read_file"]), st.integers()), max_size=4
        )
    )
)
def test_a_list_is_adopted_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[tuple[str, int]]]
) -> None:
    """The naive twin is a dict: a list is in it as a whole, unless a name is there twice or `fs`
    has it."""
    folder = tmp_path_factory.mktemp("adopt")
    with open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state")}) as box:
        twin: dict[str, int] = {}
        for entries in lists:
            names = [f"fs.{name}" for name, _ in entries]
            is_whole = "fs.read_file" not in names and len({*names}) == len(names) > 0
            try:
                box.adopt([_named(name, value) for name, value in entries], pack="fs")
            except OneToolError:
                assert not is_whole
            else:
                assert is_whole
                twin |= dict(zip(names, (value for _, value in entries), strict=True))
            assert _state(box) == twin


@pytest.mark.slow
def test_two_threads_that_adopt_the_same_names_leave_the_tools_of_one(box: Toolbox) -> None:
    """Each list is registered as a whole, so the tools are those of one list."""
    count, rounds = 8, 40
    start = threading.Barrier(count)

    def adopt(number: int) -> None:
        start.wait()
        for _ in range(rounds):
            box.adopt([_named("a", number), _named("b", number), _named("c", number)])

    threads = [threading.Thread(target=adopt, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*_state(box).values()}) == 1
    assert sorted(box.session.specs) == ["nb.a", "nb.b", "nb.c"]


def test_two_threads_that_adopt_objects_of_one_name_one_wins(box: Toolbox) -> None:
    shops = [Shop(str(number)) for number in range(8)]
    start, wins = threading.Barrier(len(shops)), []

    def adopt(shop: Shop) -> None:
        start.wait()
        try:
            box.adopt(shop)
        except DuplicateTool:
            return
        wins.append(shop.name)

    threads = [threading.Thread(target=adopt, args=(shop,)) for shop in shops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert box.call("shop.price", {"item": "tea"}).data == f"tea at {wins[0]}"


def test_a_failed_adoption_leaves_nothing(box: Toolbox) -> None:
    with pytest.raises(OneToolError):
        box.adopt([Shop(), 3])
    assert box.registry.get("shop.price") is None
