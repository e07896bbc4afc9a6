"""The Toolbox and its proxies, as Python code uses them."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import pickle
import threading
import traceback
import weakref
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import (
    InvalidConfig,
    Toolbox,
    ToolCall,
    ToolCallError,
    ToolSpec,
    UsageProblem,
    open_toolbox,
)
from onetool_ipy.proxies import PackProxy
from tests.core.support import short
from tests.harness.patience import HANG_S
from tests.harness.project import Project

GEO = '''
    pack = "geo"

    def locate(place: str, times: int = 1, *, loud: bool = False) -> str:
        """Find a place.

        Args:
            place: Its name.

        Returns:
            What was found.

        Example:
            geo.locate("Rome")
        """
        found = place * times
        return found.upper() if loud else found

    def fails(why: str) -> None:
        """Fail."""
        _inner(why)

    def _inner(why: str) -> None:
        raise LookupError(why)

    async def later(n: int) -> int:
        """Give it later."""
        import asyncio
        await asyncio.sleep(0)
        return n

    def gather(first: int, *rest: int, **named: int) -> list:
        """Gather."""
        return [first, rest, named]
'''


@pytest.fixture
def box(project: Project) -> Toolbox:
    project.write("tools/geo.py", GEO)
    return project.open()


# --- calls


def test_call_takes_a_name_and_arguments_or_a_whole_call(box: Toolbox) -> None:
    by_name = box.call("geo.locate", {"place": "a"})
    by_call = box.call(ToolCall("my-id", "geo.locate", {"place": "b"}, "rest"))

    assert (by_name.data, by_name.meta["source"]) == ("a", "python")
    assert (by_call.data, by_call.meta["call_id"], by_call.meta["source"]) == ("b", "my-id", "rest")
    assert by_name.meta["call_id"] != box.call("geo.locate", {"place": "a"}).meta["call_id"]


@pytest.mark.parametrize("args", [None, {}], ids=repr)
def test_arguments_may_be_left_out(box: Toolbox, args: Any) -> None:
    assert box.call("time.now", args).ok


def test_arguments_may_be_any_mapping(box: Toolbox) -> None:
    from types import MappingProxyType

    assert box.call("geo.locate", MappingProxyType({"place": "a"})).data == "a"


@pytest.mark.parametrize("args", [[], [1], "x", 5, {1, 2}, [("place", "a")]], ids=repr)
def test_arguments_that_are_no_object_are_refused(box: Toolbox, args: Any) -> None:
    assert box.call("geo.locate", args).error.code == "invalid_args"


async def test_acall_gives_what_call_gives(box: Toolbox) -> None:
    assert (await box.acall("geo.locate", {"place": "a"})).data == "a"
    assert (await box.acall("geo.later", {"n": 3})).data == 3
    assert (await box.acall("geo.none")).error.code == "tool_not_found"
    assert (await box.acall("time.now", allow=[])).error.reason == "not_allowed"


def test_limits_and_allow_lists_are_passed_on(box: Toolbox) -> None:
    gate = threading.Event()

    def wait() -> None:
        gate.wait(HANG_S)

    box.adopt(wait)

    # On a machine that stands still, the time may end before the tool begins.
    while not box.workers.abandoned():
        assert box.call("nb.wait", timeout=0.05).error.reason == "timeout"
    assert box.call("time.now", allow=["geo.*"]).error.reason == "not_allowed"
    gate.set()


def test_start_gives_a_job(box: Toolbox) -> None:
    job = box.start("geo.later", {"n": 5})

    assert job.result(HANG_S).data == 5
    assert job.status == "done"


# --- packs and tools as Python objects


def test_a_pack_has_its_tools_as_methods(box: Toolbox) -> None:
    geo = box.pack("geo")

    assert geo is not None
    assert geo.locate("a") == "a"
    assert geo.locate("a", 2) == "aa"
    assert geo.locate(place="a", loud=True) == "A"
    assert geo["locate"]("a") == "a"
    assert dir(geo) == ["fails", "gather", "later", "locate"]
    assert repr(geo) == "<pack geo: fails, gather, later, locate>"
    assert geo == box.pack("geo")
    assert len({geo, box.pack("geo")}) == 1
    assert box.pack("nothing") is None


def test_a_tool_of_a_pack_follows_its_file(project: Project) -> None:
    project.write(
        "tools/geo.py",
        'def pair(a: int, b: int) -> list:\n    """Old words."""\n    return [a, b]\n',
    )
    box = project.open()
    geo = box.pack("geo")
    assert geo is not None
    assert geo.pair is geo.pair
    pair = geo.pair
    assert pair(1, 2) == [1, 2]

    project.write(
        "tools/geo.py",
        'def pair(b: int, a: int) -> list:\n    """New words."""\n    return [a, b]\n',
    )

    assert pair(1, 2) == [2, 1]
    box.reload()
    assert "New words." in pair.__doc__
    assert list(inspect.signature(geo.pair).parameters) == ["b", "a"]
    project.write("tools/geo.py", 'def other() -> None:\n    """Do nothing."""\n')
    box.reload()
    assert dir(geo) == ["other"]
    with pytest.raises(ToolCallError, match=r"No tool 'geo\.pair'"):
        pair(1, 2)


async def test_aio_is_the_async_twin(box: Toolbox) -> None:
    geo = box.pack("geo")

    assert await geo.later.aio(n=3) == 3
    assert await geo.locate.aio("x", 2) == "xx"
    assert geo.later(4) == 4, "a sync call works inside a running loop too"
    with pytest.raises(LookupError, match="because"):
        await geo.fails.aio("because")


@pytest.mark.parametrize(
    ("args", "kwargs", "got"),
    [
        ((1,), {}, [1, (), {}]),
        ((1, 2, 3), {}, [1, (2, 3), {}]),
        ((1, 2), {"z": 9}, [1, (2,), {"z": 9}]),
        ((), {"first": 5}, [5, (), {}]),
    ],
    ids=short,
)
def test_positional_arguments_follow_the_functions_own_order(
    box: Toolbox, args: tuple[Any, ...], kwargs: dict[str, Any], got: Any
) -> None:
    assert box.pack("geo").gather(*args, **kwargs) == got


def test_a_keyword_only_argument_is_not_given_by_position(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="takes 2 arguments by position, not 3"):
        box.pack("geo").locate("a", 1, True)


def test_an_argument_given_twice_is_a_misuse(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="'place' was given twice"):
        box.pack("geo").locate("a", place="b")


def test_names_that_python_cannot_spell(box: Toolbox) -> None:
    parameters = {
        "type": "object",
        "properties": {
            "page-size": {"type": "integer"},
            "page_size": {"type": "integer"},
            "class": {},
            "self": {},
        },
        "required": ["page-size"],
    }
    for name in ("web.get-sum", "web.a/b", "web.x.y"):
        box.registry.register(
            ToolSpec(name=name, description="x", parameters=parameters, run=lambda args: args)
        )
    web = box.pack("web")

    assert dir(web) == ["a_b", "get_sum", "x_y"]
    assert web["get-sum"](1) == web.get_sum(1) == {"page-size": 1}
    assert web.get_sum(page_size=2, page_size_2=1, class_=3) == {
        "page_size": 2,
        "page-size": 1,
        "class": 3,
    }
    assert web.get_sum(page_size_2=1, self=5) == {"page-size": 1, "self": 5}
    assert web["a/b"](1) == web.a_b(1)
    assert web["x.y"](1) == {"page-size": 1}
    assert web._ipython_key_completions_() == ["get-sum", "a/b", "x.y"]


def test_a_result_is_stored_where_its_call_was_made(box: Toolbox, tmp_path: Path) -> None:
    """With two toolboxes open, a result's lines are its own project's: so is its handle, and what
    is masked in it."""
    result = box.call("tools.echo", {"message": ["one", "two"]})
    with Project(tmp_path / "other").open() as other:
        assert result.lines(limit=1)["lines"] == ['"one"']

        assert result.search("tw")["lines"] == ['"two"']
        assert box.results.query(result.handle)["total_lines"] == 2
        assert other.results.list() == []

    copied = pickle.loads(pickle.dumps(result))
    assert (copied.data, copied.handle) == (result.data, result.handle)


def test_a_tools_own_exception_comes_with_its_own_frames(box: Toolbox) -> None:
    with pytest.raises(LookupError, match="because") as caught:
        box.pack("geo").fails("because")

    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "_inner"
    assert frames[-2].name == "fails"
    between = [
        f
        for f in frames
        if "/onetool_ipy/core/" in f.filename or "/onetool_ipy/sources/" in f.filename
    ]
    assert between == []


def test_our_own_failures_come_as_tool_call_error(box: Toolbox) -> None:
    with pytest.raises(ToolCallError, match="missing argument 'place'") as caught:
        box.pack("geo").locate()

    assert caught.value.code == "invalid_args"
    assert caught.value.__suppress_context__


def test_misses_name_the_nearest(box: Toolbox) -> None:
    geo = box.pack("geo")

    with pytest.raises(AttributeError, match=r"No tool 'geo\.locat'\. Did you mean 'geo\.locate'"):
        geo.locat  # noqa: B018
    with pytest.raises(KeyError, match=r"geo\.locat"):
        geo["locat"]
    assert not hasattr(geo, "nothing")
    assert not hasattr(geo, "_repr_html_")


def test_a_tool_looks_like_a_function(box: Toolbox) -> None:
    locate = box.pack("geo").locate

    assert locate.__name__ == "locate"
    assert str(inspect.signature(locate)) == "(place: str, times: int = 1, loud: bool = False)"
    assert inspect.getdoc(locate) == (
        "Find a place.\n\nArgs:\n    place: Its name.\n    times: int\n    loud: bool\n\n"
        'Returns:\n    What was found.\n\nExample:\n    geo.locate("Rome")'
    )
    assert repr(locate) == "<tool geo.locate(place: str, times: int = 1, loud: bool = False)>"


def test_calls_between_tools_are_known_as_such(box: Toolbox) -> None:
    seen: list[str] = []

    def low() -> None:
        from onetool_ipy.core import current

        seen.append(current.scope().call.source)

    def high() -> None:
        box.pack("nb").low()

    box.adopt(low)
    box.adopt(high)
    box.pack("nb").high()
    box.pack("nb").low()

    assert seen == ["tool", "python"]


def test_ot_is_there(box: Toolbox) -> None:
    assert box.ot.version() == box.call("ot.version").data
    assert "version" in dir(box.ot)


# --- secrets


def test_secrets_are_masked_in_failures_and_never_in_values(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    project.write("secrets.yaml", "API_KEY: hunter22-secret\n", mode=0o600)
    project.write(
        "tools/leak.py",
        '''
        def tell() -> dict:
            """Tell."""
            return {"key": "hunter22-secret"}

        def fail() -> None:
            """Fail."""
            try:
                raise OSError("first hunter22-secret")
            except OSError as exc:
                raise ValueError("then hunter22-secret", {"k": "hunter22-secret"}) from exc
        ''',
    )
    project.write(
        "tools/bad.py", 'raise RuntimeError("import hunter22-secret")\ndef x():\n    """X."""\n'
    )
    box = project.open()

    assert box.call("leak.tell").data == {"key": "hunter22-secret"}
    assert box.pack("leak").tell() == {"key": "hunter22-secret"}
    with caplog.at_level(logging.INFO):
        failed = box.call("leak.fail")
        odd = box.call("leak.tell", {"hunter22-secret": 1})
        broken = box.call("bad.x")
    assert "***" in failed.error.message
    for result in (failed, odd, broken):
        assert "hunter22" not in str(result.to_dict()) + repr(result)
    exc = failed.error.exception
    assert exc.args == ("then ***", {"k": "***"})
    assert exc.__cause__.args == ("first ***",)
    assert "hunter22" not in caplog.text
    assert "hunter22" not in str(box.problems())
    assert any("import ***" in str(p) for p in box.problems())


# --- reload and close


def test_reload_reads_everything_again_and_keeps_the_sessions_tools(
    box: Toolbox, project: Project
) -> None:
    def mine() -> int:
        return 1

    box.adopt(mine)
    project.write("tools/web.py", 'def get() -> int:\n    """Get."""\n    return 2\n')
    project.write("onetool.yaml", "timeouts: {local_s: 3}")
    assert box.config.settings.timeouts.local_s == 8

    box.reload()

    assert box.config.settings.timeouts.local_s == 3
    assert box.call("nb.mine").data == 1
    assert box.call("web.get").data == 2
    assert list(box.parts.pack_names) == ["geo", "web"]


def test_a_failed_reload_keeps_the_last_good_state_and_says_so(
    box: Toolbox, project: Project
) -> None:
    before = box.parts
    project.write("onetool.yaml", "timeout: {local_s: 3}\ntools: [")

    with pytest.raises(InvalidConfig, match=r"onetool\.yaml") as caught:
        box.reload()

    assert caught.value.hint == "The last good configuration is still in use."
    assert box.parts is before
    assert box.call("geo.locate", {"place": "a"}).ok
    assert any(p.where == "reload" and "still in use" in p.hint for p in box.problems())

    project.write("onetool.yaml", "version: 1")
    box.reload()
    assert not any(p.where == "reload" for p in box.problems())


async def test_reload_works_inside_a_running_loop(box: Toolbox) -> None:
    task = asyncio.create_task(box.acall("geo.later", {"n": 1}))
    box.reload()

    assert (await task).data == 1
    assert (await box.acall("geo.later", {"n": 2})).data == 2


def test_reload_while_calls_run_in_threads(box: Toolbox) -> None:
    """No call breaks, none loses its record, and a call under way keeps the parts it began with."""
    stop = threading.Event()
    odd: list[Any] = []
    counts: list[int] = []

    def call() -> None:
        made = 0
        while not stop.is_set():
            for name, args in (
                ("geo.locate", {"place": "a"}),
                ("time.now", {}),
                ("geo.later", {"n": 1}),
            ):
                result = box.call(name, args)
                made += 1
                if not result.ok:
                    odd.append(result.error)
        counts.append(made)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        box.reload()
    stop.set()
    for thread in threads:
        thread.join(HANG_S)

    assert odd == []
    assert box.ot.stats()["total_calls"] >= sum(counts)


def test_servers_are_asked_for_while_another_thread_builds_a_part(project: Project) -> None:
    """Whoever builds a part has the lock of the parts, and needs the servers."""
    box = project.open()
    parts: Any = box.parts

    def build() -> None:
        with parts.building:
            other = threading.Thread(target=lambda: box.servers, daemon=True)
            other.start()
            # It waits for the lock of the parts, and must not have that of the servers meanwhile.
            other.join(0.2)
            assert not box.servers.unknown

    builder = threading.Thread(target=build, daemon=True)
    builder.start()
    builder.join(HANG_S)

    assert not builder.is_alive()


def test_a_call_under_way_keeps_its_parts(box: Toolbox, project: Project) -> None:
    begun, gate = threading.Event(), threading.Event()
    found: list[Any] = []

    def hold() -> None:
        begun.set()
        gate.wait(HANG_S)

    box.adopt(hold)
    caller = threading.Thread(target=lambda: found.append(box.call("nb.hold")))
    caller.start()
    assert begun.wait(HANG_S)
    project.write("onetool.yaml", "timeouts: {local_s: 1}")
    box.reload()
    gate.set()
    caller.join(HANG_S)

    assert found[0].ok
    assert found[0].meta["tool"] == "nb.hold"


def test_close_may_be_called_twice_and_what_is_closed_refuses_calls(box: Toolbox) -> None:
    box.call("geo.later", {"n": 1}, timeout=HANG_S)
    before = threading.active_count()
    geo = box.pack("geo")

    box.close()
    box.close()

    assert threading.active_count() <= before
    for use in (
        lambda: box.call("time.now"),
        lambda: geo.locate("a"),
        box.reload,
        lambda: box.start("time.now"),
    ):
        with pytest.raises(UsageProblem, match="is closed"):
            use()


def test_a_toolbox_is_a_context_manager(project: Project) -> None:
    with project.open() as box:
        assert box.call("time.now").ok
    with pytest.raises(UsageProblem):
        box.call("time.now")


def test_two_toolboxes_at_once_do_not_meet(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other")
    one, two = project.open("timeouts: {local_s: 1}"), other.open("timeouts: {local_s: 2}")
    try:

        def mine() -> int:
            return 1

        one.adopt(mine)

        assert one.call("nb.mine").data == 1
        assert two.call("nb.mine").error.code == "tool_not_found"
        assert (one.config.settings.timeouts.local_s, two.config.settings.timeouts.local_s) == (
            1,
            2,
        )
        two.close()
        assert one.call("geo.x").error.code == "tool_not_found"
        assert one.call("time.now", timeout=HANG_S).ok
    finally:
        two.close()


def test_a_toolbox_that_nobody_holds_is_freed(project: Project) -> None:
    box = open_toolbox(project.write("onetool.yaml", "version: 1"), env=project.env)
    box.call("time.now")
    box.call("geo.none")
    watched = weakref.ref(box)
    box.close()

    del box
    gc.collect()

    assert watched() is None


def test_first_use_from_many_threads_builds_one_registry(project: Project) -> None:
    box = project.open()
    barrier = threading.Barrier(8)
    found: list[Any] = []

    def ask() -> None:
        barrier.wait()
        found.append((box.registry, box.executor, box.parts.resolver.registry))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert len({id(part) for parts in found for part in parts}) == 2


def test_the_repr_names_the_project(box: Toolbox, project: Project) -> None:
    assert repr(box) == f"<Toolbox {project.root.resolve()}>"
    assert isinstance(box.pack("geo"), PackProxy)
