"""Resolve once: what decides whether a call may run, how often it is asked, and what it costs."""

from __future__ import annotations

import gc
import importlib
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, ToolSpec
from onetool_ipy.base.errors import InvalidArgs, NotAllowed, ToolNotFound, Unavailable, Untrusted
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.tool import Dep, FunctionFacts
from onetool_ipy.llm import ScriptedModel
from tests.core.support import Calls, MakeBench
from tests.harness.project import Project

PACK = '''
pack = "calc"


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b
'''


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def spec(**fields: Any) -> ToolSpec:
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    return ToolSpec(
        **{
            "name": "t.f",
            "description": "x",
            "parameters": parameters,
            "run": lambda args: args,
            **fields,
        }
    )


def test_a_resolved_call_has_its_tool_and_its_checked_arguments(bench: MakeBench) -> None:
    args = {"a": 2.0}

    resolved = bench(add).resolve("t.add", args, source="model")

    assert (resolved.tool, resolved.args, resolved.given, resolved.failure) == (
        "t.add",
        {"a": 2},
        {"a": 2.0},
        None,
    )
    assert resolved.limit_s == 8.0
    assert resolved.require().name == "t.add"


@pytest.mark.parametrize(
    ("name", "args", "options", "failure"),
    [
        ("t.nope", {}, {}, ToolNotFound),
        (7, {}, {}, ToolNotFound),
        ("t.add", {}, {"allow": ["t.other"]}, NotAllowed),
        ("t.add", {}, {"allow": lambda _spec: False}, NotAllowed),
        ("t.add", {"a": "x"}, {}, InvalidArgs),
        ("t.add", ["a"], {}, InvalidArgs),
    ],
    ids=["unknown", "no name", "list", "function", "schema", "no object"],
)
def test_what_is_in_the_way_is_the_failure_of_the_call_and_of_its_result(
    bench: MakeBench, name: Any, args: Any, options: Any, failure: type[Exception]
) -> None:
    table = bench(add)

    resolved = table.resolve(name, args, **options)

    assert type(resolved.failure) is failure
    with pytest.raises(failure):
        resolved.require()
    assert table.executor.call(resolved).error.exception is resolved.failure  # type: ignore[union-attr]


def test_a_function_reads_the_arguments_as_the_tool_wants_them_also_for_a_call_that_is_refused(
    bench: MakeBench,
) -> None:
    table = bench(add)

    def read(known: ToolSpec) -> dict[str, Any]:
        return dict.fromkeys(known.parameters["properties"], 3)

    assert table.resolve("t.add", read).args == {"a": 3, "b": 3}
    assert table.resolve("t.add", read, allow=()).call.args == {"a": 3, "b": 3}
    assert table.resolve("t.nope", read).call.args == {}


def test_no_code_of_the_tool_runs_before_the_call_does(bench: MakeBench) -> None:
    """A model's call is resolved before a person approves it."""
    ran = []

    class Own:
        def to_python(self, value: Any) -> Any:
            ran.append(value)
            return value

        def accepts(self, value: Any) -> bool:
            ran.append(value)
            return True

    table = bench()
    table.add(spec(function=FunctionFacts(converters={"a": Own()})))

    resolved = table.resolve("t.f", {"a": 1}, source="model")
    assert ran == []
    table.executor.call(resolved)

    assert ran == [1]


def test_trust_needs_and_switches_are_asked_once_for_each_generation_of_the_registry(
    bench: MakeBench,
) -> None:
    questions: list[str] = []
    table = bench(
        admit=lambda tool, _spec: questions.append(f"admit {tool}"),
        require=lambda known: questions.append(f"need {known.name}"),
    )
    table.add(spec(origin="file", deps=(Dep("lib", "json"),)))

    for _ in range(3):
        assert table.call("t.f", {"a": 1}).ok
    assert questions == ["admit t.f", "need t.f"]
    table.add(add)
    table.call("t.f", {"a": 1})

    assert questions == ["admit t.f", "need t.f"] * 2


def test_what_was_in_the_way_is_looked_for_again(bench: MakeBench) -> None:
    missing = [Unavailable("needs x")]

    def require(_spec: ToolSpec) -> None:
        if missing:
            raise missing.pop()

    table = bench(require=require)
    table.add(spec(deps=(Dep("lib", "x"),)))

    assert type(table.resolve("t.f", {"a": 1}).failure) is Unavailable
    assert table.resolve("t.f", {"a": 1}).failure is None


def test_an_import_takes_from_the_limit_of_its_call(bench: MakeBench) -> None:
    own = spec(origin="file")

    def load() -> ToolSpec:
        begun = time.monotonic()
        while time.monotonic() - begun < 0.05:
            pass
        return own

    table = bench()
    table.add(own.replace(load=load))

    resolved = table.resolve("t.f", {"a": 1}, timeout_s=60)

    assert (resolved.limit_s, resolved.failure) == (60, None)
    assert resolved.left_s is not None
    assert 0 < resolved.left_s <= 59.95


def test_a_name_that_is_not_allowed_starts_nothing(bench: MakeBench) -> None:
    sought: list[str] = []
    table = bench(prepare=lambda name, _spec, _source: bool(sought.append(name)))

    table.resolve("server.tool", allow=["t.*"])
    assert sought == []
    table.resolve("server.tool", allow=["server.*"])

    assert sought == ["server.tool"]


def test_trust_that_is_given_by_the_question_counts_for_the_call(
    project: Project, tmp_path: Path
) -> None:
    """The parts that the yes builds decide; the arguments are read once."""
    from onetool_ipy.assemble import open_leniently
    from onetool_ipy.host import Host

    project.write("tools/calc.py", PACK)
    project.write("onetool.yaml", "version: 1")
    box = open_leniently(env={**project.env, **home_at(tmp_path / "home")}, cwd=project.root)
    project.boxes.append(box)

    class Yes(Host):
        def ask_for_trust(self, needed: Untrusted) -> None:
            box.gate.grant()

    before, reads = box.parts, []
    assert type(box.resolve("calc.add", {"a": 1}, source="model").failure) is Untrusted
    box.host = Yes()

    resolved = box.resolve("calc.add", lambda _spec: reads.append(1) or {"a": 1})

    assert box.call(resolved).data == 2
    assert box.parts is not before
    assert reads == [1]


@pytest.fixture
def box(project: Project) -> Toolbox:
    project.write("tools/calc.py", PACK)
    box = project.open()
    box.call("calc.add", {"a": 1})
    return box


def _by_proxy(box: Toolbox) -> object:
    return box.pack("calc").add(1, b=2)  # type: ignore[union-attr]


def _by_job(box: Toolbox) -> object:
    return box.start("calc.add", {"a": 1, "b": 2}).result(30).data


def _by_model(box: Toolbox) -> object:
    model = ScriptedModel([("calc.add", {"a": 1, "b": 2}), "It is 3."])
    return box.ask("What is 1 + 2?", model=model, approve=["calc.add"]).calls[0].result.data


def _by_map(box: Toolbox) -> object:
    return box.ot.map("calc.add", [1], const={"b": 2})["add"][0]


_RECORD = "CallLog.recorder.<locals>.record_call"


@pytest.mark.parametrize(
    ("use", "resolutions"),
    [
        (lambda box: box.call("calc.add", {"a": 1, "b": 2}).data, 1),
        (_by_proxy, 1),
        (_by_job, 1),
        (_by_model, 1),
        # `ot.map` is a call too.
        (_by_map, 2),
    ],
    ids=["call", "proxy", "job", "model", "map"],
)
def test_a_call_is_resolved_once(box: Toolbox, use: Any, resolutions: int) -> None:
    with Calls("Resolver.resolve", _RECORD) as counts:
        assert use(box) == 3

    assert counts == {"Resolver.resolve": resolutions, _RECORD: resolutions}


def test_a_recorded_call_runs_few_functions(box: Toolbox) -> None:
    """A call asks nothing twice, and a step that is off is not on its way."""

    def increase(a: int, b: int = 2) -> int:
        return a + b

    box.adopt(increase)
    box.call("nb.increase", {"a": 1})
    functions: list[str] = []

    def note(frame: Any, event: str, _arg: object) -> None:
        if event == "call":
            functions.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    box.call("nb.increase", {"a": 1})
    sys.setprofile(None)

    # They are 20; the collector may add a callback of something that it frees.
    assert len(functions) <= 22, functions


def test_a_tool_that_was_replaced_is_never_called_again(bench: MakeBench) -> None:
    """Many threads call while one defines the tool anew: who calls after that gets the new one."""
    table = bench()
    newest, is_over, faults = [0], threading.Event(), list[object]()

    def define(version: int) -> None:
        table.add(spec(run=lambda _args: version))

    def call() -> None:
        while not is_over.is_set():
            known = newest[0]
            result = table.call("t.f", {"a": 1})
            if not result.ok or result.data < known:
                faults.append((known, result))

    define(0)
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for version in range(1, 60):
        define(version)
        newest[0] = version
    is_over.set()
    for thread in threads:
        thread.join()

    assert faults == []


class _Evil:
    """Whatever is asked of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")


@pytest.mark.parametrize("where", ["argument", "list", "result", "failure"])
def test_a_value_that_fails_whatever_is_asked_of_it_costs_neither_call_nor_row(
    box: Toolbox, where: str
) -> None:
    evil = _Evil()

    def give(x: Any = None) -> Any:
        if where == "failure":
            raise KeyError(evil)
        return evil if where == "result" else x

    box.adopt(give)
    args = {"argument": {"x": evil}, "list": {"x": [evil]}}.get(where, {})

    result = box.call("nb.give", args)

    assert result.ok == (where != "failure")
    if where in ("argument", "result"):
        assert result.data is evil
    (row,) = box.log.history(tool="nb.give")
    assert (row.call_id, row.ok) == (result.meta["call_id"], result.ok)


def test_a_call_with_wrong_arguments_leaves_nothing_to_the_collector(box: Toolbox) -> None:
    gc.disable()
    try:
        error = box.call("calc.add", {"a": "x"}).error
        assert error is not None
        assert error.exception is not None
        failure = weakref.ref(error.exception)
        del error
        assert failure() is None
    finally:
        gc.enable()


async def test_a_call_of_an_mcp_client_is_resolved_once(box: Toolbox) -> None:
    from mcp import Client

    from onetool_ipy.faces.mcp.server import ToolboxServer

    # The SDK's client imports this at its first call. Under the watch the import alone takes a
    # minute and more.
    importlib.import_module("jsonschema")
    server = ToolboxServer(box, allow=["calc.add"])
    # A thread is watched only if it is started while the watch is on.
    with Calls("Resolver.resolve", "Executor._end") as counts:
        async with Client(server.server) as client:
            reply = await client.call_tool("calc_add", {"a": 1, "b": 2})
    server.close()

    assert not reply.is_error
    assert counts == {"Resolver.resolve": 1, "Executor._end": 1}


def test_an_ask_lists_the_tools_once_where_none_has_changed(box: Toolbox) -> None:
    model = ScriptedModel([("calc.add", {"a": 1}), "It is 2."])

    with Calls("Registry.known", "ScriptedModel.complete") as counts:
        box.ask("What is 1 + 1?", model=model)

    assert counts == {"Registry.known": 1, "ScriptedModel.complete": 2}


CHILD = """
import os, sys
from onetool_ipy import open_toolbox

box = open_toolbox(sys.argv[1], env={"HOME": sys.argv[2], "ONETOOL_STATE": sys.argv[2]})
time = box.bundles.named("time")
for enabled in (False, True):
    box.bundles.patch_bundle(time.bundle_id, enabled=enabled)
    assert box.call("time.now").ok is enabled
os.path.exists("/begin")
assert box.call("time.now").ok
os.path.exists("/end")
"""


@pytest.mark.slow
def test_a_call_of_a_built_in_looks_at_no_file_but_the_call_log(
    project: Project, tmp_path: Path
) -> None:
    """Neither opened nor asked for its times, by strace; its switches are in the registry."""
    strace = shutil.which("strace")
    assert strace is not None, (
        "strace is needed to see which files are looked at: apt-get install strace"
    )
    config, log = project.write("onetool.yaml", "version: 1"), tmp_path / "strace"

    command = [sys.executable, "-c", CHILD, str(config), str(tmp_path / "home")]
    subprocess.run([strace, "-f", "-qq", "-o", str(log), "-e", "trace=file", *command], check=True)

    _, _, rest = log.read_text(encoding="utf-8").partition('"/begin"')
    during, _, _ = rest.partition('"/end"')
    names = re.findall(r'"(/[^"]*)"', during)
    assert [name for name in names if "calls" not in name] == []
