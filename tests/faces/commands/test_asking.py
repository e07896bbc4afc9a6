"""The options of an ask: one row for `%ask` and for the command line."""

from __future__ import annotations

import pytest

from onetool_ipy.faces.commands import WrongWords
from onetool_ipy.faces.commands.asking import ROW, ask_arguments


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ({"--tools": True}, {"with_tools": True}),
        ({"--no-tools": True}, {"with_tools": False}),
        ({"--with-tools": True}, {"with_tools": True}),
        ({"--with-tools": "no"}, {"with_tools": False}),
        ({"--tool-allow": ["a.b"]}, {"tool_allow": ["a.b"]}),
        ({"--allow": ["a.b"]}, {"tool_allow": ["a.b"]}),
        ({"--plan": True, "--session": "x"}, {"plan": True, "session": "x"}),
    ],
)
def test_an_alias_of_an_option_means_the_option(
    typed: dict[str, object], named: dict[str, object]
) -> None:
    assert ask_arguments(ROW.named(typed, "notebook")) == named
    assert ask_arguments(ROW.named(typed, "shell")) == named


@pytest.mark.parametrize(
    "typed", [["--tools", "--no-tools"], ["--allow", "--tool-allow"], ["--with-tools", "--tools"]]
)
def test_two_spellings_of_one_option_are_refused(typed: list[str]) -> None:
    with pytest.raises(WrongWords, match=f"{typed[0]} and {typed[1]} exclude each other"):
        ROW.named(dict.fromkeys(typed, True), "shell")


def test_each_place_has_the_options_that_make_sense_there() -> None:
    only = ROW.options_in("notebook").keys() ^ ROW.options_in("shell").keys()
    assert only == {"--as", "--distil", "--soft", "-o"}
