"""ScriptedModel, as a user's own test uses it."""

from __future__ import annotations

import pytest

from onetool_ipy.base.errors import InvalidOutput, RateLimited, UsageProblem
from onetool_ipy.llm import Call, Outcome, Outcomes, ScriptedModel, System, TokenUsage, Turn, User
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.scripted import ScriptedRequest

TOOLS = [OfferedTool("time_now", "The time.", {"type": "object"}, "time.now")]


def test_replies_are_said_in_order_and_requests_are_kept() -> None:
    model = ScriptedModel([[("time.now", {}), "one moment"], "noon"])
    begin = [System("Be brief."), User("When?")]

    first = model.complete(begin, TOOLS)
    second = model.complete(
        [*begin, first, Outcomes((Outcome(first.calls[0], {"iso": "12:00"}),))], TOOLS
    )

    assert (first.text, first.stop) == ("one moment", "calls")
    assert first.calls == (Call("call_2_1", "time_now", {}),)
    assert (second.text, second.stop, second.calls) == ("noon", "done", ())
    assert model.requests[0].prompt == "When?"
    assert model.requests[0].offered == ["time.now"]
    assert model.requests[0].outcomes == ()
    assert model.requests[1].outcomes[0].content == {"iso": "12:00"}
    assert first.usage.input == 4
    assert second.usage.output == 1


def test_a_tool_that_was_not_offered_is_asked_for_as_it_stands() -> None:
    turn = ScriptedModel([[("FS.read_file", {}), ("made.up", "{not json")]]).complete(
        [User("x")], TOOLS
    )

    assert [(call.wire_name, call.arguments) for call in turn.calls] == [
        ("FS.read_file", {}),
        ("made.up", "{not json"),
    ]
    assert len({call.id for call in turn.calls}) == 2


def test_a_function_sees_the_request_and_an_exception_is_raised() -> None:
    def shout(request: ScriptedRequest) -> str:
        return request.prompt.upper()

    model = ScriptedModel(
        [shout, RateLimited("slow down"), KeyboardInterrupt, Turn("as is", usage=TokenUsage(1, 2))]
    )

    assert model.complete([User("hi")]).text == "HI"
    with pytest.raises(RateLimited):
        model.complete([User("hi")])
    with pytest.raises(KeyboardInterrupt):
        model.complete([User("hi")])
    assert model.complete([User("hi")]).usage.total == 3


async def test_text_is_streamed_word_by_word() -> None:
    heard: list[str] = []
    text = "  two words\nand a line "

    turn = await ScriptedModel([text]).acomplete([User("x")], on_text=heard.append)

    assert len(heard) > 3
    assert "".join(heard) == turn.text == text


def test_the_end_of_a_script_is_told() -> None:
    model = ScriptedModel(["only this"])
    model.complete([User("x")])

    with pytest.raises(InvalidOutput, match="has 1 replies, and was asked once more"):
        model.complete([User("x")])


def test_the_last_reply_can_be_said_for_ever() -> None:
    model = ScriptedModel([("time.now", {})], repeat=True)

    assert [model.complete([User("x")], TOOLS).calls[0].wire_name for _ in range(5)] == [
        "time_now"
    ] * 5


@pytest.mark.parametrize("reply", [7, ("f",), ("f", 3), {"tool": "f"}, [None]], ids=str)
def test_what_it_cannot_say_is_told(reply: object) -> None:
    with pytest.raises(UsageProblem, match="cannot say"):
        ScriptedModel([reply]).complete([User("x")])


def test_one_text_instead_of_a_list_is_told() -> None:
    with pytest.raises(UsageProblem, match="are a list"):
        ScriptedModel("hello")
