"""`%%snippet`, `%snippet` and `$name`: make a snippet of a cell, expand it, run it in the notebook's namespace.

The text is core's work (`shortcuts`, `snippets`); here is where it runs. The value of its last expression is the value
of the cell; an error in it shows the snippet's own lines.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Mapping
from typing import Any

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.snippets import Snippet, read_snippet
from onetool_ipy.faces.ipython import parse

__all__ = ["read_definition", "run_code"]

_OPTIONS: Mapping[str, parse.OptionKind] = {"--save": "switch", "--description": "text"}
_PARAM = re.compile(r"([^\W\d]\w*)(?:=(.*))?", re.DOTALL)


def read_definition(line: str, body: str) -> tuple[Snippet, bool]:
    """The snippet that `%%snippet NAME [param[=default] ...] [--save]` defines, and whether it is to be saved."""
    asked = parse.read_options(line, _OPTIONS)
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


def run_code(shell: Any, code: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run a snippet's code; the value is that of its last expression. Magics and other shortcuts work in it."""
    source = shell.transform_cell(code)
    filename = f"<snippet {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        tree = ast.parse(source, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        steps = compile(tree, filename, "exec")
        value = compile(ast.Expression(last.value), filename, "eval") if isinstance(last, ast.Expr) else None
    except (SyntaxError, ValueError) as exc:
        raise UsageProblem(
            f"The snippet '{name}' does not expand to Python: {exc}", hint=f"See it with: %snippet {name} --show"
        ) from exc
    exec(steps, namespace)
    return eval(value, namespace) if value is not None else None  # noqa: S307 - the same


def _default(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "null": None}.get(text, text)
