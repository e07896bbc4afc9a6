"""A question in a terminal, or in a notebook whose page shows no form: text lines and `input()`.

Text from models, tools and servers is escaped, and lines are broken here and not by the terminal,
so that no foreign text can look like one of our lines. Only a listed answer counts. Where more than
yes and no can be typed, any other is asked about once more; the second one runs and sends nothing.
To a yes-or-no question anything but a yes is a no.
"""

from __future__ import annotations

import getpass
import re
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any

from onetool_ipy.base.printable import printable, visible
from onetool_ipy.base.processes import wait_for_stdin
from onetool_ipy.core.question import (
    NobodyToAsk,
    ProposedCall,
    Question,
    Reply,
    choices_of,
    form_errors,
)
from onetool_ipy.render.question import broken, call_lines, program_lines

_MAX_NAME = 160
_MAX_KEY = 80
_MAX_VALUE = 200
_MAX_TEXT = 4_100
_MAX_DETAIL = 100_000
_MAX_NOTE = 2_000
_TRIES = 3
_NONE = frozenset(("", "n", "no", "none"))
_NUMBERS = re.compile(r"[0-9]{1,4}(?: ?- ?[0-9]{1,4})?(?:[ ,]+[0-9]{1,4}(?: ?- ?[0-9]{1,4})?)*")
_RANGE = re.compile(r"([0-9]+)(?: ?- ?([0-9]+))?")
_YES_OR_NO = frozenset(("", "y", "yes", "n", "no"))
_YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def ask_in_terminal(question: Question) -> Reply:
    """Put a question with `input()`. Raises NobodyToAsk where nobody can answer."""
    if question.calls and question.each_time:
        lines = [f"{visible(question.subject, _MAX_NAME)} {visible(question.text, _MAX_TEXT)}"]
        lines += [
            line
            for each in question.calls
            for line in (*call_lines("  ", each), f"  {each.summary}")
        ]
        reply = _yes_or_no("\n".join([*lines, "Allow it this once?"]))
        everything = {"run": list(range(1, len(question.calls) + 1)), "always": False}
        return Reply("accept", everything) if reply.action == "accept" else reply
    if question.calls:
        return _approval(question)
    if question.trust is not None:
        # A notebook has the text of it in the cell.
        is_shown = not isinstance(input, types.BuiltinFunctionType)
        return _yes_or_no("Trust it?" if is_shown else f"{printable(question.text)}\nTrust it?")
    if question.yes and question.form is not None:
        return _fill_in(question.form, f"{visible(question.text, _MAX_TEXT)}\n")
    if question.yes:
        details = [
            line for each in question.details for line in broken(f"  {visible(each, _MAX_DETAIL)}")
        ]
        return _yes_or_no("\n".join([*details, visible(question.text, _MAX_TEXT)]))
    asker = visible(question.subject, _MAX_NAME)
    text_lines = [
        line
        for part in question.text.splitlines()
        for line in broken(f"  {visible(part, _MAX_TEXT)}")
    ]
    lines = [f"{asker} asks:", *text_lines]
    if question.url:
        lines += [
            "It sends you to this address. Open it yourself if you trust it:",
            f"  {question.url}",
        ]
        answers = "Did you open it? yes, no (decline), or Enter to cancel: "
    else:
        answers = "Answer? yes, no (decline), or Enter to cancel: "
    typed = _read_line("\n".join([*lines, answers]))
    if typed is None:
        raise NobodyToAsk(f"{asker} asks a person, and nobody can be asked here.")
    if typed.strip().lower() not in _YES_OR_NO:
        typed = _read_line(f"'{visible(typed, 40)}' is not an answer. {answers}") or ""
    word = typed.strip().lower()
    if word in ("n", "no"):
        return Reply("decline")
    if word not in ("y", "yes"):
        return Reply(
            "cancel",
            note=f"'{visible(typed, 40)}' is not an answer." if word else "It was dismissed.",
        )
    return Reply("accept") if question.form is None else _fill_in(question.form)


def approval_text(calls: Sequence[ProposedCall], asker: str = "the model") -> str:
    """Write the one question of a turn: every call with every argument by name."""
    is_sending = all(one.sends for one in calls)
    noun = "a call" if len(calls) == 1 else f"{len(calls)} calls"
    what = "send your data elsewhere" if is_sending else "change something"
    if not is_sending and any(one.sends for one in calls):
        what += ", or send your data elsewhere"
    lines = [f"{asker[:1].upper()}{asker[1:]} wants to make {noun} that may {what}:"]
    for number, one in enumerate(calls, start=1):
        lines += call_lines(f"  {number}. ", one)
        lines += [f"     ({', '.join(one.badges)})"] if one.badges else []
        lines += broken(f"     ({visible(one.note, _MAX_NOTE)})") if one.note else []
    if is_sending:
        places = " and ".join(dict.fromkeys(visible(one.sends, _MAX_NAME) for one in calls))
        lines.append(
            f"{_answers(len(calls)).replace('Run?', 'Send?')}, or always (all, and whatever goes to"
            f" {places} for the rest of this {'program' if asker == 'the program' else 'ask'}): "
        )
        return "\n".join(lines)
    if any(one.sends for one in calls):
        return "\n".join([*lines, f"{_answers(len(calls))}: "])
    lines.append(
        f"{_answers(len(calls))}, or always (all, and every later call of these tools in this"
        " session): "
    )
    return "\n".join(lines)


def program_text(question: Question) -> str:
    """Write the question about the writes of a program: its text, the first writes, and what was
    read."""
    numbers = "" if len(question.calls) == 1 else ", numbers such as 1,3-5,"
    return "\n".join([*program_lines(question), f"Run? all{numbers} or none: "])


def _approval(question: Question) -> Reply:
    """Put a question about calls. A reply that is not understood is asked about once more."""
    count = len(question.calls)
    typed = _read_line(
        program_text(question)
        if question.program
        else approval_text(question.calls, question.asker)
    )
    if typed is None:
        raise NobodyToAsk("Nobody could be asked.")
    reply = approval_reply(typed, count, offers_always=question.offers_always)
    if not reply.note:
        return reply
    always = ", or always" if question.offers_always else ""
    again = _read_line(
        f"'{visible(typed, 40)}' is not one of the answers. {_answers(count)}{always}: "
    )
    return (
        reply
        if again is None
        else approval_reply(again, count, offers_always=question.offers_always)
    )


def _answers(count: int) -> str:
    return f"Run? all, none{'' if count == 1 else ', numbers such as 1,3'}"


def approval_reply(typed: str, count: int, *, offers_always: bool = True) -> Reply:
    """Read the typed reply to `count` calls. A reply that is not listed in the question approves
    nothing."""
    word = " ".join(typed.lower().replace("[", " ").replace("]", " ").split())
    always = offers_always and word.startswith("always")
    rest = word.removeprefix("always").strip(" :,") if always else word
    if rest in _NONE and not always:
        return Reply("decline")
    everything = set(range(1, count + 1))
    chosen = everything if rest == "all" or (always and not rest) else set[int]()
    if _NUMBERS.fullmatch(rest):
        for first, last in _RANGE.findall(rest):
            chosen.update(range(int(first), int(last or first) + 1))
    if not chosen or not chosen <= everything:
        return Reply("cancel", note=f"the reply '{visible(typed, 40)}' was not understood")
    return Reply("accept", {"run": sorted(chosen), "always": always})


def _yes_or_no(prompt: str) -> Reply:
    typed = _read_line(f"{prompt} [y/N] ")
    if typed is None:
        raise NobodyToAsk("Nobody could be asked.")
    word = typed.strip().lower()
    if word not in _YES_OR_NO:
        sys.stdout.write(f"'{visible(typed, 40)}' is neither yes nor no, so it is a no.\n")
    return Reply("accept" if word in ("y", "yes") else "decline")


def _fill_in(form: Mapping[str, Any], head: str = "") -> Reply:
    """Ask for one field after the other. A field that stays wrong cancels."""
    content: dict[str, Any] = {}
    for name, field in form["properties"].items():
        is_required = name in form["required"]
        for _ in range(_TRIES):
            prompt = head + _prompt(name, field, is_required=is_required)
            typed = _read_line(prompt, is_hidden=field.get("format") == "password")
            if typed is None and head:
                raise NobodyToAsk("Nobody could be asked.")
            if typed is None:
                return Reply("cancel", note="It was dismissed.")
            value = field.get("default") if not typed.strip() else _value(typed.strip(), field)
            answer = {} if value is None else {name: value}
            only = {**form, "properties": {name: field}, "required": [name] if is_required else []}
            errors = form_errors(only, answer)
            if not errors:
                content.update(answer)
                break
            sys.stdout.write(f"  {visible(errors[0]['message'], _MAX_VALUE)}\n")
        else:
            return Reply("cancel", note=f"'{visible(name, _MAX_KEY)}' was not filled in.")
    return Reply("accept", content)


def _prompt(name: str, field: Mapping[str, Any], *, is_required: bool) -> str:
    title = visible(str(field.get("title") or name), _MAX_KEY)
    kinds = {
        "array": "any of these",
        "boolean": "yes or no",
        "string": "text",
        "integer": "a whole number",
    }
    choices = choices_of(field)
    kind = (
        "one of these"
        if choices and field["type"] != "array"
        else kinds.get(field["type"], "a number")
    )
    form_of = "not shown" if field.get("format") == "password" else field.get("format")
    about = [kind, form_of, "required" if is_required else "optional"]
    if field.get("default") is not None:
        about.append(f"Enter for {visible(str(field['default']), 40)}")
    lines = [visible(str(field["description"]), _MAX_VALUE)] if field.get("description") else []
    lines += [
        f"  {number}. {visible(label, _MAX_KEY)}"
        for number, (_, label) in enumerate(choices, start=1)
    ]
    return "\n".join([*lines, f"{title} ({', '.join(filter(None, about))}): "])


def _value(typed: str, field: Mapping[str, Any]) -> Any:
    """Read a typed text as the field's type. Other text stays text, and the check refuses it."""
    choices = choices_of(field)
    if field["type"] == "array":
        return [_chosen(part.strip(), choices) for part in typed.split(",") if part.strip()]
    if choices:
        return _chosen(typed, choices)
    if field["type"] == "boolean":
        return _YES_NO.get(typed.lower(), typed)
    if field["type"] == "string":
        return typed
    try:
        return int(typed)
    except ValueError:
        pass
    try:
        return float(typed)
    except ValueError:
        return typed


def _chosen(typed: str, choices: Sequence[tuple[str, str]]) -> str:
    """The choice with this value or title, else with this number."""
    for value, label in choices:
        if typed in (value, label):
            return value
    is_number = typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(choices)
    return choices[int(typed) - 1][0] if is_number else typed


def _read_line(prompt: str, *, is_hidden: bool = False) -> str | None:
    """Ask with `input()`, or with `getpass()` for what must not be shown. Returns None if nobody
    can answer."""
    # A notebook replaces it, to ask the browser.
    is_own = isinstance(input, types.BuiltinFunctionType)
    if is_own and (sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty()):
        return None
    try:
        if is_hidden:
            return getpass.getpass(prompt)  # a notebook replaces it, too
        if is_own and threading.current_thread() is not threading.main_thread():
            # Stop must be able to end this thread: `input()` would wait on and take the next line.
            sys.stdout.write(prompt)
            sys.stdout.flush()
            wait_for_stdin()
            return sys.stdin.readline().rstrip("\n") or None
        return input(prompt)
    except (EOFError, OSError, NotImplementedError, RuntimeError, ValueError):
        return None  # no terminal, a closed one, or a notebook that runs without a person
