"""A notebook as a plain Python script: every form of ours becomes a call (`onetool-ipy export
NB.ipynb`).

Cells are transformed as IPython does it, then our magics are replaced where they stand, so comments
and layout stay. Values are read by their schema; an `{expression}` stays an expression. A line that
only IPython can run is left out with a comment, or is an error if the script cannot do without it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from onetool_ipy.base.errors import CallFailure, OneToolError, UsageProblem
from onetool_ipy.base.files import bytes_of
from onetool_ipy.base.foreign_json import MAX_BYTES, NotJson, parse_json
from onetool_ipy.base.values import Json
from onetool_ipy.faces.line.grammar import (
    read_arguments,
    read_body,
    read_options,
    read_snippet_arguments,
    read_snippet_definition,
    split_line,
)
from onetool_ipy.faces.line.values import read_word
from onetool_ipy.faces.notebook.ask import as_python
from onetool_ipy.faces.notebook.cell_input import RUNNER, Shortcut, prompt_of
from onetool_ipy.snippets.definition import Bare
from onetool_ipy.sources.outline_reader import read_outline
from onetool_ipy.toolbox import Toolbox

_CHANGES = frozenset(
    re.findall(
        r"\w+",
        "cd env macro popd prun pushd rerun reset reset_selective run sc set_env store sx system "
        "time",
    )
)
"""IPython's own line magics that run code, or change what later cells do."""

_AWAITED = '''
import ast as _ast
import asyncio as _asyncio

_runner = _asyncio.Runner()


def _awaited(cell):
    """Run a cell that awaits at its top; all of them share one event loop, as in the notebook."""
    code = compile(cell, "cell", "exec", flags=_ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    _runner.run(eval(code, globals()))
'''


class _Source(str):
    """An expression of the user, written as it stands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def export_notebook(file: Path, box: Toolbox, commands: Collection[str]) -> str:
    """The script of a notebook. Raises UsageProblem that names the cell if it cannot be exported.

    `commands` are the words after `%tool` that are no tools.
    """
    cells = [_Cell(text, number, box, commands) for number, text in _code_cells(file)]
    tools = {
        tool.name: tool.parameters
        for cell in cells
        for tool in read_outline(cell.source, pack="nb").tools
    }
    names = [name for name in box.parts.pack_names if name.isidentifier()]
    head = [
        f'"""Exported from {file.name} by onetool-ipy; runs as plain Python."""',
        "",
        "from onetool_ipy import open_toolbox",
        "",
        "box = open_toolbox()",
        "ot = box.ot",
        *([f"from onetool_ipy.live import {', '.join(names)}"] if names else []),
    ]
    # The packs of tools that the notebook itself defines, if it uses them as names.
    packs = sorted({name.partition(".")[0] for name in tools} - set(names))
    used = [pack for pack in packs if any(re.search(rf"\b{pack}\.", cell.source) for cell in cells)]
    if used:
        head += [
            "from onetool_ipy import PackProxy",
            *(f'{pack} = PackProxy(box, "{pack}")' for pack in used),
        ]
    scripts = [(cell.number, cell.script(tools)) for cell in cells]
    if any(_awaits(script) for _, script in scripts):
        head.append(_AWAITED)
    body = []
    for number, script in scripts:
        # A cell with `await` at its top level is passed as text.
        is_plain = "\\" not in script and "'''" not in script and not script.endswith("'")
        text = f"_awaited('''\\\n{script}''')" if is_plain else f"_awaited({script!r})"
        body.append(f"\n# Cell {number}\n{text if _awaits(script) else script}")
    return "\n".join([*head, *body]) + "\n"


def _awaits(source: str) -> bool:
    """Whether a cell awaits outside of any function, which a script cannot do."""
    code = compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _code_cells(file: Path) -> list[tuple[int, str]]:
    content = bytes_of(file, MAX_BYTES)
    if content is None:
        raise UsageProblem(
            f"There is no notebook '{file}'.", hint="Give the path of its .ipynb file."
        )
    try:
        document = parse_json(content)
        cells = [
            (i, "".join(cell["source"]))
            for i, cell in enumerate(document["cells"], 1)
            if cell["cell_type"] == "code"
        ]
    except NotJson as exc:
        raise UsageProblem(
            f"'{file}' is not a notebook: it {exc}.", hint="Give the path of an .ipynb file."
        ) from exc
    except (KeyError, TypeError) as exc:
        raise UsageProblem(f"'{file}' is not a notebook: it has no cells with text.") from exc
    return [(number, text) for number, text in cells if text.strip()]


class _Cell:
    """One cell, to be written as plain Python."""

    def __init__(self, text: str, number: int, box: Toolbox, commands: Collection[str]) -> None:
        from IPython.core.inputtransformer2 import TransformerManager

        manager = TransformerManager()  # type: ignore[no-untyped-call]  # IPython has no types here
        manager.token_transformers += [Shortcut, prompt_of("ask")]
        self.source = manager.transform_cell(text).rstrip("\n")
        self.number = number
        self._box = box
        self._commands = commands
        self._tools: Mapping[str, Json] = {}

    def script(self, tools: Mapping[str, Json]) -> str:
        """The cell without magics; `tools` are the schemas of tools that the notebook defines."""
        self._tools = tools
        source = self.source
        try:
            tree = ast.parse(source)
        except SyntaxError as exc:
            self._refuse(f"it is not Python: {exc.msg}")
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset), reverse=True):
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and inner.func.id == "get_ipython"
            ):
                # The offsets of the tree count bytes. A comment goes to the end of its line.
                lines = source.split("\n")
                first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
                before = lines[first].encode()[: node.col_offset].decode()
                after = lines[last].encode()[node.end_col_offset :].decode()
                code, _, comment = self._call(node).partition("  # ")
                note = f"  # {comment}" if comment else ""
                source = "\n".join(
                    [*lines[:first], f"{before}{code}{after}{note}", *lines[last + 1 :]]
                )
        return source

    def _call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Attribute)
        kind = node.func.attr
        texts = [
            arg.value
            for arg in node.args
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        if kind == "system":
            if re.search(r"[{$]", texts[0]):
                self._refuse(f"its shell command may have variables of the notebook: '!{texts[0]}'")
            return f"__import__('subprocess').run({texts[0]!r}, shell=True, check=False)"
        if kind not in ("run_line_magic", "run_cell_magic") or len(texts) < 2:
            self._refuse(f"only IPython can do '{kind}'")
        name, line, body = texts[0], texts[1], texts[2] if len(texts) > 2 else None
        if name in ("tool", "onetool"):
            return self._tool(line, body)
        if name == RUNNER:
            return self._shortcut(line)
        if name == "snippet":
            return self._snippet(line, body)
        if name == "ask":
            code = as_python(line, body, self._box.config.settings.models.named, self._box.servers)
            return code or f"None  # %ask {line}".rstrip()
        if name == "load_ext" and line.strip() == "onetool_ipy":
            return "None  # %load_ext onetool_ipy"
        if body is not None:
            self._refuse(f"only IPython can do '%%{name}'")
        if name in _CHANGES:
            self._refuse(f"only IPython can do '%{name}'")
        return f"None  # %{name} {line}".rstrip()

    def _tool(self, line: str, body: str | None) -> str:
        # A command shows something or changes the project, and is left out of a script.
        request = split_line(line, self._commands)
        if request.kind == "command" and request.name == "replay":
            return self._replay(request.rest)
        words = (
            read_options(request.rest, {}).words
            if request.kind == "command" and request.name == "server"
            else []
        )
        if words[:1] == ["read"] and len(words) > 2:
            variables = dict(word.partition("=")[::2] for word in words[3:])
            return f"box.read_resource({words[1]!r}, {words[2]!r}, {variables!r})"
        spec = self._box.registry.find(request.name) if request.kind == "call" else None
        is_page = spec is None and request.name in self._box.registry.known_packs()
        if request.kind != "call" or request.flags.dry or is_page:
            return f"None  # %tool {line}".rstrip()
        if spec is not None:
            (spec,) = self._box.registry.loaded([spec])
        schema: Mapping[str, Any] = (
            spec.parameters if spec is not None else self._tools.get(request.name, {})
        )
        try:
            args = read_arguments(request.rest, schema, _Source)
            if body is not None:
                args = read_body(
                    body, args, schema, body_arg=request.flags.body, as_args=request.flags.args
                )
        except (OneToolError, CallFailure) as exc:
            self._refuse(str(exc))
        options = (
            f", timeout={request.flags.timeout!r}" if request.flags.timeout is not None else ""
        )
        options += ", check=False" if request.flags.unchecked else ""
        pairs = ", ".join(f"{key!r}: {value!r}" for key, value in args.items())
        verb = "start" if request.flags.bg else "call" if request.flags.soft else "run"
        call = f"box.{verb}({request.name!r}, {{{pairs}}}{options})"
        return f"({request.flags.output} := {call})" if request.flags.output else call

    def _replay(self, rest: str) -> str:
        """`%tool replay` changes the results of later calls, so the script does it too."""
        request = read_options(rest, {"--refresh": "switch", "--only": "switch"})
        if not request.words:
            return "None  # %tool replay"
        if request.words[0] == "off":
            return "box.replays.close()"
        mode = (
            "refresh"
            if "--refresh" in request.values
            else "replay"
            if "--only" in request.values
            else None
        )
        mode_text = f", mode={mode!r}" if mode else ""
        return f"ot.replay({request.words[0]!r}{mode_text}).begin_alone()"

    def _shortcut(self, line: str) -> str:
        name, _, rest = line.strip().partition(" ")
        target = self._box.shortcuts.find(name)
        if isinstance(target, str) or target is None:
            return self._tool(f'"{target or name}" {rest}', None)
        types = {param.name: param.type for param in target.params}
        args = read_snippet_arguments(rest, _Source)
        for key, value in args.items():
            # Without quotes an argument is a literal if it reads as one.
            if isinstance(value, Bare):
                args[key] = str(value) if types.get(key, "any") == "text" else read_word(str(value))
        return f"ot.run({', '.join([repr(name), *(f'{k}={v!r}' for k, v in args.items())])})"

    def _snippet(self, line: str, body: str | None) -> str:
        if body is None:
            return self._shortcut(line.replace("--show", ""))
        snippet, _ = read_snippet_definition(line, body)
        self._box.session_snippets[snippet.name] = snippet
        params = {p.name: ({} if p.is_required else {"default": p.default}) for p in snippet.params}
        data = {"params": params, "body": snippet.body}
        return (
            f"box.session_snippets[{snippet.name!r}] ="
            " __import__('onetool_ipy.snippets.definition',"
            f" fromlist=['read_snippet']).read_snippet({snippet.name!r}, {data!r})"
        )

    def _refuse(self, why: str) -> NoReturn:
        raise UsageProblem(f"Cell {self.number} cannot be exported: {why}")
