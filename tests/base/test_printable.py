"""Text that a terminal shows but does not obey: what is escaped, and what stays."""

from __future__ import annotations

import json

import pytest

from onetool_ipy.base.printable import json_printable, printable, printable_line, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain – ünïcode 🔧\n\tsecond", "plain – ünïcode 🔧\n\tsecond"),
        ("dos\r\nline", "dos\r\nline"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[2J\x00\x7f\x9b", "\\x1b[2J\\x00\\x7f\\x9b"),
        ("a\u202eb\u2066\u2028", "a\\u202eb\\u2066\\u2028"),
        ("half \ud800", "half \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_on_one_line_newlines_and_tabs_are_escaped_too() -> None:
    assert printable_line("a\r\n\tb\x1b") == "a\\r\\n\\tb\\x1b"


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("yes", 10, "yes"),
        ("a\nb\tc\x07\u202e\U000e0041", 40, "a\\nb\\tc\\x07\\u202e\\U000e0041"),
        ("run" + " " * 200 + "all", 40, "run[200 blanks]all"),
        ("abcdef", 4, "abcd… (2 more characters)"),
        ("ab\x1bcd", 5, "ab… (3 more characters)"),
    ],
)
def test_every_character_is_visible(text: str, limit: int, expected: str) -> None:
    assert visible(text, limit) == expected


@pytest.mark.parametrize("text", ["\x7f\x85\u2028", "\u202eab", "\U000e0041", "plain"])
def test_json_means_the_same_without_these_characters(text: str) -> None:
    safe = json_printable(json.dumps({"a": text}, ensure_ascii=False))

    assert json.loads(safe) == {"a": text}
    assert printable(safe) == safe
