"""Text that a terminal shows but does not obey: what is escaped, and what stays."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.printable import json_printable, printable, printable_line, revealed, visible


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


# Unicode's Default_Ignorable_Code_Point, and three that fonts draw as nothing.
NO_INK = {
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
    *(0x2800, 0x16FE4, 0x1D159),
}


@pytest.mark.slow
def test_every_character_of_a_question_is_seen() -> None:
    """All of Unicode: what has no ink, no meaning or no glyph is escaped, and nothing else is."""
    hidden_kinds = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        is_hidden = code in NO_INK or (unicodedata.category(char) in hidden_kinds and char != " ")
        assert (visible(char) != char) == is_hidden, hex(code)
        assert (revealed(char) != char) == (is_hidden and char not in "\n\t"), hex(code)


def test_two_texts_that_look_the_same_are_shown_differently() -> None:
    plain = "npx server"
    for char in "\u200b\u00ad\u3164\u2800\ufeff\ufe0f\U000e0041\u034f\u115f":
        assert visible(f"npx{char} server") == f"npx{visible(char)} server" != plain
        assert revealed(f"npx{char} server\nb") == f"npx{visible(char)} server\nb"
    assert revealed("a\r\nb\rc") == "a\nb\\x0dc"


@given(st.text())
def test_whatever_was_written_can_be_seen(text: str) -> None:
    """The naive twin: of each character its category. Only a plain blank, and a newline in a long
    text, has no ink."""
    unseen = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}

    assert not [one for one in visible(text) if one != " " and unicodedata.category(one) in unseen]
    assert not [
        one
        for one in revealed(text)
        if one not in " \n\t" and unicodedata.category(one) in unseen - {"Zs"}
    ]
