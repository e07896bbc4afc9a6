"""What Python prints of a result is our output: no secret is in it. The data itself is never
altered."""

from __future__ import annotations

import copy
import datetime
import gc
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.tables import is_missing
from onetool_ipy.core.result import ToolResult
from tests.harness.project import Project

SECRET = "s3cret-value-1234"
PACK = '''
    """Leaks."""
    pack = "leak"
    __all__ = ["give", "fail"]

    def give(kind: str) -> object:
        """Give the secret in some shape."""
        secret = "s3cret-value" + "-1234"
        shapes = {"text": secret, "dict": {"k": [secret], secret: 1}, "bytes": secret.encode(), "quoted": f"'{secret}"}
        return shapes[kind]

    def fail(kind: str) -> str:
        """Fail with the secret in the words."""
        secret = "s3cret-value" + "-1234"
        raise {"plain": ValueError(f"no {secret}"), "pair": KeyError(secret, 2)}[kind]
'''


@pytest.fixture
def box(project: Project) -> Any:
    project.write("secrets.yaml", f"KEY: {SECRET}\n", mode=0o600)
    project.write("tools/leak.py", PACK)
    return project.open()


def printed(thing: Any) -> list[str]:
    return [
        repr(thing),
        str(thing),
        f"{thing}",
        f"{thing!s:>5}",
        repr([thing]),
        str({"r": thing}),
        "".join(map(str, [thing])),
    ]


@pytest.mark.parametrize("kind", ["text", "dict", "bytes", "quoted"])
def test_a_printed_result_shows_no_secret(box: Any, kind: str) -> None:
    result = box.call("leak.give", {"kind": kind})

    assert SECRET in repr(result.data), "a value returned to Python is never altered"
    for text in printed(result):
        assert SECRET not in text
        assert "***" in text


@pytest.mark.parametrize("kind", ["plain", "pair"])
def test_a_printed_failure_shows_no_secret(box: Any, kind: str) -> None:
    result = box.call("leak.fail", {"kind": kind})

    for thing in (result, result.error, result.meta, result.error.exception, dict(result.error)):
        assert not any(SECRET in text for text in printed(thing))
    assert "***" in repr(result.error)


def test_bad_arguments_that_hold_a_secret_are_printed_masked(box: Any) -> None:
    result = box.call("leak.give", {"kind": "text", SECRET: SECRET})

    assert result.error is not None
    assert not any(SECRET in text for thing in (result, result.error) for text in printed(thing))


def test_a_copy_and_a_result_that_outlives_its_toolbox_are_masked(
    project: Project, box: Any
) -> None:
    result = box.call("leak.give", {"kind": "text"})
    for twin in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert SECRET not in repr(twin)
    project.boxes.clear()
    box.close()
    del box
    gc.collect()

    assert SECRET not in repr(result)


@pytest.mark.parametrize(
    "nest", [lambda key: {key: 1}, lambda key: {"a": {"b": {key: 1}}}], ids=["flat", "nested"]
)
def test_rows_that_share_no_key_make_no_table(nest: Any) -> None:
    """The table would have n x n cells, whatever the length of the JSON; the error says what to
    use."""
    result = ToolResult(ok=True, data=[nest(f"k{number}") for number in range(20_000)])

    with pytest.raises(UsageProblem, match="20,000 rows have too many different keys") as caught:
        _ = result.df

    assert ".data" in caught.value.hint


def test_rows_with_some_keys_of_their_own_are_a_table() -> None:
    data = [{"id": number, "inner": {"x": 1, f"k{number}": 2}} for number in range(300)]

    frame = ToolResult(ok=True, data=data).df

    assert frame.shape == (300, 302)
    assert frame["inner.x"].tolist() == [1] * 300


@pytest.mark.parametrize(
    "data", ["a\ud800", '[{"a": "a\\ud800"}]', [{"a": "a\ud800"}], ["a\ud800"]]
)
def test_half_a_character_is_written_out_in_a_table(data: Any) -> None:
    frame = ToolResult(ok=True, data=data).df

    assert frame.iloc[0, 0] == "a\\ud800"
    assert "ud800" in frame.to_csv()


def _frame_of(cells: list[Any]) -> Any:
    return ToolResult(ok=True, data=[{"cell": cell} for cell in cells]).df


@pytest.mark.parametrize(
    "cells",
    [
        ["1234-56-78", "4321-99-10"],
        ["2024-02-29", "2024-02-30"],
        ["2024-01-01T24:00"],
        ["2024-01-01T23:59:60"],
        ["0000-01-01"],
        ["2024-01-01\n"],
        ["2024-W01-1"],
        ["20240101"],
        ["\u0662\u0660\u0662\u0664-01-01"],
        ["2024-01-01", ""],
        ["2024-01-01", 5],
        ["2024-01-01T10:00", "2024-01-01T10:00Z"],
        ["2024-01-01", "2024-01-01T10:00Z"],
        ["2024-01-01T10:00+24:00"],
        ["2024-01-01T10:00+0160"],
        ["2024-01-01T10:00:00.1234567890"],
        ["0001-01-01T00:00+01:00"],
        ["9999-12-31T23:59-01:00"],
        [None, None],
    ],
    ids=str,
)
def test_texts_that_are_not_all_whole_valid_dates_stay_as_they_are(cells: list[Any]) -> None:
    """Part numbers that look like dates became NaT."""
    frame = _frame_of(cells)
    assert [None if is_missing(cell) else cell for cell in frame["cell"]] == cells
    assert frame.attrs["onetool"]["dates"] == []


@pytest.mark.parametrize(
    ("cells", "instants"),
    [
        (["2024-02-29", None], ["2024-02-29T00:00:00", "NaT"]),
        (["2024-01-01", "2024-01-01 10:00"], ["2024-01-01T00:00:00", "2024-01-01T10:00:00"]),
        (
            ["2024-01-01T10:00+02:00", "2024-01-01T10:00:00Z", "2024-01-01T10:00-0030"],
            ["2024-01-01T08:00:00+00:00", "2024-01-01T10:00:00+00:00", "2024-01-01T10:30:00+00:00"],
        ),
        (["2024-01-01T10:00:00.5", "2024-01-01T10:00:00.123456789"], [".500000", ".123456789"]),
    ],
)
def test_whole_valid_dates_and_times_become_dates(cells: list[Any], instants: list[str]) -> None:
    frame = _frame_of(cells)
    assert [str(cell.isoformat()) for cell in frame["cell"]] == [
        f"2024-01-01T10:00:00{instant}" if instant.startswith(".") else instant
        for instant in instants
    ]
    assert frame.attrs["onetool"]["dates"] == ["cell"]


def _moments(zoned: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    low, high = map(datetime.datetime.fromisoformat, ("1700-01-01", "2200-01-01"))
    return st.datetimes(low, high, timezones=zoned).map(lambda moment: moment.isoformat())


_ZONES = st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23)).map(
    lambda gap: datetime.timezone(datetime.timedelta(minutes=gap // datetime.timedelta(minutes=1)))
)
_DATES = st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)).map(str)
_NEARLY = st.from_regex(
    r"[12][0-9]{3}-[0-3][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-6][0-9])?\n?", fullmatch=True
)


def _naive_dates(cells: list[Any]) -> list[datetime.datetime | None] | None:
    """The naive twin: every text is a date by Python's own rule, in the long form, and all have a
    zone or none has."""
    moments: list[datetime.datetime | None] = []
    for cell in cells:
        try:
            moments.append(None if cell is None else datetime.datetime.fromisoformat(cell))
        except ValueError:
            return None
    zones = {moment.tzinfo is None for moment in moments if moment is not None}
    return moments if len(zones) == 1 else None


@pytest.mark.slow
@given(
    st.lists(
        st.none() | _DATES | _moments(st.none()) | _moments(_ZONES) | _NEARLY,
        min_size=1,
        max_size=4,
    )
)
def test_a_column_becomes_dates_exactly_if_every_text_is_one_and_they_are_the_same_instants(
    cells: list[Any],
) -> None:
    frame, moments = _frame_of(cells), _naive_dates(cells)
    if moments is None:
        assert [None if is_missing(cell) else cell for cell in frame["cell"]] == cells
    else:
        assert [
            None if is_missing(cell) else cell.to_pydatetime() for cell in frame["cell"]
        ] == moments


class Sour:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("sour")


NUMBERS = ", ".join(map(str, range(20)))


@pytest.mark.parametrize(
    ("data", "key", "note"),
    [
        ({"people": 1, "town": "Graz"}, "peoples", "The result has: people, town."),
        ([{"people": 1}], "people", "The result is a list of 1: [0] is the first; .df a table."),
        ([1, 2], 7, "The result is a list of 2: [0] is the first; .df a table."),
        ({"\x1b[31mred": 1}, "blue", "The result has: \\x1b[31mred."),
        ({Sour(): 1, 2: 3}, 7, "The result has: <Sour object, repr failed>, 2."),
        (dict.fromkeys(map(str, range(100_000))), "x", f"The result has: {NUMBERS}, ...."),
    ],
    ids=["a key", "a column of rows", "a place", "an escape", "no text", "many"],
)
def test_what_a_result_does_not_have_says_what_it_has(data: object, key: object, note: str) -> None:
    with pytest.raises((LookupError, TypeError)) as failure:
        ToolResult(True, data, None, {})[key]

    assert failure.value.__notes__ == [note]


def test_the_names_that_a_result_has_are_masked(box: Any) -> None:
    with pytest.raises(KeyError) as failure:
        box.call("leak.give", {"kind": "dict"})["other"]

    assert failure.value.__notes__ == ["The result has: k, ***."]
