"""Bundles: every verb of 002 on them, built-in ones, deletion and reaping."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.base.errors import Conflict, Forbidden, InvalidRequest, NotFound
from onetool_ipy.bundles.builtins import BUILTINS
from onetool_ipy.config.paths import home_at
from tests.bundles.aids import ProjectBundles, go, http
from tests.harness.project import Project

UNKNOWN = "01a1dda5-1a5f-7550-940b-3554c1c70918"


@pytest.mark.spec("002/API Bundles/PUT creates or replaces")
@pytest.mark.spec("002/Data Model/createdAt is immutable")
@pytest.mark.spec("002/Data Model/modifiedAt is the last structural change")
def test_put_creates_then_replaces_and_keeps_created_at(project_bundles: ProjectBundles) -> None:
    own = project_bundles.bundles.new_id()
    first = project_bundles.bundles.put_bundle(own, slug="a", display_name="A", description="one")
    later = project_bundles.clock.turn(hours=1)

    second = project_bundles.bundles.put_bundle(own, slug="b", display_name="B", enabled=False)

    assert (first.was_created, second.was_created) == (True, False)
    assert (second.slug, second.display_name, second.description, second.is_enabled) == (
        "b",
        "B",
        "",
        False,
    )
    assert (second.created_at, second.modified_at) == (first.created_at, later)
    assert project_bundles.bundles.get_bundle(own) == second


@pytest.mark.spec("002/API Bundles/PATCH toggles isEnabled")
@pytest.mark.spec("002/Data Model/modifiedAt is the last structural change")
def test_patch_turns_it_off_and_on_and_leaves_modified_at(project_bundles: ProjectBundles) -> None:
    made = project_bundles.bundle()
    project_bundles.clock.turn(hours=1)

    off = project_bundles.bundles.patch_bundle(made.bundle_id, enabled=False)
    on = project_bundles.bundles.patch_bundle(made.bundle_id, enabled=True)

    assert (off.is_enabled, on.is_enabled) == (False, True)
    assert off.modified_at == on.modified_at == made.modified_at
    with pytest.raises(InvalidRequest, match="'isEnabled' must be true or false"):
        project_bundles.bundles.patch_bundle(made.bundle_id, enabled="off")  # type: ignore[arg-type]  # that is the point


@pytest.mark.spec("002/API Bundles/DELETE soft-deletes")
@pytest.mark.spec("002/Behaviour/Soft-delete marks softDeletedAt")
def test_delete_needs_it_empty_and_marks_it(project_bundles: ProjectBundles) -> None:
    made = project_bundles.bundle()
    project_bundles.tool(made)

    with pytest.raises(Conflict, match="holds 1 tool"):
        project_bundles.bundles.delete_bundle(made.bundle_id)
    project_bundles.bundles.delete_tool(made.bundle_id, "say", "1")
    gone = project_bundles.bundles.delete_bundle(made.bundle_id)

    assert gone["softDeletedAt"] == "2026-01-02T12:00:00Z"
    on_disk = json.loads((project_bundles.root / made.slug / "bundle.json").read_text())
    assert on_disk["softDeletedAt"] == "2026-01-02T12:00:00Z"
    assert made.slug not in [
        bundle.slug for bundle in project_bundles.bundles.list_bundles(include_disabled=True)
    ]


def test_a_deleted_bundle_is_unknown_and_its_id_is_used_up(project_bundles: ProjectBundles) -> None:
    made = project_bundles.bundle()
    project_bundles.bundles.delete_bundle(made.bundle_id)

    for verb in (
        lambda: project_bundles.bundles.get_bundle(made.bundle_id),
        lambda: project_bundles.bundles.patch_bundle(made.bundle_id, enabled=True),
        lambda: project_bundles.bundles.delete_bundle(made.bundle_id),
        lambda: project_bundles.tool(made),
    ):
        with pytest.raises(NotFound):
            verb()
    with pytest.raises(Conflict, match="was deleted"):
        project_bundles.bundles.put_bundle(made.bundle_id, slug="again", display_name="")
    assert project_bundles.bundle(made.slug).slug == made.slug  # its slug is free again


@pytest.mark.spec("002/Behaviour/Empty soft-deleted bundle is reaped after 2 days")
def test_reap_takes_what_was_deleted_two_days_ago(project_bundles: ProjectBundles) -> None:
    kept, gone = project_bundles.bundle("kept"), project_bundles.bundle("gone")
    project_bundles.bundles.delete_bundle(gone.bundle_id)

    project_bundles.clock.turn(days=2, seconds=-1)
    assert project_bundles.bundles.reap() == []
    project_bundles.clock.turn(seconds=1)
    assert project_bundles.bundles.reap() == [gone.bundle_id]

    assert project_bundles.bundles.reap() == []
    assert not (project_bundles.root / gone.slug).exists()
    assert (project_bundles.root / kept.slug).exists()
    assert project_bundles.bundles.put_bundle(
        gone.bundle_id, slug="gone", display_name=""
    ).was_created


@pytest.mark.spec("002/Behaviour/Empty soft-deleted bundle is reaped after 2 days")
def test_reap_leaves_what_is_not_empty(project_bundles: ProjectBundles) -> None:
    gone = project_bundles.bundle()
    project_bundles.bundles.delete_bundle(gone.bundle_id)
    note = project_bundles.root / gone.slug / "note.txt"
    note.write_text("mine")

    project_bundles.clock.turn(days=9)

    assert project_bundles.bundles.reap() == []
    assert note.read_text() == "mine"


def test_other_writes_reap_too(project_bundles: ProjectBundles) -> None:
    gone = project_bundles.bundle()
    project_bundles.bundles.delete_bundle(gone.bundle_id)
    project_bundles.clock.turn(days=3)

    project_bundles.bundle("next")

    assert not (project_bundles.root / gone.slug).exists()


def test_slug_of_a_live_bundle_is_taken(project_bundles: ProjectBundles) -> None:
    project_bundles.bundle("a")
    second = project_bundles.bundle("b")

    with pytest.raises(Conflict, match="There is a bundle 'a' already"):
        project_bundles.bundle("a")
    with pytest.raises(Conflict):
        project_bundles.bundles.put_bundle(second.bundle_id, slug="a", display_name="")

    assert project_bundles.bundles.get_bundle(second.bundle_id).slug == "b"
    assert project_bundles.bundle("A").slug == "A"  # case counts


def test_twins_in_nfc_and_nfd_are_one_slug(project_bundles: ProjectBundles) -> None:
    project_bundles.bundle("caf\u00e9")

    with pytest.raises(Conflict):
        project_bundles.bundle("cafe\u0301")


def test_slug_must_not_be_a_packs_name(project_bundles: ProjectBundles) -> None:
    project_bundles.project.write(
        "tools/geo.py", 'pack = "geo"\n\ndef find() -> int:\n    """Find."""\n    return 1\n'
    )

    for slug in ("geo", "time", "ot"):
        with pytest.raises(Conflict, match=f"the name of the pack '{slug}'"):
            project_bundles.bundle(slug)


def test_slug_must_not_be_a_servers_name(project: Project) -> None:
    project_bundles = ProjectBundles(
        project, config="version: 1\nservers: {docs: {type: http, url: 'http://127.0.0.1:9/mcp'}}"
    )

    with pytest.raises(Conflict, match="the name of the server 'docs'"):
        project_bundles.bundle("docs")


@pytest.mark.parametrize("slug", ["a_b", "a/b", "x" * 65, "", None])
def test_bad_slug_is_refused_and_makes_nothing(project_bundles: ProjectBundles, slug: Any) -> None:
    with pytest.raises(InvalidRequest, match="slug"):
        project_bundles.bundle(slug)

    assert not project_bundles.root.exists()


@pytest.mark.parametrize("own", ["x", "", None, "0c7bd8a5-3ffa-4d4b-ba08-7e1e7bd7b2f6", "../../x"])
def test_bad_id_is_refused_by_every_verb(project_bundles: ProjectBundles, own: Any) -> None:
    for verb in (
        lambda: project_bundles.bundles.put_bundle(own, slug="a", display_name="A"),
        lambda: project_bundles.bundles.patch_bundle(own, enabled=True),
        lambda: project_bundles.bundles.delete_bundle(own),
        lambda: project_bundles.bundles.list_bundles(ids=[own]),
        lambda: project_bundles.bundles.list_tools(bundle_ids=[own]),
        lambda: project_bundles.bundles.put_tool(own, "a", "1", go()),
        lambda: project_bundles.bundles.get_tool(own, "a", "1"),
        lambda: project_bundles.bundles.patch_tool(own, "a", "1", enabled=True),
        lambda: project_bundles.bundles.delete_tool(own, "a", "1"),
        lambda: project_bundles.bundles.invoke(own, "a", "1", {}),
    ):
        with pytest.raises(InvalidRequest):
            verb()


def test_unknown_bundle_is_not_found_by_every_verb(project_bundles: ProjectBundles) -> None:
    for verb in (
        lambda: project_bundles.bundles.get_bundle(UNKNOWN),
        lambda: project_bundles.bundles.patch_bundle(UNKNOWN, enabled=True),
        lambda: project_bundles.bundles.delete_bundle(UNKNOWN),
        lambda: project_bundles.bundles.put_tool(UNKNOWN, "a", "1", go()),
        lambda: project_bundles.bundles.get_tool(UNKNOWN, "a", "1"),
        lambda: project_bundles.bundles.patch_tool(UNKNOWN, "a", "1", enabled=True),
        lambda: project_bundles.bundles.delete_tool(UNKNOWN, "a", "1"),
    ):
        with pytest.raises(NotFound, match=f"no bundle '{UNKNOWN}'"):
            verb()
    assert project_bundles.bundles.list_bundles(ids=[UNKNOWN]).items == []


@pytest.mark.spec("002/API Bundles/GET lists with bundleIDs includeDisabled pageSize pageToken")
def test_list_takes_ids_disabled_size_and_token(project_bundles: ProjectBundles) -> None:
    made = [project_bundles.bundle(f"b{number}") for number in range(5)]
    project_bundles.bundles.patch_bundle(made[1].bundle_id, enabled=False)
    wanted = [bundle.bundle_id for bundle in made[:4]]

    on = project_bundles.bundles.list_bundles(ids=wanted)
    everything = project_bundles.bundles.list_bundles(ids=wanted, include_disabled=True)
    first = project_bundles.bundles.list_bundles(ids=wanted, page_size=2)
    rest = project_bundles.bundles.list_bundles(
        ids=wanted, page_size=2, page_token=first.next_page_token
    )

    assert [b.slug for b in on] == ["b0", "b2", "b3"]
    assert [b.slug for b in everything] == ["b0", "b1", "b2", "b3"]
    assert [b.slug for b in [*first, *rest]] == ["b0", "b2", "b3"]
    assert rest.next_page_token is None
    assert len(project_bundles.bundles.list_bundles()) == len(BUILTINS) + 4


@pytest.mark.spec("002/Non-functional/Built-ins are served by the normal API")
def test_built_ins_are_listed_with_fixed_ids(project_bundles: ProjectBundles) -> None:
    bundles = project_bundles.bundles.list_bundles()
    tools = project_bundles.bundles.list_tools()

    assert [bundle.slug for bundle in bundles] == ["time", "tools", "shell", "fs"]
    assert [tool.slug for tool in tools] == ["now", "echo", "pwd", "list-dir", "read-file"]
    assert all(row.is_built_in and row.is_enabled for row in [*bundles, *tools])
    assert bundles[0].bundle_id == "019b7730-1000-7000-8000-000000000100"
    assert tools[3].arg_schema == project_bundles.box.registry.get("fs.list_dir").parameters  # type: ignore[union-attr]
    assert (
        project_bundles.bundles.invoke(bundles[0].bundle_id, "now", "1", {}).data["iso"]
        == "2026-01-02T12:00:00.000Z"
    )


@pytest.mark.spec("002/Behaviour/Built-ins refuse PUT DELETE and other PATCH")
@pytest.mark.spec("002/Terminology/Built-in content is read-only")
def test_built_ins_refuse_every_other_change(project_bundles: ProjectBundles) -> None:
    fs = project_bundles.bundles.named("fs")
    assert fs is not None

    for verb in (
        lambda: project_bundles.bundles.put_bundle(fs.bundle_id, slug="fs", display_name="Files"),
        lambda: project_bundles.bundles.delete_bundle(fs.bundle_id),
        lambda: project_bundles.bundles.put_tool(fs.bundle_id, "new", "1", go()),
        lambda: project_bundles.bundles.put_tool(fs.bundle_id, "read-file", "1", go()),
        lambda: project_bundles.bundles.delete_tool(fs.bundle_id, "read-file", "1"),
    ):
        with pytest.raises(Forbidden) as caught:
            verb()
        assert (caught.value.code, caught.value.status) == ("forbidden", 403)
    assert not project_bundles.root.exists()


@pytest.mark.spec("002/Behaviour/Built-in isEnabled is mutable")
def test_built_in_bundle_is_one_switch_for_the_real_tools(project_bundles: ProjectBundles) -> None:
    fs = project_bundles.bundles.named("fs")
    assert fs is not None

    off = project_bundles.bundles.patch_bundle(fs.bundle_id, enabled=False)

    assert off.is_enabled is False
    failed = project_bundles.box.call("fs.list_dir", {"path": "."})
    assert (failed.error.code, failed.error.reason) == ("tool_not_found", "disabled")  # type: ignore[union-attr]
    assert "bundle 'fs' is off" in failed.error.message  # type: ignore[union-attr]
    assert project_bundles.box.registry.get("fs.list_dir").disabled  # type: ignore[union-attr]
    assert (
        project_bundles.bundles.invoke(fs.bundle_id, "list-dir", "1", {"path": "."}).error.reason
        == "disabled"
    )  # type: ignore[union-attr]
    with pytest.raises(Forbidden):
        project_bundles.bundles.patch_tool(fs.bundle_id, "list-dir", "1", enabled=True)
    project_bundles.bundles.patch_bundle(fs.bundle_id, enabled=True)
    assert not project_bundles.box.registry.get("fs.list_dir").disabled  # type: ignore[union-attr]
    assert (
        project_bundles.box.call("fs.list_dir", {"path": "nowhere"}).error.code == "execution_error"
    )  # type: ignore[union-attr]


@pytest.mark.spec("002/Objectives/Storage works offline")
@pytest.mark.spec("002/Non-functional/Flat-file JSON storage")
def test_files_are_flat_json_named_by_slugs(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle("读取")
    tool = project_bundles.tool(bundle, "文件", "1.0")

    names = sorted(path.name for path in (project_bundles.root / bundle.slug).iterdir())
    stored = json.loads(
        (project_bundles.root / bundle.slug / f"{tool.slug}@{tool.version}.json").read_text(
            encoding="utf-8"
        )
    )

    assert names == sorted(["bundle.json", "文件@1.0.json"])
    assert (stored["format"], stored["slug"], stored["version"]) == (1, "文件", "1.0")
    assert not {"callCount", "lastCalledAt", "available", "reason"} & stored.keys()


def test_first_bundle_makes_the_folder_of_a_project_without_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onetool_ipy import open_toolbox

    monkeypatch.chdir(tmp_path)
    env = {**home_at(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    with open_toolbox(env=env) as box:
        made = box.bundles.put_bundle(box.bundles.new_id(), slug="a", display_name="A")
        assert (tmp_path / ".onetool" / "bundles" / made.slug / "bundle.json").exists()
    with open_toolbox(env=env) as later:
        found = later.bundles.named("a")
        assert found is not None
        assert found.to_dict() == made.to_dict()


BASE = "https://api.example.com/v1"
SIGNED = {"type": "bearer", "value": "${API_TOKEN}"}


def _sent(project_bundles: ProjectBundles, made: Any, slug: str) -> dict[str, Any]:
    found: dict[str, Any] = project_bundles.bundles.preview(made.bundle_id, slug, "1", {})[0]
    return found


def test_tools_use_the_base_url_and_the_auth_of_their_bundle(
    project_bundles: ProjectBundles,
) -> None:
    made = project_bundles.bundle(base_url=f"{BASE}/", auth=SIGNED)
    own = {
        "request": {
            "urlTemplate": "/own",
            "auth": {"type": "apiKey", "in": "query", "name": "k", "value": "x"},
        }
    }
    none = {"request": {"urlTemplate": "/none", "auth": {"type": "none"}}}
    by_hand = {"request": {"urlTemplate": "/by-hand", "headers": {"authorization": "Token 1"}}}
    bodies = {
        "short": http("/users"),
        "whole": http("https://API.example.com:443/users"),
        "by-hand": http(http=by_hand),
    }
    bodies |= {
        "other": http("https://other.example.com/v1"),
        "own": http(http=own),
        "none": http(http=none),
    }
    for slug, body in bodies.items():
        project_bundles.bundles.put_tool(made.bundle_id, slug, "1", body)

    sent = {slug: _sent(project_bundles, made, slug) for slug in bodies}

    assert sent["short"]["url"] == f"{BASE}/users"
    signed = {slug: request["headers"].get("Authorization") for slug, request in sent.items()}
    assert signed == dict.fromkeys(bodies) | {"short": "Bearer ***", "whole": "Bearer ***"}
    assert sent["own"]["url"] == f"{BASE}/own?k=***"
    assert sent["by-hand"]["headers"] == {"authorization": "Token 1"}
    problems = {problem.where: problem.message for problem in project_bundles.box.problems()}
    assert problems["my-api.short@1 and 1 more"] == "the secret 'API_TOKEN' is missing."
    assert "my-api.other@1" not in problems


def test_a_changed_base_url_counts_in_the_next_call_and_in_what_was_approved(
    project_bundles: ProjectBundles,
) -> None:
    made = project_bundles.bundle(base_url=BASE)
    project_bundles.bundles.put_tool(made.bundle_id, "users", "1", http("/users"))
    before = project_bundles.box.registry.require("my-api.users").fingerprint

    project_bundles.bundles.put_bundle(
        made.bundle_id, slug="my-api", display_name="My API", base_url="https://b.test", auth=SIGNED
    )

    assert _sent(project_bundles, made, "users")["url"] == "https://b.test/users"
    project_bundles.box.registry.refresh()
    assert project_bundles.box.registry.require("my-api.users").fingerprint != before


def test_another_environment_of_the_inner_tool_counts_in_what_was_approved(
    project_bundles: ProjectBundles,
) -> None:
    """What was approved is a tool by another name, whose host an environment decides."""
    made = project_bundles.bundle(
        base_url=BASE, environment={"name": "test", "variables": {"region": "eu"}}
    )
    project_bundles.bundles.put_tool(made.bundle_id, "users", "1", http("/${region}/users"))
    project_bundles.tool(project_bundles.bundle("other"), func="my-api.users")
    approved = project_bundles.box.registry.require("other.say").fingerprint

    other = {"name": "test", "variables": {"region": "us"}}
    project_bundles.bundles.put_bundle(
        made.bundle_id, slug="my-api", display_name="My API", base_url=BASE, environment=other
    )

    project_bundles.box.registry.refresh()
    assert project_bundles.box.registry.require("other.say").fingerprint != approved


def test_variables_of_the_environment_fill_every_part_of_a_request(
    project_bundles: ProjectBundles,
) -> None:
    """An argument comes before a variable, a variable before a secret. A value stays in its
    place."""
    active = {
        "name": "test",
        "variables": {"region": "e u/1", "id": "never", "key": "k-${API_TOKEN}", "word": 'a"b'},
    }
    made = project_bundles.bundle(base_url=BASE, environment=active)
    request = {
        "method": "POST",
        "urlTemplate": "/${region}/${id}",
        "query": {"r": "${region}"},
        "headers": {"X-Region": "in ${region}", "X-Key": "${key}"},
        "body": '{"region": ${region}, "word": "<${word}>"}',
    }
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    project_bundles.bundles.put_tool(
        made.bundle_id, "all", "1", http(http={"request": request}, argSchema=schema)
    )

    (sent,) = project_bundles.bundles.preview(made.bundle_id, "all", "1", {"id": 7})
    approved = project_bundles.box.registry.require("my-api.all").fingerprint

    assert sent["url"] == f"{BASE}/e%20u%2F1/7?r=e%20u%2F1"
    assert (sent["headers"]["X-Region"], sent["headers"]["X-Key"]) == ("in e u/1", "k-***")
    assert json.loads(sent["body"]) == {"region": "e u/1", "word": '<a"b>'}
    problems = {problem.where: problem.message for problem in project_bundles.box.problems()}
    said = "is neither a variable of the environment 'test' nor a secret."
    assert problems["my-api.all@1"] == f"'API_TOKEN' {said}"
    project_bundles.bundles.put_bundle(
        made.bundle_id,
        slug="my-api",
        display_name="My API",
        base_url=BASE,
        environment={"name": "live"},
    )
    failed = project_bundles.box.call("my-api.all", {"id": 7}).error
    assert failed.message == f"'my-api.all' needs 'key', which {said.replace('test', 'live')}"
    assert "%tool bundle env my-api live --set key=VALUE" in failed.hint
    assert project_bundles.box.registry.require("my-api.all").fingerprint != approved


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"auth": SIGNED}, "auth needs a baseUrl"),
        ({"environment": {"name": "test"}}, "environment needs a baseUrl"),
        (
            {"base_url": BASE, "environment": {"name": "test", "variables": {"a b": "x"}}},
            "not a name of a variable",
        ),
        (
            {"base_url": BASE, "environment": {"name": "test", "variables": {"a": "x\r\ny"}}},
            "control character",
        ),
        (
            {"base_url": BASE, "environment": {"name": "test", "variables": {"a": "${b.c}"}}},
            "only names of secrets",
        ),
        ({"base_url": "https://${host}/"}, "no \\$\\{name\\} and no query"),
        ({"base_url": "api.example.com"}, "must start with http"),
        ({"base_url": BASE, "auth": {"type": "bearer", "value": "${a b}"}}, "auth"),
        ({"base_url": BASE, "auth": {"type": "magic"}}, "'auth' has an unknown 'type'"),
        ({"base_url": BASE, "auth": "bearer abc"}, "'auth' must be an object"),
    ],
)
def test_what_a_bundle_cannot_share_is_refused(
    project_bundles: ProjectBundles, given: Any, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        project_bundles.bundle(**given)


def test_a_relative_url_needs_the_base_url(project_bundles: ProjectBundles) -> None:
    plain = project_bundles.bundle("plain")
    made = project_bundles.bundle(base_url=BASE)
    project_bundles.bundles.put_tool(made.bundle_id, "users", "1", http("/users"))

    with pytest.raises(
        InvalidRequest, match="'/users' is relative, and the bundle has no base URL"
    ) as refused:
        project_bundles.bundles.put_tool(plain.bundle_id, "users", "1", http("/users"))
    with pytest.raises(InvalidRequest, match="The URL of 'users' is relative"):
        project_bundles.bundles.put_bundle(made.bundle_id, slug="my-api", display_name="My API")

    assert refused.value.details[0]["pointer"] == "/http/request/urlTemplate"


def test_a_bundle_file_without_them_opens_and_stays_as_it_is(
    project_bundles: ProjectBundles,
) -> None:
    made = project_bundles.bundle()
    file = project_bundles.root / "my-api" / "bundle.json"

    assert set(json.loads(file.read_text())) & {"baseUrl", "auth"} == set()
    assert project_bundles.another().bundles.get_bundle(made.bundle_id).base_url is None
