"""The loop of `box.ask`: what it asks, runs, hands back and says, and all that ends it (contract
11, spec 004)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.base.errors import RateLimited, UsageProblem
from onetool_ipy.core.result import ToolCallError
from onetool_ipy.llm import ScriptedModel, TokenUsage, Turn, User
from onetool_ipy.llm.ask.answer import Answer
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.render.media import Image
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox, Traces

KEYS = {
    "text",
    "toolCalls",
    "toolResults",
    "toolError",
    "sessionContextUpdated",
    "stopReason",
    "usage",
}


@pytest.mark.spec("004/Ask/Tools are on by default")
@pytest.mark.spec("004/Ask Default/Visible tools are offered to the model")
def test_every_visible_tool_is_offered_without_being_asked_for(box: Toolbox) -> None:
    model = ScriptedModel(["Hello."])

    answer = box.ask("Hi", model=model)

    (request,) = model.requests
    visible = [spec for spec in box.registry.list() if spec.is_offered]
    of_toolbox = {spec.name for spec in visible if spec.pack == "ot"}
    assert request.offered == [
        spec.name for spec in visible if spec.name not in of_toolbox - {"ot.result", "ot.results"}
    ]
    assert {"ot.result", "ot.results"} < of_toolbox, "the toolbox itself is no pack of tools"
    assert "time.now" in request.offered
    assert {tool.tool: tool.parameters for tool in request.tools}["fs.read_file"]["required"] == [
        "path"
    ]
    assert request.prompt == "Hi"
    assert answer.text == "Hello."


@pytest.mark.parametrize(
    "replies",
    [
        ["Hi."],
        [("time.now", {}), "x"],
        [("no.such", {}), "x"],
        [RateLimited("slow down")],
        [KeyboardInterrupt],
    ],
    ids=["text", "call", "failed call", "failed model", "stopped"],
)
def test_every_key_is_always_there(box: Toolbox, replies: list[Any]) -> None:
    assert set(box.ask("Go", model=ScriptedModel(replies)).to_dict()) - {"error"} == KEYS


@pytest.mark.spec("004/Ask Output/sessionContextUpdated")
def test_a_session_sees_the_results_of_an_earlier_ask_and_says_so(box: Toolbox) -> None:
    model = ScriptedModel(
        [("tools.echo", {"message": "blue"}), "It is blue.", "You asked before.", "Alone."]
    )

    first = box.ask("Which colour?", model=model, session="work")
    second = box.ask("And before?", model=model, session="work")
    alone = box.ask("Who are you?", model=model)

    assert first.to_dict()["sessionContextUpdated"] is True
    assert second.to_dict()["sessionContextUpdated"] is False
    assert alone.to_dict()["sessionContextUpdated"] is False
    kinds = [type(message).__name__ for message in model.requests[2].messages]
    assert kinds == ["System", "User", "Turn", "Outcomes", "Turn", "User"]
    assert "blue" in json.dumps(model.requests[2].messages[3].items[0].content)
    assert len(model.requests[3].messages) == 2


def test_a_session_object_can_be_used_across_asks(box: Toolbox) -> None:
    session = Session()
    model = ScriptedModel([("time.now", {}), "one", "two"])

    assert box.ask("A", model=model, session=session).session_context_updated
    box.ask("B", model=model, session=session)

    assert [m.text for m in session.messages if isinstance(m, User)] == ["A", "B"]
    session.clear()
    assert len(session) == 0


@pytest.mark.spec("004/Ask Flags/with-tools")
def test_without_tools_nothing_is_offered_and_nothing_runs(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b", read_only=True)
    model = ScriptedModel([("a.b", {}), "I cannot."])

    answer = box.ask("Go", model=model, with_tools=False)

    assert model.requests[0].tools == ()
    assert answer.to_dict()["toolError"]["code"] == "tool_not_found"
    assert traces.left() == {}


def test_settings_give_the_defaults(make_box: MakeBox) -> None:
    box = make_box("ask: {with_tools: false, max_steps: 2}")
    model = ScriptedModel(["a", "b"])

    box.ask("Go", model=model)
    box.ask("Go", model=model, with_tools=True)

    assert [len(request.tools) > 0 for request in model.requests] == [False, True]
    looping = ScriptedModel([("time.now", {})], repeat=True)
    assert box.ask("Go", model=looping, with_tools=True).stop_reason == "max_steps"
    assert len(looping.requests) == 3


@pytest.mark.spec("004/Ask Flags/tool-allow")
@pytest.mark.parametrize(
    ("allow", "offered"),
    [
        (["time.now", "shell.pwd"], ["time.now", "shell.pwd"]),
        ("time.now, shell.pwd", ["time.now", "shell.pwd"]),
        (["fs.*"], ["fs.list_dir", "fs.read_file"]),
        (["$clock"], ["time.now"]),
        (["no.such"], []),
        ([], []),
    ],
)
def test_only_allowed_tools_are_offered(make_box: MakeBox, allow: Any, offered: list[str]) -> None:
    box = make_box("aliases: {clock: time.now}")
    model = ScriptedModel(["ok"])

    box.ask("Go", model=model, tool_allow=allow)

    assert sorted(model.requests[0].offered) == sorted(offered)


def test_a_tool_that_a_person_typed_runs_without_a_model(box: Toolbox) -> None:
    """The prompt form of spec 004's tools: `tool:NAME {json}`."""

    def typed(prompt: str, **options: Any) -> Answer:
        answer = box.ask.typed(prompt, source="magic", **options)
        assert answer is not None
        return answer

    answer = typed('tool:tools.echo {"message": {"a": 1}}')
    bad = typed("tool:tools.echo {oops")
    odd = typed("tool:no.such")
    outside = typed("tool:time.now", tool_allow=["fs.*"])

    assert answer.calls[0].result.data == {"a": 1}
    assert json.loads(answer.text) == {"a": 1}
    assert answer.usage == TokenUsage()
    assert bad.to_dict()["toolError"]["code"] == "invalid_args"
    assert odd.to_dict()["toolError"]["code"] == "tool_not_found"
    assert outside.to_dict()["toolError"]["code"] == "tool_not_found"
    assert typed("tool:time.now").calls[0].ok
    assert box.ask.typed("What is tool:time.now?", source="magic") is None


def test_for_a_program_the_form_of_a_call_is_text(box: Toolbox, traces: Traces) -> None:
    """A program's prompt may come from anywhere: a file, a web page, another model."""
    traces.add(box, "p.wipe")
    model = ScriptedModel(["I will not."])

    answer = box.ask("tool:p.wipe {}", model=model)

    assert answer.text == "I will not."
    assert model.requests[0].prompt == "tool:p.wipe {}"
    assert traces.left() == {}


def test_a_typed_tool_that_may_change_something_needs_approval_where_that_is_asked_for(
    box: Toolbox, traces: Traces
) -> None:
    traces.add(box, "p.wipe")

    def reason(prompt: str, approve: list[str]) -> str | None:
        answer = box.ask.typed(prompt, source="cli", approve=approve)
        assert answer is not None
        error = answer.calls[0].result.error
        return None if error is None else error.reason

    assert reason("tool:p.wipe {}", []) == "not_approved"
    assert reason("tool:p.wipe {}", ["p.other"]) == "not_approved"
    assert traces.left() == {}
    assert reason("tool:p.wipe {}", ["p.wipe"]) is None
    assert reason("tool:time.now", []) is None
    assert traces.left() == {"p.wipe": 1}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"prompt": ""}, "nothing to ask"),
        ({"prompt": None}, "nothing to ask"),
        ({"prompt": "x", "max_steps": 0}, "max_steps"),
        ({"prompt": "x", "max_steps": True}, "max_steps"),
        ({"prompt": "x", "session": 3}, "session"),
        ({"prompt": "x", "tool_allow": [1]}, "allow-list"),
        ({"prompt": "x", "model": "no-such"}, "No model"),
        ({"prompt": "x", "model": 3}, "model"),
    ],
)
def test_misuse_is_an_error_that_says_what_is_wrong(
    box: Toolbox, options: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageProblem, match=word):
        box.ask(**{"model": ScriptedModel(["x"]), **options})


def test_a_closed_toolbox_is_not_asked(box: Toolbox) -> None:
    box.close()

    with pytest.raises(UsageProblem, match="closed"):
        box.ask("Go", model=ScriptedModel(["x"]))


def test_attachments_go_along_as_data_and_images_as_images(box: Toolbox) -> None:
    model = ScriptedModel(["Hello."])
    picture = Image("image/png", b"\x89PNG")

    answer = box.ask(
        "Look", model=model, attach=[{"a": 1}, picture, Image("image/svg+xml", b"<svg/>")]
    )

    (message,) = [one for one in model.requests[0].messages if isinstance(one, User)]
    assert message.text.startswith("Look\n\nAttached data, from outside")
    assert '"data": {"a": 1}' in message.text
    assert message.images == (("image/png", "iVBORw=="),)
    assert "image/svg+xml" in message.text
    assert answer.prompt == "Look"


def test_a_failed_result_cannot_be_attached(box: Toolbox) -> None:
    model = ScriptedModel(["Hello."])

    with pytest.raises(ToolCallError):
        box.ask("Look", model=model, attach=[box.call("fs.read_file", {"path": "none"})])

    assert model.requests == []


@pytest.mark.parametrize(
    ("reply", "ok", "code"),
    [
        ("Done.", True, None),
        (RateLimited("Not now."), False, "execution_error"),
        (Turn("a", stop="cut"), False, "cut"),
    ],
    ids=["done", "failed", "cut"],
)
def test_an_ask_is_a_row_of_the_call_log_beside_its_calls(
    box: Toolbox, reply: Any, ok: bool, code: str | None
) -> None:
    box.ask("Say it", model=ScriptedModel([("tools.echo", {"message": 1}), reply]), source="magic")

    ask, call = box.log.history()
    assert (call.tool, call.source) == ("tools.echo", "model")
    assert (ask.tool, ask.source, ask.ok, ask.code) == ("ask", "magic", ok, code)
    assert ask.arguments == {"prompt": "Say it", "model": "scripted"}
