"""Calls to a server: what comes back as which value, progress, limits, cancel."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.render.media import Audio, Blocks, Image, Resource, ResourceLink
from tests.harness.patience import HANG_S, until
from tests.harness.servers import hostile, others_python

Open = Callable[..., Toolbox]
SDK_SERVER = Path(__file__).with_name("sdk_server.py")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One toolbox with a well-behaved server, for calls that change nothing."""
    from onetool_ipy import open_toolbox
    from tests.harness.servers import write_project

    folder = write_project(tmp_path_factory.mktemp("calls"), {"srv": hostile()})
    with open_toolbox(folder) as opened:
        yield opened


def journal(path: Path, method: str) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [entry for entry in map(json.loads, lines) if entry.get("method") == method]


def wait_for(seen: Callable[[], Any]) -> Any:
    """What another process writes; there is nothing to wait on."""
    until(seen)
    return seen()


# Values


def test_structured_content_stays_structured(box: Toolbox) -> None:
    result = box.call("srv.rows")

    assert result.data == {
        "items": [{"city": "Berlin", "at": "2026-01-02"}, {"city": "Oslo", "at": "2026-01-03"}]
    }
    assert result.df["city"].tolist() == ["Berlin", "Oslo"]


def test_only_what_was_wrapped_is_unwrapped(box: Toolbox) -> None:
    assert box.call("srv.wrapped").data == 7
    assert set(box.call("srv.environment").data) == {"env", "cwd"}


def test_text_is_text_and_json_in_it_is_still_a_table(box: Toolbox) -> None:
    rows = [{"a": 1}, {"a": 2}]

    result = box.call("srv.echo", {"text": json.dumps(rows)})

    assert result.data == json.dumps(rows)
    assert result.df["a"].tolist() == [1, 2]


def test_output_that_its_own_schema_forbids_is_an_error(box: Toolbox) -> None:
    error = box.call("srv.wrong").error

    assert error is not None
    assert (error.code, error.reason) == ("execution_error", "invalid_output")
    assert "field 'result'" in error.message
    assert "number" in error.message


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("fail", "the tool says no"),
        ("refuse", "internal trouble"),
        ("nonsense", "result that is not valid"),
    ],
)
def test_errors_of_a_server_are_execution_errors(box: Toolbox, tool: str, words: str) -> None:
    error = box.call(f"srv.{tool}").error

    assert error is not None
    assert error.code == "execution_error"
    assert words in error.message
    assert box.call("srv.echo", {"text": "still there"}).data == "still there"


def test_the_hint_of_a_failure_stays_where_the_call_has_nothing_to_add(opened: Open) -> None:
    error = opened({"srv": hostile()}).call("srv.die").error

    assert error is not None
    assert error.hint == "It is not repeated. The next call starts the server again."


def test_a_result_that_leaves_out_what_it_is_counts_as_complete(opened: Open) -> None:
    """The newest protocol asks for `resultType`, `ttlMs` and `cacheScope`; a result without them
    has a meaning, too."""
    box = opened({"srv": hostile("--terse", "--offers")})

    assert box.call("srv.echo", {"text": "hello"}).data == "hello"
    assert box.servers.test("srv")["protocol"] == "2026-07-28"
    assert box.read_resource("srv", "x:text")


def test_a_server_without_templates_has_no_problem(opened: Open) -> None:
    box = opened({"srv": hostile("--offers", "--no-templates")})

    assert box.servers.start("srv") == "connected"

    listing = box.servers.listing("srv")
    assert listing is not None
    assert (len(listing.resources) > 0, listing.templates) == (True, ())
    assert not [problem for problem in box.servers.problems() if "templates" in problem.message]


def test_media_are_values_that_a_notebook_shows_without_running_anything(box: Toolbox) -> None:
    found = box.call("srv.media").data

    assert isinstance(found, Blocks)
    kinds = [type(piece) for piece in found]
    assert kinds == [str, Image, Audio, ResourceLink, ResourceLink, Resource, Resource]
    html = found._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert 'href="javascript' not in html.lower()
    assert '<img alt="&lt;image/svg+xml' in html
    assert 'src="data:image/svg+xml;base64,' in html
    assert '<audio controls src="data:audio/wav;base64,' in html
    assert '<a href="https://example.com/a"' in html
    json.dumps(box.call("srv.media").to_dict())


# Progress, limits, cancel


def test_progress_reaches_whoever_waits(box: Toolbox) -> None:
    heard: list[tuple[float, float | None, str]] = []

    job = box.start("srv.steps", {"n": 0.01}, notify=lambda job: heard.append(tuple(job.progress)))

    assert job.result(HANG_S).data == "done"
    assert (3.0, 8.0, "step 3") in heard


def test_a_call_past_its_limit_is_cancelled_at_the_server(opened: Open, tmp_path: Path) -> None:
    box = opened({"srv": hostile(f"--journal={tmp_path / 'journal'}")})
    assert box.call("srv.echo", {"text": "x"}).ok

    def calls() -> set[Any]:
        return {
            c["id"]
            for c in journal(tmp_path / "journal", "tools/call")
            if c["params"]["name"] == "slow"
        }

    def cancelled() -> set[Any]:
        return {
            c["params"]["requestId"]
            for c in journal(tmp_path / "journal", "notifications/cancelled")
        }

    while not calls():  # on a machine that stands still, the time may end before it is sent
        error = box.call("srv.slow", {"n": 60}, timeout=0.3).error
        assert error is not None
        assert error.reason == "timeout"

    assert until(lambda: cancelled() == calls())
    assert box.call("srv.echo", {"text": "y"}).data == "y"
    assert box.workers.abandoned() == 0


def test_a_cancelled_job_is_cancelled_at_the_server(opened: Open, tmp_path: Path) -> None:
    box = opened({"srv": hostile(f"--journal={tmp_path / 'journal'}")})
    job = box.start("srv.slow", {"n": 60})
    wait_for(lambda: journal(tmp_path / "journal", "tools/call"))

    assert job.cancel()

    assert wait_for(lambda: journal(tmp_path / "journal", "notifications/cancelled"))
    assert job.status == "cancelled"
    assert job.result().error.reason == "cancelled"  # type: ignore[union-attr]


def test_a_cancelled_await_is_cancelled_at_the_server(opened: Open, tmp_path: Path) -> None:
    """From a loop of the user's own."""
    box = opened({"srv": hostile(f"--journal={tmp_path / 'journal'}")})
    box.servers.start("srv")

    async def cell() -> None:
        call = asyncio.ensure_future(box.acall("srv.slow", {"n": 60}))
        while not journal(tmp_path / "journal", "tools/call"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cell())

    assert wait_for(lambda: journal(tmp_path / "journal", "notifications/cancelled"))


def test_the_servers_own_limit_holds(opened: Open) -> None:
    box = opened({"srv": hostile(timeout_s=8), "other": hostile()}, "timeouts: {mcp_s: 60}\n")
    box.servers.check()

    error = box.call("srv.slow", {"n": 60}).error

    assert error is not None
    assert error.reason == "timeout"
    spec = box.registry.get("other.slow")
    assert spec is not None
    assert spec.timeout_s == 60


def test_silence_has_a_limit_that_progress_resets(opened: Open) -> None:
    box = opened({"srv": hostile(idle_s=5)})

    assert box.call("srv.steps", {"n": 0.7}).data == "done"  # 5.6 s in all
    error = box.call("srv.slow", {"n": 60}).error
    assert error is not None
    assert error.reason == "timeout"
    assert "Nothing was heard for 5 s" in error.message
    assert box.call("srv.echo", {"text": "x"}).data == "x"


def test_sync_code_inside_an_async_tool_may_call_a_server(box: Toolbox) -> None:
    """It blocks the loop of users' async tools; another one talks to the server."""
    from onetool_ipy import tool

    @tool(pack="mine")
    async def blocking() -> Any:
        """Call without await."""
        return box.call("srv.echo", {"text": "x"}).data

    @tool(pack="mine")
    async def awaiting() -> Any:
        pack = box.pack("srv")
        assert pack is not None
        return await pack.echo.aio(text="x")

    box.adopt(blocking)
    box.adopt(awaiting)

    assert box.call("mine.blocking", timeout=HANG_S).unwrap() == "x"
    assert box.call("mine.awaiting", timeout=HANG_S).unwrap() == "x"


def test_many_calls_at_once_go_over_one_server(box: Toolbox) -> None:
    async def cell() -> list[Any]:
        calls = [box.acall("srv.echo", {"text": str(n)}) for n in range(50)]
        return [result.data for result in await asyncio.gather(*calls)]

    assert asyncio.run(cell()) == [str(n) for n in range(50)]


# Schemas that are not what they should be


UNWRAPPED = {
    "sdk.add": ({"a": 1, "b": 2}, 3),
    "sdk.renamed": ({"text": "a b"}, ["a", "b"]),
    "sdk.nothing": ({}, None),
    "sdk.score": ({}, {"result": 1}),
    "sdk.play": ({}, {"result": 2}),
    "sdk.counts": ({}, {"result": 3}),
}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2", "1"])
def test_a_value_that_the_sdk_wrapped_is_unwrapped(opened: Open, version: str) -> None:
    """And an object of the author's own that has one field of that name is not. Both versions of
    the SDK in use."""
    python = sys.executable if version == "2" else others_python("clients")
    box = opened({"sdk": {"type": "stdio", "command": python, "args": [str(SDK_SERVER)]}})

    assert {name: box.call(name, args).unwrap() for name, (args, _) in UNWRAPPED.items()} == {
        name: value for name, (_, value) in UNWRAPPED.items()
    }


def test_what_a_server_requires_and_has_a_default_for_need_not_be_given(opened: Open) -> None:
    box = opened({"srv": hostile("--schemas")})

    assert box.call("srv.given", {"query": "x"}).data == {
        "args": {"query": "x", "depth": 3, "urls": []}
    }
    assert box.pack("srv").given("x") == {"args": {"query": "x", "depth": 3, "urls": []}}
    assert box.registry.require("srv.given").signature == (
        "srv.given(query: str, depth: int = 3, urls: list[str] = [], extra: Any = ...)"
    )


@pytest.mark.parametrize("source", ["python", "model", "mcp", "rest", "cli"])
def test_text_is_sent_as_the_list_that_it_holds(opened: Open, source: Any) -> None:
    box = opened({"srv": hostile("--schemas")})
    assert box.registry.list()  # a model's call starts no server

    sent = box.call("srv.given", {"query": "[1]", "urls": '["a", "b"]'}, source=source).unwrap()[
        "args"
    ]

    assert sent == {"query": "[1]", "urls": ["a", "b"], "depth": 3}


async def test_unchecked_arguments_are_sent_as_they_are(opened: Open) -> None:
    box = opened({"srv": hostile("--schemas")})
    args = {"extra": "object", "urls": "text", "other": [1]}
    error = box.call("srv.given", args).error
    assert error is not None
    assert "argument 'extra': no value is allowed here" in error.message
    assert "chema" not in error.message

    assert box.call("srv.given", args, check=False).data == {"args": args}
    assert (await box.acall("srv.given", args, check=False)).data == {"args": args}
    assert box.run("srv.given", args, check=False).data == {"args": args}
    assert box.start("srv.given", args, check=False).result(HANG_S).data == {"args": args}


@pytest.mark.parametrize("source", ["model", "mcp", "rest", "cli", "widget", "tool"])
def test_only_a_person_may_send_what_is_not_checked(opened: Open, source: Any) -> None:
    box = opened({"srv": hostile("--schemas")})

    with pytest.raises(UsageProblem, match="is always checked"):
        box.call("srv.given", {"extra": 1}, source=source, check=False)


def test_a_result_that_breaks_its_schema_is_in_the_details(opened: Open) -> None:
    box = opened({"srv": hostile()})

    error = box.call("srv.wrong").error

    assert error is not None
    assert error.reason == "invalid_output"
    assert (
        error.message
        == "The result of 'wrong' does not fit its own output schema: field 'result': 'no number'"
        " is not a number"
    )
    assert error.details["value"] == {"result": "no number"}
