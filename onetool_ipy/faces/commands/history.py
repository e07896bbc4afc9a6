"""`history`, `history rerun`, `history diff` and `why`: the past calls, called again or compared,
and the last failure.

A run of `ot.map` is one line; calls of `ot` itself are left out unless `--tool` names one. The
numbers are those of the list. In a notebook `rerun N` means the list that was shown last, so that a
call made since does not shift it. In a shell, and with filters of its own, it means the list that
the same filters give.

`why` names the tool, the arguments as it received them, what it wanted, what the other side said,
and for HTTP tools the request and the response. A tool's own code is shown by its own frames; ours
come only with `--internals`. The page has no secrets: arguments are those of the call log, requests
are masked where they are made, and all of it is masked again.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.tables import is_missing
from onetool_ipy.core.difference import compare
from onetool_ipy.core.names import NOT_TOOLS
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import format_call
from onetool_ipy.faces.commands import CommandContext, DataPage, Page, WrongWords, page
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.faces.line.values import read_since
from onetool_ipy.faces.notebook.display import foreign_frames, raise_result
from onetool_ipy.faces.notebook.running_cell import seconds
from onetool_ipy.packs.ot.lineage import may_repeat, no_arguments, stored_result
from onetool_ipy.render import html
from onetool_ipy.render.difference import Difference
from onetool_ipy.render.pages import Note, Part, Row, Rows
from onetool_ipy.render.views import counted, local_time, milliseconds
from onetool_ipy.stores.calls.query import CallFilter, CallRow, RunRow
from onetool_ipy.toolbox import Toolbox

_LIMIT = 20
_RERUN_LIMIT = 1_000
_MAX_TEXT = 240
_BY_PEOPLE = ("magic", "python", "tool", "cli")
_MAX_BODY = 4_000
_RECENT = 200


def history(context: CommandContext, options: Options) -> DataPage:
    """`%tool history [N] [WORDS]`."""
    words, limit = options.words, _LIMIT
    if words and words[0].removeprefix("-").isdecimal():
        text = words[0]
        if not (text.isascii() and 0 < int(text[:9]) < 10**6):
            raise UsageProblem(
                f"'{text[:40]}' is not a number of calls.", hint="For example: %tool history 20"
            )
        limit, words = int(text), words[1:]
    lines = _lines(context, options, " ".join(words), limit)
    numbered = [line for line in lines if _can_rerun(line)]
    context.listed_calls = [line.call_id for line in numbered if isinstance(line, CallRow)]
    numbers = {id(line): str(number) for number, line in enumerate(numbered, start=1)}
    rows = tuple(_row(line, numbers.get(id(line), "")) for line in lines)
    if not rows:
        text = (
            "No call matches. See all with: %tool history"
            if words or options.values
            else "There are no calls yet."
        )
        if words and words[0] in ("today", "yesterday"):
            text = (
                f"No call has the word '{words[0]}'. From then on: %tool history --since {words[0]}"
            )
        return DataPage.of(page(context.box, [Note(text)]), [])
    hint = (
        Note("Call one again with: %tool history rerun N")
        if numbers
        else Note("All rows: ot.history().df")
    )
    return DataPage.of(page(context.box, [Rows(rows), hint]), [_record(line) for line in lines])


def rerun(context: CommandContext, options: Options) -> ToolResult | Page:
    """`%tool history rerun [N]`: call again what stands at N in the list; without N the last
    call."""
    number = options.words[0] if options.words else "1"
    row = _find(context, options, number)
    if row is None:
        raise UsageProblem(f"No call '{number[:40]}' in the history.", hint="See: %tool history")
    if row.arguments is None:
        raise UsageProblem(no_arguments(row), hint="Type the call again.")
    if not may_repeat(context.box, row.tool, row.arguments, "%tool"):
        return context.page(f"'{row.tool}' was not called again.")
    if context.place == "shell":
        return context.box.call(row.tool, row.arguments, source="cli")
    result = context.box.call(row.tool, row.arguments, source="magic")
    if not result.ok:
        raise_result(result, context.last)
    return result


def diff(context: CommandContext, options: Options) -> DataPage:
    """`%tool history diff A B`: what changed from the result of one call to that of another."""
    if len(options.words) != 2:
        raise WrongWords(
            "%tool history diff needs two calls.", hint="For example: %tool history diff 2 1"
        )
    filters = Options(
        options.words,
        {name: value for name, value in options.values.items() if name != "--key"},
        "",
    )
    stored: list[Any] = []
    for number in options.words:
        row = _find(context, filters, number)
        if row is None:
            raise UsageProblem(
                f"No call '{number[:40]}' in the history.", hint="See: %tool history"
            )
        stored.append(stored_result(context.box, row))
    changes = compare(stored[0], stored[1], options.values.get("--key"))
    difference = Difference(changes, mask=context.box.mask)
    rows = []
    for record in difference.df.head(_LIMIT).to_dict("records"):
        head = str(record.pop(difference.df.columns[0]))
        cells = [
            f"{name}={html.cell_text(cell)}"
            for name, cell in record.items()
            if not is_missing(cell)
        ]
        rows.append(Row(head, values.cut(" ".join(cells), _MAX_TEXT)))
    parts: list[Part] = [Note(line) for line in difference.summary()]
    parts += [Rows(tuple(rows))] if rows else []
    return DataPage.of(page(context.box, parts), values.to_json(difference.df))


def _lines(
    context: CommandContext, options: Options, text: str, limit: int
) -> list[CallRow | RunRow]:
    tool, since = options.values.get("--tool"), options.values.get("--since")
    query = CallFilter(
        tool=tool,
        ok=False if "--failed" in options.values else None,
        since=None if since is None else read_since(since, context.box.now()),
        text=text,
        hides_ot=not (tool or "").startswith("ot."),
    )
    return context.box.log.lines(query, limit=limit)


def _can_rerun(line: CallRow | RunRow) -> bool:
    """Whether a line is one call. A run of `ot.map` is many, and an ask is a conversation."""
    return isinstance(line, CallRow) and line.tool not in NOT_TOOLS


def _find(context: CommandContext, options: Options, number: str) -> CallRow | None:
    """The call at that place of the list, or with that id."""
    calls = [
        row
        for row in _lines(context, options, "", _RERUN_LIMIT)
        if isinstance(row, CallRow) and _can_rerun(row)
    ]
    if not (number.isascii() and number.isdecimal() and len(number) < 5):
        return next((row for row in calls if row.call_id == number), None)
    place = int(number) - 1
    ids = context.listed_calls if options.words and not options.values else []
    if ids:
        call_id = ids[place] if 0 <= place < len(ids) else ""
        return next((row for row in calls if row.call_id == call_id), None)
    return calls[place] if 0 <= place < len(calls) else None


def _row(line: CallRow | RunRow, number: str) -> Row:
    when = local_time(line.ts)
    if isinstance(line, RunRow):
        took = _took((line.ts - line.began).total_seconds() * 1000)
        failed = f", {line.failures:,} failed" if line.failures else ""
        text = f"ot.map of {line.tool}: {counted(line.rows, 'row')}{failed}, {took}"
        return Row("", text, when, "bad" if line.failures else "good")
    arguments = line.arguments
    call = (
        f"{line.tool} {line.args}"
        if not isinstance(arguments, dict)
        else format_call(line.tool, arguments)
    )
    text = values.cut(call.removeprefix("%tool "), _MAX_TEXT)
    if not line.ok:
        text += f" · failed: {values.cut(line.message or line.code or '', _MAX_TEXT)}"
    text += f" · {_took(line.ms)}"
    text += "" if line.source in _BY_PEOPLE else f" · by {line.source}"
    return Row(number, text, when, "good" if line.ok else "bad")


def _took(ms: float) -> str:
    if ms >= 1000:
        return seconds(ms / 1000, is_over=True)
    return milliseconds(ms)


def _record(line: CallRow | RunRow) -> dict[str, Any]:
    """A line for programs: times in UTC, whole ids."""
    ts = line.ts.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(line, RunRow):
        return {
            "ts": ts,
            "tool": line.tool,
            "run": line.run,
            "rows": line.rows,
            "failures": line.failures,
        }
    try:
        args = json.loads(line.args)
    except ValueError:  # cut in the log
        args = line.args
    facts = {"ok": line.ok, "ms": line.ms, "args": args, "error": line.message, "code": line.code}
    return {"ts": ts, "tool": line.tool, **facts, "source": line.source, "call_id": line.call_id}


def why(context: CommandContext, options: Options) -> Page:
    """`%tool history why [--internals]`."""
    lines = story(context.box, context.last.failed, internals="--internals" in options.values)
    answer = context.box.ask.last
    whys = [(call, call.result.meta.get("guard")) for call in (answer.calls if answer else ())]
    lines_of_model = [f"  {call.name}: {why}" for call, why in whys if why]
    return context.page(
        *lines,
        *(["", "Calls of the last ask that leave:", *lines_of_model] if lines_of_model else []),
    )


def story(
    box: Toolbox, failed: ToolResult | BaseException | None, *, internals: bool = False
) -> list[str]:
    """The lines of the page about a failed call, or about an exception outside of one."""
    if failed is None:
        return ["Nothing has failed in this session."]
    if not isinstance(failed, ToolResult):
        lines = (
            failed.lines()
            if isinstance(failed, OneToolError)
            else [f"{type(failed).__name__}: {failed}"]
        )
        return lines + (_frames(failed, failed.__traceback__) if internals else [])
    assert failed.error is not None
    error = failed.error
    lines = [f"'{error.tool}' failed: {error.code}{f' ({error.reason})' if error.reason else ''}"]
    lines += [*error.message.splitlines(), *(f"  {line}" for line in error.hint.splitlines())]
    lines += _arguments(box, failed)
    lines += _wanted(box, error)
    lines += _exchange(error)
    lines += _other_side(error)
    own = error.exception
    if internals and own is not None:
        lines += ["", "All frames:", *_frames(own, own.__traceback__)]
    elif own is not None and not isinstance(own, OneToolError):
        lines += ["", "In the tool's code:", *_frames(own, foreign_frames(own.__traceback__))]
    return [
        *lines,
        *(
            []
            if internals or own is None
            else ["", "With the frames of onetool_ipy: %tool history why --internals"]
        ),
    ]


def _arguments(box: Toolbox, failed: ToolResult) -> list[str]:
    """When and with what the tool was called, as the call log has it."""
    call_id = failed.meta.get("call_id")
    rows = box.log.history(limit=_RECENT) if box.config.settings.stats.enabled else []
    row = next((each for each in rows if each.call_id == call_id), None)
    if row is None:
        return []
    when = ["", f"Called at {local_time(row.ts)} from {row.source}; it took {row.ms:,.1f} ms."]
    try:
        arguments = json.loads(row.args)
    except ValueError:  # cut in the log
        arguments = row.args
    if not isinstance(arguments, Mapping):
        return [*when, "", "Arguments as received:", f"  {arguments}"]
    lines = [
        f"  {name} = {values.cut(json.dumps(value, ensure_ascii=False), 400)}"
        for name, value in arguments.items()
    ]
    return [*when, "", "Arguments as received:", *(lines or ["  none"])]


def _wanted(box: Toolbox, error: Failure) -> list[str]:
    spec = box.registry.find(error.tool)
    if error.code != "invalid_args" or spec is None:
        return []
    lines = ["", "Wanted:", f"  {spec.signature}"]
    for each in error.details if isinstance(error.details, list) else ():
        if isinstance(each, Mapping):
            place = f"at {each['pointer']}: " if each.get("pointer") else ""
            lines.append(f"  - {place}{each.get('message', '')}")
    return lines


def _exchange(error: Failure) -> list[str]:
    """The last request of an HTTP tool and its response."""
    exchange = getattr(error.exception, "exchange", None)
    if not isinstance(exchange, Mapping):
        return []
    request, response = exchange["request"], exchange["response"]
    return [
        *(
            "",
            "Request:",
            f"  {request['method']} {request['url']}",
            *_headers(request),
            *_body(request),
        ),
        *("", "Response:", f"  HTTP {response['status']}", *_headers(response), *_body(response)),
    ]


def _headers(part: Mapping[str, Any]) -> list[str]:
    return [f"  {name}: {value}" for name, value in part["headers"].items()]


def _body(part: Mapping[str, Any]) -> list[str]:
    text = part.get("body") or ""
    return ["", *(f"  {line}" for line in values.cut(text, _MAX_BODY).splitlines())] if text else []


def _other_side(error: Failure) -> list[str]:
    """The words of a server, or what else the failure carries."""
    if error.code == "invalid_args" or error.details is None or _exchange(error):
        return []
    words = error.details
    if isinstance(words, Mapping) and "stderr" in words:
        words = words["stderr"]
    if isinstance(words, list) and all(isinstance(line, str) for line in words):
        words = "\n".join(words)
    text = values.cut(values.to_text(words), _MAX_BODY)
    return ["", "It also said:", *(f"  {line}" for line in text.splitlines())]


def _frames(exc: BaseException, frames: Any) -> list[str]:
    return "".join(traceback.format_exception(type(exc), exc, frames)).rstrip().splitlines()
