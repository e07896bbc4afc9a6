"""What a command is: where it runs, what it takes, and what its answer carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.faces.commands import (
    Command,
    CommandContext,
    DataPage,
    Option,
    Page,
    WrongWords,
    checked,
    confirmed,
    one_word,
    put,
)
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.host import Host
from onetool_ipy.render.views import ErrorText


class Person(Host):
    """A person who replies, or whom nobody reaches."""

    def __init__(self, reply: Reply | BaseException) -> None:
        self.reply = reply
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply


@pytest.fixture
def box(tmp_path: Path) -> Any:
    secrets = tmp_path / ".onetool" / "secrets.yaml"
    secrets.parent.mkdir()
    secrets.write_text("TOKEN: s3cr3t-of-the-tests\n", encoding="utf-8")
    secrets.chmod(0o600)
    env = {"ONETOOL_STATE": str(tmp_path / "state"), "ONETOOL_TRUST": str(tmp_path)}
    with open_leniently(cwd=tmp_path, env=env) as opened:
        yield opened


@pytest.mark.parametrize(
    ("place", "where"),
    [("everywhere", {"notebook", "shell"}), ("notebook", {"notebook"}), ("shell", {"shell"})],
)
def test_command_and_option_are_where_their_place_is(place: Any, where: set[str]) -> None:
    command = Command(
        "x",
        "NAME",
        "do it",
        print,
        place=place,
        options=(Option("--a", place=place), Option("--b")),
    )
    places: Any = ("notebook", "shell")

    assert {each for each in places if command.runs_in(each)} == where
    assert {each for each in places if "--a" in command.options_in(each)} == where
    assert all("--b" in command.options_in(each) for each in places)


def test_usage_names_what_is_typed() -> None:
    assert Command("x", "NAME", "", print).usage == "x NAME"
    assert Command("x", "", "", print).usage == "x"
    assert Option("--a").usage == "--a"
    assert Option("--a", "text").usage == "--a TEXT"
    assert Option("--a", "text", metavar="FILE").usage == "--a FILE"


def test_toolbox_is_opened_when_a_command_needs_it(box: Toolbox) -> None:
    opened: list[Toolbox] = []
    context = CommandContext(lambda: opened.append(box) or box, command_words=frozenset())

    assert (context.opened, context.place) == (None, "shell")
    assert context.box is context.box is box
    assert context.opened is box
    assert len(opened) == 1


def test_page_of_a_command_holds_no_secret(box: Toolbox) -> None:
    context = CommandContext(lambda: box, command_words=frozenset())

    assert "s3cr3t" not in str(context.page("one", "it is s3cr3t-of-the-tests"))
    assert str(context.page("one", "two")) == "one\ntwo"


def test_page_with_data_is_the_same_page() -> None:
    page = DataPage.of(Page("words"), {"a": 1}, is_failure=True)

    assert (str(page), page.data, page.is_failure) == ("words", {"a": 1}, True)
    assert DataPage.of(Page("words"), None).is_failure is False


def test_error_text_of_ot_is_raised_without_its_mark() -> None:
    with pytest.raises(UsageProblem, match=r"^No such thing\.$"):
        checked(ErrorText("Error: No such thing."))
    assert checked("Error: a text of the user") == "Error: a text of the user"


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_command_of_one_word_takes_one(words: list[str]) -> None:
    with pytest.raises(WrongWords, match=r"%tool info needs one name") as caught:
        one_word(Options(words, {}), "info")
    assert caught.value.hint == "For example: %tool info time.now"
    assert one_word(Options(["a"], {}), "info") == "a"


@pytest.mark.parametrize(
    ("reply", "is_yes"),
    [
        (Reply("accept"), True),
        (Reply("decline"), False),
        (Reply("cancel"), False),
        (NobodyToAsk("x"), None),
    ],
)
def test_yes_is_a_yes_and_nobody_is_none(box: Toolbox, reply: Any, is_yes: bool | None) -> None:
    person = box.host = Person(reply)

    assert confirmed(box, "Do it?", "Do", ["a line"]) is is_yes
    assert (person.questions[0].text, person.questions[0].details) == ("Do it?", ("a line",))


def test_stop_at_a_question_is_said(box: Toolbox) -> None:
    box.host = Person(KeyboardInterrupt())

    with pytest.raises(UsageProblem, match="Stopped at this question; nothing more was done"):
        put(box, Question("%tool", "Do it?", yes="Do"))
