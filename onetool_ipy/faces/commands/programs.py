"""`%%tool program`: run the program of a cell over the tools, in the sandbox, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.faces.commands import CommandContext
from onetool_ipy.faces.line.grammar import Options


def run_program(context: CommandContext, options: Options) -> object:
    """`%%tool program [@NAME ...] [-o NAME]`: the value is an Answer. Raises what ended the program."""
    if not options.body.strip():
        raise UsageProblem("There is no program.", hint="Write %%tool program, and the program below it.")
    user_ns: dict[str, Any] = context.shell.user_ns
    answer = context.box.ask.program(
        options.body,
        variables=_variables(options.words, user_ns),
        plan=bool(options.values.get("--plan")),
        approve=options.values.get("--approve"),
        tool_allow=options.values.get("--allow"),
        source="magic",
    )
    if "-o" in options.values:
        user_ns[options.values["-o"]] = answer
    answer.unwrap()
    return None if "-o" in options.values else answer


def _variables(words: list[str], user_ns: Mapping[str, Any]) -> dict[str, Any]:
    variables = {}
    for word in words:
        name = word.removeprefix("@")
        if word == name or not name.isidentifier():
            raise UsageProblem(f"'{word[:40]}' is not a variable. Write @name for each that the program may see.")
        if name not in user_ns:
            near = did_you_mean(name, [each for each in user_ns if not each.startswith("_")])
            raise UsageProblem(f"There is no variable '{name}'. {near}".strip())
        variables[name] = user_ns[name]
    return variables
