"""Resources, templates and prompts of servers: listed, read, followed, completed; also where the
server is hostile."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import Unavailable, Untrusted, UsageProblem
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.result import ToolCallError
from onetool_ipy.render.media import Blocks, Image, PromptMessages, ResourceLink
from tests.harness.patience import HANG_S, until
from tests.harness.servers import everything_over_http, hostile, write_project
from tests.harness.surroundings import ROOT

Open = Callable[..., Toolbox]
MODERN = {
    "type": "stdio",
    "command": sys.executable,
    "args": [str(ROOT / "tests" / "mcp" / "modern_server.py")],
}

FRESH = {
    "type": "stdio",
    "command": sys.executable,
    "args": [str(ROOT / "tests" / "mcp" / "fresh_server.py")],
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_project(
        tmp_path_factory.mktemp("offers"), {"srv": hostile("--offers"), "modern": MODERN}
    )
    with open_toolbox(folder) as opened:
        yield opened


@pytest.fixture
def srv(box: Toolbox) -> Any:
    return box.pack("srv")


def starts(journal: Path) -> int:
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return sum("pid" in json.loads(line) for line in lines)


# The server that others wrote


@pytest.mark.slow
def test_everything_is_complete(real_box: Toolbox) -> None:
    every: Any = real_box.pack("everything")

    rows = every.resources
    assert [row["template"] for row in rows].count(False) == 7
    assert [row["template"] for row in rows].count(True) == 2
    assert [row["prompt"] for row in every.prompts] == [
        "$everything.args-prompt city=... [state=...]",
        "$everything.completable-prompt department=... name=...",
        "$everything.resource-prompt resourceType=... resourceId=...",
        "$everything.simple-prompt",
    ]
    for row in rows[:7]:
        assert every.read(row["uri"]).startswith("# Everything Server")
    assert every.read("demo://resource/dynamic/text/{resourceId}", resourceId=3).startswith(
        "Resource 3: This is"
    )
    assert every.read("demo://resource/dynamic/blob/4").startswith(b"Resource 4: This is")
    assert every.args_prompt(city="Oslo").text == "What's weather in Oslo?"
    assert "Resource 1" in every["resource-prompt"](resourceType="Text", resourceId="1").text
    found = real_box.servers.complete(
        "everything", "department", "E", {}, prompt="completable-prompt"
    )
    assert found == ["Engineering"]
    named = real_box.servers.complete(
        "everything", "name", "", {"department": "Engineering"}, prompt="completable-prompt"
    )
    assert named == ["Alice", "Bob", "Charlie"]


def test_a_link_in_a_result_can_be_followed(real_box: Toolbox) -> None:
    result = real_box.call("everything.get-resource-links", {"count": 2})

    first, second = result.links
    assert isinstance(first, ResourceLink)
    assert first.line == "%tool server read everything demo://resource/dynamic/blob/1"
    assert first.line in repr(first)
    assert first.read().startswith(b"Resource 1")
    assert second.read().startswith("Resource 2")


@pytest.mark.slow
def test_servers_without_resources_say_so(real_box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="The server 'filesystem' has no resources"):
        real_box.read_resource("filesystem", "x:y")
    filesystem: Any = real_box.pack("filesystem")
    assert filesystem.resources == []
    assert filesystem.prompts == []


# Values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "one"),
        ("json", {"a": [1, 2]}),
        ("broken", "{not json"),
        ("image", Image("image/png", b"\x89PNG\r\n\x1a\n")),
        ("bytes", b"\x00\x01\x02"),
        ("odd", b"\x00\x01\x02"),
        ("empty", None),
    ],
)
def test_a_resource_is_a_value_by_its_type(box: Toolbox, name: str, value: Any) -> None:
    assert box.read_resource("srv", f"x:{name}").unwrap() == value


def test_several_contents_are_a_list(srv: Any) -> None:
    found = srv.read("x:many")

    assert isinstance(found, Blocks)
    assert [part.content for part in found] == ["a", "b"]


def test_content_that_is_not_base64_is_a_failure(box: Toolbox) -> None:
    error = box.read_resource("srv", "x:bad64").error

    assert error is not None
    assert error.message == "The server sent 'x:bad64' in a form that is not base64."


def test_what_the_server_does_not_have_is_a_failure_in_its_words(srv: Any) -> None:
    with pytest.raises(ToolCallError, match="Resource not found"):
        srv.read("x:none")


def test_a_resource_of_a_gigabyte_costs_the_connection_and_nothing_else(opened: Open) -> None:
    box = opened({"srv": hostile("--offers")})

    error = box.read_resource("srv", "x:huge").error

    assert error is not None
    assert "srv" in error.message
    assert until(lambda: "more than 32 MB" in box.servers.reason("srv"))
    assert box.read_resource("srv", "x:text").data == "one"


def test_a_long_resource_has_a_handle(box: Toolbox) -> None:
    result = box.read_resource("srv", "x:long")

    assert result.ok
    page = result.lines(offset=99_999, limit=10)
    assert page["total_lines"] == 100_000
    assert page["lines"] == ["a line of text"] * 2
    assert result.handle in [row["handle"] for row in box.results.list()]


# Templates


def test_a_template_is_filled(srv: Any) -> None:
    assert srv.read("x:page/{number}", number=7) == "x:page/7"
    assert srv.read("x:page/{number}", number="a/b c") == "x:page/a%2Fb%20c"
    assert srv.read("x:file/{+path}", path="a/b.txt") == "x:file/a/b.txt"


@pytest.mark.parametrize(
    ("uri", "variables", "said"),
    [
        ("x:page/{number}", {}, "it needs 'number'"),
        ("x:page/{number}", {"number": 1, "other": 2}, "it has no variable 'other'"),
        ("x:text", {"number": 1}, "it has no variable 'number'"),
        ("x:file/{+path}", {"path": "../../etc/passwd"}, "may hold no '..'"),
        ("x:file/{+path}", {"path": "a/%2e%2e/b"}, "may hold no '..'"),
        ("x:file/{+path}", {"path": "a\\..\\b"}, "may hold no '..'"),
        ("x:page/{number}", {"number": "a\x1b[2J"}, "control characters"),
        ("x:bad/{", {"a": 1}, "is not a template"),
        ("", {}, "This is not a URI"),
        ("x:a\nb", {}, "This is not a URI"),
        ("x:" + "y" * 9_000, {}, "This is not a URI"),
    ],
)
def test_wrong_uris_and_values_are_not_sent(
    box: Toolbox, uri: str, variables: dict[str, Any], said: str
) -> None:
    error = box.read_resource("srv", uri, variables).error

    assert error is not None
    assert error.code == "invalid_args"
    assert said in error.message


# Hostile lists


def test_wrong_entries_are_left_out_and_named(box: Toolbox, srv: Any) -> None:
    rows = srv.resources

    assert [row["uri"] for row in rows if not row["template"]][:3] == [
        "x:text",
        "x:json",
        "x:broken",
    ]
    first = rows[0]
    assert (first["name"], first["title"], first["size"]) == ("bell\\x07<script>", "A B", 12)
    assert "<script>" not in rows._repr_html_()
    said = [problem.message for problem in box.problems() if "'srv'" in problem.message]
    assert sum("A resource is left out" in one for one in said) == 4
    assert sum("A prompt is left out" in one for one in said) == 2
    assert any("It lists the resource 'x:text' twice" in one for one in said)


def test_a_server_that_answers_no_list_still_has_its_tools(opened: Open) -> None:
    box = opened({"srv": hostile("--mute-offers")}, "timeouts: {mcp_s: 60}")

    assert box.call("srv.echo", {"text": "x"}).data == "x"
    said = " ".join(problem.message for problem in box.problems())
    assert "It does not answer resources/list" in said
    assert "It does not answer prompts/list" in said


@pytest.mark.slow
def test_a_tool_wins_over_our_names(box: Toolbox) -> None:
    modern: Any = box.pack("modern")

    assert modern.read(text="x") == "the tool, x"
    assert box.read_resource("modern", "count://now").data == "0"
    assert box.read_resource("modern", "count://{name}/twice", {"name": "ab"}).data == "abab"


# Prompts


def test_a_prompt_gives_its_messages(srv: Any) -> None:
    found = srv.greet(city="Vienna")

    assert isinstance(found, PromptMessages)
    assert [message.role for message in found] == ["user", "user"]
    assert found.images == [Image("image/png", b"\x89PNG\r\n\x1a\n")]
    assert found[0].content == "Greet Vienna.\x1b[31m\x07 ['city']"
    shown = found._repr_mimebundle_()
    assert "\x1b" not in shown["text/plain"]
    assert "\\x1b[31m\\x07" in shown["text/plain"]
    assert "\x1b" not in shown["text/html"]
    assert "data:image/png;base64,iVBOR" in shown["text/html"]


def test_a_prompt_with_the_name_of_a_tool_has_another(box: Toolbox, srv: Any) -> None:
    assert srv.echo(text="the tool") == "the tool"
    messages = srv.echo_prompt()

    assert [message.role for message in messages] == ["user", "user", "assistant"]
    assert messages.text.endswith("assistant: Hello.")
    assert "srv.echo_prompt" in box.ot.snippets(info="list")


def test_arguments_of_prompts_are_checked(box: Toolbox) -> None:
    for args, said in (({}, "city"), ({"city": "x", "other": "y"}, "other")):
        error = box.call("srv.greet", args).error
        assert error is not None
        assert error.code == "invalid_args"
        assert said in error.message


@pytest.mark.slow
def test_prompts_are_listed_where_snippets_are(box: Toolbox) -> None:
    assert box.ot.snippets(pattern="srv.greet", info="list") == ["srv.greet"]
    assert box.ot.snippets(pattern="srv.greet") == ["srv.greet: Greet\\x1b[31m"]
    assert "city" in box.ot.snippets(pattern="srv.greet", info="full")
    assert "srv.greet" not in box.ot.tools(info="list")
    assert box.ot.run("srv.greet", city="Rome").data[0].content.startswith("Greet Rome.")
    assert box.ot.run("modern.ask", topic="bees").data.text == "Tell me about bees."


def test_completion_comes_from_the_server_and_never_hangs(box: Toolbox, srv: Any) -> None:
    srv.greet(city="Vienna")  # it is connected

    assert box.servers.complete("srv", "city", "V", {}, prompt="greet") == ["Vienna", "Venice"]
    assert box.servers.complete("srv", "number", "", {}, template="x:page/{number}") == ["1", "2"]
    assert box.servers.complete("srv", "city", "V", {}, prompt="slow") == []
    assert box.servers.complete("modern", "topic", "V", {}, prompt="ask") == []


# What is remembered, and trust


def test_known_offers_are_listed_without_starting_anything(opened: Open, tmp_path: Path) -> None:
    definition = hostile("--offers", f"--journal={tmp_path / 'journal'}")
    with opened({"srv": definition}) as first:
        rows = list(first.pack("srv").resources)  # type: ignore[union-attr]  # it is there
    assert starts(tmp_path / "journal") == 1
    box = opened({"srv": definition})
    srv: Any = box.pack("srv")

    assert srv.resources == rows
    assert len(srv.prompts) == 3
    assert "srv.greet" in box.ot.snippets(info="list")
    assert {"read", "resources", "watch", "prompts"} <= set(dir(srv))
    assert box.servers.complete("srv", "city", "V", {}, prompt="greet") == []
    assert starts(tmp_path / "journal") == 1
    assert srv.read("x:text") == "one"
    assert starts(tmp_path / "journal") == 2


def test_in_an_untrusted_project_no_server_is_dialled(tmp_path: Path) -> None:
    folder = write_project(
        tmp_path / "work", {"srv": hostile("--offers", f"--journal={tmp_path / 'journal'}")}
    )
    env = {
        **os.environ,
        **home_at(tmp_path / "home"),
        "ONETOOL_STATE": str(tmp_path / "state"),
        "ONETOOL_TRUST": "",
    }
    with open_leniently(env=env, cwd=folder) as box:
        srv: Any = box.pack("srv")
        for look in (
            lambda: list(srv.resources),
            lambda: list(srv.prompts),
            lambda: srv.watch("x:text"),
        ):
            with pytest.raises(Untrusted):
                look()
        error = box.read_resource("srv", "x:text").error
        assert error is not None
        assert error.reason == "untrusted"
        assert box.servers.complete("srv", "city", "", {}, prompt="greet") == []
        assert box.ot.snippets() == []
    assert starts(tmp_path / "journal") == 0


def test_a_secret_in_a_listing_is_masked(opened: Open, tmp_path: Path) -> None:
    (tmp_path / ".onetool").mkdir()
    secrets = tmp_path / ".onetool" / "secrets.yaml"
    secrets.write_text("TOKEN: open-sesame-99\n", encoding="utf-8")
    secrets.chmod(0o600)
    box = opened({"srv": hostile("--offers", '--attack="${TOKEN}"')})

    rows = str(list(box.pack("srv").resources))  # type: ignore[union-attr]  # it is there

    assert "bell" in rows
    assert "open-sesame" not in rows
    kept = b"".join(
        file.read_bytes() for file in box.config.paths.state.rglob("*") if file.is_file()
    )
    assert b"open-sesame" not in kept


# Following


@pytest.mark.parametrize(
    ("server", "uri", "change"), [("srv", "x:text", "change"), ("modern", "count://now", "add")]
)
def test_a_watch_says_when_a_resource_changed(
    box: Toolbox, server: str, uri: str, change: str
) -> None:
    pack: Any = box.pack(server)
    watch = pack.watch(uri)
    before = watch.value
    assert not watch.changed

    pack[change]()

    assert watch.wait(HANG_S)
    assert watch.changed
    assert "changed" in repr(watch)
    assert watch.value != before
    assert not watch.changed
    watch.stop()
    assert not watch.is_live


def test_an_older_server_is_told_that_a_resource_is_no_longer_followed(
    opened: Open, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    box = opened({"srv": hostile("--offers", f"--journal={journal}")})
    watch = box.pack("srv").watch("x:text")  # type: ignore[union-attr]  # it is there

    watch.stop()

    assert until(lambda: "resources/unsubscribe" in journal.read_text(encoding="utf-8"))
    assert box.call("srv.change").ok
    assert not watch.changed


@pytest.mark.slow
def test_resources_come_over_http_too(opened: Open) -> None:
    with everything_over_http() as url:
        box = opened({"every": {"type": "http", "url": url}})
        every: Any = box.pack("every")

        assert len(list(every.resources)) == 9
        assert every.read("demo://resource/dynamic/text/1").startswith("Resource 1")
        assert every.args_prompt(city="Oslo").text == "What's weather in Oslo?"
        assert not every.watch("demo://resource/dynamic/text/1").changed


@pytest.mark.slow
def test_a_watch_is_taken_up_again_after_the_server_ended(opened: Open) -> None:
    box = opened({"modern": MODERN})
    modern: Any = box.pack("modern")
    watch = modern.watch("count://now")
    box.servers.restart("modern")

    assert until(lambda: not watch.is_live)
    assert "no longer followed" in repr(watch)
    assert watch.value == "0"
    modern.add()
    assert watch.wait(HANG_S)
    assert watch.value == "1"


def test_what_cannot_be_followed_is_said(real_box: Toolbox) -> None:
    filesystem: Any = real_box.pack("filesystem")

    with pytest.raises(Unavailable, match="does not say when a resource changes"):
        filesystem.watch("x:y")


@pytest.mark.slow
def test_resource_is_not_read_again_as_long_as_it_counts_as_fresh(opened: Open) -> None:
    box = opened({"fresh": FRESH})
    fresh: Any = box.pack("fresh")

    assert fresh.read("count://reads") == "read 1 times"
    assert fresh.read("count://reads") == "read 1 times"
    assert fresh.read("count://large").strip() == "read 2 times"
    assert fresh.read("count://large").strip() == "read 3 times"  # too large to be kept
    assert fresh.read("count://reads") == "read 1 times"
    watch = fresh.watch("count://reads")
    fresh.change()
    assert watch.wait(HANG_S)
    assert watch.value == "read 4 times"
    assert fresh.read("count://reads") == "read 4 times"
    box.servers.restart("fresh")
    assert fresh.read("count://reads") == "read 1 times"
