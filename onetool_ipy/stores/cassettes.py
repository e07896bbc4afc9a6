"""Cassettes: files of recorded calls, to replay those calls later without a network.

A cassette is JSON Lines (`calls.jsonl`), one line per call, in the order of recording; the same
call made again takes the next answer. Each line is appended by one write and has the tool, its
input schema, the arguments, the result or the failure, and for an HTTP tool its requests. Secrets
are masked in all of it, so a replayed result holds `***` where the recording caller got the true
value. If `stores.encoding` cannot give a result back, the line says why instead. A file with a line
that we cannot read is refused as a whole and never written to.

`stores.replays` knows which cassettes are on in a toolbox, and gives the executor the step of the
active one. Only the outermost call is recorded. Tools of `ot` always run. A tool's own failure is
recorded and replayed; a passing one (a time-out, no network) and a call that never began (bad
arguments) are not.
"""

from __future__ import annotations

import builtins
import datetime
import hashlib
import json
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.base import forks, values
from onetool_ipy.base.errors import (
    Disabled,
    ExecutionFailed,
    NotAllowed,
    OneToolError,
    UsageProblem,
    is_transient,
)
from onetool_ipy.base.files import StoreError, append_line, bytes_of, write_whole
from onetool_ipy.base.foreign_json import NotJson, parse_json
from onetool_ipy.base.values import Json
from onetool_ipy.core import current
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.core.tool import schema_hash
from onetool_ipy.stores.encoding import NotEncodable, decode, encode

Step = Generator[None, ToolResult, ToolResult | None]

_FORMAT = 1
_MAX_ARGS = 10_000
MAX_FILE = 1 << 30
# A level of a dict with other keys than text is several levels of JSON.
_MAX_DEPTH = 500
_OT_PACK = "ot"
_UNMASKABLE = "it holds a secret in a form that cannot be masked"
_RECORD_AGAIN = (
    "Refresh it: ot.replay(FILE, mode='refresh') or %tool replay FILE --refresh, or delete its"
    " line."
)


class DamagedCassette(StoreError):
    """A replay file that cannot be read."""


class NotRecorded(ExecutionFailed):
    """The replay file has no answer for a call, and only that file may answer."""


class StaleAnswer(ExecutionFailed):
    """The tool has changed since its answer was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One line of a cassette.

    `key` is the hash of tool and arguments, `version` that of the tool's schema. A line that
    `replaces` ends those before it with its key. `not_recorded` says why there is no result.
    `of_notebook` is for a tool that a cell defined.
    """

    format: int = _FORMAT
    tool: str
    key: str
    args: Any = None
    result: Any = None
    failure: Json | None = None
    not_recorded: str = ""
    replaces: bool = False
    version: str = ""
    recorded: str = ""
    ms: float = 0.0
    input_schema: Json | None = None
    requests: list[Json] | None = None
    of_notebook: bool = False

    def to_line(self) -> str:
        """Return the line; fields that say nothing are left out."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record = {name: value for name, value in record.items() if value not in (None, "", False)}
        if not self.not_recorded and self.failure is None:
            record["result"] = self.result
        return json.dumps(record, ensure_ascii=False) + "\n"


class ReplayedAnswer(NamedTuple):
    """What a cassette has for a call: the value, or the failure that was recorded."""

    value: Any
    failure: Mapping[str, Any] | None


@without_secrets
class Cassette:
    """One file of recorded calls. Threads may share it; other processes may append to the same
    file."""

    def __init__(
        self,
        path: Path,
        *,
        mode: str = "auto",
        mask: Callable[[str], str] = str,
        clock: Callable[[], datetime.datetime] | None = None,
        repeats: bool = False,
    ) -> None:
        self.path = path
        self.mode = mode
        self._repeats = repeats
        self.played = 0
        self.recorded = 0
        self.refused = 0
        self._mask = mask
        self._clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        if mode == "replay" and not path.exists():
            raise UsageProblem(
                f"There is no replay file '{path}', and only recorded calls may be answered here.",
                hint=(
                    f"Record it first where there is a network: %tool replay {path}   or"
                    " ot.replay() without a mode."
                ),
            )
        self._calls = read_calls(path) if path.exists() else []
        self._unplayed: dict[str, deque[RecordedCall]] = {}
        for call in self._calls if mode != "refresh" else ():
            self._unplayed.setdefault(call.key, deque()).append(call)
        self._counts = {key: len(calls) for key, calls in self._unplayed.items()}
        self._refreshed: set[str] = set()
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Take a lock of this process's own."""
        self._recording = threading.Lock()

    def answer(self, kind: str, key: Any, produce: Callable[[], Any], *, version: str = "") -> Any:
        """Return the value recorded for (kind, key), or call `produce` and record its value. Not
        for tools.

        `key` is any value that can be encoded. Raises NotRecorded and StaleAnswer. Exceptions of
        `produce` are not recorded.
        """
        call = RecordedCall(tool=kind, version=version, **_identify(kind, key, self._mask))
        replayed = self.find(call, lambda recorded: recorded == version)
        if replayed is not None:
            return replayed.value
        began = self._clock()
        value = produce()
        self.record(replace(call, ms=(self._clock() - began).total_seconds() * 1000), value)
        return value

    def find(self, call: RecordedCall, is_current: Callable[[str], bool]) -> ReplayedAnswer | None:
        """Take the next answer recorded for a call; None means that the call has to be made.

        Raises NotRecorded if only the cassette may answer, StaleAnswer if the tool has changed
        since.
        """
        unplayed = self._unplayed.get(call.key, deque())
        try:
            # A mock gives its last answer for ever, and of the tools that it stands for only the
            # names are left.
            answer = replace(unplayed[0], version="") if self._repeats else unplayed.popleft()
            if self._repeats and len(unplayed) > 1:
                unplayed.popleft()
        except IndexError:
            if self.mode == "replay":
                raise self._missing(call) from None
            return None
        if not is_current(answer.version):
            unplayed.appendleft(answer)
            message = f"'{call.tool}' has changed since its answer was recorded in '{self.path}'."
            raise StaleAnswer(message, hint=_RECORD_AGAIN)
        if answer.not_recorded:
            if self.mode == "replay":
                message = f"'{call.tool}': the answer could not be recorded: {answer.not_recorded}."
                raise NotRecorded(message, hint="Leave this call out of what is replayed.")
            return None
        self.played += 1
        try:
            return ReplayedAnswer(decode(answer.result), answer.failure)
        except NotEncodable as exc:
            reason = f"the answer of '{call.tool}': {exc.message}"
            raise StoreError(self.path, reason, doing="read", hint=_RECORD_AGAIN) from exc

    def record(self, call: RecordedCall, value: Any) -> str:
        """Append a call and what it gave. Returns "", or why it cannot be recorded; raises
        StoreError for a disk."""
        # A line that replaces others stands before all that are new.
        with self._recording:
            return self._record(call, value)

    def _record(self, call: RecordedCall, value: Any) -> str:
        call = replace(
            call,
            replaces=self.mode == "refresh" and call.key not in self._refreshed,
            recorded=self._clock().isoformat(timespec="seconds"),
            ms=round(call.ms, 1),
        )
        try:
            full = replace(call, result=self._masked(encode(value)))
            line = full.to_line()
            if self._mask(line) != line:
                raise NotEncodable(_UNMASKABLE)
        except NotEncodable as exc:
            reason = self._mask(exc.message)
            full = replace(call, not_recorded=reason, args=None, failure=None, requests=None)
            line = full.to_line()
        append_line(self.path, line.encode())
        self._refreshed.add(call.key)
        self._calls.append(full)
        self.recorded += not full.not_recorded
        self.refused += bool(full.not_recorded)
        return full.not_recorded

    def close(self) -> None:
        """After a refresh, remove the lines that were replaced; may be called twice."""
        if self.mode == "refresh" and self._refreshed:
            self._refreshed.clear()
            text = "".join(call.to_line() for call in read_calls(self.path))
            write_whole(self.path, text.encode(), mode=0o644)

    def around(self, resolved: ResolvedCall) -> Step | None:
        """Return the step around one call while the cassette is on; None if the call is not
        recorded."""
        if isinstance(resolved.failure, (Disabled, NotAllowed)) or resolved.tool.startswith(
            f"{_OT_PACK}."
        ):
            return None
        outer = current.scope()
        # Only the outermost call is recorded; a call that `ot` makes, as in `ot.map`, counts as
        # one.
        is_outermost = outer is None or outer.depth == 0
        is_of_ot = (
            outer is not None
            and outer.depth == 1
            and outer.spec is not None
            and outer.spec.pack == _OT_PACK
        )
        return self._replay_or_record(resolved) if is_outermost or is_of_ot else None

    def __repr__(self) -> str:
        refused = f", {self.refused} not recordable" if self.refused else ""
        answers = "1 answer" if len(self._calls) == 1 else f"{len(self._calls)} answers"
        counts = f"{answers}; {self.played} played, {self.recorded} recorded{refused} so far"
        return f"<Replay '{self.path}' ({self.mode}): {counts}>"

    def _replay_or_record(self, resolved: ResolvedCall) -> Step:
        spec, args = resolved.spec, resolved.given
        try:
            call = RecordedCall(tool=resolved.tool, **_identify(resolved.tool, args, self._mask))
        except NotEncodable as exc:
            if self.mode == "replay":
                raise NotRecorded(
                    f"'{resolved.tool}': its arguments cannot be recorded: {exc.message}."
                ) from exc
            _warn(resolved.tool, f"in its arguments, {exc.message}")
            return None
        try:
            # Without a schema, then or now, nothing says that the tool has changed.
            replayed = self.find(
                call, lambda version: spec is None or version in ("", schema_hash(spec))
            )
        except NotRecorded:
            if resolved.failure is not None:
                # The call would have failed anyway; the executor says why.
                return None
            raise
        if replayed is not None:
            failure = (
                None if replayed.failure is None else _read_failure(replayed.failure, resolved.tool)
            )
            return ToolResult(failure is None, replayed.value, failure, {"replayed": True})
        result = yield
        error = result.error
        if error is not None and (error.code != "execution_error" or is_transient(error.exception)):
            return None
        failure_form = (
            None
            if error is None
            else values.map_text(values.to_json(_write_failure(error)), self._mask)
        )
        call = replace(call, failure=failure_form, ms=float(result.meta.get("duration_ms") or 0))
        if spec is not None:
            schema = values.map_text(values.to_json(spec.parameters), self._mask)
            call = replace(
                call,
                version=schema_hash(spec),
                input_schema=schema,
                of_notebook=spec.origin == "cell",
            )
            with suppress(OneToolError, KeyError, TypeError, ValueError):
                if spec.http is not None:
                    sent = spec.http.preview(dict(args))
                    requests = [
                        {name: self._mask(str(one[name])) for name in ("method", "url")}
                        for one in sent
                    ]
                    call = replace(call, requests=requests)
        try:
            reason = self.record(call, result.data)
        except StoreError as exc:
            reason = exc.message
        if reason:
            _warn(resolved.tool, reason)
        return None

    def _masked(self, form: Any) -> Any:
        masked = values.map_text(form, self._mask)
        if masked != form:
            # Masking breaks data in base64: arrays, and tables as Parquet.
            try:
                decode(masked)
            except NotEncodable:
                raise NotEncodable(_UNMASKABLE) from None
        return masked

    def _missing(self, call: RecordedCall) -> NotRecorded:
        count = self._counts.get(call.key, 0)
        if count:
            times = "once" if count == 1 else f"{count} times"
            message = (
                f"'{call.tool}' was recorded {times} with these arguments, and is called again."
            )
        elif any(other.tool == call.tool for other in self._calls):
            message = f"'{call.tool}' was not recorded with these arguments."
        else:
            message = f"'{call.tool}' was not recorded."
        hint = (
            "Run it once where there is a network, to keep its answer, after: %tool replay"
            f" {self.path}"
        )
        return NotRecorded(
            f"{message} Only recorded calls may be answered here, from '{self.path}'.", hint=hint
        )


def read_calls(path: Path) -> list[RecordedCall]:
    """Read the calls that no later one replaces. Raises DamagedCassette, and StoreError if it
    cannot be opened."""
    lines = (bytes_of(path, MAX_FILE) or b"").split(b"\n")
    names = {field.name for field in fields(RecordedCall)}
    calls = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line, limit=MAX_FILE, depth=_MAX_DEPTH)
        except NotJson as exc:
            # A place inside the line would be read as one of the file.
            reason = str(exc).partition(":")[0]
            raise _damaged(
                path, f"line {number} {reason}, so this version did not record it"
            ) from exc
        if not isinstance(record, dict) or not all(
            isinstance(record.get(name), str) for name in ("tool", "key")
        ):
            raise _damaged(
                path, f"line {number} is not a recorded call: it has no 'tool' and 'key'"
            )
        if record.get("format") != _FORMAT:
            reason = (
                f"line {number} has format {record.get('format')!r}; this version reads format"
                f" {_FORMAT}"
            )
            raise _damaged(path, reason)
        if not record.keys() & {"result", "failure", "not_recorded"}:
            raise _damaged(path, f"line {number} has neither 'result' nor 'failure'")
        if fault := next(
            (name for name in names & record.keys() if not _fits(name, record[name])), ""
        ):
            raise _damaged(
                path, f"line {number} is not a recorded call: its '{fault}' is of another kind"
            )
        calls.append(
            RecordedCall(**{name: value for name, value in record.items() if name in names})
        )
    last = {call.key: place for place, call in enumerate(calls) if call.replaces}
    return [
        replace(call, replaces=False)
        for place, call in enumerate(calls)
        if place >= last.get(call.key, 0)
    ]


def _fits(name: str, value: Any) -> bool:
    """Whether a field of a recorded call is of the kind that this version writes."""
    if name in ("failure", "input_schema"):
        return value is None or isinstance(value, dict)
    if name == "requests":
        is_list = isinstance(value, list) and all(isinstance(each, dict) for each in value)
        return value is None or (
            is_list and all(isinstance(each.get("url"), str) for each in value)
        )
    if name in ("args", "result", "format", "replaces", "of_notebook"):
        return True
    return isinstance(value, (int, float) if name == "ms" else str)


def _damaged(path: Path, reason: str) -> DamagedCassette:
    hint = "Nothing was changed. Delete the line, or move the file and record again."
    return DamagedCassette(path, reason, doing="read the replay file", hint=hint)


def _identify(tool: str, args: Any, mask: Callable[[str], str]) -> Json:
    """Return the key of a call and its arguments as the file shows them, both masked. Raises
    NotEncodable."""
    form = values.map_text(encode(args), mask)
    text = json.dumps([tool, form], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    return {"key": digest, "args": form if len(text) <= _MAX_ARGS else values.cut(text, 1000)}


def _write_failure(error: Failure) -> Json:
    form: Json = {"code": error.code, "message": error.message, "reason": error.reason}
    form |= {"hint": error.hint, "status": error.status, "details": error.details}
    own = error.exception
    if own is not None and type(own) is getattr(builtins, type(own).__name__, None):
        try:
            form["exception"] = {"type": type(own).__name__, "args": encode(list(own.args))}
        except NotEncodable:
            form["exception"] = {"type": type(own).__name__, "args": [error.message]}
    return {key: value for key, value in form.items() if value not in (None, "")}


def _read_failure(form: Mapping[str, Any], tool: str) -> Failure:
    own = form.get("exception") or {}
    kind = getattr(builtins, str(own.get("type")), None)
    exception: BaseException | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            exception = kind(*decode(own.get("args") or []))
        except (TypeError, ValueError, NotEncodable):
            # Some exceptions take arguments of their own.
            exception = None
    return Failure(
        form.get("code", "execution_error"),
        str(form.get("message", "")),
        tool,
        form.get("reason"),
        form.get("details"),
        str(form.get("hint", "")),
        int(form.get("status") or 502),
        exception,
    )


def _warn(tool: str, reason: str) -> None:
    warnings.warn(f"'{tool}' was not recorded: {reason.rstrip('.')}.", stacklevel=3)
