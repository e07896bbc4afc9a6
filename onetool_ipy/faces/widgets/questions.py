"""The questions that stand on the pages of one kernel: who may answer, what the answer is, what
stays in the cell.

A question is an output of the running cell that holds only an id. A page with our panel draws it
from what the kernel says of that id, in the cell and in the panel, so that no saved notebook can
forge one. Its answer comes over the panels' comm, which is read while a cell runs. A page that does
not report the question in time cannot show it; then the caller asks as text. After a reload of the
page the panel shows the questions that still stand.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from onetool_ipy.base.background import require_wanted
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import revealed
from onetool_ipy.base.values import Json, cut
from onetool_ipy.core.question import Question, Reply, form_errors
from onetool_ipy.render.views import counted

MIME = "application/vnd.onetool.question+json"
_CONNECTED_S, _FIRST_S = 20.0, 1.0
"""How long a page may take to report a question: one that has connected, and may be loading again;
one that may be."""
_EVERY_S = 0.1
_MAX_ARGUMENT = 100_000


class OpenQuestions:
    """The open questions of one kernel. `send` sends an event to every page."""

    def __init__(self, send: Callable[[Json], None]) -> None:
        self._send = send
        self._open: dict[str, _OpenQuestion] = {}
        self._publishing = threading.Lock()
        self._patience_s = _FIRST_S

    def ask(self, question: Question, show: Callable[[str], None]) -> Reply | None:
        """Wait for a page's answer; `show` puts the question with this id into the cell. None if no
        page shows it."""
        one = _OpenQuestion(question)
        self._open[one.id] = one
        try:
            show(one.id)
            self.publish()
            if not _wait(one.seen, lambda: self._patience_s):
                self._patience_s = 0.0
                return None
            _wait(one.answered, lambda: math.inf)
            return one.reply
        finally:
            del self._open[one.id]
            self.publish()

    def expect_page(self) -> None:
        """A page has sent something, so there is one: it gets its time, also for a question that
        waits already."""
        self._patience_s = _CONNECTED_S

    def publish(self) -> None:
        """Send the open questions to every page: after each change, and for a page that has just
        connected.

        Each list is whole, and is sent before another one is made. So the list that a page gets
        last is the newest.
        """
        with self._publishing:
            self._send(
                {
                    "event": "questions",
                    "questions": [one.data for one in tuple(self._open.values())],
                }
            )

    def seen(self, payload: Json) -> None:
        """A page shows a question."""
        one = self._open.get(str(payload.get("question")))
        if one is not None:
            one.seen.set()

    def answer(self, payload: Json) -> Json:
        """Take an answer; the errors of a form go back to it. Raises UsageProblem if the question
        is over."""
        one = self._open.get(str(payload.get("question")))
        if one is None or one.answered.is_set():
            raise UsageProblem("This question is over.")
        action, content = payload.get("action"), payload.get("content")
        if action not in ("accept", "decline", "cancel"):
            raise UsageProblem("The answer must be accept, decline or cancel.")
        reply = Reply(action, dict(content) if isinstance(content, Mapping) else {})
        if reply.action == "accept":
            if one.question.form is not None and (
                errors := form_errors(one.question.form, reply.content)
            ):
                return {"errors": errors}
            if count := len(one.question.calls):
                # The numbers of the calls to run, and whether they need no question in this
                # session.
                run = reply.content.get("run")
                if (
                    not isinstance(run, list)
                    or not run
                    or not all(type(n) is int and 1 <= n <= count for n in run)
                ):
                    raise UsageProblem("The answer names no call of this question.")
                always = reply.content.get("always") is True and one.question.offers_always
                reply = Reply(action, {"run": sorted(set(run)), "always": always})
        one.reply = reply if reply.action == "accept" else Reply(reply.action)
        one.seen.set()
        one.answered.set()
        return {"errors": []}


class _OpenQuestion:
    """A question that somebody waits for."""

    def __init__(self, question: Question) -> None:
        self.id = uuid.uuid4().hex
        self.question = question
        self.seen = threading.Event()
        self.answered = threading.Event()
        self.reply: Reply | None = None
        self.data: Json = {
            "id": self.id,
            "asker": revealed(question.subject),
            "text": revealed(question.text),
            "url": question.url,
            "details": [revealed(line) for line in question.details],
            "yes": question.yes,
            "no": question.no,
            "program": revealed(question.program),
            "eachTime": question.each_time,
            "offersAlways": question.offers_always,
            "places": [revealed(place) for place in question.places],
            "trust": None if question.trust is None else dict(question.trust),
            "form": None if question.form is None else dict(question.form),
            "calls": [
                {
                    "tool": revealed(call.tool),
                    "summary": revealed(call.summary),
                    "badges": [revealed(badge) for badge in call.badges],
                    "note": revealed(call.note),
                    "sends": revealed(call.sends),
                    "args": [
                        {"name": revealed(name), "text": revealed(_shortened(text))}
                        for name, text in call.args
                    ],
                }
                for call in question.calls
            ],
        }


def outcome_text(question: Question, reply: Reply | None, at: str) -> str:
    """The line that stays in the cell: what the person decided, and when. `reply` is None if Stop
    came first."""
    if question.trust is not None:
        did = {"accept": "You trusted", "decline": "You did not trust"}.get(
            "" if reply is None else reply.action, ""
        )
        what = f"the {question.trust['part']}" if question.trust.get("part") else "this project"
        return f"{did} {what}, {at}." if did else f"Stopped, {at}: {what} is not trusted."
    subject = cut(question.text, 300) if question.yes else f"{question.subject} asked you."
    if question.program:
        chosen = () if reply is None else reply.content.get("run", ())
        if reply is None or reply.action == "cancel":
            return f"Stopped, {at}: no write of the program was made."
        return f"You allowed {len(chosen)} of {len(question.calls)} writes of the program, {at}."
    if question.calls:
        run = () if reply is None else reply.content.get("run", ())
        calls = list(enumerate((call.tool for call in question.calls), start=1))
        tools_to_run = [tool for number, tool in calls if number in run]
        allowed = _counted_calls(tools_to_run)
        skipped = _counted_calls([tool for number, tool in calls if number not in run])
        if reply is None or reply.action == "cancel":
            return f"Stopped, {at}: {skipped} did not run."
        if reply.content.get("always") and question.places:
            allowed += f", and all else to {' and '.join(question.places)} in this ask"
        elif reply.content.get("always"):
            allowed = f"every call of {', '.join(dict.fromkeys(tools_to_run))} in this session"
        parts = [
            *([f"allowed {allowed}"] if allowed else ()),
            *([f"skipped {skipped}"] if skipped else ()),
        ]
        return f"You {' and '.join(parts)}, {at}."
    if reply is None:
        return f"{subject} Stopped, {at}."
    done = {
        "accept": "You opened the address" if question.url else "You answered",
        "decline": "You declined",
    }
    if question.yes and question.form is None:
        done = {"accept": "You said yes", "decline": "You said no"}
    return f"{subject} {done.get(reply.action, 'You cancelled')}, {at}."


def _counted_calls(tools: Sequence[str]) -> str:
    """`1 call of shop.order, 2 calls of mail.send`"""
    return ", ".join(
        f"{counted(count, 'call')} of {tool}" for tool, count in Counter(tools).items()
    )


def _wait(event: threading.Event, limit_s: Callable[[], float]) -> bool:
    """Wait a little at a time, so that Stop and a new limit get through. Raises Abandoned if the
    call was abandoned."""
    time_s = 0.0
    while not event.wait(min(limit_s() - time_s, _EVERY_S)):
        require_wanted()
        time_s += _EVERY_S
        if time_s >= limit_s():
            return False
    return True


def _shortened(text: str) -> str:
    more = len(text) - _MAX_ARGUMENT
    return f"{text[:_MAX_ARGUMENT]}… ({more:,} more characters)" if more > 0 else text
