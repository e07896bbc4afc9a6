"""`ask` as a row of the command table: its options, which `%ask` reads too, and what it does in a
shell.

An option of an ask has one spelling and may have aliases. `ask_arguments` makes the arguments of
`box.ask` of the options, in both places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from onetool_ipy.faces.commands import (
    Command,
    CommandContext,
    DataPage,
    Option,
    Page,
    WrongWords,
)
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.llm.ask.answer import Answer, plan_bundle
from onetool_ipy.render.pages import Heading, Part, Row, Rows
from onetool_ipy.render.views import Listing

ALLOW = Option(
    "--allow",
    "names",
    "only these tools: names or pack.*, separated by commas",
    "CSV",
    "tool",
    aliases=("--tool-allow",),
)
KEPT = ("--resume", "--waiting", "--drop")
"""Options that are about programs which wait for a yes, and ask no model. Only one is keywords."""

_MAX_STEPS = 1000
_ARGUMENTS = {
    "--model": "model",
    "--allow": "tool_allow",
    "--max-steps": "max_steps",
    "--approve": "approve",
    "--session": "session",
}
_NOT_PREVIEWED = ("max_steps", "approve", "plan")
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}

_LINES = (
    (
        "%ask [flags] PROMPT",
        "ask a model; a = %ask ... gives the Answer: .text, .calls, .df, .usage",
    ),
    ("%%ask [flags]", "the same with the cell's text as the prompt"),
    ("%ask tool:NAME {json}", "run one tool, without a model"),
    ("+pack.tool or +pack", "in the prompt: offer just these tools"),
    ("@name", "in the prompt: a variable, sent as a description of at most 4 kB; @@ is an @"),
    ("+server:uri", "in the prompt: attach a resource of a server"),
    ("%ask $server.prompt k=v", "ask with a prompt of a server"),
)
"""What is typed, and what it does. The options are those of the command table."""


def ask_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `box.ask` that the options of a line stand for."""
    keywords = {name: values[option] for option, name in _ARGUMENTS.items() if option in values}
    with_tools = values.get("--with-tools")
    if isinstance(with_tools, str):
        if with_tools.strip().lower() not in _BOOLEANS:
            raise WrongWords(
                f"'{with_tools[:40]}' is not true or false.", hint="Write --tools or --no-tools."
            )
        with_tools = _BOOLEANS[with_tools.strip().lower()]
    if with_tools is not None:
        keywords["with_tools"] = with_tools
    for option in ("--code", "--plan"):
        if option in values:
            keywords[option[2:]] = True
    return keywords


def previewed(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `box.ask.preview` that those of `box.ask` stand for."""
    kept = {name: value for name, value in keywords.items() if name not in _NOT_PREVIEWED}
    return {**kept, "code": bool(keywords.get("plan") or keywords.get("code"))}


def require_one_kept(values: Mapping[str, Any]) -> bool:
    """Whether a line is about kept programs. Raises WrongWords if it says two things about them."""
    kept = [option for option in KEPT if option in values]
    if len(kept) > 1:
        raise WrongWords(f"{' and '.join(kept)} exclude each other.", hint="Keep one of them.")
    return bool(kept)


def ask(context: CommandContext, options: Options) -> DataPage | Listing:
    """`ask PROMPT`: the answer of a model, or of a typed call; with `--code`, of a program that a
    model writes."""
    values, box = options.values, context.box
    if require_one_kept(values):
        return _kept_program(context, options)
    if len(options.words) != 1 or not options.words[0].strip():
        message = (
            "ask needs one prompt, in quotes."
            if len(options.words) != 1
            else "There is nothing to ask."
        )
        raise WrongWords(message, hint='For example: onetool-ipy ask "What is in README.md?"')
    (prompt,) = options.words
    keywords = ask_arguments(values)
    steps = keywords.get("max_steps")
    if steps is not None and not 1 <= steps <= _MAX_STEPS:
        raise WrongWords(
            f"'{steps}' is not a number from 1 to {_MAX_STEPS}.", hint="Write --max-steps 5."
        )
    if "--show" in values:
        parts = box.ask.preview(prompt, **previewed(keywords))
        # A person reads this JSON, so a text is a list of its lines.
        rows = [
            {"part": part.name, "tokens": part.tokens, "text": part.text.splitlines()}
            for part in parts
        ]
        return DataPage.of(
            Page("Nothing was sent."), {"tokens": sum(part.tokens for part in parts), "parts": rows}
        )
    allow, approve = keywords.get("tool_allow"), keywords.get("approve")
    answer = box.ask.typed(prompt, source="cli", tool_allow=allow, approve=approve or ())
    answer = answer or box.ask(prompt, **keywords, source="cli")
    return _answered(context, answer, is_plan="--plan" in values)


def _kept_program(context: CommandContext, options: Options) -> DataPage | Listing:
    """`ask --waiting`, `ask --resume ID [skip|again]` and `ask --drop ID`: programs that wait for a
    yes."""
    values, asker = options.values, context.box.ask
    if "--resume" in values:
        is_plan, decision = "--plan" in values, " ".join(options.words)
        answer = asker.resume(
            values["--resume"], cast(Any, decision), approve=values.get("--approve"), plan=is_plan
        )
        return _answered(context, answer, is_plan=is_plan)
    if options.words:
        raise WrongWords(f"--waiting and --drop take no prompt: '{options.words[0][:40]}'.")
    if "--waiting" in values:
        return asker.waiting()
    asker.drop(values["--drop"])
    note = Page(f"The program '{values['--drop']}' is dropped. Nothing of it will run.")
    return DataPage.of(note, {"dropped": values["--drop"]})


def _answered(context: CommandContext, answer: Answer, *, is_plan: bool) -> DataPage:
    """Return an answer for a shell. A program that waits has failed, unless its plan is all that
    was asked for."""
    is_failed_call = not answer.model and answer.program is None and answer.tool_error is not None
    is_stuck = answer.stop_reason == "waiting" and not is_plan
    note = context.box.mask(answer.note or "")
    if answer.question is not None:
        note = plan_bundle(answer.question, note, context.box.mask)["text/plain"]
    return DataPage.of(
        Page(note), answer.to_dict(), is_failure=not answer.ok or is_failed_call or is_stuck
    )


ROW = Command(
    "ask",
    "[PROMPT]",
    "ask a model, which may call tools; the answer is JSON",
    ask,
    options=(
        Option("--model", "text", "one of onetool.yaml; in a notebook also a variable", "NAME"),
        Option(
            "--with-tools",
            "optional",
            "offer tools, or none; shorter: --tools, --no-tools",
            "true|false",
            ("true", "false"),
            aliases=("--tools=true", "--no-tools=false"),
        ),
        ALLOW,
        Option("--approve", "names", "tools that may run without a question", "CSV", "tool"),
        Option("--max-steps", "number", "requests before it must answer", "N"),
        Option("--session", "text", "go on with this conversation", "NAME", "session"),
        Option(
            "--as",
            "text",
            "the answer as a value of this type, a.value: a name or an expression",
            "TYPE",
            place="notebook",
        ),
        Option("--show", help="what would be sent, part by part; sends nothing"),
        Option(
            "--code",
            help="the model writes one program over the tools; its writes are one question",
        ),
        Option("--plan", help="the same, and no write is made now: the program is kept"),
        Option("--waiting", help="the programs that wait for a yes"),
        Option(
            "--resume",
            "text",
            "go on with one; behind it skip or again, for a write in doubt",
            "ID",
        ),
        Option("--drop", "text", "forget one", "ID"),
        Option(
            "--distil",
            help="put the calls, or the program, into the next cell; alone: of the last answer",
            place="notebook",
        ),
        Option("--soft", help="give the Answer also where the model failed", place="notebook"),
        Option("-o", "variable", "put the Answer into a variable", "NAME", place="notebook"),
    ),
    group="call",
    place="shell",
    elsewhere="Write: %ask PROMPT",
    output="json",
)
"""Both places read its options. `%ask` is a magic of its own, so `%tool` has no such row."""


def help_parts() -> list[Part]:
    """What `%ask` takes: its lines, and its options as the command table has them."""
    lines = Rows(tuple(Row(typed, about) for typed, about in _LINES))
    return [lines, Heading("Options", level=2), ROW.option_rows("notebook")]
