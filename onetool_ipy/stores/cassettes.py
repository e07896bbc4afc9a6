"""Cassettes: readable files of recorded call results, to replay those calls later without a network.

A cassette is YAML, one document per answer, in the order of recording; the same call made again takes the next answer.
Each answer is appended by one write. Secrets are masked in arguments and results, so a replayed result holds `***`
where the recording caller got the true value. A result that cannot be restored is not recorded; the reason is noted.
A file that is damaged in one place, or has a later format, is refused as a whole and never written to.

`stores.replays` knows which cassettes are on in a toolbox; its `step` in the executor asks the active one.
Only the outermost call is recorded. Tools of `ot` always run. A tool's own failure is recorded and replayed; a
transient one (a time-out, no network) and a call that never began (bad arguments) are not.
"""

from __future__ import annotations

import builtins
import datetime
import hashlib
import json
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, UsageProblem, is_transient
from onetool_ipy.base.files import StoreError, append, write_whole
from onetool_ipy.core import current, names
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import BoundCall, ToolSpec, UncheckedCall, schema_hash
from onetool_ipy.stores.encoding import NotEncodable, decode, encode
from onetool_ipy.stores.replays import Mode, Replays

__all__ = [
    "Cassette",
    "DamagedCassette",
    "NotRecorded",
    "RecordedAnswer",
    "ReplayedAnswer",
    "Replaying",
    "StaleAnswer",
    "write_answer",
]

Step = Generator[None, ToolResult, ToolResult | None]

_FORMAT = 1
_HEAD = (
    f"# A cassette of onetool_ipy (ot.replay, format {_FORMAT}): what calls gave, in order."
    " Delete an answer to record it anew.\n"
)
_FORMAT_LINE = re.compile(r"# A cassette of onetool_ipy \(ot\.replay, format ([0-9]{1,9})\)")
_FIELDS = ("of", "key", "args", "version", "recorded", "ms", "replaces", "not_recorded", "failure", "result")
_MAX_ARGS = 10_000
_OT_PACK = "ot"
_RECORD_AGAIN = "Refresh it: ot.replay(FILE, mode='refresh') or %tool replay FILE --refresh, or delete its entry."
_UNCHANGED = "Nothing was changed."


class DamagedCassette(StoreError):
    """A replay file that cannot be read."""


class NotRecorded(ExecutionFailed):
    """The replay file has no answer for a call, and only that file may answer."""


class StaleAnswer(ExecutionFailed):
    """The tool has changed since its answer was recorded."""


class RecordedAnswer(NamedTuple):
    """One document of a cassette. `note` says why there is no result; `line` is where the document begins."""

    what: str
    key: str
    args: Any
    version: str
    recorded: str
    ms: float
    replaces: bool = False
    note: str = ""
    failure: Any = None
    result: Any = None
    line: int = 0


class ReplayedAnswer(NamedTuple):
    """What a cassette has for a call: the value, or the failure that was recorded."""

    value: Any
    failure: Mapping[str, Any] | None


class Cassette:
    """One file of answers. Threads may share it; other processes may append to the same file."""

    def __init__(
        self,
        path: Path,
        *,
        mode: Mode = "auto",
        mask: Callable[[str], str] = str,
        clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self.path = path
        self.mode = mode
        self.played = 0
        self.recorded = 0
        self.refused = 0
        self._mask = mask
        self._clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        if mode == "replay" and not path.exists():
            raise UsageProblem(
                f"There is no replay file '{path}', and only its answers may be used here.",
                hint='Record it first with mode="auto", where there is a network, and keep the file.',
            )
        self._answers = _read_answers(path) if path.exists() else []
        self._unplayed: dict[str, deque[RecordedAnswer]] = {}
        for answer in self._answers if mode != "refresh" else ():
            self._unplayed.setdefault(answer.key, deque()).append(answer)
        self._counts = {key: len(answers) for key, answers in self._unplayed.items()}
        self._refreshed: set[str] = set()

    def answer(self, kind: str, key: Any, produce: Callable[[], Any], *, version: str = "") -> Any:
        """Return the value recorded for (kind, key), or call `produce` and record its value. Not for tools.

        `key` is any value that can be encoded. Raises NotRecorded and StaleAnswer. Exceptions of `produce` are not
        recorded.
        """
        digest, shown = _key(kind, key, self._mask)
        found = self.find(kind, digest, lambda recorded: recorded == version)
        if found is not None:
            return found.value
        began = self._clock()
        value = produce()
        self.record(kind, digest, shown, version, value=value, ms=(self._clock() - began).total_seconds() * 1000)
        return value

    def find(self, what: str, key: str, is_current: Callable[[str], bool]) -> ReplayedAnswer | None:
        """Take the next answer recorded under a key; None means that the call has to be made.

        Raises NotRecorded if only the cassette may answer, StaleAnswer if `what` has changed since.
        """
        unplayed = self._unplayed.get(key, deque())
        try:
            answer = unplayed.popleft()
        except IndexError:
            if self.mode == "replay":
                raise self._missing(what, key) from None
            return None
        if not is_current(answer.version):
            unplayed.appendleft(answer)
            raise StaleAnswer(
                f"'{what}' has changed since its answer was recorded in '{self.path}' (line {answer.line}).",
                hint=_RECORD_AGAIN,
            )
        if answer.note:
            if self.mode == "replay":
                raise NotRecorded(
                    f"'{what}': the answer could not be recorded: {answer.note}.",
                    hint="Leave this call out of what is replayed.",
                )
            return None
        self.played += 1
        try:
            return ReplayedAnswer(decode(answer.result), answer.failure)
        except NotEncodable as exc:
            why = f"line {answer.line}: {exc.message}"
            raise StoreError(self.path, why, doing="read", hint=_RECORD_AGAIN) from exc

    def record(
        self,
        what: str,
        key: str,
        shown: Any,
        version: str,
        *,
        value: Any = None,
        failure: Mapping[str, Any] | None = None,
        ms: float = 0.0,
    ) -> str:
        """Append an answer. Returns "", or why it could not be recorded; raises StoreError for a disk."""
        replaces = self.mode == "refresh" and key not in self._refreshed
        self._refreshed.add(key)
        recorded = self._clock().isoformat(timespec="seconds")
        answer = RecordedAnswer(what, key, shown, version, recorded, round(ms, 1), replaces)
        try:
            answer = answer._replace(failure=failure and values.to_json(failure), result=self._encoded(value))
            text = write_answer(answer)
            if self._mask(text) != text:
                raise NotEncodable("it holds a secret in a form that cannot be masked")
        except NotEncodable as exc:
            answer = answer._replace(note=self._mask(exc.message), result=None, args=None, failure=None)
            text = write_answer(answer)
        append(self.path, (("" if self.path.exists() else _HEAD) + text).encode())
        self._answers.append(answer)
        self.recorded += not answer.note
        self.refused += bool(answer.note)
        return answer.note

    def close(self) -> None:
        """After a refresh, remove the answers that were replaced; may be called twice."""
        if self.mode != "refresh" or not self._refreshed:
            return
        self._refreshed.clear()
        text = _HEAD + "".join(map(write_answer, _read_answers(self.path)))
        write_whole(self.path, text.encode(), mode=0o644)

    def around(self, bound: BoundCall) -> Step | None:
        """Return the step around one call while the cassette is on; None if the call is not recorded."""
        return _replay_or_record(self, bound, self._mask) if _is_recorded(bound) else None

    def __repr__(self) -> str:
        refused = f", {self.refused} not recordable" if self.refused else ""
        said = f"{len(self._answers)} answers; {self.played} played, {self.recorded} recorded{refused} so far"
        return f"<Replay '{self.path}' ({self.mode}): {said}>"

    def _encoded(self, value: Any) -> Any:
        form = values.map_text(encode(value), self._mask)
        if form is not None:
            decode(form)  # masking may have broken base64 data
        return form

    def _missing(self, what: str, key: str) -> NotRecorded:
        count = self._counts.get(key, 0)
        if count:
            times = "once" if count == 1 else f"{count} times"
            said = f"'{what}' was recorded {times} with these arguments, and is called again."
        elif any(answer.what == what for answer in self._answers):
            said = f"'{what}' was not recorded with these arguments."
        else:
            said = f"'{what}' was not recorded."
        how = 'Run it once with mode="auto", where there is a network, to keep its answer.'
        return NotRecorded(f"{said} Only '{self.path}' may answer here.", hint=how)


class Replaying:
    """What `ot.replay(...)` returns: use it in a `with` statement, or call `begin()` and `end()`."""

    def __init__(
        self,
        replays: Replays,
        file: str | os.PathLike[str],
        *,
        mode: str | None,
        mask: Callable[[str], str],
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self._replays = replays
        self._file = Path(file)
        self._open = partial(Cassette, Path(file).absolute(), mode=replays.mode(mode), mask=mask, clock=clock)
        self._cassette: Cassette | None = None

    def __repr__(self) -> str:
        """Show the state, and how to switch it on if the `with` was forgotten."""
        if self._cassette is not None:
            return f"<replay of '{self._file}', on>"
        return f"<replay of '{self._file}', off; switch it on by `with ot.replay(...):` or %tool replay FILE>"

    def begin(self) -> Cassette:
        """Switch the cassette on, from its first answer."""
        self.end()
        self._cassette = self._open()
        self._replays.begin(self._cassette)
        return self._cassette

    def begin_alone(self) -> Cassette:
        """Switch the cassette on in place of those that are on."""
        cassette = self.begin()
        self._replays.close(but=cassette)
        return cassette

    def end(self) -> None:
        """Switch the cassette off; may be called twice."""
        if self._cassette is not None:
            self._replays.end(self._cassette)
            self._cassette = None

    def __enter__(self) -> Cassette:
        return self.begin()

    def __exit__(self, *exc: object) -> None:
        self.end()


def write_answer(answer: RecordedAnswer) -> str:
    """Return the YAML document of an answer, with its start and end marks."""
    import yaml

    body: dict[str, Any] = {"of": answer.what, "key": answer.key, "args": answer.args, "version": answer.version}
    body |= {"recorded": answer.recorded, "ms": answer.ms}
    body |= {"replaces": True} if answer.replaces else {}
    if answer.note:
        body["not_recorded"] = answer.note
    elif answer.failure is not None:
        body["failure"] = answer.failure
    else:
        body["result"] = answer.result
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": False}
    return f"---\n{yaml.dump(body, Dumper=_dumper(), **options)}...\n"


def _key(kind: str, asked: Any, mask: Callable[[str], str]) -> tuple[str, Any]:
    """Return the key of a call and the arguments as the file shows them, both masked. Raises NotEncodable."""
    form = values.map_text(encode(asked), mask)
    text = json.dumps([kind, form], sort_keys=True)
    shown = form if len(text) <= _MAX_ARGS else values.cut(text, 1000)
    return hashlib.sha256(text.encode()).hexdigest()[:24], shown


def _read_answers(path: Path) -> list[RecordedAnswer]:
    """Read the answers that no later one replaces. Raises DamagedCassette, and StoreError if it cannot be opened."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise _damaged(path, f"it is not UTF-8 text ({exc.reason} at byte {exc.start})") from exc
    except OSError as exc:
        raise StoreError.of(path, exc, doing="read") from exc
    found = _FORMAT_LINE.match(text)  # a file without a number has the first format
    if found is not None and int(found[1]) > _FORMAT:
        why = f"it has format {found[1]}, which is newer than this version knows"
        hint = f"{_UNCHANGED} Update onetool-ipy to use it."
        raise DamagedCassette(path, why, doing="read the replay file", hint=hint)
    answers: list[RecordedAnswer] = []
    lines = text.split("\n")
    first = 0
    for end in [*(place for place, line in enumerate(lines) if line == "..."), len(lines)]:
        document = lines[first:end]
        if any(line.strip() and not line.startswith("#") for line in document):
            if end == len(lines):
                raise _damaged(path, f"the answer in line {first + 1} has no end")
            answers.append(_read_answer(path, first + 1, "\n".join([*document, ""])))
        first = end + 1
    return _without_replaced(answers)


def _without_replaced(answers: Sequence[RecordedAnswer]) -> list[RecordedAnswer]:
    last = {answer.key: place for place, answer in enumerate(answers) if answer.replaces}
    valid = [answer for place, answer in enumerate(answers) if place >= last.get(answer.key, 0)]
    return [answer._replace(replaces=False) for answer in valid]


def _read_answer(path: Path, line: int, document: str) -> RecordedAnswer:
    import yaml

    try:
        found = yaml.load(document, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        at = line + (mark.line if mark is not None else 0)
        raise _damaged(path, f"line {at}: {getattr(exc, 'problem', None) or 'it is not YAML'}") from exc
    except (ValueError, OverflowError) as exc:
        raise _damaged(path, f"line {line}: {exc}") from exc
    if not isinstance(found, dict):
        raise _damaged(path, f"line {line}: an answer is an object, not a {type(found).__name__}")
    if unknown := found.keys() - set(_FIELDS):
        raise _damaged(path, f"line {line}: an answer has no field '{min(map(str, unknown))}'")
    if not isinstance(found.get("of"), str) or not isinstance(found.get("key"), str):
        raise _damaged(path, f"line {line}: an answer has the fields 'of' and 'key'")
    if not found.keys() & {"result", "failure", "not_recorded"}:
        raise _damaged(path, f"line {line}: the answer has neither 'result' nor 'failure'")
    return RecordedAnswer(
        what=found["of"],
        key=found["key"],
        args=found.get("args"),
        version=str(found.get("version") or ""),
        recorded=str(found.get("recorded", "")),
        ms=float(found.get("ms") or 0),
        replaces=bool(found.get("replaces")),
        note=str(found.get("not_recorded") or ""),
        failure=found.get("failure"),
        result=found.get("result"),
        line=line,
    )


def _damaged(path: Path, why: str) -> DamagedCassette:
    hint = f"{_UNCHANGED} Repair the line, delete its answer, or move the file to begin anew."
    return DamagedCassette(path, why, doing="read the replay file", hint=hint)


@lru_cache(maxsize=1)
def _dumper() -> Any:
    """Return PyYAML's safe dumper, in C if it is there, with texts of several lines as blocks."""
    import yaml

    fast: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(fast):  # type: ignore[misc]  # the base is chosen at run time
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return Dumper


def _is_recorded(bound: BoundCall) -> bool:
    """Whether the answer of this call belongs into a cassette."""
    if bound.tool.startswith(f"{_OT_PACK}."):
        return False
    if bound.spec is not None and bound.spec.disabled:
        return False
    if bound.spec is not None and bound.allow is not None and not names.allowed(bound.tool, bound.allow):
        return False
    outer = current.scope()
    if outer is None or outer.depth == 0:
        return True
    return outer.depth == 1 and outer.spec is not None and outer.spec.pack == _OT_PACK


def _replay_or_record(cassette: Cassette, bound: BoundCall, mask: Callable[[str], str]) -> Step:
    try:
        key, shown = _key(bound.tool, bound.call.args, mask)
    except NotEncodable as exc:
        if cassette.mode == "replay":
            raise NotRecorded(f"'{bound.tool}': its arguments cannot be recorded: {exc.message}.") from exc
        _warn(bound.tool, f"in its arguments, {exc.message}")
        return None
    try:
        found = cassette.find(bound.tool, key, lambda version: _is_current(bound.spec, version))
    except NotRecorded:
        if bound.spec is None:
            return None  # the executor reports the unknown tool
        if type(bound.call) is not UncheckedCall:
            bound.spec.checker.check(bound.call.args, bound.spec.name, mask)
        raise
    if found is not None:
        failure = None if found.failure is None else _read_failure(found.failure, bound.tool)
        return ToolResult(failure is None, found.value, failure, {"replayed": True})
    result = yield
    error = result.error
    if error is None or (error.code == "execution_error" and not is_transient(error.exception)):
        version = "" if bound.spec is None else schema_hash(bound.spec)
        ms = float(result.meta.get("duration_ms") or 0)
        failure_form = None if error is None else _write_failure(error)
        try:
            why = cassette.record(bound.tool, key, shown, version, value=result.data, failure=failure_form, ms=ms)
        except StoreError as exc:
            why = exc.message
        if why:
            _warn(bound.tool, why)
    return None


def _is_current(spec: ToolSpec | None, version: str) -> bool:
    """Whether a tool's schema is still the recorded one. A tool known only by its file's text is imported to tell."""
    if spec is None or not version or version == schema_hash(spec):
        return True
    if spec.load is None:
        return False
    try:
        return version == schema_hash(spec.load())
    except CallFailure:
        return False


def _write_failure(error: Failure) -> dict[str, Any]:
    form: dict[str, Any] = {"code": error.code, "message": error.message, "reason": error.reason}
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
        except (TypeError, ValueError, NotEncodable):  # some want arguments of their own
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


def _warn(tool: str, why: str) -> None:
    warnings.warn(f"'{tool}' was not recorded: {why.rstrip('.')}.", stacklevel=3)
