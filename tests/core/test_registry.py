"""Names and who has them: look-up, order, duplicates, sources that change or break, many
threads."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from onetool_ipy import DuplicateTool, InvalidTool, ToolSpec
from onetool_ipy.base.errors import ToolNotFound
from onetool_ipy.core.registry import Registry, SessionTools
from onetool_ipy.core.tool import Origin, Problem
from tests.harness.patience import HANG_S
from tests.harness.project import Project


def tool(name: str, origin: Origin = "file", **fields: Any) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="x",
        parameters={"type": "object"},
        run=lambda args: name,
        origin=origin,
        **fields,
    )


class Listed:
    """A source with tools that a test can change."""

    def __init__(self, *specs: ToolSpec) -> None:
        self.specs = list(specs)
        self.is_new = False

    def tools(self) -> Iterable[ToolSpec]:
        return list(self.specs)

    def problems(self) -> Iterable[Problem]:
        return [Problem("listed", "is only a test.")]

    def refresh(self) -> bool:
        found, self.is_new = self.is_new, False
        return found


class Stopped(Listed):
    """A source that Stop hits once: while it looks, or while it lists its tools."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def tools(self) -> Iterable[ToolSpec]:
        self.stop("tools")
        return []

    def refresh(self) -> bool:
        self.stop("refresh")
        return False

    def stop(self, place: str) -> None:
        if self.place == place:
            self.place = ""
            raise KeyboardInterrupt


class Broken(Listed):
    def tools(self) -> Iterable[ToolSpec]:
        yield tool("b.one")
        raise ZeroDivisionError("a bug in a source")

    def problems(self) -> Iterable[Problem]:
        raise ZeroDivisionError("another")

    def refresh(self) -> bool:
        raise ZeroDivisionError("yet another")


@pytest.mark.parametrize("look", [Registry.get, Registry.find, Registry.require])
def test_every_look_up_sees_the_news_of_a_source(
    look: Callable[[Registry, str], ToolSpec | None],
) -> None:
    """A source says from another thread that it has news; whoever asks next asks it again."""
    source = Listed(tool("a.one"))
    registry = Registry([source])
    assert registry.get("a.two") is None

    source.specs.append(tool("a.two"))
    source.is_new = True
    registry.expire()

    assert look(registry, "a.two") is source.specs[1]


@pytest.mark.spec("003/Tool Lookup/Get tool by name", "004/Registry/list and get")
def test_a_tool_is_found_by_its_name_in_one_dict_access() -> None:
    specs = [tool(f"p{i % 100}.t{i}") for i in range(10_000)]
    registry = Registry([Listed(*specs)])
    compared: list[object] = []

    class Name(str):
        """A name that notes what it is compared with."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return str.__eq__(self, other)

    assert registry.get("p7.t7") is specs[7]
    assert registry.get(Name("p99.t9999")) is specs[-1]
    assert compared == ["p99.t9999"], "one look-up in a dict, however many there are"


@pytest.mark.spec("003/Tool Lookup/Tool not found")
def test_a_tool_that_is_not_there_is_none_and_no_error() -> None:
    registry = Registry([Listed(tool("a.b"))])

    assert registry.get("a.c") is None
    assert registry.get("A.B") is None
    assert registry.find("a.c") is None
    assert Registry().get("") is None


@pytest.mark.spec("003/Tool Lookup/List all tools", "004/Registry/list and get")
def test_all_tools_are_listed_in_order_of_registration() -> None:
    registry = Registry([Listed(tool("z.z"), tool("a.a")), Listed(tool("m.m"))])
    registry.register(tool("c.c", "cell"))

    assert [s.name for s in registry.list()] == ["z.z", "a.a", "m.m", "c.c"]


@pytest.mark.spec("004/Registry/tool-allow filters the callable set")
def test_an_allow_list_keeps_the_order() -> None:
    registry = Registry([Listed(tool("z.z"), tool("a.a"), tool("z.y"), tool("config.x"))])

    assert [s.name for s in registry.list(["a.a", "z.*"])] == ["z.z", "a.a", "z.y"]
    assert [s.name for s in registry.list(["x", "unknown.tool"])] == ["config.x"]
    assert registry.list([]) == []


def test_packs_hold_their_tools_in_order() -> None:
    registry = Registry([Listed(tool("z.b"), tool("a.a"), tool("z.a"))])

    packs = registry.packs()

    assert {pack: [s.name for s in specs] for pack, specs in packs.items()} == {
        "z": ["z.b", "z.a"],
        "a": ["a.a"],
    }
    assert [s.name for s in registry.pack("z") or []] == ["z.b", "z.a"]
    assert registry.pack("none") is None
    packs["z"].clear()
    assert len(registry.packs()["z"]) == 2, "what is handed out is the caller's own"


@pytest.mark.spec("003/Tool Registration/Reject duplicate tool names")
def test_the_first_source_keeps_a_name_and_the_other_is_a_problem(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = tool("a.b", "builtin"), tool("a.b", "file", where="x.py:3")

    registry = Registry([Listed(first), Listed(second, tool("a.c"))])

    assert registry.get("a.b") is first
    assert registry.get("a.c") is not None
    problem = next(p for p in registry.problems() if p.where == "x.py:3")
    assert problem.message == "The name 'a.b' is taken by a builtin tool."
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    registry.rebuild()
    assert len(caplog.records) == 1, "it is said once"


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("cell", "cell", True),
        ("file", "cell", False),
        ("builtin", "cell", False),
        ("config", "cell", False),
        ("cell", "config", False),
        ("mcp", "cell", False),
    ],
)
def test_only_a_cells_tool_replaces_a_cells_tool(old: Origin, new: Origin, may: bool) -> None:
    first, second = tool("a.b", old, where="here"), tool("a.b", new)
    registry = Registry() if old == "cell" else Registry([Listed(first)])
    if old == "cell":
        registry.register(first)

    if may:
        registry.register(second)
        assert registry.require("a.b").run is second.run
        assert len(registry.list()) == 1
    else:
        with pytest.raises(DuplicateTool, match=f"taken by a {old} tool"):
            registry.register(second)
        assert registry.require("a.b").run is first.run


@pytest.mark.parametrize(
    "bad",
    [
        tool("a.b").replace(name="with blank.x"),
        tool("a.b").replace(name=""),
        tool("a.b").replace(name="x" * 200),
        tool("a.b").replace(description="  "),
        tool("a.b").replace(description=None),
        tool("a.b").replace(parameters={"type": "strange"}),
        tool("a.b").replace(parameters={"type": "object", "properties": {"a": {"type": 5}}}),
        tool("a.b").replace(parameters={}),
        tool("a.b").replace(parameters=True),
        tool("a.b").replace(parameters={"type": "object", "$ref": "http://127.0.0.1:9/x"}),
        {"name": "x"},
        5,
        None,
        "a.b",
    ],
    ids=range(14),
)
def test_what_is_no_tool_is_refused(bad: Any) -> None:
    registry = Registry()

    with pytest.raises(InvalidTool):
        registry.register(bad)

    assert registry.list() == []


def test_a_name_without_a_dot_belongs_to_config_and_is_found_by_both_names() -> None:
    registry = Registry([Listed(tool("a.weather"), tool("config.rain"), tool("config.x.y"))])
    registered = registry.register(tool("weather", "cell"))

    assert registered.name == "config.weather"
    assert registry.get("weather") is registry.get("config.weather") is registered
    assert registry.get("rain") is registry.get("config.rain")
    assert registry.get("x.y") is None


def test_a_miss_looks_again_and_finds_what_is_new() -> None:
    source = Listed(tool("a.a"))
    registry = Registry([source])
    source.specs.append(tool("a.new"))

    assert registry.find("a.new") is None, "the source did not say that it has something new"
    source.is_new = True
    assert registry.get("a.new") is None
    assert registry.find("a.new") is not None
    source.specs.append(tool("b.new"))
    source.is_new = True
    assert registry.pack("b") is not None


@pytest.mark.parametrize("place", ["refresh", "tools"])
def test_news_are_not_lost_when_stop_comes_while_looking(place: str) -> None:
    source, stopped = Listed(tool("a.one")), Stopped("")
    registry = Registry([source, stopped])
    source.specs.append(tool("a.two"))
    source.is_new, stopped.place = True, place

    with pytest.raises(KeyboardInterrupt):
        registry.refresh()

    assert [spec.name for spec in registry.list()] == ["a.one", "a.two"]
    assert not registry.refresh()


def test_a_demand_gives_the_tool_as_it_is_listed_and_a_load_as_its_code_has_it() -> None:
    code = tool("a.search")
    registry = Registry([Listed(tool("a.search", load=lambda: code), tool("a.plain"))])

    assert registry.require("a.search") is registry.get("a.search")
    assert registry.load("a.search") is code
    assert registry.require("a.plain") is registry.load("a.plain") is registry.get("a.plain")
    for demand in (registry.require, registry.load):
        with pytest.raises(ToolNotFound, match=r"No tool 'a\.serch'\. Did you mean 'a\.search'\?"):
            demand("a.serch")


def test_a_broken_source_stops_no_other() -> None:
    registry = Registry([Broken(), Listed(tool("a.a"))])

    assert [s.name for s in registry.list()] == ["a.a"]
    assert registry.find("a.nothing") is None
    said = [str(p) for p in registry.problems()]
    assert any("Broken: failed with ZeroDivisionError: a bug in a source" in text for text in said)
    assert any("listed: is only a test." in text for text in said)


def test_the_session_outlives_its_registry() -> None:
    session = SessionTools()
    first = Registry([Listed(tool("a.a"))], session=session)
    first.register(tool("nb.x", "cell"))

    second = Registry([Listed(tool("a.a"), tool("nb.y"))], session=session)

    assert [s.name for s in second.list()] == ["a.a", "nb.y", "nb.x"]


def test_a_tool_of_the_session_gives_way_to_a_file_that_now_has_its_name() -> None:
    session = SessionTools()
    Registry(session=session).register(tool("nb.x", "cell"))

    fresh = Registry([Listed(filed := tool("nb.x"))], session=session)

    assert fresh.get("nb.x") is filed
    assert any("taken by a file tool" in str(p) for p in fresh.problems())


def test_a_cells_tool_without_a_docstring_is_a_problem() -> None:
    registry = Registry()
    registry.register(tool("nb.mute", "cell").replace(description="mute"))

    assert [str(p) for p in registry.problems()] == [
        "nb.mute: has no docstring. Describe it in a docstring."
    ]


def test_many_threads_register_and_read_at_once() -> None:
    """No registration is lost, and no reader ever sees half an index."""
    source = Listed(*(tool(f"a.t{i}") for i in range(50)))
    registry = Registry([source])
    stop = threading.Event()
    torn: list[str] = []

    def read() -> None:
        while not stop.is_set():
            names = {s.name for s in registry.list()}
            if not {f"a.t{i}" for i in range(50)} <= names or registry.get("a.t7") is None:
                torn.append("half an index")
            if len(registry.packs()["a"]) != 50:
                torn.append("half a pack")
            registry.find("a.none")
            source.is_new = True

    def write(n: int) -> None:
        for i in range(25):
            registry.register(tool(f"nb{n}.t{i}", "cell"))

    readers = [threading.Thread(target=read) for _ in range(3)]
    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join(HANG_S)
    stop.set()
    for thread in readers:
        thread.join(HANG_S)

    assert torn == []
    assert len(registry.list()) == 50 + 100


def test_a_source_without_refresh_is_read_again_once_it_says_that_it_has_news() -> None:
    """Servers tell the registry of other tools themselves, and nobody asks them at each look-up."""

    class Telling:
        refresh = None

        def __init__(self) -> None:
            self.specs = [tool("a.one")]

        def tools(self) -> list[ToolSpec]:
            return self.specs

        def problems(self) -> list[Problem]:
            return []

    source = Telling()
    registry = Registry([source])
    source.specs = [tool("a.two")]
    assert registry.find("a.two") is None

    registry.expire()

    assert registry.known() == source.specs


def test_what_another_thread_has_just_found_is_found() -> None:
    """Its look took the news; ours hears of none, and must look into the index all the same."""

    class Late:
        """A source whose news another thread takes while we ask for them."""

        def __init__(self) -> None:
            self.known: list[ToolSpec] = []
            self.taken = False

        def tools(self) -> list[ToolSpec]:
            return self.known

        def problems(self) -> list[Problem]:
            return []

        def refresh(self) -> bool:
            if not self.taken:
                self.taken = True
                self.known = [tool("late.tool")]
                registry.rebuild()
            return False

    registry = Registry([Late()])

    found = registry.find("late.tool")

    assert found is not None
    assert found.name == "late.tool"


def test_what_is_registered_is_a_copy(project: Project) -> None:
    """Changing the definition or the schema afterwards changes no tool."""
    box = project.open()
    definition: dict[str, Any] = {
        "name": "weather",
        "description": "The weather.",
        "type": "function",
        "handler": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
        "implementation": {"type": "mock", "mock_response": {"sky": ["blue"]}},
        "tags": ["sky"],
    }
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    box.registry.register(definition)
    box.registry.register(
        ToolSpec(name="own.count", description="Count.", parameters=schema, run=lambda args: args)
    )
    identity = box.registry.require("weather").identity
    assert identity is not None
    before = json.dumps(identity())

    definition["parameters"]["properties"]["city"]["type"] = "integer"
    definition["implementation"]["mock_response"]["sky"].append("red")
    definition["tags"].append("other")
    definition["description"] = "Something else."
    schema["properties"] = {"n": {"type": "string"}}

    spec = box.registry.require("weather")
    assert (spec.description, spec.tags) == ("The weather.", ("sky",))
    assert json.dumps(identity()) == before
    assert box.call("weather", {"city": "Rome"}).data == {"sky": ["blue"]}
    assert box.call("own.count", {"n": 1}).data == {"n": 1}
    assert box.registry.require("own.count").parameters["properties"] == {"n": {"type": "integer"}}


def test_a_tool_without_a_pack_is_found_by_its_bare_name_unless_another_has_that_name() -> None:
    registry = Registry([Listed(tool("config.now"), tool("config.deep.er"))])

    assert [registry.find(name) is not None for name in ("now", "config.now", "config.deep.er", "deep.er")] == [
        True, True, True, False,
    ]  # fmt: skip
