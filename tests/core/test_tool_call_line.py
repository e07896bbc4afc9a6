"""A call is written as the `%tool` line that reads back to it;
`faces/line/test_grammar_properties.py` tries any."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.core.tool import format_call
from onetool_ipy.faces.line.grammar import read_arguments, split_line


@pytest.mark.parametrize(
    ("name", "args", "line"),
    [
        pytest.param("a.b", {}, "%tool a.b", id="none"),
        pytest.param("a.b", {"q": "cats", "n": 3}, "%tool a.b q=cats n=3", id="plain"),
        pytest.param("a.b", {"q": "a b"}, '%tool a.b q="a b"', id="blank"),
        pytest.param("a.b", {"q": "5"}, '%tool a.b q="5"', id="text of a number"),
        pytest.param("a.b", {"q": "true"}, '%tool a.b q="true"', id="text of a literal"),
        pytest.param("a.b", {"q": 'a"b\\'}, r'%tool a.b q="a\"b\\"', id="quotes"),
        pytest.param("a.b", {"q": "a\nb"}, r"%tool a.b q={'a\nb'}", id="line break"),
        pytest.param("a.b", {"q": ""}, '%tool a.b q=""', id="empty"),
        pytest.param("a.b", {"q": "what?"}, '%tool a.b q="what?"', id="question"),
        pytest.param("a.b", {"q": "x;"}, '%tool a.b q="x;"', id="semicolon"),
        pytest.param("a.b", {"q": None, "b": True}, "%tool a.b q=null b=true", id="words"),
        pytest.param("a.b", {"v": [1, "é"]}, '%tool a.b v=[1, "é"]', id="list"),
        pytest.param("a.b", {"my key": 1}, '%tool a.b {"my key": 1}', id="odd key"),
        pytest.param("a(b", {}, '%tool "a(b"', id="odd name"),
        pytest.param("-x", {}, '%tool "-x"', id="dashed name"),
    ],
)
def test_a_call_is_written_for_people(name: str, args: dict[str, Any], line: str) -> None:
    """Copy as %tool: quotes only where they are needed."""
    assert format_call(name, args) == line
    command = split_line(line.removeprefix("%tool"), ())
    assert command.name == name
    assert read_arguments(command.rest, {}, eval) == args
