"""`%tool check | install`: try a tool out, and have `%tool` in every notebook."""

from __future__ import annotations

from typing import Any, ClassVar

from onetool_ipy.core import schema
from onetool_ipy.core.errors import CallFailure, UsageProblem
from onetool_ipy.core.model import ToolSpec
from onetool_ipy.core.samples import samples
from onetool_ipy.faces.ipython import install, parse
from onetool_ipy.faces.ipython.commands.consent import answered
from onetool_ipy.faces.ipython.commands.group import Bench, Command
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.render.counted import counted
from onetool_ipy.render.shown import Listing

__all__ = ["Author"]

_CHECK_S = 10.0
"""Seconds that one try of `%tool check` may take."""
_NOT_CALLED = "not called"


class Author:
    """The sub-commands of those who write tools."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool check NAME               try it with arguments made from its schema; --call also one that may write",
        "%tool install --lazy|--always  have %tool in every notebook; --remove undoes it",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._profile = bench.profile
        self._run_example = bench.run_example

    def table(self) -> dict[str, Command]:
        return {"check": self._check, "install": self._install}

    def _check(self, rest: str) -> Any:
        """Try a tool: its docstring's examples, arguments made from its schema, and what its docstring leaves out.

        A tool that is not read-only is called only after a yes; else its arguments are checked, and nothing is sent.
        """
        asked = parse.read_options(rest, {"--call": "switch"})
        if len(asked.words) != 1:
            raise UsageProblem("%tool check wants one name.", hint="For example: %tool check time.now")
        spec = self._box.registry.require(asked.words[0])
        examples = [line for line in spec.example.splitlines() if line.strip()]
        tries = list(samples(spec.parameters))
        if spec.read_only or ("--call" in asked.given and self._is_yes(spec, len(examples) + len(tries))):
            rows = [self._check_example(line) for line in examples]
            rows += [_row(label, spec, args, self._called(spec, args)) for label, args in tries]
        else:
            rows = [{"check": "example", "call": line.strip(), "outcome": _NOT_CALLED} for line in examples]
            rows += [_row(label, spec, args, self._dry(spec, args)) for label, args in tries]
            said = "not called, it may change something; to call it: --call"
            rows.append({"check": "calls", "call": f"%tool check {spec.name} --call", "outcome": said})
        silent = [p.name for p in schema.params(spec.parameters) if not p.description]
        if spec.description in ("", spec.short_name):
            rows.append({"check": "docstring", "call": "", "outcome": "missing: say what the tool does"})
        if silent:
            rows.append({"check": "docstring", "call": "", "outcome": f"no words about: {', '.join(silent)}"})
        masked = [{key: self._box.mask(value) for key, value in row.items()} for row in rows]
        return Listing(masked)

    def _is_yes(self, spec: ToolSpec, count: int) -> bool:
        """Ask whether a tool that may change something is to be called; refuse where nobody can be asked."""
        reply = answered(f"'{spec.name}' may change something. Call it {counted(count, 'time')} for real? [y/N] ")
        if reply is None:
            raise UsageProblem(
                f"'{spec.name}' may change something, and nobody can be asked here whether to call it.",
                hint="Without --call its arguments are checked and nothing is sent.",
            )
        return reply

    def _called(self, spec: ToolSpec, args: dict[str, Any]) -> str:
        result = self._box.call(spec.name, args, source="magic", timeout=_CHECK_S)
        return "ok" if result.error is None else f"{result.error.code}: {result.error.message}"

    def _dry(self, spec: ToolSpec, args: dict[str, Any]) -> str:
        """What a call would send; nothing is sent."""
        try:
            spec.checker.check(args, spec.name)
            requests = [] if spec.preview is None else spec.preview(args)
        except CallFailure as exc:
            return f"{exc.code}: {exc.message}"
        sent = ", ".join(f"{request['method']} {request['url']}" for request in requests)
        return f"arguments fit; would send {sent}" if sent else "arguments fit"

    def _check_example(self, line: str) -> dict[str, str]:
        try:
            self._run_example(line)
        except Exception as exc:  # noqa: BLE001 - an example may raise anything; what it raised is the answer
            return {"check": "example", "call": line.strip(), "outcome": f"{type(exc).__name__}: {exc}"}
        return {"check": "example", "call": line.strip(), "outcome": "ok"}

    def _install(self, rest: str) -> Page:
        given = parse.read_options(rest, {"--lazy": "switch", "--always": "switch", "--remove": "switch"})
        if given.words or len(given.given) != 1:
            raise UsageProblem(
                "%tool install wants one of --lazy, --always, --remove.",
                hint="--lazy loads us at the first %tool, --always at every start.",
            )
        if "--remove" in given.given:
            return Page(install.remove(self._profile))
        return Page(install.install(self._profile, "lazy" if "--lazy" in given.given else "always"))


def _row(label: str, spec: ToolSpec, args: dict[str, Any], outcome: str) -> dict[str, str]:
    return {"check": label, "call": parse.format_call(spec.name, args), "outcome": outcome}
