"""Whatever a model gives as arguments to the tools about the toolbox, the ask goes on and the
outcome is a result."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.core.result import ToolResult
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.toolbox import Toolbox

WRONG: dict[str, Any] = {
    "null": None,
    "true": True,
    "number": -1,
    "large": 10**30,
    "fraction": 0.5,
    "text": "\x00\ud800{oops",
    "list": [],
    "nested": [[{}]],
    "object": {"a": []},
}


def _arguments(box: Toolbox, name: str) -> list[str]:
    spec = box.registry.require(name)
    return [*spec.parameters["properties"], "unknown"]


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
def test_every_tool_about_the_toolbox_answers_wrong_arguments_with_a_result(
    box: Toolbox, value: Any
) -> None:
    names = [spec.name for spec in box.registry.list(["ot.*"])]
    assert len(names) >= 16

    for name in names:
        for argument in _arguments(box, name):
            result = box.call(name, {argument: value}, source="model")

            assert isinstance(result, ToolResult)
            assert result.error is None or result.error.code in (
                "invalid_args",
                "execution_error",
                "tool_not_found",
            )


@pytest.mark.slow
@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
def test_an_ask_goes_on_after_wrong_arguments(box: Toolbox, value: Any) -> None:
    names = [spec.name for spec in box.registry.list(["ot.*"])]

    for name in names:
        calls = [(name, {argument: value}) for argument in _arguments(box, name)]
        answer = box.ask("Go", model=ScriptedModel([calls, "done"]), approve=["ot.notify"])

        assert answer.text == "done", answer.note
        assert len(answer.calls) == len(calls)


@pytest.mark.parametrize(
    ("allow", "code"), [(None, "invalid_args"), (["time.*"], "tool_not_found")]
)
@pytest.mark.parametrize(
    "handle", [value for value in WRONG.values() if not isinstance(value, str)]
)
def test_a_handle_that_is_no_text_is_refused(
    box: Toolbox, handle: Any, allow: list[str] | None, code: str
) -> None:
    model = ScriptedModel([("ot.result", {"handle": handle}), "ok"])

    answer = box.ask("Go", model=model, tool_allow=allow)

    assert answer.text == "ok"
    assert answer.tool_error is not None
    assert answer.tool_error["code"] == code
