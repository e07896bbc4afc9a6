"""Tools of bundles: every verb of 002 on them, calls, counters, lists and search."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from onetool_ipy import ToolResult
from onetool_ipy.base.errors import Conflict, Forbidden, InvalidRequest, NotFound
from onetool_ipy.base.files import is_young, stamp_of
from onetool_ipy.core.executor import MAX_DEPTH
from tests.bundles.aids import ProjectBundles, go, http
from tests.core.support import Calls
from tests.harness.patience import until
from tests.harness.project import Project


@pytest.mark.spec("002/API Tools/PUT conflicts on the same pair")
@pytest.mark.spec("002/Behaviour/PUT on an existing pair leaves it unchanged")
@pytest.mark.spec("002/Data Model/Slug and version unique in a bundle")
def test_put_of_an_existing_pair_is_a_conflict_and_changes_nothing(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    first = project_bundles.tool(bundle, description="first")
    file = project_bundles.root / bundle.slug / f"{first.slug}@{first.version}.json"
    before = file.read_bytes()

    with pytest.raises(Conflict, match="has version '1' of 'say' already") as caught:
        project_bundles.tool(bundle, description="second")

    assert (caught.value.code, caught.value.status) == ("conflict", 409)
    assert file.read_bytes() == before
    assert project_bundles.bundles.get_tool(bundle.bundle_id, "say", "1") == first
    assert len(list((project_bundles.root / bundle.slug).iterdir())) == 2


@pytest.mark.spec("002/Data Model/Same pair may repeat across bundles")
def test_same_pair_in_two_bundles(project_bundles: ProjectBundles) -> None:
    one, two = project_bundles.bundle("one"), project_bundles.bundle("two")

    assert project_bundles.tool(one).pair == project_bundles.tool(two, func="tools.echo").pair
    assert (
        project_bundles.box.call("one.say", {"message": "a"}).data
        == project_bundles.box.call("two.say", {"message": "a"}).data
        == "a"
    )


def test_a_tool_is_found_without_a_look_at_all_others(project_bundles: ProjectBundles) -> None:
    """What another process changed is seen all the same."""
    own = project_bundles.bundle().bundle_id
    bundles = project_bundles.bundles
    bundles.put_tools(own, [(f"say-{number}", "1", http()) for number in range(5)])
    files = [*project_bundles.root.rglob("*"), project_bundles.root]
    until(lambda: not any(is_young(stamp) for file in files if (stamp := stamp_of(file))))
    bundles.find_tool(own, "say-3", "1")

    with Calls("BundleStore._scan") as count:
        tool, name = bundles.find_tool(own, "say-3", "1")
    assert (tool.slug, name, count) == ("say-3", "my-api.say-3@1", {"BundleStore._scan": 0})

    project_bundles.another().bundles.patch_tool(own, "say-3", "1", enabled=False)
    assert not bundles.find_tool(own, "say-3", "1")[0].is_enabled
    project_bundles.another().bundles.delete_tool(own, "say-3", "1")
    with pytest.raises(NotFound):
        bundles.find_tool(own, "say-3", "1")
    with pytest.raises(NotFound):
        bundles.find_tool(own, "say-4", "2")


def test_put_of_many_is_all_or_none(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, "taken")

    with pytest.raises(Conflict):
        project_bundles.bundles.put_tools(
            bundle.bundle_id, [("a", "1", go()), ("taken", "1", go())]
        )
    with pytest.raises(Conflict):
        project_bundles.bundles.put_tools(bundle.bundle_id, [("a", "1", go()), ("a", "1", go())])
    with pytest.raises(InvalidRequest):
        project_bundles.bundles.put_tools(bundle.bundle_id, [("a", "1", go()), ("b", "1", {})])
    assert [
        tool.slug for tool in project_bundles.bundles.list_tools(bundle_ids=[bundle.bundle_id])
    ] == ["taken"]

    made = project_bundles.bundles.put_tools(
        bundle.bundle_id, [(f"t{number}", "1", go()) for number in range(40)]
    )
    assert [tool.slug for tool in made] == [f"t{number}" for number in range(40)]


@pytest.mark.spec("002/API Tools/GET one tool")
def test_get_gives_the_record(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    made = project_bundles.tool(bundle, "say", "1.0")

    assert project_bundles.bundles.get_tool(bundle.bundle_id, "say", "1.0") == made
    with pytest.raises(NotFound, match=r"no version '2' of a tool 'say'"):
        project_bundles.bundles.get_tool(bundle.bundle_id, "say", "2")
    with pytest.raises(NotFound):
        project_bundles.bundles.get_tool(bundle.bundle_id, "SAY", "1.0")


@pytest.mark.spec("002/API Tools/PATCH only isEnabled")
def test_patch_switches_one_version_and_nothing_else(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    made = project_bundles.tool(bundle)
    project_bundles.clock.turn(hours=1)

    off = project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=False)

    assert off.to_dict() == {**made.to_dict(), "isEnabled": False}
    assert project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=True) == made
    with pytest.raises(InvalidRequest):
        project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=None)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(NotFound):
        project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "2", enabled=True)


@pytest.mark.spec("002/API Tools/DELETE hard-deletes")
def test_delete_removes_the_file(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    made = project_bundles.tool(bundle)

    project_bundles.bundles.delete_tool(bundle.bundle_id, "say", "1")

    assert not (project_bundles.root / bundle.slug / f"{made.slug}@{made.version}.json").exists()
    with pytest.raises(NotFound):
        project_bundles.bundles.delete_tool(bundle.bundle_id, "say", "1")
    assert project_bundles.box.call("my-api.say", {"message": "x"}).error.code == "tool_not_found"  # type: ignore[union-attr]
    assert project_bundles.tool(bundle).tool_id != made.tool_id


@pytest.mark.spec("002/Behaviour/No PUT or PATCH inside a disabled bundle")
@pytest.mark.spec("002/Terminology/Bundle is one switch for its tools")
def test_inside_a_disabled_bundle_only_get_and_delete_work(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    project_bundles.bundles.patch_bundle(bundle.bundle_id, enabled=False)

    for verb in (
        lambda: project_bundles.tool(bundle, "other"),
        lambda: project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=False),
    ):
        with pytest.raises(Forbidden, match="bundle 'my-api' is off"):
            verb()
    refused = project_bundles.bundles.invoke(bundle.bundle_id, "say", "1", {"message": "x"})
    assert (refused.error.code, refused.error.reason, refused.error.status) == (
        "tool_not_found",
        "disabled",
        403,
    )  # type: ignore[union-attr]
    assert project_bundles.bundles.get_tool(bundle.bundle_id, "say", "1").is_enabled is True
    project_bundles.bundles.delete_tool(bundle.bundle_id, "say", "1")
    assert (
        project_bundles.bundles.list_tools(
            bundle_ids=[bundle.bundle_id], include_disabled=True
        ).items
        == []
    )


@pytest.mark.spec("002/Data Model/Version is an opaque label")
@pytest.mark.spec("002/Data Model/Slug and version are case-sensitive")
def test_versions_have_no_order(project_bundles: ProjectBundles) -> None:
    """The plain name stands for what was changed last, whatever the labels look like."""
    bundle = project_bundles.bundle()
    for label in ("10.0", "2.0", "v2", "V2", "latest"):
        project_bundles.clock.turn(seconds=1)
        project_bundles.tool(bundle, "say", label, description=f"This is {label}.")

        assert project_bundles.box.registry.get("my-api.say").description == f"This is {label}."  # type: ignore[union-attr]


@pytest.mark.spec("002/API Tools/POST invoke takes args")
@pytest.mark.spec("002/Invocation/Returns ok value or ok error")
@pytest.mark.spec("002/Invocation/Go dispatches to the registered function")
@pytest.mark.spec("002/Objectives/Go tools are local calls")
def test_invoke_calls_the_registered_function(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, "say", "1.0")
    project_bundles.tool(bundle, "py", "1.0", type="python")

    for slug in ("say", "py"):
        good = project_bundles.bundles.invoke(bundle.bundle_id, slug, "1.0", {"message": "hi"})
        assert isinstance(good, ToolResult)
        assert good.as_invoke() == {"ok": True, "value": "hi"}
        assert good.meta["tool"] == f"my-api.{slug}@1.0"


@pytest.mark.spec("002/Invocation/Args are checked against argSchema with 400")
def test_args_are_checked_against_arg_schema(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)

    for args in ({}, {"message": 7}, [], "x", 3):
        bad = project_bundles.bundles.invoke(bundle.bundle_id, "say", "1", args)  # type: ignore[arg-type]  # on purpose
        assert bad.as_invoke()["ok"] is False
        assert (bad.error.code, bad.error.status) == ("invalid_args", 400), args  # type: ignore[union-attr]


def test_invoke_of_what_is_not_there_is_data(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()

    for own in (bundle.bundle_id, project_bundles.bundles.new_id()):
        missing = project_bundles.bundles.invoke(own, "nope", "1", {})
        assert (missing.error.code, missing.error.status) == ("tool_not_found", 404)  # type: ignore[union-attr]


@pytest.mark.spec("002/Invocation/Response is checked against outputSchema")
def test_output_of_a_function_is_checked(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, outputSchema={"type": "string", "maxLength": 3})

    assert project_bundles.box.call("my-api.say", {"message": "abc"}).data == "abc"
    bad = project_bundles.box.call("my-api.say", {"message": "abcd"})
    assert (bad.error.code, bad.error.reason) == ("execution_error", "invalid_output")  # type: ignore[union-attr]


@pytest.mark.spec("002/Pending/maxCallsPerMinute")
def test_calls_per_minute_hold_for_every_version_of_the_name(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, limits={"maxCallsPerMinute": 2})

    assert project_bundles.box.call("my-api.say", {"message": "a"}).ok
    assert project_bundles.bundles.invoke(bundle.bundle_id, "say", "1", {"message": "a"}).ok
    project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=False)
    project_bundles.bundles.patch_tool(bundle.bundle_id, "say", "1", enabled=True)
    limited = project_bundles.box.call("my-api.say", {"message": "a"})
    assert (limited.error.reason, limited.error.status) == ("rate_limited", 429)  # type: ignore[union-attr]
    project_bundles.clock.turn(seconds=61)
    assert project_bundles.box.call("my-api.say", {"message": "a"}).ok


@pytest.mark.spec("002/Objectives/A vanished function is marked not rewritten")
def test_a_vanished_function_is_marked_and_comes_back(project_bundles: ProjectBundles) -> None:
    source = (
        'pack = "geo"\n\ndef find(message: str) -> str:\n    """Find."""\n    return message +'
        ' "!"\n'
    )
    file = project_bundles.project.write("tools/geo.py", source)
    box = project_bundles.another()
    bundle = project_bundles.bundle()
    made = box.bundles.put_tool(bundle.bundle_id, "find", "1", go("geo.find"))
    record = project_bundles.root / bundle.slug / f"{made.slug}@{made.version}.json"
    before = record.read_bytes()
    assert (made.available, made.reason) == (True, None)
    assert box.call("my-api.find", {"message": "a"}).data == "a!"

    file.unlink()
    gone = box.bundles.get_tool(bundle.bundle_id, "find", "1")
    failed = box.call("my-api.find", {"message": "a"})
    problems = [str(problem) for problem in box.problems()]

    assert gone.available is False
    assert "no function 'geo.find'" in (gone.reason or "")
    assert failed.error.reason == "unavailable"  # type: ignore[union-attr]
    assert any("'geo.find' is not there" in text for text in problems)
    assert record.read_bytes() == before
    file.write_text(source)
    assert box.bundles.get_tool(bundle.bundle_id, "find", "1").available is True
    assert box.call("my-api.find", {"message": "b"}).data == "b!"


def test_a_function_that_is_not_there_can_be_named_before_it_is(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()

    made = project_bundles.tool(bundle, func="later.on")

    assert made.available is False


@pytest.mark.parametrize("circle", [["say"], ["say", "tell", "shout"]], ids=["itself", "by others"])
def test_a_tool_that_calls_itself_ends_and_is_logged(
    project_bundles: ProjectBundles, circle: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    bundle = project_bundles.bundle()
    for name, inner in zip(circle, [*circle[1:], circle[0]], strict=True):
        project_bundles.tool(bundle, name, func=f"my-api.{inner}")
    box = project_bundles.box

    failed = box.call("my-api.say", {"message": "a"})

    assert failed.error.reason == "recursion"  # type: ignore[union-attr]
    assert sum(box.log.count_of(f"my-api.{name}")[0] for name in circle) == 1 + MAX_DEPTH
    assert len({box.registry.require(f"my-api.{name}").fingerprint for name in circle}) == len(
        circle
    )
    assert caplog.messages == []


@pytest.mark.spec("002/Invocation/lastCalledAt and callCount are updated")
def test_counters_come_from_the_call_log(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    project_bundles.clock.turn(minutes=5)

    project_bundles.bundles.invoke(bundle.bundle_id, "say", "1", {"message": "a"})
    project_bundles.box.call("my-api.say", {"message": "a"})
    project_bundles.another().call("my-api.say", {"message": 7})

    found = project_bundles.bundles.get_tool(bundle.bundle_id, "say", "1")
    assert (found.call_count, found.last_called_at) == (3, project_bundles.clock.now)
    assert project_bundles.bundles.list_tools(bundle_ids=[bundle.bundle_id])[0].call_count == 3
    assert found.modified_at < project_bundles.clock.now


@pytest.mark.spec("002/API Tools/GET global list with its filters")
@pytest.mark.spec("002/Objectives/List enable disable and invoke")
def test_list_takes_tags_bundles_and_disabled(project_bundles: ProjectBundles) -> None:
    one, two = project_bundles.bundle("one"), project_bundles.bundle("two")
    project_bundles.tool(one, "a", tags=["red"])
    project_bundles.tool(one, "b", tags=["blue", "green"])
    project_bundles.tool(two, "c", tags=["red"])
    project_bundles.tool(two, "d")
    project_bundles.bundles.patch_tool(one.bundle_id, "b", "1", enabled=False)

    def slugs(**query: Any) -> list[str]:
        return [tool.slug for tool in project_bundles.bundles.list_tools(**query)]

    both = [one.bundle_id, two.bundle_id]
    assert slugs(bundle_ids=both) == ["a", "c", "d"]
    assert slugs(bundle_ids=both, include_disabled=True) == ["a", "b", "c", "d"]
    assert slugs(tags=["red"]) == ["a", "c"]
    assert slugs(tags=["red", "green"], include_disabled=True) == ["a", "b", "c"]
    assert slugs(tags=["red"], bundle_ids=[two.bundle_id]) == ["c"]
    assert slugs(tags=["nope"]) == []
    project_bundles.bundles.patch_bundle(two.bundle_id, enabled=False)
    assert slugs(bundle_ids=both) == ["a"]
    with pytest.raises(InvalidRequest, match="tags"):
        slugs(tags=[1])


def test_all_rows_are_those_of_every_page_also_disabled_ones(
    project_bundles: ProjectBundles,
) -> None:
    one, two = project_bundles.bundle("one"), project_bundles.bundle("two")
    for bundle, slug in ((one, "a"), (two, "b"), (one, "c")):
        project_bundles.tool(bundle, slug)
    bundles = project_bundles.bundles
    bundles.patch_tool(one.bundle_id, "a", "1", enabled=False)
    bundles.patch_bundle(two.bundle_id, enabled=False)
    every: dict[str, Any] = {"include_disabled": True, "page_size": 256}

    assert [row.to_dict() for row in bundles.all_bundles()] == bundles.list_bundles(
        **every
    ).to_dict()["items"]
    assert [row.to_dict() for row in bundles.all_tools()] == bundles.list_tools(**every).to_dict()[
        "items"
    ]
    assert [tool.slug for tool in bundles.all_tools()][-3:] == ["a", "b", "c"]
    assert [tool.slug for tool in bundles.all_tools(one.bundle_id)] == ["a", "c"]


@pytest.mark.spec("002/API Tools/GET global search with its filters")
@pytest.mark.spec("002/Behaviour/Search ranks prefix word fuzzy recency")
def test_search_ranks_prefix_word_fuzzy_then_recency(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle("weather")
    for slug, words in (
        ("fetch", "Say what the forecast is."),
        ("forecast-b", "x"),
        ("forcast", "x"),
        ("forecast-a", "x"),
        ("other", "x"),
    ):
        project_bundles.clock.turn(seconds=1)
        project_bundles.tool(bundle, slug, description=words)

    found = [tool.slug for tool in project_bundles.bundles.search("forecast")]

    assert found == ["forecast-a", "forecast-b", "fetch", "forcast"]


@pytest.mark.spec("002/Behaviour/Search ranks prefix word fuzzy recency")
def test_equal_hits_come_newest_first(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle("weather")
    for version in ("2", "1", "3"):
        project_bundles.clock.turn(seconds=1)
        project_bundles.tool(bundle, "forecast", version)

    assert [tool.version for tool in project_bundles.bundles.search("forecast")] == ["3", "1", "2"]
    assert [tool.slug for tool in project_bundles.bundles.search("")][:1] == ["forecast"]


@pytest.mark.spec("002/Behaviour/Disabled rows only with includeDisabled")
def test_search_leaves_out_what_is_off(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle("weather")
    project_bundles.tool(bundle, "forecast")
    project_bundles.bundles.patch_tool(bundle.bundle_id, "forecast", "1", enabled=False)

    assert project_bundles.bundles.search("forecast").items == []
    assert [
        tool.slug for tool in project_bundles.bundles.search("forecast", include_disabled=True)
    ] == ["forecast"]


def test_search_sees_what_was_put_by_another(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    other = project_bundles.another()
    assert other.bundles.search("zebra").items == []

    project_bundles.tool(bundle, "zebra")

    assert [tool.slug for tool in other.bundles.search("zebra")] == ["zebra"]


@pytest.mark.spec("002/Objectives/HTTP tools are one or many REST calls")
@pytest.mark.spec("002/Invocation/HTTP builds the request from templates")
def test_an_http_tool_is_a_tool_like_any_other(project: Project) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, json={"path": request.url.path, "q": request.url.params.get("q")}
        )

    config = "version: 1\nhttp: {allowed_hosts: [api.example.com], allow_private: true}"
    project_bundles = ProjectBundles(project, config=config, transport=httpx.MockTransport(answer))
    bundle = project_bundles.bundle()
    record = http(
        "https://api.example.com/users/${id}",
        argSchema={"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    )
    project_bundles.bundles.put_tool(bundle.bundle_id, "get-user", "1", record)

    called = project_bundles.box.call("my-api.get-user", {"id": 7})

    assert called.data == {"path": "/users/7", "q": None}
    assert called.meta["status"] == 200
    assert called.meta["attempts"] == 1
    assert (
        project_bundles.bundles.invoke(bundle.bundle_id, "get-user", "1", {"id": 8}).data["path"]
        == "/users/8"
    )
    assert project_bundles.box.pack("my_api").get_user(id=9)["path"] == "/users/9"  # type: ignore[union-attr]
    assert project_bundles.bundles.preview(bundle.bundle_id, "get-user", "1", {"id": 9})[0][
        "url"
    ].endswith("/users/9")
    assert project_bundles.bundles.draft(record).preview({"id": 1})[0]["method"] == "GET"
    with pytest.raises(InvalidRequest):
        project_bundles.bundles.draft(go())


@pytest.mark.spec("002/Data Model/Host must be in allowedHosts")
def test_a_host_that_is_not_allowed_is_refused_at_the_call(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.bundles.put_tool(bundle.bundle_id, "get", "1", http())

    refused = project_bundles.bundles.invoke(bundle.bundle_id, "get", "1", {})

    assert (refused.error.reason, refused.error.status) == ("host_not_allowed", 403)  # type: ignore[union-attr]


def test_a_missing_secret_is_a_problem_in_health(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.bundles.put_tool(
        bundle.bundle_id, "get", "1", http("https://api.example.com/?k=${SOME_KEY}")
    )

    problems = [str(problem) for problem in project_bundles.box.problems()]
    refused = project_bundles.bundles.invoke(bundle.bundle_id, "get", "1", {})

    assert any("my-api.get@1: the secret 'SOME_KEY' is missing" in text for text in problems)
    assert refused.error.reason == "missing_secret"  # type: ignore[union-attr]


def test_a_record_is_json_whatever_is_in_it(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle(display_name="é\u2028</script>", description="\x00\u202e")
    project_bundles.tool(bundle, description="🙂" * 100)

    assert json.loads(json.dumps(project_bundles.bundles.list_bundles().to_dict()))
    assert project_bundles.another().bundles.named("my-api").description == bundle.description  # type: ignore[union-attr]
