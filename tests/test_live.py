"""`from onetool_ipy.live import brave`: the pack of the current toolbox, anywhere."""

from __future__ import annotations

import pytest

from onetool_ipy import live, tool
from tests.harness.project import Project


def test_a_pack_is_imported_by_its_name(project: Project) -> None:
    project.write("tools/geo.py", 'def one(n: int = 1) -> int:\n    """One."""\n    return n\n')
    project.open()

    from onetool_ipy.live import geo, ot, time

    assert geo.one(5) == 5
    assert time.now()["timestamp"] > 0
    assert ot.version()


def test_ot_is_the_one_of_a_notebook(project: Project) -> None:
    box = project.open()

    from onetool_ipy.live import ot

    assert dir(ot) == dir(box.ot)
    assert {"run", "browser", "replay", "view", "usage"} <= set(dir(ot))
    assert ot.run("time.now").data["iso"]
    with ot.replay(project.root / "calls.yaml") as replaying:
        assert replaying is not None
    assert box.pack("ot") == box.ot


def test_a_cells_tool_is_in_nb(project: Project) -> None:
    project.open()

    @tool
    def twice(n: int) -> int:
        return n * 2

    from onetool_ipy.live import nb

    assert nb.twice(4) == 8


def test_it_is_the_pack_of_the_toolbox_that_is_current_now(project: Project) -> None:
    project.write("tools/geo.py", 'def one() -> str:\n    """One."""\n    return "first"\n')
    project.open()
    assert live.geo.one() == "first"

    project.write("tools/geo.py", 'def one() -> str:\n    """One."""\n    return "second"\n')
    project.open()

    assert live.geo.one() == "second"


def test_inside_a_tool_it_is_the_pack_of_the_tools_own_toolbox(
    project: Project, tmp_path: object
) -> None:
    project.write(
        "tools/geo.py",
        'def one() -> str:\n    """One."""\n    from onetool_ipy.live import low\n    return'
        " low.give()\n",
    )
    project.write("tools/low.py", 'def give() -> str:\n    """Give."""\n    return "low"\n')
    box = project.open()
    other = Project(project.root / "other")
    newest = other.open()

    assert box.call("geo.one").unwrap() == "low"
    newest.close()


def test_a_pack_that_is_not_there_names_the_nearest(project: Project) -> None:
    project.open()

    with pytest.raises(AttributeError, match=r"No pack 'tme'\. Did you mean 'time'\?"):
        live.tme  # noqa: B018
    with pytest.raises(ImportError, match=r"No pack 'tmie'\. Did you mean 'time'\?"):
        from onetool_ipy.live import tmie  # noqa: F401
    assert not hasattr(live, "zzzzzz")


def test_the_packs_are_listed_for_completion(project: Project) -> None:
    project.write("tools/geo.py", 'def one() -> int:\n    """One."""\n')
    project.open()

    assert {"geo", "time", "fs", "ot"} <= set(dir(live))
