"""What `%tool`, `%snippet` and `$name` do: read the line, call the toolbox, hand the result to the
cell.

Rules about tools belong to lower rooms; this module knows only what a person typed and where the
answer goes. The value of a snippet is the value of its last expression; an error in it shows the
snippet's own lines.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from onetool_ipy.base.errors import (
    CallFailure,
    OneToolError,
    ToolCallError,
    ToolNotFound,
    UsageProblem,
)
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.config.edit import save_snippet
from onetool_ipy.core.resolve import seconds
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.commands import CommandContext, page
from onetool_ipy.faces.commands.table import Commands, command_words
from onetool_ipy.faces.line.grammar import (
    Flags,
    Line,
    read_arguments,
    read_body,
    read_snippet_arguments,
    read_snippet_definition,
    split_line,
    without_semicolon,
)
from onetool_ipy.faces.line.values import Expected
from onetool_ipy.faces.notebook.completion import CompletionContext
from onetool_ipy.faces.notebook.display import CellOptions, LastFailure, raise_result
from onetool_ipy.host import run_source, snippet_file
from onetool_ipy.packs.ot.catalog import page_of
from onetool_ipy.proxies import PackProxy, usage_of
from onetool_ipy.render.pages import PageText as Page
from onetool_ipy.render.pages import Row, Rows
from onetool_ipy.snippets.definition import Snippet, expand, faults_of, unused_params
from onetool_ipy.snippets.expansion import TemplateProblem, undeclared
from onetool_ipy.toolbox import Toolbox


class LineRunner:
    """Runs typed lines in one shell."""

    def __init__(self, shell: Any, box: Toolbox, last: LastFailure, options: CellOptions) -> None:
        self._shell = shell
        self._box = box
        self._last = last
        self._options = options
        self._words = command_words()
        self._schemas: WeakKeyDictionary[ToolSpec, Expected] = WeakKeyDictionary()
        """What the arguments of each tool are read by, for as long as there is the tool."""
        profile = Path(shell.profile_dir.location)
        context = CommandContext(
            lambda: box, last, profile, self._example, shell, command_words=self._words
        )
        self._commands = Commands(context)
        self._pages = self._commands.pages

    def run_code(self, code: str, name: str) -> object:
        """Run the code of a snippet in the notebook."""
        return self._run_code(name, code, self._shell.user_ns, since="")

    def tool(self, line: str, cell: str | None, local_ns: dict[str, object]) -> object:
        """`%tool` and `%%tool`."""
        try:
            request = split_line(line, self._words)
            value = self._answer(request, cell, local_ns)
            return None if cell is None and request.is_silent else value
        except BaseException as exc:
            self._remember(exc)
            raise

    def _answer(self, request: Line, cell: str | None, local_ns: dict[str, object]) -> object:
        if request.flags.save is not None:
            return self._commands.run("save", request.flags.save, cell)
        if request.kind == "empty":
            if request.flags != Flags():
                raise UsageProblem(
                    "A flag needs a tool's name.", hint="For example: %tool time.now --dry"
                )
            if cell is not None and cell.strip():
                raise UsageProblem(
                    "The text of the cell goes to no tool.",
                    hint="Name one in the first line: %%tool NAME",
                )
            return self._pages.overview()
        if request.kind == "command":
            return self._commands.run(request.name, request.rest, cell)
        if request.kind == "help":
            return self._pages.usage(request.name)
        return self._call(request, cell, local_ns)

    def snippet(self, line: str, cell: str | None, local_ns: dict[str, object]) -> object:
        """`%snippet NAME k=v [--show]`, `%snippet NAME --save`, and `%%snippet NAME
        [param[=default] ...] [--save]`."""
        try:
            if cell is not None:
                return self._define(line, cell)
            text = without_semicolon(line)
            name, _, rest = text.strip().partition(" ")
            snippets = self._box.shortcuts.snippets
            if name and name.removeprefix("$") not in snippets:
                raise self._no_shortcut(name, snippets)
            value = (
                self._use_snippet(snippets[name.removeprefix("$")], rest.rstrip(), local_ns)
                if name
                else self._list_snippets()
            )
            return value if text == line else None
        except BaseException as exc:
            self._remember(exc)
            raise

    def shortcut(self, line: str, local_ns: dict[str, object]) -> object:
        """`$name k=v`: run a snippet, or call an alias or tool; `$name?` shows its page."""
        try:
            name, _, rest = line.strip().partition(" ")
            if name.endswith("?") or rest.strip() == "?":
                return self._shortcut_page(name.rstrip("?"))
            target = self._box.shortcuts.find(name)
            if isinstance(target, Snippet):
                self._box.gate.require_snippet(name)
                return self._run_snippet(
                    name,
                    expand(target, read_snippet_arguments(rest, self._evaluator(local_ns))),
                    local_ns,
                )
            tool = target or name
            if target is None and not self._is_offered(tool):
                raise self._no_shortcut(name, self._shortcut_names())
            return self._call(split_line(f'"{tool}" {rest}', ()), None, local_ns)
        except BaseException as exc:
            self._remember(exc)
            raise

    def completion_context(self) -> CompletionContext:
        """The values that completion reads."""
        return CompletionContext(self._box, self._words, self._shell.user_ns)

    def page_text(self, name: str, is_shortcut: bool) -> str:
        """The page of a name for Shift-Tab, as `%tool info` shows it. Nothing runs, and no call is
        counted."""
        target = self._box.shortcuts.find(name) if is_shortcut else name
        if isinstance(target, Snippet):
            return self._box.mask(
                "\n\n".join(
                    part for part in (target.usage, target.description, target.body) if part
                )
            )
        registry = self._box.registry
        tool = target or name
        return (
            str(self._pages.usage(tool))
            if tool in registry.known_packs() or registry.find(tool) is not None
            else ""
        )

    def _list_snippets(self) -> Page:
        snippets = [
            self._box.shortcuts.snippets[name] for name in sorted(self._box.shortcuts.snippets)
        ]
        rows = [Row(each.usage, each.description) for each in snippets]
        rows += [Row(usage_of(prompt), prompt.summary) for prompt in self._box.registry.prompts()]
        if not rows:
            return Page(
                "There are no snippets. Make one of a cell: %%snippet NAME [param[=default] ...]"
            )
        return page(self._box, [Rows(tuple(rows))])

    def _use_snippet(self, snippet: Snippet, rest: str, local_ns: dict[str, object]) -> object:
        if rest.strip() == "--save":
            return Page(f"Saved to {self._saved(snippet)}")
        if rest.strip() == "--show" and (
            any(param.is_required for param in snippet.params)
            or not self._box.gate.may_expand(snippet.name)
        ):
            return Page(f"{snippet.usage}\n\n{snippet.body.rstrip()}")
        self._box.gate.require_snippet(snippet.name)
        code = expand(
            snippet, read_snippet_arguments(rest.removesuffix("--show"), self._evaluator(local_ns))
        )
        return (
            Page(code)
            if rest.endswith("--show")
            else self._run_snippet(snippet.name, code, local_ns)
        )

    def _saved(self, snippet: Snippet) -> Path:
        with self._box.gate.saving():
            return save_snippet(self._box.config.paths, snippet)

    def _define(self, line: str, body: str) -> Page:
        snippet, is_saved = read_snippet_definition(line, body)
        problems = faults_of(snippet)
        if problems:
            try:
                extra = sorted(undeclared(body) - {param.name for param in snippet.params})
                hint = f"Name all that it uses: %%snippet {' '.join([line.strip(), *extra])}"
            except TemplateProblem:
                hint = "Write {{ name }} where a value goes."
            raise UsageProblem(f"The snippet '{snippet.name}': {problems[0]}", hint=hint)
        self._box.session_snippets[snippet.name] = snippet
        message = f"${snippet.name} is ready: {snippet.usage}"
        if unused := unused_params(snippet):
            listed = ", ".join(f"'{name}'" for name in unused)
            message += (
                f"\nIts body does not use {listed}. Write {{{{ {unused[0]} }}}} where the value"
                " belongs."
            )
        if is_saved:
            message += f"\nSaved to {self._saved(snippet)}"
        return Page(message)

    def _run_snippet(self, name: str, code: str, local_ns: dict[str, object]) -> object:
        namespace = self._shell.user_ns
        if local_ns and local_ns is not namespace:
            namespace = {**namespace, **local_ns}
        return self._run_code(name, code, namespace, since=snippet_file(name))

    def _run_code(
        self, name: str, code: str, namespace: dict[str, object], *, since: str
    ) -> object:
        try:
            return run_source(self._shell.transform_cell(code), name, namespace)
        except OneToolError:
            raise
        except Exception as exc:
            # The user's code may raise anything; show the snippet's lines, not ours.
            self._last.style(exc, since=since)
            raise

    def _shortcut_page(self, name: str) -> object:
        """The page of a snippet, an alias, a tool or a pack. Starts nothing."""
        query = f"${name}" if name in self._box.shortcuts.snippets else name
        page = page_of(self._box, query)
        if page is None and self._is_offered(name):
            raise self._box.registry.missing(name)
        if page is None:
            raise self._no_shortcut(name, self._shortcut_names())
        return page

    def _is_offered(self, tool: str) -> bool:
        """Whether a name is a tool, or belongs to a server, which says itself why it has no such
        tool."""
        return (
            tool.partition(".")[0] in self._box.servers or self._box.registry.find(tool) is not None
        )

    def _shortcut_names(self) -> list[str]:
        shortcuts = self._box.shortcuts
        return [
            *shortcuts.snippets,
            *shortcuts.aliases,
            *(spec.name for spec in self._box.registry.known()),
        ]

    def _no_shortcut(self, name: str, known: Iterable[str]) -> ToolNotFound:
        near = did_you_mean(name, known)
        return ToolNotFound(
            f"No snippet, alias or tool '{name}'. {near}".strip(),
            hint="See: ot.snippets(), ot.aliases()",
        )

    def _remember(self, exc: BaseException) -> None:
        """Remember a failure for `%tool history why`."""
        if isinstance(exc, ToolCallError) and exc.result is not None:
            return  # remembered where it was raised, with the tool's own exception
        if isinstance(exc, OneToolError):
            self._last.remember(exc)
        elif not isinstance(exc, (Exception, KeyboardInterrupt)):
            self._last.style(exc)  # a tool's own, which is not an Exception

    def _call(self, request: Line, cell: str | None, local_ns: dict[str, object]) -> object:
        flags, name = request.flags, request.name

        def arguments(spec: ToolSpec) -> Json:
            args = read_arguments(
                request.rest, self._expected(spec), self._evaluator(local_ns), request.words
            )
            if cell is None:
                return args
            return read_body(cell, args, spec.parameters, body_arg=flags.body, as_args=flags.args)

        if flags.dry:
            # A dry call asks nobody: it shows the code of a tool in a project that the user trusts,
            # else its text.
            self._box.gate.refresh()
            registry = self._box.registry
            try:
                spec = (
                    registry.load(name)
                    if self._box.gate.is_admitted(name)
                    else registry.require(name)
                )
            except CallFailure as exc:
                self._require_tool(request)
                self._box.gate.admit(name)
                raise exc from None
            return self._pages.dry(spec, arguments(spec), check=not flags.unchecked)
        resolved = self._box.resolve(
            name, arguments, source="magic", timeout=flags.timeout, check=not flags.unchecked
        )
        if resolved.spec is None:
            if self._is_pack(name) and not request.rest.strip():
                return self._pages.pack_page(name)
            self._require_tool(request)
            # Without a tool the words cannot be read as arguments. The call log keeps them as they
            # were typed.
            words: Any = request.rest.strip() or {}
            resolved.given = words
        elif (
            flags.timeout is None
            and resolved.spec.timeout_s is None
            and self._options.timeout is not None
        ):
            resolved.limit_s = seconds(self._options.timeout)
        if flags.bg:
            return self._box.start(resolved)
        result = self._box.call(resolved)
        if resolved.spec is None and result.error is not None and self._is_shortcut(name):
            hint = f"'{name}' is a shortcut: write ${name}"
            result = ToolResult(False, None, replace(result.error, hint=hint), result.meta)
        return self._finish(flags, result)

    def _expected(self, spec: ToolSpec) -> Expected:
        """Return what the arguments of a tool are read by."""
        expected = self._schemas.get(spec)
        if expected is None:
            expected = self._schemas[spec] = Expected.of(spec.parameters)
        return expected

    def _is_shortcut(self, name: str) -> bool:
        return name in self._box.shortcuts.snippets or name in self._box.shortcuts.aliases

    def _is_pack(self, name: str) -> bool:
        return name in self._box.registry.known_packs() or self._box.servers.is_unknown(name)

    def _require_tool(self, request: Line) -> None:
        """Raise UsageProblem for a line that names a pack, ToolNotFound for a mistyped command."""
        name = request.name
        if self._is_pack(name):
            raise UsageProblem(
                f"'{name}' is a pack, not a tool.", hint=f"See its tools with: %tool {name}"
            )
        near = difflib.get_close_matches(name, [*self._words, "ask"], n=1, cutoff=0.7)
        if near and not request.flags.soft:
            command = "%ask" if near == ["ask"] else f"%tool {near[0]}"
            raise ToolNotFound(
                f"No tool or command '{name}'. Did you mean '{command}'?",
                hint="See all with: %tool help",
            )
        self._commands.require_here(name)

    def _example(self, line: str) -> object:
        """Run one line of a docstring's example."""
        self._box.gate.require()
        text = line.removeprefix(">>>").strip()
        if text.startswith("%tool "):
            return self.tool(text.removeprefix("%tool "), None, {})
        packs = {name: PackProxy(self._box, name) for name in self._box.registry.known_packs()}
        return eval(text, {**self._shell.user_ns, **packs, "ot": self._box.ot})  # noqa: S307 - the author's own example

    def _finish(self, flags: Flags, result: ToolResult) -> object:
        if not result.ok:
            self._last.remember(result)
            if not (flags.soft or self._options.soft):
                raise_result(result, self._last)
        if flags.output is None:
            return result
        self._shell.user_ns[flags.output] = result
        return None

    def _evaluator(self, local_ns: dict[str, object]) -> Callable[[str], object]:
        def evaluate(source: str) -> object:
            return eval(source, {**self._shell.user_ns, **local_ns})  # noqa: S307 - the user's own expression

        return evaluate
