"""`%%snippet`, `%snippet` and `$name`: make a snippet of a cell, expand it, run it in the notebook's namespace.

The text is core's work (`shortcuts`, `snippets`); here is where it runs. The value of its last expression is the value
of the cell; an error in it shows the snippet's own lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import OptionKind, read_options
from onetool_ipy.faces.line.values import MISSING, Evaluate, Expected, read_expression, read_literal
from onetool_ipy.proxies import run_source
from onetool_ipy.snippets.definition import Bare, Snippet, parse_arguments, read_snippet

__all__ = ["read_definition", "read_given", "run_code"]

_OPTIONS: Mapping[str, OptionKind] = {"--save": "switch", "--description": "text"}

_PARAM = re.compile(r"([^\W\d]\w*)(?:=(.*))?", re.DOTALL)


def read_definition(line: str, body: str) -> tuple[Snippet, bool]:
    """The snippet that `%%snippet NAME [param[=default] ...] [--save]` defines, and whether it is to be saved."""
    asked = read_options(line, _OPTIONS)
    if not asked.words:
        raise UsageProblem("A snippet needs a name.", hint="Write %%snippet NAME [param[=default] ...]")
    name, *given = asked.words
    params: dict[str, Any] = {}
    for word in given:
        found = _PARAM.fullmatch(word)
        if found is None or found[1] in params:
            raise UsageProblem(f"'{word[:40]}' is no parameter.", hint="Write name, or name=default; each once.")
        params[found[1]] = {} if found[2] is None else {"default": _default(found[2])}
    data = {"description": asked.given.get("--description", ""), "params": params, "body": body}
    return read_snippet(name, data, "this session"), bool(asked.given.get("--save"))


def read_given(text: str, evaluate: Evaluate) -> dict[str, Any]:
    """Read `key=value ...` behind a snippet's name. `{expression}` gives its object; a literal stays as typed."""
    return {name: _read(name, value, evaluate) for name, value in parse_arguments(text).items()}


def _read(name: str, value: str, evaluate: Evaluate) -> Any:
    is_group = isinstance(value, Bare) and value.startswith("{") and value.endswith("}")
    if not is_group or read_literal(value) is not MISSING:
        return value
    return read_expression(str(value), name, Expected.of({}), evaluate)


def run_code(shell: Any, code: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run a snippet's code as a cell would: magics and other shortcuts work in it."""
    return run_source(shell.transform_cell(code), name, namespace)


def _default(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "null": None}.get(text, text)
