"""`open_toolbox`: what it takes, what it costs, and that it runs nothing of the project."""

from __future__ import annotations

import datetime
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import InvalidConfig, open_toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import UsageProblem
from tests.harness.programs import python
from tests.harness.project import NOON, Project

HEAVY = ("pydantic", "pandas", "httpx", "jinja2", "yaml", "mcp", "ipywidgets", "rapidfuzz", "numpy")


def _python(code: str, cwd: Path, **env: str) -> Any:
    """What a process of its own prints as JSON."""
    surroundings = {**os.environ, "HOME": str(cwd), "ONETOOL_STATE": str(cwd / "state"), **env}
    done = python(code, cwd=cwd, env=surroundings)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_a_directory_without_configuration_has_everything_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with open_toolbox(env={"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}) as box:
        assert {"time", "tools", "shell", "fs", "ot"} <= set(box.registry.packs())
        assert box.problems() == []
        assert box.config.paths.config_file is None


def test_a_path_that_is_neither_text_nor_a_path_is_refused_in_a_sentence() -> None:
    path: Any = 5
    with pytest.raises(UsageProblem) as caught:
        open_toolbox(path)

    assert str(caught.value).startswith("The path of a project is text or a Path, not 5.")
    assert caught.value.hint == 'For example: open_toolbox("my-project")'


def test_opening_loads_nothing_heavy_starts_no_thread_and_prints_nothing(tmp_path: Path) -> None:
    found = _python(
        f"""
        import json, sys, threading, onetool_ipy
        box = onetool_ipy.open_toolbox()
        print(json.dumps([[m for m in {HEAVY!r} if m in sys.modules], threading.active_count()]))
        """,
        tmp_path,
    )

    assert found == [[], 1]


@pytest.mark.slow
def test_opening_a_project_with_a_warm_cache_loads_nothing_heavy(project: Project) -> None:
    """100 pack files and 100 definitions: the second start reads no Python text."""
    for i in range(100):
        path = project.write(
            f"tools/p{i}.py",
            f"import datetime\ndef act{i}(when: datetime.date, n: int = 1) -> int:\n   "
            ' """Act."""\n    return n\n',
        )
        os.utime(path, (1_700_000_000, 1_700_000_000))
    project.write(
        "onetool.yaml",
        "tools:\n"
        + "".join(
            f"  - {{name: t{i}, description: x, type: function, handler: x, parameters: {{type:"
            " object}, implementation: {type: mock, mock_response: 1}}\n"
            for i in range(100)
        ),
    )
    code = f"""
        import json, sys, time, onetool_ipy, onetool_ipy.assemble
        began = time.process_time()
        box = onetool_ipy.assemble.open_leniently({str(project.home / "onetool.yaml")!r})
        spent = time.process_time() - began
        loaded = [m for m in {({*HEAVY} - {"yaml"}) | {"onetool_ipy.sources.outline_reader"}!r} if m in sys.modules]
        print(json.dumps([loaded, len(box.parts.pack_names), spent, len(box.registry.list()) >= 200]))
        """
    threading.Event().wait(0.15)  # what was written a moment ago is not kept in the cache yet
    _python(code, project.root)

    loaded, packs, spent, complete = _python(code, project.root)

    assert loaded == []
    assert packs == 101
    assert complete
    assert spent < 5


def test_listing_the_tools_we_ship_loads_nothing_heavy(tmp_path: Path) -> None:
    """The schema of a built-in tool is made by pydantic when the tool is called."""
    code = f"""
        import json, sys, onetool_ipy
        box = onetool_ipy.open_toolbox()
        listed = len(box.registry.list())
        print(json.dumps([listed >= 24, [m for m in {HEAVY!r} if m in sys.modules]]))
        """

    assert _python(code, tmp_path) == [True, []]


def test_the_tools_we_ship_are_listed_as_they_are_checked(tmp_path: Path) -> None:
    with open_toolbox(env={"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}) as box:
        listed = box.registry.known()
        loaded = box.registry.loaded(listed)

        assert [spec.parameters for spec in listed] == [spec.parameters for spec in loaded]
        assert [spec.fingerprint for spec in listed] == [spec.fingerprint for spec in loaded]
        assert [spec.name for spec in loaded if spec.load is not None] == []


def test_opening_runs_nothing_of_the_project(project: Project) -> None:
    marker = project.root / "ran"
    project.write(
        "tools/x.py",
        f"import pathlib\npathlib.Path({str(marker)!r}).touch()\ndef f():\n    '''F.'''\n",
    )

    box = project.open()
    assert box.registry.get("x.f") is not None
    assert box.problems() == []

    assert not marker.exists()


def test_clock_and_environment_are_those_that_are_handed_over(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / ".onetool"
    folder.mkdir(parents=True)
    (folder / "onetool.yaml").write_text("timeouts: {local_s: 4}")

    with open_toolbox(
        env={"ONETOOL_CONFIG": str(folder / "onetool.yaml"), "HOME": "/"}, clock=lambda: NOON
    ) as box:
        assert box.config.settings.timeouts.local_s == 4
        assert box.call("time.now").data["iso"] == "2026-01-02T12:00:00.000Z"


@pytest.mark.parametrize("kind", ["file", "folder", "project"])
def test_the_path_may_be_the_file_its_folder_or_the_project(project: Project, kind: str) -> None:
    project.write("onetool.yaml", "timeouts: {local_s: 4}")
    path = {"file": project.home / "onetool.yaml", "folder": project.home, "project": project.root}[
        kind
    ]

    with open_toolbox(str(path), env=project.env) as box:
        assert box.config.settings.timeouts.local_s == 4


def test_a_folder_without_configuration_opens_as_it_does_from_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    env = {"HOME": str(tmp_path / "home"), "ONETOOL_STATE": str(tmp_path / "state")}
    with open_toolbox(folder, env=env) as box:
        named = (box.config.paths, box.config.trust.how)
        assert box.call("time.now").ok
    monkeypatch.chdir(folder)
    with open_toolbox(env=env) as box:
        inside = (box.config.paths, box.config.trust.how)

    assert [named[0].project, named[0].state, named[1]] == [
        inside[0].project,
        inside[0].state,
        inside[1],
    ]
    assert named[0].project == folder


def test_a_folder_inside_a_project_opens_the_project_as_it_does_from_inside(
    project: Project,
) -> None:
    project.write("onetool.yaml", "timeouts: {local_s: 4}")
    inner = project.root / "notebooks"
    inner.mkdir()

    with open_toolbox(inner, env={**project.env, "HOME": str(project.root.parent / "me")}) as box:
        assert box.config.settings.timeouts.local_s == 4
        assert box.config.paths.project == project.root
        assert box.config.trust.how != "named", "the folder was named, not the project above it"


def test_a_named_folder_whose_onetool_folder_has_no_settings_is_trusted(project: Project) -> None:
    project.write("tools/geo.py", 'def one() -> int:\n    """One."""\n    return 1\n')

    with open_toolbox(project.root, env=project.env) as box:
        assert box.config.trust.how == "named"
        assert box.call("geo.one").data == 1
        with box.reopen() as again:
            assert again.call("geo.one").data == 1


def test_bad_configuration_raises_with_every_fault_and_leaves_no_toolbox_behind(
    project: Project,
) -> None:
    from onetool_ipy.core import current

    before = current.toolbox()
    path = project.write("onetool.yaml", "timeouts: {local_s: soon}\nunknown: 1\n")

    with pytest.raises(InvalidConfig) as caught:
        open_toolbox(path, env=project.env)

    assert len(caught.value.problems) == 2
    assert "local_s" in str(caught.value)
    assert current.toolbox() is before


def test_a_notebook_opens_with_what_is_good(project: Project) -> None:
    project.write("tools/geo.py", 'def one() -> int:\n    """One."""\n    return 1\n')
    path = project.write("onetool.yaml", "timeouts: {local_s: soon}\nfs: {roots: []}\n")

    with open_leniently(path, env=project.env) as box:
        assert box.call("geo.one").data == 1
        assert box.config.settings.timeouts.local_s == 8
        assert any("local_s" in str(p) for p in box.problems())


def test_a_path_that_is_not_there_is_bad_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="there is no such file"):
        open_toolbox(tmp_path / "none.yaml")


def test_errors_are_logged_and_not_printed(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a handler of the program's own, Python would print a library's errors on stderr."""
    project.write("tools/bad.py", "def x(:\n")
    found = _python(
        f"""
        import json, onetool_ipy
        box = onetool_ipy.open_toolbox({str(project.write("onetool.yaml", "version: 1"))!r})
        print(json.dumps(len(box.problems())))
        """,
        project.root,
    )

    assert found == 1
    assert capfd.readouterr() == ("", "")


def test_a_working_directory_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    found = _python(
        f"""
        import json, os, onetool_ipy
        os.chdir({str(gone)!r})
        os.rmdir({str(gone)!r})
        box = onetool_ipy.open_toolbox(env={{"HOME": {str(tmp_path)!r}, "ONETOOL_STATE": {str(tmp_path / "s")!r}}})
        print(json.dumps(box.call("time.now").ok))
        """,
        tmp_path,
        PYTHONSAFEPATH="1",  # Python 3.13.0 itself cannot import numpy there without
    )

    assert found is True


def test_names_for_the_namespace_are_those_of_the_project(project: Project) -> None:
    project.write("tools/geo.py", 'def one() -> int:\n    """One."""\n')
    box = project.open(
        """
        tools:
          - {name: geo.rain, description: x, type: function, handler: x, parameters: {type: object},
             implementation: {type: mock, mock_response: 1}}
          - {name: bare, description: x, type: function, handler: x, parameters: {type: object},
             implementation: {type: mock, mock_response: 1}}
          - {name: web.get, description: x}
        """
    )

    assert list(box.parts.pack_names) == ["geo", "config", "web"]


def test_the_default_clock_is_aware_utc(tmp_path: Path) -> None:
    with open_toolbox(env={"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "s")}) as box:
        found = datetime.datetime.fromisoformat(box.call("time.now").data["iso"])
        assert found.utcoffset() == datetime.timedelta(0)
        assert abs((datetime.datetime.now(datetime.UTC) - found).total_seconds()) < 60
