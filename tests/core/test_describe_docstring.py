"""Google-style docstrings, as people write them."""

from __future__ import annotations

import pytest

from onetool_ipy.core.describe import Docstring, read


def test_all_sections_are_read() -> None:
    found = read(
        """Search the web
        for pages.

        More about it:
        - one
        - two

        Args:
            query: What to look for,
                in words.
            count (int, optional): How many.
            *rest: The rest.
            options (dict(str, int)): With brackets.

        Returns:
            A list of pages.

            Each is a dict.

        Raises:
            ValueError: never shown

        Example:
            search("x")
              .first()
        """
    )

    assert found.description == "Search the web for pages.\n\nMore about it:\n- one\n- two"
    assert found.args == {
        "query": "What to look for, in words.",
        "count": "How many.",
        "rest": "The rest.",
        "options": "With brackets.",
    }
    assert found.returns == "A list of pages.\n\nEach is a dict."
    assert found.example == 'search("x")\n  .first()'


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read(text) == Docstring("", {}, "", "")


@pytest.mark.parametrize(
    ("text", "returns"),
    [
        ("Do.\n\nReturns: a number", "a number"),
        ("Do.\n\nReturn:\n  x", "x"),
        ("Do.\n\nYields:\n    rows", "rows"),
    ],
)
def test_returns_is_read_in_its_usual_spellings(text: str, returns: str) -> None:
    assert read(text).returns == returns


def test_examples_with_two_colons_are_an_example() -> None:
    assert read("Do.\n\nExamples::\n\n    do()\n").example == "do()"


def test_words_with_a_colon_are_no_section() -> None:
    assert read("Note that:\nit is so: yes").description == "Note that: it is so: yes"
