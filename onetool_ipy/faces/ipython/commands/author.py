"""`%tool check | install`: try a tool out, and have `%tool` in every notebook."""

from __future__ import annotations

from typing import Any, ClassVar

from onetool_ipy.core import schema
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.samples import samples
from onetool_ipy.faces.ipython import install, parse
from onetool_ipy.faces.ipython.commands.group import Bench, Command, one_name
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.render.shown import Listing

__all__ = ["Author"]

_CHECK_S = 10.0
"""Seconds that one try of `%tool check` may take."""


class Author:
    """The sub-commands of those who write tools."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool check NAME               call it with arguments made from its schema",
        "%tool install --lazy|--always  have %tool in every notebook; --remove undoes it",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._profile = bench.profile
        self._run_example = bench.run_example

    def table(self) -> dict[str, Command]:
        return {"check": self._check, "install": self._install}

    def _check(self, rest: str) -> Any:
        """Try a tool: its docstring's examples, arguments made from its schema, and what its docstring leaves out."""
        spec = self._box.registry.load(one_name(rest, "check"))
        rows = [self._check_example(line) for line in spec.example.splitlines() if line.strip()]
        for label, args in samples(spec.parameters):
            result = self._box.call(spec.name, args, source="magic", timeout=_CHECK_S)
            said = "ok" if result.error is None else f"{result.error.code}: {result.error.message}"
            rows.append({"check": label, "call": parse.format_call(spec.name, args), "outcome": said})
        silent = [p.name for p in schema.params(spec.parameters) if not p.description]
        if spec.description in ("", spec.short_name):
            rows.append({"check": "docstring", "call": "", "outcome": "missing: say what the tool does"})
        if silent:
            rows.append({"check": "docstring", "call": "", "outcome": f"no words about: {', '.join(silent)}"})
        masked = [{key: self._box.mask(value) for key, value in row.items()} for row in rows]
        return Listing(masked)

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
