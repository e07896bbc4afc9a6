"""`%tool why`: the whole story of the last failure in this notebook.

The page names the tool, the arguments as it received them, what it wanted, what the other side said, and for HTTP tools
the request and the response. A tool's own code is shown by its own frames; ours come only with `--internals`. The page
has no secrets: arguments are those of the call log, requests are masked where they are made, and all of it is masked
again.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces.commands import CommandContext, Page
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.faces.notebook.errors import foreign_frames
from onetool_ipy.render.views import local_time
from onetool_ipy.toolbox import Toolbox

_MAX_BODY = 4_000
_RECENT = 200


def why(context: CommandContext, options: Options) -> Page:
    """`%tool why [--internals]`."""
    return context.page(*story(context.box, context.last.failed, internals="--internals" in options.values))


def story(box: Toolbox, failed: ToolResult | BaseException | None, *, internals: bool = False) -> list[str]:
    """The lines of the page about a failed call, or about an exception outside of one."""
    if failed is None:
        return ["Nothing has failed in this session."]
    if not isinstance(failed, ToolResult):
        lines = failed.lines() if isinstance(failed, OneToolError) else [f"{type(failed).__name__}: {failed}"]
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
        *([] if internals or own is None else ["", "With the frames of onetool_ipy: %tool why --internals"]),
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
        f"  {name} = {values.cut(json.dumps(value, ensure_ascii=False), 400)}" for name, value in arguments.items()
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
        *("", "Request:", f"  {request['method']} {request['url']}", *_headers(request), *_body(request)),
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
