"""Tools that ask their client: over a session, and in rounds; refusals, foreign states, cancelled
questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from onetool_ipy.faces.mcp import rounds
from tests.faces.mcp.conftest import Connect
from tests.harness.patience import HANG_S

MODES = ["2026-07-28", "legacy"]


def answering(*contents: dict[str, Any] | None) -> tuple[list[Any], Any]:
    """A person who fills the forms in with these values, one after the other; None declines."""
    asked: list[Any] = []

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        content = contents[min(len(asked), len(contents) - 1)]
        asked.append(params)
        return types.ElicitResult(
            action="decline" if content is None else "accept", content=content
        )

    return asked, elicit


def text_of(result: Any) -> str:
    return "".join(getattr(each, "text", "") for each in result.content)


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_asks_the_user_of_the_client_and_runs_once(
    connect: Connect, mode: str
) -> None:
    asked, elicit = answering({"size": 7})
    async with connect(mode=mode, elicitation_callback=elicit) as client:
        assert (
            text_of(await client.call_tool("shop_order", {"item": "apples"}))
            == "apples 7, asked 1 times"
        )
        assert text_of(await client.call_tool("shop_nested", {})) == "pears 7, asked 2 times"
    assert asked[0].message == "Which size of apples?"
    assert asked[0].requested_schema["required"] == ["size"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_no_is_a_no(connect: Connect, mode: str) -> None:
    _, elicit = answering(None)
    async with connect(mode=mode, elicitation_callback=elicit) as client:
        assert text_of(await client.call_tool("shop_order", {"item": "apples"})) == "no apples"


@pytest.mark.parametrize("mode", MODES)
async def test_two_questions_of_one_name_get_two_answers(connect: Connect, mode: str) -> None:
    _, elicit = answering({"size": 1}, {"size": 2})
    async with connect(mode=mode, elicitation_callback=elicit) as client:
        assert text_of(await client.call_tool("shop_order_twice", {})) == "{'size': 1} {'size': 2}"


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_that_breaks_the_form_is_not_taken(connect: Connect, mode: str) -> None:
    """In rounds it is asked again; over a session the call fails, and says why."""
    asked, elicit = answering({"size": 0}, {"size": 3})
    async with connect(mode=mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("shop_order", {"item": "apples"})
    if mode == "legacy":
        assert result.is_error
        assert "does not fit the form" in text_of(result)
    else:
        assert text_of(result) == "apples 3, asked 1 times"
        assert len(asked) == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_password_is_not_asked_for(connect: Connect, mode: str) -> None:
    asked, elicit = answering({"password": "x"})
    async with connect(mode=mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("shop_secret_form", {})
        own = await client.call_tool("shop_secret_form", {"is_own": True})
    assert result.is_error
    assert "secret" in text_of(result)
    assert own.is_error
    assert "cannot be handed on to the client" in text_of(own)
    assert not asked


async def test_a_client_that_cannot_answer_is_refused_by_the_protocol(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("shop_order", {"item": "apples"})
    assert caught.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert caught.value.error.data == {"requiredCapabilities": {"elicitation": {}}}
    assert "can ask its user" in caught.value.error.message


async def test_an_older_client_that_cannot_answer_gets_a_failed_call(connect: Connect) -> None:
    async with connect(mode="legacy") as client:
        result = await client.call_tool("shop_advise", {})
    assert result.is_error
    assert "can lend its model" in text_of(result)


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_asks_the_model_of_the_client(connect: Connect, mode: str) -> None:
    seen: list[Any] = []

    async def sample(_context: Any, params: Any) -> types.CreateMessageResult:
        seen.append(params)
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text="The pear."), model="m"
        )

    async with connect(mode=mode, sampling_callback=sample) as client:
        assert text_of(await client.call_tool("shop_advise", {})) == "The pear. sampling"
    assert (seen[0].system_prompt, seen[0].max_tokens) == ("You sell fruit.", 1000)


async def ask(client: Any, tool: str, args: dict[str, Any], **more: Any) -> Any:
    """One round of a call, without the SDK's driver."""
    return await client.session.call_tool(tool, args, allow_input_required=True, **more)


def accept(size: int) -> dict[str, Any]:
    return {"answer": types.ElicitResult(action="accept", content={"size": size})}


Change = Callable[[str], str]
FOREIGN: list[Any] = [
    ("cut", lambda state: state[:-4]),
    ("changed", lambda state: state[:20] + ("A" if state[20] != "A" else "B") + state[21:]),
    ("made up", lambda _state: "v1.abcdefgh"),
    ("empty", lambda _state: ""),
    ("control characters", lambda _state: "\x1b[2J\x00"),
]


@pytest.mark.parametrize("change", [each[1] for each in FOREIGN], ids=[each[0] for each in FOREIGN])
async def test_a_foreign_state_is_refused(connect: Connect, change: Change) -> None:
    _, elicit = answering({"size": 1})
    async with connect(elicitation_callback=elicit) as client:
        first = await ask(client, "shop_order", {"item": "figs"})
        assert first.result_type == "input_required"
        state = change(first.request_state)
        with pytest.raises(MCPError, match="requestState"):
            await ask(
                client,
                "shop_order",
                {"item": "figs"},
                request_state=state,
                input_responses=accept(1),
            )


async def test_a_state_counts_once_and_for_its_own_call(connect: Connect) -> None:
    _, elicit = answering({"size": 1})
    async with connect(elicitation_callback=elicit) as client:
        first = await ask(client, "shop_order", {"item": "figs"})
        state = first.request_state
        with pytest.raises(MCPError, match="requestState"):
            await ask(
                client,
                "shop_order",
                {"item": "dates"},
                request_state=state,
                input_responses=accept(1),
            )
        done = await ask(
            client, "shop_order", {"item": "figs"}, request_state=state, input_responses=accept(4)
        )
        assert "figs 4" in text_of(done)
        with pytest.raises(MCPError, match="requestState"):
            await ask(
                client,
                "shop_order",
                {"item": "figs"},
                request_state=state,
                input_responses=accept(4),
            )


async def test_only_so_many_calls_wait_and_the_oldest_is_cancelled(
    connect: Connect, tmp_path: Path
) -> None:
    _, elicit = answering({"size": 1})
    marker = tmp_path / "oldest"
    async with connect(elicitation_callback=elicit) as client:
        oldest = await ask(client, "shop_guess", {"marker": str(marker)})
        for number in range(rounds.MAX_WAITING):
            assert (
                await ask(client, "shop_order", {"item": str(number)})
            ).result_type == "input_required"
        await until(marker.exists)
        args = {"marker": str(marker)}
        with pytest.raises(MCPError, match="requestState"):
            await ask(
                client,
                "shop_guess",
                args,
                request_state=oldest.request_state,
                input_responses=accept(1),
            )


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_takes_its_question_back(
    connect: Connect, tmp_path: Path, mode: str
) -> None:
    """Cancelled twice does no more than once."""
    marker, asked = tmp_path / "taken-back", asyncio.Event()

    async def never(_context: Any, _params: Any) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connect(mode=mode, elicitation_callback=never) as client:
        call = asyncio.ensure_future(client.call_tool("shop_guess", {"marker": str(marker)}))
        await asyncio.wait_for(asked.wait(), HANG_S)
        call.cancel()
        call.cancel()
        # In rounds nothing of the server's is running while the person is asked.
        if mode == "legacy":
            await until(marker.exists)
        assert (
            text_of(await client.call_tool("tools_echo", {"message": "still here"})) == "still here"
        )


async def test_waiting_for_an_answer_does_not_count_for_the_limit(connect: Connect) -> None:
    async def think(_context: Any, _params: Any) -> types.ElicitResult:
        await asyncio.sleep(6)  # longer than the tool's limit
        return types.ElicitResult(action="accept", content={"size": 5})

    async with connect(elicitation_callback=think) as client:
        assert text_of(await client.call_tool("shop_hasty", {})) == "{'size': 5}"


async def test_logs_reach_a_client_that_wants_them(connect: Connect) -> None:
    heard: list[Any] = []

    async def hear(params: Any) -> None:
        heard.append((params.level, params.data, params.logger))

    async with connect(mode="legacy", logging_callback=hear) as client:
        assert text_of(await client.call_tool("shop_counted", {})) == "done"
        await until(lambda: heard)
        assert heard == [("info", "it begins", "shop")]
        await client.session.send_request(
            types.SetLevelRequest(params=types.SetLevelRequestParams(level="debug")),
            types.EmptyResult,
        )
        await client.call_tool("shop_counted", {})
        await until(lambda: len(heard) == 3)
    assert heard[1:] == [("debug", "a detail", "shop"), ("info", "it begins", "shop")]


async def until(condition: Callable[[], Any]) -> None:
    deadline = asyncio.get_running_loop().time() + HANG_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never came"
        await asyncio.sleep(0.01)
