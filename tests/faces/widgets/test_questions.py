"""The questions that stand on pages: seen, answered, taken back, and the line that stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.question import ProposedCall, Question, Reply, checked
from onetool_ipy.faces.widgets.questions import OpenQuestions, outcome_text

CALLS = (ProposedCall("shop.order"), ProposedCall("shop.cancel"))
FORM = {
    "type": "object",
    "properties": {"count": {"type": "integer", "maximum": 9}},
    "required": ["count"],
}


class Page:
    """A page that sees every question and answers as told."""

    def __init__(self, answer: Callable[[OpenQuestions, str], None] | None) -> None:
        self.questions = OpenQuestions(self._hear)
        self.open: list[dict[str, Any]] = []
        self.closed: list[str] = []
        self.shown: list[str] = []
        self.answered: list[Any] = []
        self._answer = answer

    def _hear(self, message: dict[str, Any]) -> None:
        assert message["event"] == "questions"
        self.closed += [one["id"] for one in self.open if one not in message["questions"]]
        self.open = message["questions"]
        for one in self.open if self._answer is not None else ():
            self.questions.seen({"question": one["id"]})
            self._answer(self.questions, one["id"])

    def ask(self, **fields: Any) -> Reply | None:
        return self.questions.ask(
            checked(Question("server 'shop'", "Go?", **fields)), self.shown.append
        )


def _reply(action: str, content: Any = None) -> Callable[[OpenQuestions, str], None]:
    return lambda questions, key: (
        questions.answer({"question": key, "action": action, "content": content}) and None  # type: ignore[func-returns-value]
    )


@pytest.mark.parametrize(
    ("action", "content", "wanted"),
    [
        ("accept", {"run": [2, 2], "always": True}, Reply("accept", {"run": [2], "always": True})),
        ("decline", {"run": [1]}, Reply("decline")),
        ("cancel", None, Reply("cancel")),
    ],
)
def test_an_answer_is_what_the_person_chose(action: str, content: Any, wanted: Reply) -> None:
    page = Page(_reply(action, content))

    assert page.ask(calls=CALLS) == wanted
    assert page.closed == page.shown
    assert page.open == []


@pytest.mark.parametrize(
    ("action", "content"),
    [
        ("accept", {"run": [3]}),
        ("accept", {"run": [0]}),
        ("accept", {"run": []}),
        ("accept", {"run": [True]}),
        ("accept", {"run": "all"}),
        ("accept", None),
        ("yes", {"run": [1]}),
    ],
)
def test_an_answer_that_is_none_runs_nothing_and_leaves_the_question_open(
    action: str, content: Any
) -> None:
    def attempt(questions: OpenQuestions, key: str) -> None:
        with pytest.raises(UsageProblem):
            questions.answer({"question": key, "action": action, "content": content})
        questions.answer({"question": key, "action": "decline"})

    assert Page(attempt).ask(calls=CALLS) == Reply("decline")


def test_a_form_goes_back_with_its_errors_until_it_fits() -> None:
    errors: list[list[Any]] = []

    def fill_in(questions: OpenQuestions, key: str) -> None:
        for count in ("x", 12, 3):
            given = {"question": key, "action": "accept", "content": {"count": count}}
            errors.append(questions.answer(given)["errors"])
        with pytest.raises(UsageProblem, match="over"):
            questions.answer({"question": key, "action": "decline"})

    assert Page(fill_in).ask(form=FORM) == Reply("accept", {"count": 3})
    assert [[each["pointer"] for each in found] for found in errors] == [["/count"], ["/count"], []]


def test_where_no_page_shows_it_the_caller_hears_so() -> None:
    page = Page(None)

    assert page.ask(calls=CALLS) is None
    with pytest.raises(UsageProblem, match="over"):
        page.questions.answer({"question": page.shown[0], "action": "accept"})


def test_a_call_that_nobody_waits_for_takes_its_question_back() -> None:
    seen, workers = threading.Event(), Workers()
    page = Page(lambda _questions, _key: seen.set())

    worker = workers.submit(lambda: page.ask(calls=CALLS))
    assert seen.wait(60)
    assert [each["asker"] for each in page.open] == ["Server 'shop'"]
    workers.abandon(worker)
    worker.join(60)

    assert page.open == []
    assert page.closed == page.shown


def test_a_list_that_was_made_before_a_question_does_not_take_it_away() -> None:
    """A page asks for the list, and the question opens before the list has left: the list with it
    comes last."""
    lists: list[list[str]] = []
    is_begun, is_overtaken = threading.Event(), threading.Event()

    def send(message: dict[str, Any]) -> None:
        if not is_begun.is_set():
            is_begun.set()
            is_overtaken.wait(0.5)
        lists.append([each["id"] for each in message["questions"]])
        is_overtaken.set()
        for key in lists[-1]:
            questions.answer({"question": key, "action": "decline"})

    questions, ids = OpenQuestions(send), []
    page = threading.Thread(target=questions.publish)
    page.start()
    assert is_begun.wait(60)
    questions.ask(checked(Question("server 'shop'", "Go?", calls=CALLS)), ids.append)
    page.join(60)

    assert lists == [[], ids, []]


def test_a_page_gets_every_argument_and_a_huge_one_says_how_much_is_cut() -> None:
    data: list[Any] = []

    def look(questions: OpenQuestions, key: str) -> None:
        data.extend(page.open)
        questions.answer({"question": key, "action": "cancel"})

    args = (("small", '"a"'), ("huge", "x" * 100_007))
    page = Page(look)
    page.ask(calls=(ProposedCall("shop.order", "Order.", args, ("destructive",), "changed"),))

    (call,) = data[0]["calls"]
    assert (call["tool"], call["summary"], call["badges"], call["note"]) == (
        *("shop.order", "Order.", ["destructive"]),
        "changed",
    )
    assert [arg["name"] for arg in call["args"]] == ["small", "huge"]
    assert call["args"][1]["text"].endswith("… (7 more characters)")


@pytest.mark.parametrize(
    ("fields", "reply", "line"),
    [
        (
            {"calls": CALLS[:1]},
            Reply("accept", {"run": [1]}),
            "You allowed 1 call of shop.order, 12:07.",
        ),
        (
            {"calls": CALLS},
            Reply("accept", {"run": [2], "always": True}),
            (
                "You allowed every call of shop.cancel in this session and skipped 1 call of"
                " shop.order, 12:07."
            ),
        ),
        (
            {"calls": CALLS},
            Reply("decline"),
            "You skipped 1 call of shop.order, 1 call of shop.cancel, 12:07.",
        ),
        (
            {"calls": CALLS[:1] * 3},
            Reply("accept", {"run": [2]}),
            "You allowed 1 call of shop.order and skipped 2 calls of shop.order, 12:07.",
        ),
        ({"calls": CALLS[:1]}, None, "Stopped, 12:07: 1 call of shop.order did not run."),
        (
            {"form": FORM},
            Reply("accept", {"count": 1}),
            "Server 'shop' asked you. You answered, 12:07.",
        ),
        ({"form": FORM}, Reply("decline"), "Server 'shop' asked you. You declined, 12:07."),
        ({"form": FORM}, Reply("cancel"), "Server 'shop' asked you. You cancelled, 12:07."),
        (
            {"url": "https://a.example"},
            Reply("accept"),
            "Server 'shop' asked you. You opened the address, 12:07.",
        ),
        ({"form": FORM}, None, "Server 'shop' asked you. Stopped, 12:07."),
        ({"yes": "Go"}, Reply("accept"), "Go? You said yes, 12:07."),
        ({"yes": "Go"}, Reply("decline"), "Go? You said no, 12:07."),
        ({"yes": "Go"}, None, "Go? Stopped, 12:07."),
        ({"yes": "Go", "form": FORM}, Reply("accept", {"count": 1}), "Go? You answered, 12:07."),
    ],
)
def test_the_line_that_stays_says_what_was_decided(
    fields: Any, reply: Reply | None, line: str
) -> None:
    assert outcome_text(Question("server 'shop'", "Go?", **fields), reply, "12:07") == line
