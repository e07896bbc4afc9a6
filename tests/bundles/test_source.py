"""Tools of bundles in the registry: their names, their versions, and what their switches do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.base.errors import NoSuchTool
from onetool_ipy.core.tool import ToolSpec
from tests.bundles.aids import ProjectBundles, go
from tests.harness.project import Project
from tests.harness.stub import Stub


def spec(project_bundles: ProjectBundles, name: str) -> ToolSpec:
    found = project_bundles.box.registry.get(name)
    assert found is not None, name
    return found


def test_a_tool_is_found_by_its_plain_name_and_by_each_version(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    for version in ("1.0", "2.0"):
        project_bundles.clock.turn(seconds=1)
        project_bundles.tool(bundle, "get-user", version, description=f"Number {version}.")

    assert spec(project_bundles, "my-api.get-user").description == "Number 2.0."
    assert spec(project_bundles, "my-api.get-user@1.0").description == "Number 1.0."
    assert (
        project_bundles.box.call("my-api.get-user@1.0", {"message": "x"}).meta["tool"]
        == "my-api.get-user@1.0"
    )
    assert spec(project_bundles, "my-api.get-user").origin == "bundle"


def test_versions_are_found_and_not_listed(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, "say", "1")

    names = [one.name for one in project_bundles.box.registry.list()]

    assert names.count("my-api.say") == 1
    assert not [name for name in names if "@" in name]
    assert [one.name for one in project_bundles.box.registry.unlisted()] == ["my-api.say@1"]
    assert project_bundles.box.ot.tools(pattern="my-api", info="list") == ["my-api.say"]
    assert [one.name for one in project_bundles.box.registry.pack("my-api") or ()] == ["my-api.say"]


def test_dashes_are_underscores_in_python(project_bundles: ProjectBundles) -> None:
    from onetool_ipy.sdk import call_tool

    bundle = project_bundles.bundle("my-api")
    project_bundles.tool(bundle, "get-user", "1.0")
    pack = project_bundles.box.pack("my_api")

    assert pack is not None
    assert pack.get_user(message="a") == "a"
    assert pack["get-user"](message="b") == "b"
    assert pack["get-user@1.0"](message="c") == "c"
    assert project_bundles.box.pack("my-api").get_user("d") == "d"  # type: ignore[union-attr]
    assert call_tool("my_api.get_user", message="e") == "e"
    assert dir(pack) == ["get_user"]
    with pytest.raises(NoSuchTool):
        pack.nope  # noqa: B018 - looking is the point


def test_the_enabled_version_changed_last_has_the_plain_name(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    for version in ("1", "2", "3"):
        project_bundles.clock.turn(seconds=1)
        project_bundles.tool(bundle, "say", version, description=f"Number {version}.")

    project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "3", enabled=False)
    assert spec(project_bundles, "my-api.say").description == "Number 2."
    project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "3", enabled=True)
    assert spec(project_bundles, "my-api.say").description == "Number 3."
    project_bundles.bundles.delete_tool(bundle.bundle_id, "say", "3")
    assert spec(project_bundles, "my-api.say").description == "Number 2."


def test_a_tool_that_is_off_says_which_switch_and_how_to_turn_it(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=False)

    for name in ("my-api.say", "my-api.say@1"):
        failed = project_bundles.box.call(name, {"message": "x"}).error
        assert failed is not None
        assert (failed.code, failed.reason) == ("tool_not_found", "disabled")
        assert "version '1' is off. Turn it on with: %tool bundle on my-api.say@1" in failed.message
        assert spec(project_bundles, name).disabled

    project_bundles.bundles.patch_bundle(bundle.bundle_id, enabled=False)
    failed = project_bundles.box.call("my-api.say", {"message": "x"}).error
    assert failed is not None
    assert "its bundle 'my-api' is off. Turn it on with: %tool bundle on my-api" in failed.message


def test_another_toolboxs_switch_counts_at_the_next_call(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    other = project_bundles.another()
    assert other.call("my-api.say", {"message": "x"}).ok

    project_bundles.bundles.patch_bundle(bundle.bundle_id, enabled=False)
    assert other.call("my-api.say", {"message": "x"}).error.reason == "disabled"  # type: ignore[union-attr]
    project_bundles.bundles.patch_bundle(bundle.bundle_id, enabled=True)
    assert other.call("my-api.say", {"message": "x"}).ok


def test_another_toolboxs_tools_are_in_the_next_list(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    other = project_bundles.another()
    assert other.ot.tools(pattern="my-api", info="list") == []

    project_bundles.tool(bundle)
    assert other.ot.tools(pattern="my-api", info="list") == ["my-api.say"]
    time = project_bundles.bundles.named("time")
    assert time is not None
    project_bundles.bundles.patch_bundle(time.bundle_id, enabled=False)
    assert [one.name for one in other.registry.list() if one.disabled] == ["time.now"]
    project_bundles.bundles.delete_tool(bundle.bundle_id, "say", "1")
    assert other.ot.tools(pattern="my-api", info="list") == []


async def test_switches_count_for_async_calls_too(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    other = project_bundles.another()

    assert (await other.acall("my-api.say", {"message": "x"}, source="rest")).data == "x"
    project_bundles.bundles.patch_bundle(bundle.bundle_id, enabled=False)
    assert (await other.acall("my-api.say", {"message": "x"})).error.reason == "disabled"  # type: ignore[union-attr]


def test_a_new_bundle_with_an_old_slug_takes_over_the_name(project_bundles: ProjectBundles) -> None:
    first = project_bundles.bundle()
    project_bundles.tool(first)
    other = project_bundles.another()
    assert other.call("my-api.say", {"message": "x"}).ok
    project_bundles.bundles.delete_tool(first.bundle_id, "say", "1")
    project_bundles.bundles.delete_bundle(first.bundle_id)

    second = project_bundles.bundle()
    project_bundles.tool(second, func="shell.pwd", argSchema={"type": "object"})

    assert other.call("my-api.say", {}).ok
    assert other.bundles.invoke(second.bundle_id, "say", "1", {}).ok


def test_a_renamed_bundle_moves_its_tools(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)

    project_bundles.bundles.put_bundle(bundle.bundle_id, slug="new-api", display_name="New")

    assert project_bundles.box.call("new-api.say", {"message": "x"}).ok
    assert project_bundles.box.call("my-api.say", {"message": "x"}).error.code == "tool_not_found"  # type: ignore[union-attr]


def test_a_pack_that_comes_later_keeps_its_name_and_the_bundle_is_a_problem(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle("geo")
    project_bundles.tool(bundle, "find")
    project_bundles.project.write(
        "tools/geo.py", 'pack = "geo"\n\ndef find() -> int:\n    """Find."""\n    return 1\n'
    )
    box = project_bundles.another()

    assert box.call("geo.find").data == 1
    assert any("'geo.find' is taken" in str(problem) for problem in box.problems())
    assert box.bundles.invoke(bundle.bundle_id, "find", "1", {"message": "x"}).data == "x"


def test_long_slugs_make_long_names_that_work(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle("𐐀" * 64)
    project_bundles.tool(bundle, "ü" * 64, "x" * 64)

    name = f"{'𐐀' * 64}.{'ü' * 64}"
    assert project_bundles.box.call(name, {"message": "x"}).ok
    assert project_bundles.box.call(f"{name}@{'x' * 64}", {"message": "x"}).ok


def test_a_call_is_checked_logged_and_masked_as_any_other(project_bundles: ProjectBundles) -> None:
    project_bundles.project.write("secrets.yaml", "KEY: very-secret-value\n", mode=0o600)
    box = project_bundles.another()
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)

    box.call("my-api.say", {"message": "very-secret-value"}, source="model")

    row = next(row for row in box.log.history() if row.tool == "my-api.say")
    assert "very-secret-value" not in str(row)
    assert row.source == "model"


def test_a_reload_keeps_the_bundles(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)

    project_bundles.box.reload()

    assert project_bundles.box.call("my-api.say", {"message": "x"}).ok
    assert project_bundles.box.bundles.get_bundle(bundle.bundle_id).slug == "my-api"


def test_help_and_search_know_the_tools(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.bundles.put_tool(
        bundle.bundle_id, "say", "1", go(description="Give a zebra back.")
    )

    assert "Give a zebra back." in str(project_bundles.box.ot.help(query="my-api.say"))
    assert "my-api.say" in str(project_bundles.box.ot.help(query="zebra"))


def test_versions_are_completed_behind_the_at_sign(project_bundles: ProjectBundles) -> None:
    from onetool_ipy.faces.notebook.completion import CompletionContext, complete

    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, "say", "1.0")
    project_bundles.tool(bundle, "say", "2.0")
    sight = CompletionContext(project_bundles.box, (), {})

    plain = complete("%tool my-api.s", sight)
    single = complete("%tool my-api.say@", sight)

    assert plain is not None
    assert [offer.text for offer in plain.offers] == ["my-api.say"]
    assert single is not None
    assert [offer.text for offer in single.offers] == ["my-api.say@1.0", "my-api.say@2.0"]


def test_a_number_is_written_out_only_for_a_path_query_or_header(project: Project) -> None:
    """In a JSON body it stays what it is, for every caller; where the schema wants text there, it
    is refused."""
    text = {"type": "string"}
    properties = dict.fromkeys(("id", "q", "h", "both", "s"), text) | {
        "b": {},
        "nested": {"type": "object"},
    }
    request = {
        "method": "POST",
        "urlTemplate": "/things/${id}",
        "query": {"q": "${q}", "both": "${both}"},
        "headers": {"X-H": "${h}"},
        "body": {"b": "${b}", "nested": "${nested}", "both": "${both}", "s": "${s}"},
    }
    record = {
        "type": "http",
        "http": {"request": request},
        "argSchema": {"type": "object", "properties": properties},
    }
    with Stub(
        lambda asked: (
            200,
            {"target": asked.target, "h": asked.headers.get("x-h"), "body": json.loads(asked.body)},
        )
    ) as api:
        box = project.open(f"version: 1\nhttp: {{allowed_hosts: ['127.0.0.1:{api.port}']}}")
        bundle = box.bundles.put_bundle(
            box.bundles.new_id(), slug="web", display_name="Web", base_url=api.url("")
        )
        box.bundles.put_tool(bundle.bundle_id, "post", "1", record)
        args: dict[str, Any] = {
            "id": 7,
            "q": 1.5,
            "h": False,
            "b": True,
            "nested": {"b": True, "n": [1]},
        }

        for source in ("python", "model", "rest"):
            sent = box.call("web.post", args, source=source).data
            assert sent["target"] == "/things/7?q=1.5"
            assert (sent["h"], sent["body"]) == (
                "false",
                {"b": True, "nested": {"b": True, "n": [1]}},
            )
        for wrong in ("s", "both"):
            error = box.call("web.post", {**args, wrong: True}).error
            assert error is not None
            assert error.code == "invalid_args"
        assert len(api.asked) == 3


def test_bundles_with_the_line_ends_of_windows_are_the_same(
    project_bundles: ProjectBundles,
) -> None:
    """Git writes them there."""
    project_bundles.tool(project_bundles.bundle(), "say", "1")
    files = [file for file in project_bundles.root.rglob("*") if file.is_file()]
    for file in files:
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    again = project_bundles.another()

    assert sum(b"\r\n" in file.read_bytes() for file in files) >= 2
    assert again.call("my-api.say", {"message": "x"}).unwrap() == "x"
    assert again.ot.health()["problems"] == []
