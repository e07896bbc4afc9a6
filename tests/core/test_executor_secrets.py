"""What a call says to others: its span in the log, and no secret in it nor in a failure."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from typing import Any

import pytest

from onetool_ipy import ToolResult
from onetool_ipy.core.executor import SPAN_LOGGER, span
from tests.core.support import MakeBench

StepRun = Generator[None, ToolResult, ToolResult | None]


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def test_the_span_says_tool_arguments_outcome_and_time(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    table = bench(add, steps=[span(lambda text: text.replace("hunter22", "***"))])

    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        table.call("t.add", {"a": "hunter22" + "x" * 500})
        table.call("t.add", {"a": 1})

    bad, good = caplog.records
    assert (good.name, good.levelname, good.span, good.ok) == (
        "onetool_ipy.span",
        "INFO",
        "t.add",
        True,
    )
    assert good.fields == {"a": "1"}
    assert good.duration_ms >= 0
    assert good.call_id == "id-1"
    assert good.getMessage().startswith("t.add ok=True")
    assert bad.ok is False
    assert "hunter" not in bad.getMessage()
    assert len(bad.fields["a"]) == 200


def test_the_span_does_not_follow_the_root_logger(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    """A notebook that calls `logging.basicConfig(level=INFO)` does not get the arguments of every
    call."""
    with caplog.at_level(logging.INFO), caplog.at_level(logging.NOTSET, SPAN_LOGGER):
        bench(add, steps=[span(str)]).call("t.add", {"a": 1})

    assert caplog.records == []


def test_the_span_keeps_a_level_that_the_user_set_before(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        bench(add, steps=[span(str)]).call("t.add", {"a": 1})

    assert [record.name for record in caplog.records] == [SPAN_LOGGER]


def test_a_secret_at_the_edge_of_a_cut_leaves_no_part_of_itself(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    table = bench(add, steps=[span(lambda text: text.replace("hunter22", "***"))])

    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        for pad in range(185, 201):
            table.call("t.add", {"a": "." * pad + "hunter22"})

    assert "hun" not in caplog.text


def test_a_secret_given_as_the_name_of_a_tool_is_masked_in_its_span(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    table = bench(add, steps=[span(lambda text: text.replace("hunter22", "***"))])

    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        table.call("t.hunter22")

    (record,) = caplog.records
    assert record.span == "t.***"
    assert "hunter" not in caplog.text + str(vars(record))


def test_the_span_is_quiet_by_default(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    bench(add, steps=[span(str)]).call("t.add", {"a": 1})

    assert caplog.records == []


def _mask(text: str) -> str:
    return text.replace("hunter22", "***")


def test_secrets_are_masked_in_everything_a_failure_says(bench: MakeBench) -> None:
    class Own(Exception):
        def __init__(self, note: str) -> None:
            super().__init__("own")
            self.note = note

        def __str__(self) -> str:
            return f"own: {self.note}"

    def leak() -> None:
        """Leak in every way."""
        try:
            try:
                raise OSError(2, "hunter22", "/home/hunter22")
            except OSError as first:
                first.add_note("a note with hunter22")
                raise Own("hunter22") from first
        except Own as second:
            raise ExceptionGroup(
                "group", [ValueError("inside hunter22", ["hunter22", {"k": "hunter22"}])]
            ) from second

    error = bench(leak, mask=_mask).call("t.leak").error

    shown = "".join(traceback.format_exception(error.exception))
    assert "hunter22" not in error.message + str(error.to_dict())
    code = [
        line
        for line in shown.splitlines()
        if "hunter22" in line and "raise" not in line and "note" not in line
    ]
    # Python 3.13 shows all lines of the statement that raised.
    shown_code = ("first", "^", '"group", [')
    assert [line for line in code if not line.strip(" |").startswith(shown_code)] == []
    inner = error.exception.exceptions[0]
    assert inner.args == ("inside ***", ["***", {"k": "***"}])
    assert error.exception.__cause__.note == "***"
    assert error.exception.__cause__.__cause__.filename == "/home/***"


def test_secrets_are_masked_in_what_was_being_handled_when_it_failed(bench: MakeBench) -> None:
    def leak() -> None:
        """Fail while handling a failure."""
        try:
            raise OSError("hunter22")
        except OSError:
            {}["key"]

    exc = bench(leak, mask=_mask).call("t.leak").error.exception

    assert exc.__cause__ is None
    assert exc.__context__.args == ("***",)


def test_secrets_are_masked_in_our_own_failures_too(bench: MakeBench) -> None:
    table = bench(add, mask=_mask)

    error = table.call("t.add", {"a": "hunter22"}).error
    assert "***" in error.message
    assert "hunter22" not in str(error.to_dict())


def test_a_value_that_is_returned_is_never_altered(bench: MakeBench) -> None:
    def tell() -> list[str]:
        return ["hunter22"]

    result = bench(tell, mask=_mask).call("t.tell")

    assert result.data == ["hunter22"]
    assert result.to_dict()["data"] == ["hunter22"]


def test_an_exception_with_odd_arguments_is_a_failure_like_any_other(bench: MakeBench) -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    class Locked(Exception):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("locked")

    def odd(which: int) -> None:
        raise [ValueError(loop), ValueError(deep), Locked("hunter22"), ValueError(object())][which]

    table = bench(odd, mask=_mask)
    for which in range(4):
        error = table.call("t.odd", {"which": which}).error
        assert error.code == "execution_error"
        assert "hunter22" not in error.message
