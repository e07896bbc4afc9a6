"""A secret in a model's text does not show, wherever the text is cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onetool_ipy.base.masking import Secrets
from onetool_ipy.faces.notebook.ask import TerminalView
from onetool_ipy.llm import Turn
from onetool_ipy.llm.ask.context import AskListener
from tests.llm.ask.conftest import MakeBox

PLAIN = "sk-very/secret+value-0123456789"
WORDS = "correct horse battery staple"
FORMS = {
    "plain": PLAIN,
    "in quotes": f'"{PLAIN}"',
    "percent": "sk-very%2Fsecret%2Bvalue-0123456789",
    "with blanks": WORDS,
    "entities": "sk-very&#47;secret&#43;value-0123456789",
}


class Streaming:
    """A model that says its text in these pieces."""

    name = "streaming"

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    def complete(
        self, messages: Any, tools: Any = (), *, on_text: Any = None, **options: Any
    ) -> Turn:
        for piece in self._pieces:
            on_text(piece)
        return Turn("".join(self._pieces))


class Listening(AskListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def text(self, piece: str) -> None:
        self.heard.append(piece)


def _leaks(shown: str) -> bool:
    squeezed = "".join(shown.split())
    return any(part in squeezed for part in ("0123456789", "very", "battery", "value"))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_secret_that_is_cut_anywhere_does_not_show(
    make_box: MakeBox, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    box = make_box(secrets=f"KEY: {PLAIN}\nPHRASE: {WORDS}\n")
    text = f"The key is {form} and no more."

    for cut in range(1, len(text)):
        listener = Listening()
        box.ask("Go", model=Streaming([text[:cut], text[cut:]]), listener=listener)  # type: ignore[arg-type]
        box.ask("Go", model=Streaming([text[:cut], text[cut:]]), listener=TerminalView(box.mask))  # type: ignore[arg-type]
        shown = capsys.readouterr().out

        assert not _leaks("".join(listener.heard)), (cut, listener.heard)
        assert not any(_leaks(piece) for piece in listener.heard), (cut, listener.heard)
        assert "".join(listener.heard) == box.mask(text)
        assert box.mask(text) in shown
        assert not _leaks(shown)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_secret_that_comes_letter_by_letter_does_not_show(make_box: MakeBox, form: str) -> None:
    box = make_box(secrets=f"KEY: {PLAIN}\nPHRASE: {WORDS}\n")
    text = f"The key is {form}. " * 3
    listener = Listening()

    box.ask("Go", model=Streaming(list(text)), listener=listener)  # type: ignore[arg-type]

    assert "".join(listener.heard) == box.mask(text)
    assert not _leaks("".join(listener.heard))


def test_text_streams_on_while_there_are_secrets(make_box: MakeBox) -> None:
    box = make_box(secrets=f"KEY: {PLAIN}\n")
    listener = Listening()
    words = [f"word{number} " for number in range(50)]

    box.ask("Go", model=Streaming(words), listener=listener)  # type: ignore[arg-type]

    assert listener.heard == words


def test_text_without_blanks_does_not_wait_for_its_end() -> None:
    secrets = Secrets({"KEY": PLAIN}, {})

    assert secrets.settled("東" * 10_000) > 9_000
    assert secrets.settled("x" * 100) == 0
    assert Secrets({}, {}).settled("x" * 100) == 100


def test_what_waits_is_shown_when_the_model_breaks_off(make_box: MakeBox) -> None:
    box = make_box(secrets=f"KEY: {PLAIN}\n")
    listener = Listening()

    class Breaking(Streaming):
        def complete(self, *args: Any, **options: Any) -> Turn:
            super().complete(*args, **options)
            raise RuntimeError("gone")

    answer = box.ask("Go", model=Breaking(["half a sent", "ence"]), listener=listener)  # type: ignore[arg-type]

    assert answer.stop_reason == "error"
    assert "".join(listener.heard) == "half a sentence"
