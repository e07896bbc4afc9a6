"""ToolCall, ToolResult, Failure and the exception tree: the shapes in and out."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import fields
from typing import Any

import pytest

import onetool_ipy
from onetool_ipy import Failure, ToolCall, ToolCallError, ToolResult, ToolSpec
from onetool_ipy.base import errors
from onetool_ipy.core.tool import HttpHooks, Problem, ServerFacts

OPEN: dict[str, Any] = {"type": "object"}


@pytest.mark.spec("004/Models/ToolCall has id name args source")
def test_a_call_has_id_name_args_and_source() -> None:
    call = ToolCall("1", "time.now", {"a": 1}, "cli")

    assert (call.id, call.name, call.args, call.source) == ("1", "time.now", {"a": 1}, "cli")
    assert ToolCall("1", "time.now", {}).source == "python"
    with pytest.raises(AttributeError):
        call.name = "other"  # type: ignore[misc]


@pytest.mark.spec("004/Models/ToolResult has ok data error meta")
def test_a_result_has_ok_data_error_and_meta() -> None:
    good = ToolResult(True, {"a": 1}, meta={"tool": "t.x"})
    bad = ToolResult(
        False,
        error=Failure("invalid_args", "no", "t.x", reason="schema", details=[{"pointer": "/a"}]),
    )

    assert good.to_dict() == {"ok": True, "data": {"a": 1}, "error": None, "meta": {"tool": "t.x"}}
    assert bad.to_dict() == {
        "ok": False,
        "data": None,
        "error": {
            "code": "invalid_args",
            "message": "no",
            "tool": "t.x",
            "reason": "schema",
            "details": [{"pointer": "/a"}],
        },
        "meta": {},
    }


def test_the_shape_of_spec_002_has_exactly_two_keys() -> None:
    assert ToolResult(True, {1}, meta={"x": 1}).as_invoke() == {"ok": True, "value": [1]}
    failed = ToolResult(False, error=Failure("execution_error", "no", "t.x"))
    assert failed.as_invoke() == {
        "ok": False,
        "error": {"code": "execution_error", "message": "no", "tool": "t.x"},
    }


def test_a_result_acts_like_its_data() -> None:
    result = ToolResult(True, {"a": [1, 2]})

    assert result["a"][1] == 2
    assert len(result) == 1
    assert list(result) == ["a"]
    assert "a" in result
    assert bool(result)
    assert result.text == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert ToolResult(True, []).ok
    assert bool(ToolResult(True, []))
    assert not ToolResult(False, error=Failure("execution_error", "no", "t.x"))


@pytest.mark.parametrize(
    "use", [lambda r: r["a"], len, list, lambda r: "a" in r, lambda r: r.unwrap()], ids=range(5)
)
def test_using_a_failed_result_raises_what_went_wrong(use: Any) -> None:
    failure = Failure("execution_error", "the disk is full", "t.x", hint="Make room.")
    result = ToolResult(False, error=failure)

    with pytest.raises(ToolCallError, match="the disk is full") as caught:
        use(result)

    assert caught.value.error is failure
    assert caught.value.result is result
    assert caught.value.code == "execution_error"
    assert caught.value._render_traceback_() == ["ToolCallError: the disk is full", "  Make room."]


def test_the_handle_is_in_meta() -> None:
    assert ToolResult(True, 1, meta={"handle": "ab12"}).handle == "ab12"
    assert ToolResult(True, 1).handle is None


def test_a_failure_is_read_by_attribute_and_by_key() -> None:
    failure = Failure("execution_error", "slow", "t.x", reason="timeout", details={1, 2})

    assert failure.code == failure["code"] == "execution_error"
    assert failure.reason == failure["reason"] == failure.get("reason") == "timeout"
    assert failure["details"] == [1, 2]
    assert dict(failure) == failure.to_dict()
    assert list(failure) == ["code", "message", "tool", "reason", "details"]
    assert "details" in failure
    assert "hint" not in failure
    assert Failure("execution_error", "x", "t")["reason"] is None
    assert failure.get("nothing", 5) == 5
    with pytest.raises(KeyError):
        failure["nothing"]
    assert str(failure) == "execution_error: slow"


def test_odd_words_in_a_failure_still_make_json() -> None:
    failure = Failure("execution_error", "a\ud800", "t\ud800", details=[object(), float("nan")])

    json.dumps(failure.to_dict(), allow_nan=False, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("value", "name"),
    [(ToolResult(True, [1]), "meta"), (Failure("invalid_args", "x", "t"), "code")],
)
def test_values_cannot_be_changed(value: Any, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, name, {})
    with pytest.raises(AttributeError):
        delattr(value, name)


def test_results_can_be_copied_and_pickled() -> None:
    result = ToolResult(False, error=Failure("invalid_args", "x", "t"), meta={"a": 1})

    for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert other.to_dict() == result.to_dict()


def test_a_problem_reads_as_one_line() -> None:
    assert str(Problem("a.yaml:3", "is wrong.", "Mend it.")) == "a.yaml:3: is wrong. Mend it."


FAILURES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, errors.CallFailure)
    and kind is not errors.CallFailure
]


@pytest.mark.spec("004/Executor/Three fixed error codes")
@pytest.mark.parametrize("kind", FAILURES, ids=lambda kind: kind.__name__)
def test_each_kind_of_failure_has_one_of_three_codes(kind: type[errors.CallFailure]) -> None:
    failure = Failure.of(kind("no", hint="do", details=[1]), "t.x")

    assert failure.code in ("tool_not_found", "invalid_args", "execution_error")
    assert (failure.message, failure.hint, failure.details, failure.status) == (
        "no",
        "do",
        [1],
        kind.status,
    )
    assert 400 <= kind.status < 600


@pytest.mark.parametrize(
    ("name", "kind", "also"),
    [
        ("InvalidConfig", errors.InvalidConfig, ValueError),
        ("InvalidTool", errors.InvalidTool, ValueError),
        ("DuplicateTool", errors.DuplicateTool, errors.InvalidTool),
        ("UnknownProvider", errors.UnknownProvider, ValueError),
        ("ToolCallError", ToolCallError, errors.OneToolError),
        ("UsageProblem", errors.UsageProblem, errors.OneToolError),
    ],
)
def test_the_family_of_errors_is_on_the_face_of_the_package(
    name: str, kind: type, also: type
) -> None:
    assert getattr(onetool_ipy, name) is kind
    assert issubclass(kind, (errors.OneToolError,))
    assert issubclass(kind, also)


@pytest.mark.parametrize(
    "exc",
    [
        errors.InvalidArgs("no", hint="do", details=[1]),
        errors.InvalidConfig("no", problems=[Problem("a", "b")]),
        ToolCallError(ToolResult(False, error=Failure("invalid_args", "x", "t"))),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_exceptions_survive_copy_and_pickle(exc: errors.OneToolError) -> None:
    for other in (copy.copy(exc), pickle.loads(pickle.dumps(exc))):
        assert type(other) is type(exc)
        assert str(other) == str(exc)
        assert other.lines() == exc.lines()
        assert other.__dict__.keys() == exc.__dict__.keys()


def test_a_spec_has_few_fields_and_the_rest_is_derived() -> None:
    """Groups that only one kind of tool has are values of their own; nothing that follows from a
    field is a field."""
    spec = ToolSpec(
        name="shop.buy@1.2",
        description="x",
        parameters={"type": "object"},
        run=len,
        origin="bundle",
    )
    hooks = HttpHooks(len, lambda _: [])

    assert len(fields(ToolSpec)) <= 25
    assert (spec.version, spec.limits_itself, spec.replace(http=hooks).limits_itself) == (
        "1.2",
        False,
        True,
    )
    remote = spec.replace(origin="mcp", server_facts=ServerFacts(server="shop"))
    assert (remote.version, remote.server, remote.limits_itself) == ("", "shop", True)
    assert not remote.replace(is_listed=False).limits_itself
