"""Pack files as a user meets them: indexed without running, imported at first use, edited, broken,
removed."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import textwrap
import threading
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.sources.pack_files import PackFile
from tests.harness.patience import HANG_S, until
from tests.harness.programs import python
from tests.harness.project import Project
from tests.harness.systems import make_pipe

GOOD = '''
    pack = "geo"

    def locate(place: str, times: int = 1) -> str:
        """Find a place."""
        return place * times
'''


def _problems(box: Toolbox) -> str:
    return "\n".join(str(problem) for problem in box.problems())


def _names(box: Toolbox, pack: str) -> list[str]:
    return [spec.short_name for spec in box.registry.pack(pack) or []]


def _modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("onetool_pack_")}


def test_a_file_is_listed_without_running_and_imported_at_first_use(project: Project) -> None:
    marker = project.root / "imported"
    project.write(
        "tools/geo.py",
        f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n" + textwrap.dedent(GOOD),
    )
    box = project.open()

    spec = box.registry.get("geo.locate")

    assert spec.signature == "geo.locate(place: str, times: int = 1)"
    assert spec.description == "Find a place."
    assert spec.origin == "file"
    assert spec.source == "local"
    assert spec.where.endswith(str(Path("tools", "geo.py:6")))
    assert box.call("geo.locate", {"plce": "x"}, allow=["other.*"]).error.reason == "not_allowed"
    assert not marker.exists()
    assert box.call("geo.locate", {"place": "ab", "times": 2}).data == "abab"
    assert marker.exists()


def test_an_edited_file_is_used_by_the_next_call(project: Project) -> None:
    path = project.write("tools/geo.py", GOOD)
    box = project.open()
    assert box.call("geo.locate", {"place": "a"}).data == "a"

    project.write("tools/geo.py", GOOD.replace("place * times", "place + '!'"))

    assert box.call("geo.locate", {"place": "a"}).data == "a!"
    assert path.exists()


def test_edits_of_the_same_size_in_the_same_moment_are_seen(project: Project) -> None:
    """Faster than the file system's clock ticks, and with the old times put back."""
    path = project.write("tools/geo.py", 'def give() -> int:\n    """Give."""\n    return 1000\n')
    file = PackFile(path)
    (spec,) = file.tools()
    before = path.stat()
    place = path.read_bytes().index(b"1000")

    with path.open("r+b", buffering=0) as raw:
        for n in range(1001, 1300):
            raw.seek(place)
            raw.write(str(n).encode())
            # Windows tells when a file was made, not when it changed.
            if n % 2 and os.name == "posix":
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert spec.load().run({}) == n


def test_a_file_that_did_not_change_is_not_imported_again(project: Project) -> None:
    project.write(
        "tools/geo.py",
        'N = []\ndef give() -> int:\n    """Give."""\n    N.append(1)\n    return len(N)\n',
    )
    box = project.open()

    assert [box.call("geo.give").data for _ in range(5)] == [1, 2, 3, 4, 5]


def test_a_new_function_is_found_and_a_removed_one_is_gone(project: Project) -> None:
    project.write("tools/geo.py", GOOD)
    box = project.open()
    assert box.call("geo.locate", {"place": "a"}).ok

    project.write("tools/geo.py", GOOD.replace("locate", "search"))

    assert box.call("geo.search", {"place": "b"}).data == "b"
    assert _names(box, "geo") == ["search"]
    gone = box.call("geo.locate", {"place": "a"}).error
    assert gone.code == "tool_not_found"


def test_new_changed_arguments_hold_at_once(project: Project) -> None:
    project.write("tools/geo.py", GOOD)
    box = project.open()
    assert box.call("geo.locate", {"place": "a"}).ok

    project.write("tools/geo.py", GOOD.replace("place: str", "place: int"))

    assert box.call("geo.locate", {"place": "a"}).error.code == "invalid_args"
    assert box.call("geo.locate", {"place": 2, "times": 3}).data == 6


def test_a_new_and_a_removed_file_are_seen(project: Project) -> None:
    project.write("tools/geo.py", GOOD)
    box = project.open()
    assert box.pack("web") is None

    path = project.write("tools/web.py", 'def get() -> int:\n    """Get."""\n    return 1\n')
    assert box.call("web.get").data == 1

    path.unlink()
    error = box.call("web.get").error
    assert (error.code, error.reason) == ("execution_error", "unavailable")
    assert "The file is gone" in error.message
    assert box.call("web.none").error.code == "tool_not_found"
    assert box.pack("web") is None


def test_a_file_that_breaks_is_unavailable_until_it_is_mended(project: Project) -> None:
    project.write("tools/geo.py", GOOD)
    box = project.open()
    assert box.call("geo.locate", {"place": "a"}).ok

    project.write("tools/geo.py", textwrap.dedent(GOOD) + "\ndef broken(:\n")
    error = box.call("geo.locate", {"place": "a"}).error
    assert (error.code, error.reason) == ("execution_error", "unavailable")
    assert "SyntaxError" in error.message
    assert "SyntaxError" in _problems(box)

    project.write("tools/geo.py", GOOD)
    assert box.call("geo.locate", {"place": "a"}).data == "a"
    assert "SyntaxError" not in _problems(box)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import no_such_module_here", "No module named 'no_such_module_here'"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(): f()\nf()", "RecursionError"),
    ],
)
def test_a_file_that_fails_at_import_says_why_and_is_tried_again(
    project: Project, line: str, said: str
) -> None:
    before = _modules()
    project.write("tools/geo.py", line + "\n" + textwrap.dedent(GOOD))
    box = project.open()
    assert _names(box, "geo") == (["f", "locate"] if "def f" in line else ["locate"])

    error = box.call("geo.locate", {"place": "a"}).error

    assert (error.code, error.reason) == ("execution_error", "unavailable")
    assert said in error.message
    assert said in _problems(box)
    assert _modules() == before
    project.write("tools/geo.py", GOOD)
    assert box.call("geo.locate", {"place": "a"}).ok
    assert said not in _problems(box)


def test_stop_during_an_import_passes_through_and_leaves_nothing(project: Project) -> None:
    before = _modules()
    project.write("tools/geo.py", "raise KeyboardInterrupt\n" + textwrap.dedent(GOOD))
    box = project.open()

    with pytest.raises(KeyboardInterrupt):
        box.call("geo.locate", {"place": "a"})

    assert _modules() == before
    project.write("tools/geo.py", GOOD)
    assert box.call("geo.locate", {"place": "a"}).ok


def test_a_slow_import_does_not_slow_listing(project: Project) -> None:
    """While one thread sits in the import, listing and other packs go on."""
    project.write(
        "tools/slow.py",
        '''
        import builtins
        builtins._onetool_begun.set()
        builtins._onetool_gate.wait(60)
        def act() -> int:
            """Act."""
            return 1
        ''',
    )
    project.write("tools/geo.py", GOOD)
    import builtins

    begun, gate = threading.Event(), threading.Event()
    builtins._onetool_begun, builtins._onetool_gate = begun, gate  # type: ignore[attr-defined]
    box = project.open()
    found: list[Any] = []
    caller = threading.Thread(target=lambda: found.append(box.call("slow.act").data))
    caller.start()
    assert begun.wait(HANG_S)
    began = time.process_time()

    assert "slow.act" in [s.name for s in box.registry.list()]
    assert box.registry.find("slow.none") is None
    assert box.call("geo.locate", {"place": "a"}).ok
    assert box.call("slow.act", timeout=0.05).error.reason == "timeout"

    assert time.process_time() - began < 10
    gate.set()
    caller.join(HANG_S)
    assert found == [1]
    del builtins._onetool_begun, builtins._onetool_gate  # type: ignore[attr-defined]


def test_many_threads_import_a_file_once(project: Project) -> None:
    counter = project.root / "count"
    counter.touch()
    project.write(
        "tools/geo.py",
        f"open({str(counter)!r}, 'a').write('x')\n"
        'def give() -> int:\n    """Give."""\n    return 1\n',
    )
    box = project.open()
    old = time.time() - 60
    os.utime(project.home / "tools" / "geo.py", (old, old))
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(box.call("geo.give").data))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert results == [1] * 16
    assert counter.read_text() == "x"


def test_threads_that_call_while_the_file_is_edited_never_break(project: Project) -> None:
    def text(n: int) -> str:
        return f'def give() -> int:\n    """Give."""\n    return {n}\n'

    path = project.write("tools/geo.py", text(0))
    box = project.open()
    stop = threading.Event()
    odd: list[Any] = []

    def call() -> None:
        while not stop.is_set():
            result = box.call("geo.give")
            if not result.ok:
                odd.append(result.error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(1, 40):
        temp = path.with_suffix(".tmp")
        temp.write_text(text(n))
        temp.replace(path)
    stop.set()
    for thread in threads:
        thread.join(HANG_S)

    assert odd == []
    assert box.call("geo.give").data == 39


def test_all_may_name_what_is_imported_or_made(project: Project) -> None:
    project.write(
        "tools/geo.py",
        '''
        __all__ = ["join", "twice", "Thing", "LIMIT", "missing", "late"]
        from functools import partial
        from posixpath import join

        LIMIT = 5
        class Thing: ...

        def _times(n: int, by: int) -> int:
            """Multiply."""
            return n * by

        twice = partial(_times, by=2)
        late = [1].pop()
        ''',
    )
    box = project.open()

    assert _names(box, "geo") == ["join", "twice", "late"]
    assert "__all__ names 'missing', which the file does not define." in _problems(box)
    assert box.call("geo.twice", {"n": 4}).data == 8
    assert box.call("geo.join", {"a": "x", "p": ["y"]}).data == "x/y"
    error = box.call("geo.late").error
    assert (error.reason, "is not a function" in error.message) == ("unavailable", True)
    assert "is not a function" in _problems(box)


def test_decorated_functions_and_marks_are_exact_after_the_import(project: Project) -> None:
    project.write(
        "tools/geo.py",
        '''
        import functools
        from dataclasses import dataclass
        from onetool_ipy import tool

        NAME = "computed"

        @dataclass
        class Point:
            x: int

        def loud(fn):
            @functools.wraps(fn)
            async def inner(*args, **kwargs):
                return fn(*args, **kwargs).upper()
            return inner

        @tool(name="shout", tags=["loud"], read_only=True, timeout=3, examples="shout('x')")
        @loud
        def say(text: str, at: Point | None = None) -> str:
            """Say it."""
            return f"{text} {at}"
        ''',
    )
    box = project.open()
    sketch = box.registry.get("geo.shout")
    assert (sketch.tags, sketch.read_only, sketch.timeout_s, sketch.example) == (
        ("loud",),
        True,
        3.0,
        "shout('x')",
    )
    assert sketch.signature == "geo.shout(text: str, at: Point | None = None)"

    exact = box.registry.load("geo.shout")

    assert exact.is_async
    assert "Point" in exact.parameters["$defs"]
    assert (exact.tags, exact.read_only, exact.timeout_s, exact.example) == (
        ("loud",),
        True,
        3.0,
        "shout('x')",
    )
    assert box.call("geo.shout", {"text": "a", "at": {"x": 1}}).data == "A POINT(X=1)"
    assert (
        box.call("geo.shout", {"text": "a", "at": {"x": "y"}}).error.details[0]["pointer"]
        == "/at/x"
    )
    assert box.registry.pack("nb") is None, "what a file defines is the file's"


TYPED = '''
    import pathlib
    from typing import TypedDict

    class Item(TypedDict):
        name: str
        count: int

    pathlib.Path({marker!r}).touch()

    def order(items: list[Item]) -> int:
        """Order them."""
        return len(items)
'''


def _item_schema(parameters: dict[str, Any]) -> Any:
    """The properties of an item of the argument `items`."""
    is_typed = "items" in parameters["properties"]["items"]
    return (
        {name: row["type"] for name, row in parameters["$defs"]["Item"]["properties"].items()}
        if is_typed
        else None
    )


ITEM = {"name": "string", "count": "integer"}


def test_a_list_has_the_schema_of_the_code_once_the_file_was_imported(project: Project) -> None:
    project.write("tools/shop.py", TYPED.format(marker=str(project.root / "imported")))
    box = project.open()
    told: list[bool] = []
    box.subscribe(changed=lambda: told.append(True))
    assert _item_schema(box.registry.get("shop.order").parameters) is None

    assert box.call("shop.order", {"items": [{"name": "pear", "count": 2}]}).data == 1

    (spec,) = [spec for spec in box.registry.known() if spec.name == "shop.order"]
    assert _item_schema(spec.parameters) == ITEM
    assert told == [True]


@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "untrusted"])
def test_the_formats_of_providers_import_the_packs_of_a_trusted_project(
    project: Project, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    marker = project.root / "imported"
    project.write("tools/shop.py", TYPED.format(marker=str(marker)))
    project.write("onetool.yaml", "version: 1")
    monkeypatch.chdir(project.root)
    env = {**os.environ, "ONETOOL_STATE": str(project.root / "state"), "ONETOOL_TRUST": ""}
    with open_toolbox(project.root if is_trusted else None, env=env) as box:
        (declared,) = box.formats("openai", allowed=["shop.*"])

    assert (_item_schema(declared["function"]["parameters"]) == ITEM) is is_trusted
    assert marker.exists() is is_trusted


def test_a_pack_that_cannot_be_imported_is_offered_as_its_text_describes_it(
    project: Project,
) -> None:
    project.write(
        "tools/shop.py", "raise ValueError('no')\n" + textwrap.dedent(TYPED.format(marker="x"))
    )
    box = project.open()

    (declared,) = box.formats("openai", allowed=["shop.*"])

    assert list(declared["function"]["parameters"]["properties"]) == ["items"]


def test_types_of_the_file_work_with_postponed_annotations(project: Project) -> None:
    for head in ("from __future__ import annotations\n", ""):
        project.write(
            "tools/geo.py",
            head
            + textwrap.dedent(
                '''
                import enum
                class Colour(enum.Enum):
                    RED = "r"
                def paint(colour: Colour, when: "datetime.date | None" = None) -> str:
                    """Paint."""
                    return f"{colour} {paint.__annotations__['colour']!r}"
                import datetime
                '''
            ),
        )
        box = project.open()
        shown = "'Colour'" if head else "<enum 'Colour'>"
        assert (
            box.call("geo.paint", {"colour": "r", "when": "2026-01-02"}).data
            == f"Colour.RED {shown}"
        )


def test_two_files_may_share_a_pack_but_not_a_tool(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    project.write("tools/a.py", 'pack = "geo"\ndef one() -> str:\n    """One."""\n    return "a"\n')
    project.write(
        "tools/b.py",
        '''
        pack = "geo"
        def one() -> str:
            """One."""
            return "b"
        def two() -> str:
            """Two."""
            return "b"
        ''',
    )
    box = project.open()

    assert _names(box, "geo") == ["one", "two"]
    assert box.call("geo.one").data == "a"
    assert box.call("geo.two").data == "b"
    assert "The name 'geo.one' is taken by a file tool" in _problems(box)
    assert "b.py:3" in _problems(box)
    assert any("geo.one" in r.getMessage() and r.levelno == logging.ERROR for r in caplog.records)


def test_a_file_cannot_take_a_builtins_name(project: Project) -> None:
    project.write(
        "tools/mine.py", 'pack = "time"\ndef now() -> int:\n    """Mine."""\n    return 0\n'
    )
    box = project.open()

    assert box.call("time.now").data != 0
    assert "taken by a builtin tool" in _problems(box)


def test_a_function_without_a_docstring_is_a_problem_with_its_place(project: Project) -> None:
    project.write("tools/geo.py", "x = 1\ndef mute(): return 1\n")
    box = project.open()

    assert box.registry.get("geo.mute").description == "mute"
    assert "geo.py:2: 'geo.mute' has no docstring." in _problems(box)
    assert box.call("geo.mute").data == 1


def test_where_files_are_looked_for(project: Project) -> None:
    for name in (
        "tools/a.py",
        "tools/sub/b.py",
        "tools/_c.py",
        "more/d.py",
        "more/e.txt",
        "other/f.py",
    ):
        project.write(name, 'def x():\n    """X."""\n')
    (project.home / "tools" / "folder.py").mkdir()
    make_pipe(project.home / "tools" / "pipe.py")
    (project.home / "tools" / "link.py").symlink_to("../other/f.py")

    box = project.open(
        'tools_dir: ["tools/*.py", "tools/*.py", "./tools/**/b.py", "more", "none/*.py"]'
    )

    packs = [p for p in box.registry.packs() if p not in ("time", "tools", "shell", "fs", "ot")]
    assert packs == ["a", "link", "b", "d"]
    assert list(box.parts.pack_names) == packs


@pytest.mark.slow
def test_the_outlines_are_kept_for_the_next_start(project: Project) -> None:
    path = project.write("tools/geo.py", GOOD)
    project.open().close()
    while found := list(project.root.glob("state/**/packs.*.json")):
        assert time.time() - path.stat().st_ctime > 0.1, (
            "what was written a moment ago is not trusted yet"
        )
        found[0].unlink()  # a slow machine: it was no longer a moment ago
        project.write("tools/geo.py", GOOD)
        project.open().close()
    assert until(lambda: time.time() - path.stat().st_ctime > 0.15)
    project.open().close()
    (cache,) = project.root.glob("state/**/packs.*.json")

    code = (
        "import sys, onetool_ipy\nbox ="
        f" onetool_ipy.open_toolbox({str(project.home / 'onetool.yaml')!r},"
        f" env={project.env!r})\nassert box.registry.get('geo.locate').description == 'Find a"
        " place.'\nprint('onetool_ipy.sources.outline_reader' in"
        " sys.modules)\nprint(box.call('geo.locate', {'place': 'a'}).data)"
    )
    done = python(code)
    assert done.stdout.split() == ["False", "a"]

    cache.write_text("{broken")
    box = project.open()
    assert box.call("geo.locate", {"place": "b"}).data == "b"


def test_a_state_folder_that_cannot_be_written_stops_nothing(project: Project) -> None:
    project.write("tools/geo.py", GOOD)
    (project.root / "state").write_text("not a folder")

    assert project.open().call("geo.locate", {"place": "a"}).data == "a"


async def test_async_calls_do_not_import_on_the_callers_loop(project: Project) -> None:
    project.write(
        "tools/geo.py",
        '''
        import threading
        WHERE = threading.current_thread().name
        async def give() -> str:
            """Give."""
            return WHERE
        ''',
    )
    box = project.open()

    assert (await box.acall("geo.give")).data == "onetool-worker"
    assert asyncio.get_running_loop()


def test_a_tool_may_come_from_a_file_with_its_own_encoding(project: Project) -> None:
    path = project.home / "tools" / "geo.py"
    path.parent.mkdir()
    path.write_bytes(
        '# -*- coding: latin-1 -*-\ndef give():\n    """Gib ä."""\n    return "ä"\n'.encode(
            "latin-1"
        )
    )
    box = project.open()

    assert box.registry.get("geo.give").description == "Gib ä."
    assert box.call("geo.give").data == "ä"


def test_the_folder_may_vanish(project: Project) -> None:
    project.write("tools/geo.py", GOOD)
    box = project.open()
    shutil.rmtree(project.home / "tools")

    assert box.call("geo.locate", {"place": "a"}).error.reason == "unavailable"
    assert box.call("geo.none").error.code == "tool_not_found"
    assert Path(project.home).exists()


def test_a_pack_is_named_as_python_reads_the_name_of_its_file(project: Project) -> None:
    """macOS, and archives made there, write an umlaut as two characters."""
    project.write(
        f"tools/{unicodedata.normalize('NFD', 'größe')}.py", GOOD.replace('pack = "geo"', "")
    )

    assert project.open().call("größe.locate", {"place": "a"}).data == "a"
