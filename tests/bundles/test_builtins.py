"""The switches of the built-in bundles: one small file that every process reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onetool_ipy.base.errors import Conflict
from onetool_ipy.bundles.builtins import BUILTINS, BuiltInSwitches
from tests.bundles.aids import ProjectBundles


@pytest.mark.spec("002/Behaviour/Built-in isEnabled is mutable")
def test_a_built_in_tool_has_a_switch_of_its_own_that_other_processes_honour(
    project_bundles: ProjectBundles,
) -> None:
    tools = project_bundles.bundles.named("tools")
    other = project_bundles.another()
    assert tools is not None
    assert other.call("tools.echo", {"message": 1}).data == 1

    project_bundles.bundles.patch_tool(tools.bundle_id, "echo", "1", enabled=False)
    other.registry.refresh()

    assert other.call("tools.echo", {"message": 1}).error.reason == "disabled"  # type: ignore[union-attr]
    assert other.call("time.now").ok
    assert other.bundles.get_tool(tools.bundle_id, "echo", "1").is_enabled is False
    assert "echo" not in [tool.slug for tool in other.bundles.list_tools()]
    project_bundles.bundles.patch_tool(tools.bundle_id, "echo", "1", enabled=True)
    other.registry.refresh()
    assert other.call("tools.echo", {"message": 2}).data == 2


def test_what_another_process_switched_is_known_at_the_next_question(tmp_path: Path) -> None:
    (tools,) = [bundle for bundle in BUILTINS if bundle.slug == "tools"]
    (echo,) = [tool for tool in tools.tools if tool.slug == "echo"]
    ours, theirs = BuiltInSwitches(tmp_path), BuiltInSwitches(tmp_path)
    assert ours.reason(echo.func) == ""

    theirs.switch(echo.tool_id, enabled=False)
    assert "%tool bundle on tools.echo@1" in ours.reason(echo.func)
    theirs.switch(echo.tool_id, enabled=True)
    assert ours.reason(echo.func) == ""
    theirs.switch(tools.bundle_id, enabled=False)
    assert ours.reason(echo.func).endswith("Turn it on with: %tool bundle on tools")
    theirs.switch(tools.bundle_id, enabled=True)

    (tmp_path / "builtins.json").write_text("{")
    assert len(ours.problems()) == 1


def test_switches_that_threads_turn_at_once_are_all_turned(
    project_bundles: ProjectBundles,
) -> None:
    """Each through a toolbox of its own, as processes do."""
    tools = [(bundle.bundle_id, tool) for bundle in BUILTINS for tool in bundle.tools]
    boxes = [project_bundles.another() for _ in tools]

    def turn(number: int, *, enabled: bool) -> None:
        bundle_id, tool = tools[number]
        boxes[number].bundles.patch_tool(bundle_id, tool.slug, "1", enabled=enabled)

    with ThreadPoolExecutor(len(tools)) as threads:
        list(threads.map(lambda number: turn(number, enabled=False), range(len(tools))))
        switches = BuiltInSwitches(project_bundles.root)
        assert all(switches.reason(tool.func) for _, tool in tools)
        list(threads.map(lambda number: turn(number, enabled=True), range(1, len(tools))))

    assert [tool.func for _, tool in tools if switches.reason(tool.func)] == [tools[0][1].func]


def test_a_damaged_overlay_switches_nothing_off_and_is_a_problem(
    project_bundles: ProjectBundles,
) -> None:
    project_bundles.root.mkdir()
    overlay = project_bundles.root / "builtins.json"
    for text in (
        "{",
        "[]",
        '{"format": 1}',
        '{"format": "x", "disabled": []}',
        '{"format": 1, "disabled": 7}',
    ):
        overlay.write_text(text)
        assert project_bundles.box.call("time.now").ok
        [problem] = [
            each for each in project_bundles.box.problems() if "builtins.json" in each.where
        ]
        assert "is damaged: " in problem.message, text
        assert problem.hint.endswith("Correct or delete the file.")
        builtin = project_bundles.bundles.named("time")
        assert builtin is not None
        with pytest.raises(Conflict, match="is damaged"):
            project_bundles.bundles.patch_bundle(builtin.bundle_id, enabled=False)
        assert overlay.read_text() == text

    overlay.unlink()
    overlay.symlink_to("nowhere")
    [problem] = [each for each in project_bundles.box.problems() if "builtins.json" in each.where]
    assert problem.message == "is damaged: it is a link to a file that does not exist."
    overlay.unlink()

    overlay.write_text('{"format": 0, "disabled": []}')
    [problem] = [each for each in project_bundles.box.problems() if "builtins.json" in each.where]
    assert (problem.message, "Update" in problem.hint) == (
        "has format 0; this version knows 1.",
        False,
    )

    overlay.write_text('{"format": 2, "disabled": []}')
    time = project_bundles.bundles.named("time")
    assert time is not None
    with pytest.raises(Conflict, match="format 2"):
        project_bundles.bundles.patch_bundle(time.bundle_id, enabled=False)
    assert overlay.read_text() == '{"format": 2, "disabled": []}'
