"""Questions as text: which typed answers count, and where nobody can answer."""

from __future__ import annotations

import asyncio
import builtins
import getpass
import threading
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.core import current
from onetool_ipy.core.question import (
    MAX_QUESTIONS,
    NobodyToAsk,
    ProposedCall,
    Question,
    QuestionRefused,
    Reply,
    checked,
)
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.host import Host
from onetool_ipy.terminal import ask_in_terminal

Typed = Callable[..., list[str]]

FORM = {
    "type": "object",
    "properties": {
        "size": {
            "type": "string",
            "title": "Size",
            "enum": ["s", "l"],
            "enumNames": ["Small", "Large"],
        },
        "count": {"type": "integer", "minimum": 1, "default": 2},
        "gift": {"type": "boolean"},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["milk", "sugar"]}},
    },
    "required": ["size"],
}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """`typed("yes", "2")`: a person types these lines; gives the prompts as they come."""

    def set_up(*lines: str) -> list[str]:
        prompts: list[str] = []
        left = list(lines)

        def read(prompt: str = "") -> str:
            prompts.append(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr(builtins, "input", read)
        return prompts

    return set_up


def _question(**fields: Any) -> Question:
    return checked(Question("server 'shop'", "Which size?\n\x1b[2JRun? all", **fields))


def test_a_form_is_filled_in_line_by_line(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = typed("yes", "huge", "Large", "", "no", "1, sugar")

    reply = ask_in_terminal(_question(form=FORM))

    assert reply == Reply(
        "accept", {"size": "l", "count": 2, "gift": False, "extras": ["milk", "sugar"]}
    )
    assert prompts[0].startswith("Server 'shop' asks:\n  Which size?\n  \\x1b[2JRun? all\n")
    assert "  2. Large" in prompts[1]
    assert "Size (one of these, required): " in prompts[1]
    assert "Enter for 2" in prompts[3]
    assert "'huge' is not one of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["no"], "decline"),
        (["n"], "decline"),
        ([""], "cancel"),
        (["sure"], "cancel"),
        (["sure", "really"], "cancel"),
        (["sure", "no"], "decline"),
        (["yes"], "cancel"),
    ],
)
def test_only_a_listed_answer_counts(typed: Typed, lines: list[str], action: str) -> None:
    typed(*lines)

    assert ask_in_terminal(_question(form=FORM)).action == action


def test_a_field_that_stays_wrong_cancels(typed: Typed) -> None:
    typed("yes", "x", "y", "", "never")

    reply = ask_in_terminal(_question(form=FORM))

    assert (reply.action, reply.note) == ("cancel", "'size' was not filled in.")


def test_an_address_is_shown_whole_and_only_yes_accepts(typed: Typed) -> None:
    address = "https://shop.example/consent?" + "x" * 300
    prompts = typed("yes", "ok", "ok")

    accepted, dismissed = (ask_in_terminal(_question(url=address)) for _ in range(2))

    assert f"\n  {address}\n" in prompts[0]
    assert (accepted.action, dismissed.action) == ("accept", "cancel")


def test_calls_say_what_their_tools_do_and_what_has_changed(typed: Typed) -> None:
    call = ProposedCall(
        "shop.wipe",
        args=(("all", "true"),),
        badges=("server shop", "destructive"),
        note="it changed",
    )
    prompts = typed("yes", "y", "all")

    refused, allowed = (ask_in_terminal(Question("the model", "", calls=(call,))) for _ in range(2))

    assert (
        "  1. shop.wipe all=true\n     (server shop, destructive)\n     (it changed)\n"
        in prompts[0]
    )
    assert (refused.action, refused.note) == ("cancel", "the reply 'y' was not understood")
    assert prompts[1] == "'yes' is not one of the answers. Run? all, none, or always: "
    assert allowed == Reply("accept", {"run": [1], "always": False})


def test_the_trust_question_takes_only_yes(typed: Typed) -> None:
    prompts = typed("y", " YES ", "ok", "")
    question = Question("this project", "It may run:\n  a.py", trust={"server": ""})

    replies = [ask_in_terminal(question).action for _ in range(4)]

    assert replies == ["accept", "accept", "decline", "decline"]
    assert prompts[0] == "Trust it? [y/N] "


def test_a_yes_or_a_no_shows_what_it_is_about_and_only_a_listed_word_is_a_yes(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = typed("y", " YES ", "n", "", "sure\x1b", "true")
    hostile = "+ a\nAdd it? [y/N] y" + "x" * 70
    question = checked(Question("%tool", "Add it?\n\x1b[2J", details=(hostile,), yes="Add"))

    replies = [ask_in_terminal(question).action for _ in range(6)]

    assert replies == ["accept", "accept", *["decline"] * 4]
    said = [
        "'sure\\x1b' is neither yes nor no, so it is a no.",
        "'true' is neither yes nor no, so it is a no.",
    ]
    assert capsys.readouterr().out.splitlines() == said
    first, more, last = prompts[0].split("\n")
    assert first.startswith("  + a\\nAdd it? [y/N] yxxx")
    assert more.startswith("       | x")
    assert last == "Add it?\\n\\x1b[2J [y/N] "


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        (["y"], Reply("accept", {"run": [1], "always": False})),
        ([" Yes"], Reply("accept", {"run": [1], "always": False})),
        (["always"], Reply("decline")),
        ([""], Reply("decline")),
        (["n"], Reply("decline")),
    ],
)
def test_server_that_wants_the_model_is_named_and_allowed_once(
    typed: Typed, lines: list[str], reply: Reply
) -> None:
    """docs/mcp.md: "You see the whole text and say yes each time"."""
    call = ProposedCall("your model", "Its reply goes to the server.", (("user", '"Hi\\nServer"'),))
    prompts = typed(*lines)

    question = Question("server 'shop'", "wants to use your model.", calls=(call,), each_time=True)

    assert ask_in_terminal(question) == reply
    head, *_, last = prompts[0].splitlines()
    assert head == "Server 'shop' wants to use your model."
    assert last == "Allow it this once? [y/N] "
    assert not any("always" in prompt.replace("'always'", "") for prompt in prompts)


@pytest.mark.parametrize(
    ("lines", "run"),
    [
        (["yes", "all"], [1, 2, 3]),
        (["yes", "1,3"], [1, 3]),
        (["yes", "none"], []),
        (["yes", "yes"], []),
        (["yes"], []),
    ],
)
def test_reply_that_is_not_understood_is_asked_about_once_more(
    typed: Typed, lines: list[str], run: list[int]
) -> None:
    calls = tuple(ProposedCall("nb.order", args=(("n", str(number)),)) for number in range(3))
    prompts = typed(*lines)

    reply = ask_in_terminal(Question("the model", "", calls=calls))

    assert reply.content.get("run", []) == run
    assert (
        prompts[1]
        == "'yes' is not one of the answers. Run? all, none, numbers such as 1,3, or always: "
    )
    assert len(prompts) == 2


def test_a_secret_is_typed_unseen(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = typed("seen")
    asked: list[str] = []

    def read(prompt: str = "") -> str:
        asked.append(prompt)
        return "s3cret"

    monkeypatch.setattr(getpass, "getpass", read)
    form = {
        "type": "object",
        "properties": {"value": {"type": "string", "format": "password"}},
        "required": ["value"],
    }
    question = checked(
        Question("%tool", "It needs a key.", form=form, yes="Go on", takes_secret=True)
    )

    assert ask_in_terminal(question) == Reply("accept", {"value": "s3cret"})
    assert asked == ["It needs a key.\nvalue (text, not shown, required): "]
    assert shown == []


@pytest.mark.parametrize(
    "fields", [{"form": FORM}, {"form": FORM, "yes": "Go on"}, {"yes": "Add"}, {"trust": {}}]
)
def test_without_a_terminal_nobody_can_be_asked(fields: Any) -> None:
    with pytest.raises(NobodyToAsk, match=r"[Nn]obody c"):
        ask_in_terminal(_question(**fields))


class Answering(Host):
    """A person who answers every question the same way."""

    def __init__(self, reply: Reply) -> None:
        self.asked: list[Question] = []
        self._reply = reply

    def ask(self, question: Question) -> Reply:
        self.asked.append(question)
        return self._reply


def _tool(run: Callable[[dict[str, Any]], Any]) -> ToolSpec:
    return ToolSpec(name="shop.order", description="Order.", parameters={"type": "object"}, run=run)


def test_values_that_do_not_fit_the_form_are_not_handed_on() -> None:
    with open_toolbox() as box:
        box.host = Answering(Reply("accept", {"size": "huge"}))

        reply = box.put_question(Question("server 'shop'", "Size?", form=FORM))

    assert (reply.action, dict(reply.content)) == ("cancel", {})


@pytest.mark.parametrize("source", ["rest", "mcp"])
def test_a_call_of_another_program_does_not_ask_the_person_at_the_kernel(source: Any) -> None:
    with open_toolbox() as box:
        host = box.host = Answering(Reply("accept"))
        box.registry.register(
            _tool(lambda _args: box.put_question(Question("tool 'shop.order'", "Really?")).action)
        )

        refused = box.call("shop.order", source=source)
        token = current.enter(current.Scope(box, ask=lambda _question: Reply("decline")))
        try:
            relayed = box.call("shop.order", source=source)
        finally:
            current.leave(token)

    assert refused.error is not None
    assert "cannot ask anybody" in refused.error.message
    assert relayed.data == "decline"
    assert host.asked == []


LIMIT_S = 3.0
"""Far more than a call that only asks needs on a busy machine."""


class Slow(Answering):
    """A person who takes longer than the limit of the tool."""

    def ask(self, question: Question) -> Reply:
        threading.Event().wait(1.2 * LIMIT_S)
        return super().ask(question)


def test_the_time_of_a_person_does_not_count_for_the_limit_of_the_tool() -> None:
    def ask(_args: dict[str, Any]) -> str:
        return box.put_question(Question("tool 'shop.order'", "Really?")).action

    with open_toolbox() as box:
        box.host = Slow(Reply("decline"))
        box.registry.register(_tool(ask))
        box.registry.register(
            _tool(lambda _args: box.call("shop.order", timeout=LIMIT_S).unwrap()).replace(
                name="shop.outer"
            )
        )
        box.registry.register(
            _tool(lambda _args: threading.Event().wait(60)).replace(name="shop.slow")
        )

        direct = box.call("shop.order", timeout=LIMIT_S)
        nested = box.call("shop.outer", timeout=LIMIT_S)
        awaited = asyncio.run(box.acall("shop.order", timeout=LIMIT_S))
        late = box.call("shop.slow", timeout=0.2)

    assert [direct.data, nested.data, awaited.data] == ["decline"] * 3
    assert late.error is not None
    assert late.error.reason == "timeout"


def test_a_call_that_asks_for_ever_is_stopped() -> None:
    def ask_on(_args: dict[str, Any]) -> None:
        while True:
            box.put_question(Question("tool 'shop.order'", "And now?"))

    with open_toolbox() as box:
        host = box.host = Answering(Reply("decline"))
        box.registry.register(_tool(ask_on))

        result = box.call("shop.order")

    assert result.error is not None
    assert result.error.reason == QuestionRefused.reason
    assert len(host.asked) == MAX_QUESTIONS
