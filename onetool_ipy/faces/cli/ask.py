"""`onetool-ipy ask "..."`: ask a model; the Answer is JSON on stdout."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from onetool_ipy.assemble import open_toolbox
from onetool_ipy.core.printable import printable
from onetool_ipy.faces.cli.say import FAILED, OK, aside, names_of, say, show_json
from onetool_ipy.llm.ask import Watch

__all__ = ["add"]

_YES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    ask = commands.add_parser("ask", help="ask a model, which may call tools; the answer is JSON")
    ask.add_argument("prompt", type=_prompt, help="what to ask; tool:NAME {json} runs a tool without a model")
    ask.add_argument(
        "--with-tools",
        nargs="?",
        const=True,
        type=_boolean,
        metavar="true|false",
        help="whether tools are offered; by default as ask.with_tools says, which is true",
    )
    ask.add_argument("--tool-allow", metavar="CSV", help="offer only these: names or pack.*, separated by commas")
    ask.add_argument("--model", metavar="NAME", help="which model of the configuration")
    ask.add_argument("--max-steps", type=_count, metavar="N", help="requests before it must answer")
    ask.add_argument("--approve", metavar="CSV", help="tools that may run without a question")
    ask.set_defaults(run=_ask)


def _prompt(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("there is nothing to ask")
    return text


def _boolean(text: str) -> bool:
    found = _YES.get(text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not true or false")
    return found


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to 1000")
    return int(text)


class _Terminal(Watch):
    """Asks on stderr, since stdout is for the answer."""

    def question(self, text: str) -> str | None:
        if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
            return None
        sys.stderr.write(printable(text))
        sys.stderr.flush()
        return sys.stdin.readline() or None


def _ask(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        with aside():
            allow, approve, watch = names_of(options.tool_allow), names_of(options.approve), _Terminal()
            typed = box.ask.typed(options.prompt, source="cli", tool_allow=allow, approve=approve or (), watch=watch)
            answer = typed or box.ask(
                options.prompt,
                model=options.model,
                with_tools=options.with_tools,
                tool_allow=allow,
                max_steps=options.max_steps,
                approve=approve,
                watch=watch,
            )
        show_json(box, answer.to_dict())
        if answer.note:
            say(box.mask(answer.note))
        is_failed_call = not answer.model and answer.tool_error is not None
        return FAILED if answer.stop_reason in ("error", "interrupted") or is_failed_call else OK
