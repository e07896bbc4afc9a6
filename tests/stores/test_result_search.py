"""Searching stored results: by pattern, by likeness; that a line is a line, and that no pattern
holds the kernel."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import re2  # type: ignore[import-untyped]  # it ships no types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.stores.result_file import ResultText, read_sidecar
from onetool_ipy.stores.result_search import InvalidPattern, find_similar, finder, search
from onetool_ipy.stores.results import Results
from tests.stores.results_aids import lines, open_results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(tmp_path)


def open_text(results: Results, handle: str) -> ResultText:
    sidecar = read_sidecar(results.folder / f"{handle}.json")
    assert sidecar is not None
    return ResultText(results.folder / f"{handle}.txt", sidecar)


@pytest.mark.spec("001/Query Stored Results/Query with search filter")
def test_search_gives_only_lines_that_match_and_pages_through_them(results: Results) -> None:
    text = "".join(
        f"{number} {'error' if number % 3 == 0 else 'fine'}\n" for number in range(1, 1_001)
    )
    handle = results.put(text)

    found = results.query(handle, search="error")
    later = results.query(handle, search="error", offset=332, limit=10)

    assert found["lines"] == [f"{number} error" for number in range(3, 301, 3)]
    assert found["line_numbers"] == list(range(3, 301, 3))
    assert (found["matched"], found["total_lines"], found["returned"], found["has_more"]) == (
        333,
        1_000,
        100,
        True,
    )
    assert later["lines"] == ["996 error", "999 error"]
    assert later["line_numbers"] == [996, 999]
    assert (later["matched"], later["offset"], later["has_more"]) == (333, 332, False)


TEXT = "Alpha\n\n  beta x\r\nb\u00e9ta\ngamma=1 \u2028 delta\nfoo\nbar\nfoobar\n\nlast"


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("alpha", []),
        ("(?i)ALPHA", [1]),
        ("^$", [2, 9]),
        ("x*", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("$", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("^b", [4, 7]),
        ("t$", [10]),
        ("x$", [3]),
        ("\r", []),
        ("o$", [6]),
        (r"foo\s*bar", [8]),
        ("foo[^x]b", []),
        ("o[^x]*bar", [8]),
        (r"foo\nbar", []),
        ("(?s)foo.bar", []),
        (r"\Aba", [7]),
        (r"t\z", [10]),
        (r"(?-m:^)ba", [7]),
        (r"\bdelta\b", [5]),
        ("b.ta", [3, 4]),
        ("é", [4]),
        ("gamma=1", [5]),
        (r"\x{2028}", [5]),
        (r"\Q=1\E", [5]),
        ("foo|bar", [6, 7, 8]),
        ("(f)(o)(o)", [6, 8]),
        ("last", [10]),
    ],
)
def test_pattern_sees_each_line_by_itself(
    results: Results, pattern: str, numbers: list[int]
) -> None:
    handle = results.put(TEXT)

    found = results.query(handle, search=pattern)

    assert found["line_numbers"] == numbers
    assert found["lines"] == [TEXT.replace("\r", "").split("\n")[number - 1] for number in numbers]


@pytest.mark.parametrize("search_for", [None, ""])
def test_no_pattern_is_no_search(results: Results, search_for: str | None) -> None:
    handle = results.put("a\nb")

    assert "matched" not in results.query(handle, search=search_for)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(
        st.sampled_from(["a", "b", "ab", "\n", "\n\n", "é", "\r", " ", "aab" * 3_000]), max_size=60
    ),
    pattern=st.sampled_from(
        ["a", "^a", "b$", "a*", "ab+", "[^a]", "(a|b)b", "^$", "é", r"a\sb", ".", "^", r"\Aa", "aa"]
    ),
    copies=st.sampled_from([1, 40]),
)
def test_search_finds_what_python_finds_line_by_line(
    results: Results, parts: list[str], pattern: str, copies: int
) -> None:
    """Whatever the text, in one chunk or in many."""
    text = "".join(parts) * copies
    expected = [
        number
        for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], start=1)
        if re.search(pattern, line.removesuffix("\r"), re.ASCII)
    ]
    with open_text(results, results.put(text)) as stored:
        matches = search(stored, pattern, skip=0, limit=10**6)

    assert [number + 1 for number in matches.numbers] == expected
    assert matches.total == len(expected)


def test_search_of_many_chunks_numbers_every_line(results: Results) -> None:
    text = "".join(f"{number}:{'y' * (number % 300)}\n" for number in range(1, 20_001))
    handle = results.put(text)

    for pattern in ("7:", "^[0-9]+7:", "y$", r"(?i)Y$", ":", "[0-9]:", "[^y]:"):
        found = results.query(handle, search=pattern, offset=1_001, limit=500)

        assert [line.partition(":")[0] for line in found["lines"]] == [
            str(number) for number in found["line_numbers"]
        ]
        assert found["returned"] == 500


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "a)(b",
        "*",
        "(?=x)",
        r"(a)\1",
        "a{1001}",
        "(?P<a",
        "\\",
        "x" * 10_000,
        "\ud800",
        r"\p{Nope}",
        "(a{1000}){999}",
    ],
)
def test_bad_pattern_is_an_error_with_the_reason(results: Results, pattern: str) -> None:
    handle = results.put("x")

    with pytest.raises(InvalidPattern, match="Invalid search pattern") as caught:
        results.query(handle, search=pattern)

    assert isinstance(caught.value, OneToolError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.reason
    assert len(str(caught.value)) < 300


EVIL = [
    "(a+)+$",
    "(a|a)*c",
    "(a|aa)+$",
    "(.*a){20}c",
    r"(\w+\s*)+=$",
    "(x+x+)+y",
    "[ab]*a[ab]{20}c",
    "a?" * 30 + "b" * 30,
]


@pytest.mark.parametrize("pattern", EVIL)
def test_evil_pattern_gives_control_back_within_a_second(results: Results, pattern: str) -> None:
    """`re` would take longer than the universe has; what counts here is processor time, since
    others use it too."""
    handle = results.put("a" * 1_000_000 + "!\n" + "ab" * 50_000 + "!\n" + "aab " * 1_000)
    began = time.process_time()

    results.query(handle, search=pattern)

    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "text", ["ab" * 2_000_000, "abc\n" * 500_000], ids=["one line", "many lines"]
)
def test_search_looks_at_its_deadline_all_the_time(results: Results, text: str) -> None:
    """16,000 steps over every character take 20 s for all of it, in a line as in many."""
    with open_text(results, results.put(text)) as stored:
        began = time.process_time()
        matches = search(stored, "(a.{1,900}b|b.{1,900}a)d", skip=0, limit=1, budget_s=0.0)
        took = time.process_time() - began

    assert took < 10, "a chunk is what an interrupt has to wait for"
    assert matches.searched < stored.lines


def test_search_that_takes_too_long_says_how_far_it_got(results: Results) -> None:
    handle = results.put("line\n" * 200_000)
    with open_text(results, handle) as stored:
        nothing, everything = (
            search(stored, "i", skip=0, limit=1, budget_s=budget_s) for budget_s in (-1.0, 1_000.0)
        )
        nothing_similar = find_similar(stored, "line", skip=0, limit=1, budget_s=-1.0)

    assert (nothing.total, nothing.searched) == (0, 0)
    assert (everything.total, everything.searched) == (200_000, 200_000)
    assert (nothing_similar.total, nothing_similar.searched) == (0, 0)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("needle", True),
        ("^start", True),
        ("finish$", True),
        ("needle$", False),
        ("^needle", False),
        (r"\bneedle\b", True),
        (r"xneedle", False),
        ("needle.*", True),
        (r"y\b", True),
        (r"\Astart", True),
        (r"finish\z", True),
        (r"\Aneedle", False),
        ("nothing", False),
    ],
)
def test_line_longer_than_a_chunk_is_searched_to_its_end(
    results: Results, pattern: str, matches: bool
) -> None:
    """The word lies on the border of two pieces, then in the middle of one."""
    for at in (256 * 1024 - 10, 1_000_000):
        long = "start " + "y" * at + " needle " + "y" * 400_000 + " finish"
        handle = results.put(f"one\n{long}\nthree needles\n")

        found = results.query(handle, search=pattern)

        assert (2 in found["line_numbers"]) == matches
        assert found["matched"] == matches + (3 in found["line_numbers"])
        assert all(len(line) < 17_000 for line in found["lines"])


@pytest.mark.parametrize(
    "pattern", ["needle$", "^needle", r"\bneedle", r"needle\b", r"\Aneedle", r"needle\z"]
)
@pytest.mark.parametrize("at", [288 * 1024 - 6, 256 * 1024])
def test_end_of_a_piece_is_not_the_end_of_the_line(results: Results, pattern: str, at: int) -> None:
    """The word stands exactly where a piece ends, or where the next one begins; no end of a line is
    there."""
    handle = results.put("y" * at + "needle" + "z" * 400_000)

    assert results.query(handle, search=pattern)["matched"] == 0
    assert results.query(handle, search="needle")["matched"] == 1


def test_match_longer_than_an_answer_ends_with_has_more(results: Results) -> None:
    handle = results.put(("y" * 9_999 + "\n") * 4_000)

    found = results.query(handle, search="y", limit=10**9)

    assert found["returned"] == len(found["lines"]) == len(found["line_numbers"]) < 4_000
    assert found["has_more"]
    assert found["matched"] == 4_000


def test_finder_works_with_the_public_face_of_re2_alone() -> None:
    """The faster road uses a name of re2 that is not public; without it, it still works."""

    class Public:
        search = staticmethod(re2.compile("b+").search)

    for find in (finder(re2.compile("b+")), finder(Public())):
        assert find(b"abbcb", 0, 5) == (1, 3)
        assert find(b"abbcb", 0, 2) == (1, 2)
        assert find(b"abbcb", 3, 5) == (4, 5)
        assert find(b"abbcb", 5, 5) == (-1, -1)


@pytest.mark.spec("001/Query Stored Results/Query with fuzzy matching")
@pytest.mark.parametrize(
    "query", ["config", "confguration", "CONFIGURATION", "configuraiton", "configurtaion"]
)
def test_fuzzy_finds_a_word_in_a_long_line_and_sorts_by_score(results: Results, query: str) -> None:
    long = "lorem ipsum dolor sit amet " * 40
    handle = results.put(f"{long}\n{long} the configuration, {long}\nconfigurable\nconfig\n{long}")

    found = results.query(handle, search=query, fuzzy=True)

    assert 2 in found["line_numbers"]
    assert found["scores"] == sorted(found["scores"], reverse=True)
    assert all(70 <= score <= 100 for score in found["scores"])
    assert not {1, 5} & set(found["line_numbers"])
    assert found["matched"] == found["returned"] == len(found["lines"])
    assert found["searched"] == found["total_lines"] == 5
    if query == "config":
        assert found["line_numbers"][0] == 4
        assert found["scores"][0] == 100


def test_fuzzy_finds_a_mistyped_part_of_a_word(results: Results) -> None:
    handle = results.put("the configuration of it\nnothing\n")

    assert 1 in results.query(handle, search="confg", fuzzy=True)["line_numbers"]


def test_fuzzy_pages_by_rank(results: Results) -> None:
    handle = results.put("time\n" + "timer\n" * 3 + "time out\n")

    first = results.query(handle, search="time", fuzzy=True, limit=2)
    second = results.query(handle, search="time", fuzzy=True, offset=3, limit=2)

    assert (first["line_numbers"], second["line_numbers"]) == ([1, 2], [3, 4])
    assert (first["has_more"], second["has_more"]) == (True, True)
    assert first["matched"] == 5


def test_fuzzy_takes_all_words_of_the_query_into_account(results: Results) -> None:
    handle = results.put("connection refused\ntimeout\nconnection timeout\nconnnection tiemout\n")

    found = results.query(handle, search="connection timeout", fuzzy=True)

    assert found["line_numbers"][:2] == [3, 4]


def test_fuzzy_finds_a_line_without_some_words_of_the_query_if_the_others_weigh_enough(
    results: Results,
) -> None:
    """Of five words of one length any one may be missing, in any order, but not two."""
    words = ["alpha", "gamma", "delta", "sigma", "omega"]
    without_one = [
        " ".join(word for word in reversed(words) if word != missing) for missing in words
    ]
    without_two = [" ".join(words[at : at + 3]) for at in range(3)]
    handle = results.put(
        "\n".join([*without_two, *without_one, " ".join(words).upper(), "omega " * 9])
    )

    found = results.query(handle, search=" ".join(words), fuzzy=True)

    assert found["line_numbers"] == [9, 4, 5, 6, 7, 8]
    assert found["scores"] == [100, 80, 80, 80, 80, 80]


@pytest.mark.parametrize(
    "word", ["time", "error", "config", "request", "database", "connection", "authentication"]
)
def test_fuzzy_survives_every_single_typo(results: Results, word: str) -> None:
    """Each letter missing, doubled, wrong, or swapped with the next, in words of any length from
    four up."""
    handle = results.put(f"nothing here\nxx {word} yy\nzzzz")
    typos = {word[:at] + word[at + 1 :] for at in range(len(word)) if len(word) > 4}
    typos |= {word[:at] + "q" + word[at:] for at in range(len(word) + 1)}
    typos |= {word[:at] + "q" + word[at + 1 :] for at in range(len(word))}
    typos |= {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)}

    missed = [
        typo
        for typo in typos
        if lines(results, handle, search=typo, fuzzy=True) != [f"xx {word} yy"]
    ]

    assert len(missed) <= len(typos) // 20, missed


@pytest.mark.parametrize(
    "query", ["==", "(", "é", "ÜBER", "日本", "a", "\x00", "x" * 200, "\ud800", " "]
)
def test_fuzzy_takes_any_query(results: Results, query: str) -> None:
    handle = results.put("a == b (é über) 日本語\x00 \n" * 3)

    found = results.query(handle, search=query, fuzzy=True)

    assert found["matched"] == (0 if query == "\ud800" or len(query) == 200 else 3)


def test_fuzzy_does_not_take_a_short_line_for_a_part_of_the_query(results: Results) -> None:
    handle = results.put("on\n\nc\nconfig\nconfiguraton\n}")

    assert results.query(handle, search="configuration", fuzzy=True)["line_numbers"] == [5]


def test_fuzzy_query_that_is_too_long_is_an_error(results: Results) -> None:
    handle = results.put("x")

    with pytest.raises(InvalidPattern, match="at most 200"):
        results.query(handle, search="x" * 201, fuzzy=True)


def test_fuzzy_finds_words_in_a_line_longer_than_a_chunk(results: Results) -> None:
    handle = results.put("y " * 200_000 + "configuration" + " z" * 200_000 + "\nno")

    found = results.query(handle, search="confguration", fuzzy=True)

    assert found["line_numbers"] == [1]
    assert found["searched"] == 2
