"""Environments: what is kept of them, and that a tool never leaves the environment that its bundle
uses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy import Toolbox
from onetool_ipy.base.files import StoreError
from onetool_ipy.bundles.environments import Environment, EnvironmentFile
from tests.bundles.aids import http
from tests.harness.project import Project
from tests.harness.stub import Stub
from tests.net.loopback import Loopback

_TEXTS = st.text(max_size=8)
_SETS = st.builds(
    Environment,
    base_url=st.sampled_from(["https://a", "http://b/v1", ""]),
    auth=st.sampled_from([None, {"type": "bearer", "value": "${T}"}]),
    variables=st.dictionaries(_TEXTS, _TEXTS, max_size=2),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=4,
)
_ENTRIES = st.dictionaries(
    _TEXTS,
    _JSON
    | st.builds(
        lambda one, more: {**more, **one.to_dict()},
        _SETS,
        st.dictionaries(st.sampled_from(["note", "owner"]), _JSON, max_size=2),
    ),
    max_size=3,
)


@settings(max_examples=30)
@given(
    st.dictionaries(_TEXTS, _ENTRIES | _JSON, max_size=3),
    st.lists(st.tuples(_TEXTS, _TEXTS, _SETS), max_size=4),
)
def test_saving_changes_the_saved_entry_and_nothing_else(
    tmp_path_factory: Any, before: Any, saves: Any
) -> None:
    """The twin is a dict: unknown keys and entries that are no environments stay as they are."""
    file = EnvironmentFile(tmp_path_factory.mktemp("env") / ".onetool" / "environments.json")
    file.path.parent.mkdir()
    file.path.write_text(json.dumps(before), encoding="utf-8")
    twin = json.loads(json.dumps(before))

    for slug, name, environment in saves:
        entries = twin.get(slug, {})
        if not isinstance(entries, dict):
            with pytest.raises(StoreError, match="not an object"):
                file.save(slug, {name: environment})
            continue
        former = entries.get(name) if isinstance(entries.get(name), dict) else {}
        unknown = {
            key: value
            for key, value in former.items()
            if key not in ("base_url", "auth", "variables")
        }
        twin.setdefault(slug, {})[name] = {**unknown, **environment.to_dict()}
        file.save(slug, {name: environment})
        assert file.of(slug)[name] == Environment(
            base_url=environment.base_url.rstrip("/"),
            auth=environment.auth,
            variables=environment.variables,
        )

    assert json.loads(file.path.read_text(encoding="utf-8")) == twin


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"shop": {"a": {"base_url": "https://a"}},}',
        "[]",
        '"x"',
        '{"a": {}, "a": {}}',
        "[" * 100_000,
        "\udcff",
        '{"shop": {"a": {"base_url": "https://a", "more": 1e999}}}',
    ],
    ids=["empty", "cut", "comma", "list", "text", "name twice", "deep", "not UTF-8", "number"],
)
def test_a_file_that_cannot_be_read_is_refused_in_words_and_never_written(
    project: Project, text: str
) -> None:
    path = project.home / "environments.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = path.read_bytes()
    file = EnvironmentFile(path)

    with pytest.raises(StoreError) as caught:
        file.save("shop", {"b": Environment(base_url="https://b")})

    assert str(path) in caught.value.message
    assert path.read_bytes() == before
    (problem,) = file.problems()
    assert (problem.where, problem.message.startswith("cannot be read: ")) == (str(path), True)


def test_one_bad_entry_costs_itself_and_health_names_it(project: Project) -> None:
    good, bad = {"base_url": "https://a"}, {"base_url": 1, "note": "mine"}
    path = project.write("environments.json", json.dumps({"shop": {"good": good, "bad": bad}}))
    box = project.open()

    box.bundles.environments.save("shop", {"new": Environment(base_url="https://b")})

    assert [*box.bundles.environments.of("shop")] == ["good", "new"]
    assert json.loads(path.read_text(encoding="utf-8"))["shop"]["bad"] == bad
    assert any(
        "'bad' of 'shop': its base_url is not text" in problem.message for problem in box.problems()
    )


def test_sixteen_savers_lose_no_environment(tmp_path: Path) -> None:
    """Each has its own object on the file, as kernels do."""
    path = tmp_path / "environments.json"

    def save(number: int) -> None:
        for turn in range(4):
            EnvironmentFile(path).save(
                f"b{number % 3}", {f"e{number}-{turn}": Environment(base_url=f"https://h{turn}")}
            )

    threads = [threading.Thread(target=save, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    names = {name for slug in ("b0", "b1", "b2") for name in EnvironmentFile(path).of(slug)}
    assert names == {f"e{number}-{turn}" for number in range(16) for turn in range(4)}


_SAVER = """
import sys
from pathlib import Path
from onetool_ipy.bundles.environments import Environment, EnvironmentFile
file, number = EnvironmentFile(Path(sys.argv[1])), 0
while True:
    number += 1
    file.save("shop", {"a": Environment(base_url=f"https://h{number}", variables={"n": str(number) * 2000})})
    print(number, flush=True)
"""


@pytest.mark.posix("SIGKILL")
@pytest.mark.slow
def test_a_killed_saver_leaves_the_whole_old_or_the_whole_new_file(tmp_path: Path) -> None:
    path = tmp_path / "environments.json"
    for saves in (1, 3, 7):
        with subprocess.Popen(
            [sys.executable, "-c", _SAVER, str(path)], stdout=subprocess.PIPE, text=True
        ) as saver:
            assert saver.stdout is not None
            last = [int(saver.stdout.readline()) for _ in range(saves)][-1]
            os.kill(saver.pid, signal.SIGKILL)
            last = max([last, *(int(line) for line in saver.stdout)])
        entry = EnvironmentFile(path).of("shop")["a"]
        number = int(entry.base_url.removeprefix("https://h"))
        assert last <= number <= last + 1
        assert entry.variables == {"n": str(number) * 2000}


@pytest.fixture
def production() -> Iterator[Stub]:
    with Stub(lambda asked: (200, {"at": "production", "path": asked.path})) as stub:
        yield stub


@pytest.fixture
def staging() -> Iterator[Stub]:
    with Stub(
        lambda asked: (200, {"at": "staging", "access_token": "tok", "path": asked.path})
    ) as stub:
        yield stub


def opened(project: Project, *servers: Stub | Loopback) -> Toolbox:
    hosts = ", ".join(f"'127.0.0.1:{server.port}'" for server in servers)
    return project.open(f"version: 1\nhttp: {{allowed_hosts: [{hosts}]}}")


def on_staging(box: Toolbox, production: str, staging: str, *records: dict[str, Any]) -> None:
    """A bundle with these tools that uses staging; production is its other environment."""
    bundles = box.bundles
    own = bundles.new_id()
    put = {"slug": "shop", "display_name": "Shop"}
    active = {"name": "staging", "variables": {}}
    bundles.put_bundle(own, **put, base_url=staging, environment=active)
    for number, record in enumerate(records, start=1):
        bundles.put_tool(own, f"t{number}", "1", record)
    both = {
        "production": Environment(base_url=production),
        "staging": Environment(base_url=staging),
    }
    bundles.environments.save("shop", both)


def steps(*urls: str) -> dict[str, Any]:
    return {"type": "http", "http": {"steps": [{"request": {"urlTemplate": url}} for url in urls]}}


@pytest.mark.parametrize("case", ["whole address", "later step", "token URL", "value in the path"])
def test_an_address_of_another_environment_is_refused_before_anything_is_sent(
    project: Project, production: Stub, staging: Stub, case: str
) -> None:
    box = opened(project, production, staging)
    project.write("secrets.yaml", "ID: client-id\nKEY: client-key\n", mode=0o600)
    box.reload()
    auth = {
        "type": "oauth2",
        "tokenUrl": production.url("/v1/token"),
        "clientId": "${ID}",
        "clientSecret": "${KEY}",
    }
    version = {"type": "object", "properties": {"v": {"type": "string"}}}
    record = {
        "whole address": http(production.url("/v1/orders")),
        "later step": steps("/first", production.url("/v1/second")),
        "token URL": {"type": "http", "http": {"request": {"urlTemplate": "/x", "auth": auth}}},
        "value in the path": {**http(production.url("/${v}/orders")), "argSchema": version},
    }[case]
    on_staging(box, production.url("/v1"), staging.url("/v1"), record)

    result = box.call("shop.t1", {"v": "v1"} if "value" in case else {})

    assert result.error is not None
    assert (result.error.code, result.error.reason) == ("invalid_args", "other_environment")
    assert (
        "belongs to the environment 'production', and the bundle 'shop' uses 'staging'"
        in result.error.message
    )
    assert (production.asked, staging.asked) == ([], [])


def test_a_redirect_into_another_environment_is_not_followed(
    project: Project, production: Stub
) -> None:
    with Loopback() as staging:
        box = opened(project, production, staging)
        target = f"/redirect?to={production.url('/orders')}"
        on_staging(box, production.url(), staging.url(), http(target))

        error = box.call("shop.t1").error

    assert error is not None
    assert error.reason == "other_environment"
    assert production.asked == []


def test_a_host_that_is_no_environments_is_reached(
    project: Project, production: Stub, staging: Stub
) -> None:
    """Not a prefix of it, either: `/v10` is not below `/v1`."""
    box = opened(project, production, staging)
    on_staging(
        box,
        production.url("/v1"),
        staging.url("/v1"),
        http(production.url("/v10/orders")),
        http("/orders"),
    )

    assert box.call("shop.t1").data["at"] == "production"
    assert box.call("shop.t2").data == {
        "at": "staging",
        "access_token": "tok",
        "path": "/v1/orders",
    }


def test_a_damaged_file_refuses_what_is_not_below_the_bundles_own_base_url(
    project: Project, production: Stub, staging: Stub
) -> None:
    box = opened(project, production, staging)
    on_staging(
        box, production.url(), staging.url(), http(production.url("/orders")), http("/orders")
    )
    (project.home / "environments.json").write_text("{", encoding="utf-8")

    error = box.call("shop.t1").error

    assert error is not None
    assert (error.reason, "environments.json" in error.message) == ("other_environment", True)
    assert box.call("shop.t2").data["at"] == "staging"
    assert production.asked == []


def test_a_bundle_of_an_earlier_version_follows_after_its_next_save(
    project: Project, production: Stub, staging: Stub
) -> None:
    """Its file has the whole address."""
    box = opened(project, production, staging)
    bundles = box.bundles
    own = bundles.new_id()
    put = {"slug": "shop", "display_name": "Shop"}
    bundles.put_bundle(own, **put, base_url=production.url("/v1"))
    bundles.put_tool(own, "orders", "1", http("/orders"))
    file = project.home / "bundles" / "shop" / "orders@1.json"
    whole = file.read_text(encoding="utf-8").replace(
        '"/orders"', f'"{production.url("/v1/orders")}"'
    )
    file.write_text(whole, encoding="utf-8")
    assert box.call("shop.orders").data["at"] == "production"

    bundles.put_bundle(own, **put, base_url=staging.url("/v2"))

    assert box.call("shop.orders").data == {
        "at": "staging",
        "access_token": "tok",
        "path": "/v2/orders",
    }
    assert (
        json.loads(file.read_text(encoding="utf-8"))["http"]["request"]["urlTemplate"] == "/orders"
    )


def test_a_tool_below_the_base_url_is_stored_as_its_path_whoever_puts_it(project: Project) -> None:
    box = project.open()
    own = box.bundles.new_id()
    box.bundles.put_bundle(
        own, slug="shop", display_name="Shop", base_url="https://api.example.com/v1"
    )

    def stored(slug: str, url: str) -> str:
        tool = box.bundles.put_tool(own, slug, "1", http(url))
        return str(tool.to_dict()["http"]["request"]["urlTemplate"])

    assert stored("a", "https://API.example.com:443/v1/orders?x=1") == "/orders?x=1"
    assert stored("b", "https://api.example.com/v10/orders") == "https://api.example.com/v10/orders"
    assert stored("c", "https://api.example.com/v1") == "?"
    assert box.bundles.preview(own, "c", "1", {})[0]["url"] == "https://api.example.com/v1"


def test_a_base_url_that_only_becomes_longer_moves_no_tool(
    project: Project, production: Stub
) -> None:
    """`bundle set --base-url` says where the tools are; the first tool of a bundle knew only the
    host."""
    box = opened(project, production)
    own = box.bundles.new_id()
    put = {"slug": "shop", "display_name": "Shop"}
    box.bundles.put_bundle(own, **put, base_url=production.url("").rstrip("/"))
    box.bundles.put_tool(own, "orders", "1", http("/live/orders"))
    box.bundles.put_tool(own, "health", "1", http("/health"))

    box.bundles.put_bundle(own, **put, base_url=production.url("/live"))

    tools = {
        tool.slug: tool.to_dict()["http"]["request"]["urlTemplate"]
        for tool in box.bundles.all_tools(own)
    }
    assert tools == {"orders": "/orders", "health": production.url("/health")}
    assert box.call("shop.orders").data["path"] == "/live/orders"
    assert box.call("shop.health").data["path"] == "/health"


def test_sharing_the_auth_of_the_tools_changes_no_request(project: Project) -> None:
    """Imported tools have their auth each; an environment's auth counts for them once it is the
    bundle's."""
    box = project.open()
    own = box.bundles.new_id()
    box.bundles.put_bundle(
        own, slug="shop", display_name="Shop", base_url="https://api.example.com"
    )
    bearer = {"type": "bearer", "value": "${TOKEN}"}
    records = {
        "signed": {"urlTemplate": "/a", "auth": bearer},
        "open": {"urlTemplate": "/b"},
        "elsewhere": {"urlTemplate": "https://other.example.com/c"},
        "header": {"urlTemplate": "/d", "auth": bearer, "headers": {"Authorization": "x"}},
    }
    for slug, request in records.items():
        box.bundles.put_tool(own, slug, "1", {"type": "http", "http": {"request": request}})
    before = {slug: box.bundles.preview(own, slug, "1", {}) for slug in records}

    bundle = box.bundles.share_auth(own)

    assert bundle.to_dict()["auth"] == bearer
    assert {slug: box.bundles.preview(own, slug, "1", {}) for slug in records} == before
    auths = {
        tool.slug: tool.to_dict()["http"]["request"].get("auth")
        for tool in box.bundles.all_tools(own)
    }
    assert auths == {"signed": None, "open": {"type": "none"}, "elsewhere": None, "header": bearer}
    assert box.bundles.share_auth(own) == bundle, "a second time nothing changes"


def test_several_auths_stay_with_their_tools(project: Project) -> None:
    box = project.open()
    own = box.bundles.new_id()
    box.bundles.put_bundle(
        own, slug="shop", display_name="Shop", base_url="https://api.example.com"
    )
    for slug in ("a", "b"):
        auth = {"type": "bearer", "value": f"${{TOKEN_{slug.upper()}}}"}
        record = {"type": "http", "http": {"request": {"urlTemplate": f"/{slug}", "auth": auth}}}
        box.bundles.put_tool(own, slug, "1", record)

    assert box.bundles.share_auth(own).auth is None
