"""The text of a cassette: YAML documents, one per answer, and back. Pure but for `read`, which opens the file.

Written to be read by people and compared by git: keys in one order, texts of several lines as blocks. A file that is
damaged in one place, or of a later format, is refused as a whole: it is never written to, so nothing is lost.

Cassettes: a readable file of what calls gave, to answer them from later, without network.

A cassette is YAML, one document per answer, in the order in which they were recorded; the same call again takes the
next one. Each is appended whole by one write. Secrets are masked in arguments and results, so what is played back has
`***` in their place; the caller who recorded got the true value. What could not come back as it was is not recorded
but noted with the reason. Knows nothing of toolboxes; `replays` says which cassette is on, `cassette_step` asks it.

Which cassette is on in a toolbox, and in which mode one is opened. Light: every toolbox has one of these.

The step that answers calls from the cassette that is on, and records what it has no answer for.

Only the outermost call of a tool is recorded; what it calls itself is part of its answer. Tools of `ot` are about this
toolbox and always run. Failures of the tool itself are recorded and played as the same failures; passing ones (a
time-out, no network) are not, nor are calls that never began (bad arguments).
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
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, OneToolError, UsageProblem
from onetool_ipy.base.files import StoreError, append, write_whole
from onetool_ipy.core import current, names
from onetool_ipy.core.executor import is_passing
from onetool_ipy.core.fingerprint import schema_hash
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import BoundCall, ToolSpec, UncheckedCall
from onetool_ipy.stores.encoding import Unfaithful, decode, encode
from onetool_ipy.stores.replays import Mode, Replays

__all__ = [
    "HEAD",
    "Cassette",
    "Damaged",
    "Entry",
    "Found",
    "NotRecorded",
    "Replaying",
    "Stale",
    "around",
    "in_force",
    "key_of",
    "read_entries",
    "write_entry",
]

_FORMAT = 1
HEAD = (
    f"# A cassette of onetool_ipy (ot.replay, format {_FORMAT}): what calls gave, in order."
    " Delete an answer to record it anew.\n"
)
_HEAD = re.compile(r"# A cassette of onetool_ipy \(ot\.replay, format ([0-9]{1,9})\)")
_END = "...\n"
_FIELDS = ("of", "key", "args", "version", "recorded", "ms", "replaces", "not_recorded", "failure", "result")


class Damaged(StoreError):
    """A cassette that cannot be read."""


class Entry(NamedTuple):
    """One recorded answer: of what, asked how, and what came. `note` says why there is none."""

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


def write_entry(entry: Entry) -> str:
    """The document of an entry, with its beginning and its end."""
    import yaml

    body: dict[str, Any] = {"of": entry.what, "key": entry.key, "args": entry.args, "version": entry.version}
    body |= {"recorded": entry.recorded, "ms": entry.ms}
    body |= {"replaces": True} if entry.replaces else {}
    if entry.note:
        body["not_recorded"] = entry.note
    elif entry.failure is not None:
        body["failure"] = entry.failure
    else:
        body["result"] = entry.result
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": False}
    said = yaml.dump(body, Dumper=_dumper(), **options)
    return f"---\n{said}{_END}"


def read_entries(path: Path) -> list[Entry]:
    """The entries in force, in their order. Raises Damaged, and StoreError for what cannot be opened."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise _damaged(path, f"it is no UTF-8 text ({exc.reason} at byte {exc.start})") from exc
    except OSError as exc:
        raise StoreError.of(path, exc, doing="read") from exc
    _require_known(path, text)
    found: list[Entry] = []
    line, lines = 1, text.split("\n")
    while line <= len(lines):
        first = line
        while line <= len(lines) and lines[line - 1] != "...":
            line += 1
        document = "\n".join([*lines[first - 1 : line - 1], ""])
        is_last = line > len(lines)
        line += 1
        if not _has_data(document):
            continue
        if is_last:
            raise _damaged(path, f"the answer in line {first} has no end")
        found.append(_entry(path, first, document))
    return in_force(found)


def in_force(entries: Sequence[Entry]) -> list[Entry]:
    """Without those that a later answer replaces."""
    last = {entry.key: place for place, entry in enumerate(entries) if entry.replaces}
    kept = [e for place, e in enumerate(entries) if place >= last.get(e.key, 0)]
    return [entry._replace(replaces=False) for entry in kept]


def _require_known(path: Path, text: str) -> None:
    """Refuse what a later version wrote; a file without a number is of the first format."""
    found = _HEAD.match(text)
    if found is not None and int(found[1]) > _FORMAT:
        why = f"it has format {found[1]}, which is newer than this version knows"
        raise Damaged(path, why, doing="read the cassette", hint="Nothing was changed. Update onetool-ipy to use it.")


def _has_data(document: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in document.split("\n"))


def _entry(path: Path, line: int, document: str) -> Entry:
    import yaml

    try:
        found = yaml.load(document, Loader=_loader())  # noqa: S506 - a safe loader
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        at = line + (mark.line if mark is not None else 0)
        raise _damaged(path, f"line {at}: {getattr(exc, 'problem', None) or 'it is no YAML'}") from exc
    except (ValueError, OverflowError) as exc:
        raise _damaged(path, f"line {line}: {exc}") from exc
    if not isinstance(found, dict):
        raise _damaged(path, f"line {line}: an answer is an object, not a {type(found).__name__}")
    if odd := found.keys() - set(_FIELDS):
        raise _damaged(path, f"line {line}: '{min(map(str, odd))}' is no field of an answer")
    if not isinstance(found.get("of"), str) or not isinstance(found.get("key"), str):
        raise _damaged(path, f"line {line}: an answer has the fields 'of' and 'key'")
    if not found.keys() & {"result", "failure", "not_recorded"}:
        raise _damaged(path, f"line {line}: the answer has neither 'result' nor 'failure'")
    return Entry(
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


def _damaged(path: Path, why: str) -> OneToolError:
    hint = "Nothing was changed. Mend the line or take out its answer, or move the file away to record it anew."
    return Damaged(path, why, doing="read the cassette", hint=hint)


@lru_cache(maxsize=1)
def _dumper() -> Any:
    """PyYAML's safe dumper in C where it is there; texts of several lines become blocks."""
    import yaml

    fast: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(fast):  # type: ignore[misc]  # the base is chosen at run time
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML asks so
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return Dumper


@lru_cache(maxsize=1)
def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_MAX_ARGS = 10_000
_AGAIN = "Record it again: ot.replay(FILE, mode='refresh') or %tool replay FILE --refresh, or delete its entry."


class NotRecorded(ExecutionFailed):
    """A call that the cassette has no answer for, where only the cassette may answer."""


class Stale(ExecutionFailed):
    """An answer that was recorded of a tool as it is no more."""


class Found(NamedTuple):
    """What a cassette has for a call: the value, or the failure that was recorded."""

    value: Any
    failure: Mapping[str, Any] | None
    ms: float


class Cassette:
    """One file of answers. Threads may share it; other processes may add to the same file."""

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
        self._entries = read_entries(path) if path.exists() else []
        if not self._entries and mode == "replay" and not path.exists():
            raise UsageProblem(
                f"There is no cassette '{path}', and only a cassette may answer here.",
                hint="Record it where there is a network, without $CI and $ONETOOL_REPLAY, and keep the file.",
            )
        self._left: dict[str, deque[Entry]] = {}
        for entry in self._entries if mode != "refresh" else ():
            self._left.setdefault(entry.key, deque()).append(entry)
        self._counts = {key: len(found) for key, found in self._left.items()}
        self._anew: set[str] = set()

    def answer(self, kind: str, key: Any, produce: Callable[[], Any], *, version: str = "") -> Any:
        """What was recorded for (kind, key); else what `produce` gives, recorded. For answers that are no tool's.

        `key` is any value that can be kept. Raises NotRecorded, Stale; what `produce` raises passes, unrecorded.
        """
        mark, shown = key_of(kind, key, self._mask)
        found = self.find(kind, mark, lambda recorded: recorded == version)
        if found is not None:
            return found.value
        began = self._clock()
        value = produce()
        self.keep(kind, mark, shown, version, value=value, ms=(self._clock() - began).total_seconds() * 1000)
        return value

    def find(self, what: str, key: str, is_current: Callable[[str], bool]) -> Found | None:
        """The next answer recorded under a key; None where it is to be asked for live.

        Raises NotRecorded where only the cassette may answer, Stale where `what` has changed since.
        """
        waiting = self._left.get(key)
        try:
            entry = waiting.popleft() if waiting is not None else None
        except IndexError:
            entry = None
        if entry is None:
            if self.mode == "replay":
                raise self._missing(what, key)
            return None
        assert waiting is not None
        if not is_current(entry.version):
            waiting.appendleft(entry)
            raise Stale(
                f"'{what}' has changed since its answer was recorded in '{self.path}' (line {entry.line}).",
                hint=_AGAIN,
            )
        if entry.note:
            if self.mode == "replay":
                raise NotRecorded(f"'{what}': the answer could not be recorded: {entry.note}.", hint="Keep it out.")
            return None
        self.played += 1
        return Found(self._value(entry), entry.failure, entry.ms)

    def keep(
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
        """Record an answer. Gives "" or why it could not be recorded; raises StoreError for a disk."""
        entry = Entry(what, key, shown, version, self._clock().isoformat(timespec="seconds"), round(ms, 1))
        if self.mode == "refresh" and key not in self._anew:
            self._anew.add(key)
            entry = entry._replace(replaces=True)
        try:
            entry = entry._replace(failure=failure and values.to_json(failure), result=self._form(value))
            written = write_entry(entry)
            if self._mask(written) != written:
                raise Unfaithful("it holds a secret in a form that cannot be masked")
        except Unfaithful as exc:
            entry = entry._replace(note=self._mask(exc.message), result=None, args=None, failure=None)
            written = write_entry(entry)
        head = "" if self.path.exists() else HEAD
        append(self.path, (head + written).encode())
        self._entries.append(entry)
        self.recorded += not entry.note
        self.refused += bool(entry.note)
        return entry.note

    def close(self) -> None:
        """After a refresh, leave out the answers that were replaced; may be called twice."""
        if self.mode != "refresh" or not self._anew:
            return
        self._anew.clear()
        kept = in_force(read_entries(self.path))
        write_whole(self.path, (HEAD + "".join(map(write_entry, kept))).encode(), mode=0o644)

    def __repr__(self) -> str:
        refused = f", {self.refused} not recordable" if self.refused else ""
        said = f"{len(self._entries)} answers; {self.played} played, {self.recorded} recorded{refused} so far"
        return f"<Cassette '{self.path}' ({self.mode}): {said}>"

    def _form(self, value: Any) -> Any:
        form = values.map_text(encode(value), self._mask)
        if form is not None:
            decode(form)  # a masked part of binary data is no data any more
        return form

    def _value(self, entry: Entry) -> Any:
        try:
            return decode(entry.result)
        except Unfaithful as exc:
            raise StoreError(self.path, f"line {entry.line}: {exc.message}", doing="read", hint=_AGAIN) from exc

    def _missing(self, what: str, key: str) -> NotRecorded:
        count = self._counts.get(key, 0)
        if count:
            times = "once" if count == 1 else f"{count} times"
            said = f"'{what}' was recorded {times} with these arguments, and is asked for again."
        elif any(entry.what == what for entry in self._entries):
            said = f"'{what}' was not recorded with these arguments."
        else:
            said = f"'{what}' was not recorded."
        how = "Run it once where there is a network, without $CI and $ONETOOL_REPLAY, to record it."
        return NotRecorded(f"{said} Only '{self.path}' may answer here.", hint=how)


class Replaying:
    """A cassette from its beginning to its end: `with` it, or `begin()` and `end()`."""

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
        """Say how to use it to whoever left out the `with`."""
        if self._cassette is not None:
            return f"<replay of '{self._file}', on>"
        return f"<replay of '{self._file}', off; switch it on by `with ot.replay(...):` or %tool replay FILE>"

    def begin(self) -> Cassette:
        """Switch it on, from its first answer."""
        self.end()
        self._cassette = self._open()
        self._replays.begin(self._cassette)
        return self._cassette

    def begin_alone(self) -> Cassette:
        """Switch it on in place of those that are on."""
        cassette = self.begin()
        self._replays.end_others(cassette)
        return cassette

    def end(self) -> None:
        """Switch it off; may be called twice."""
        if self._cassette is not None:
            self._replays.end(self._cassette)
            self._cassette = None

    def __enter__(self) -> Cassette:
        return self.begin()

    def __exit__(self, *exc: object) -> None:
        self.end()


def key_of(kind: str, asked: Any, mask: Callable[[str], str]) -> tuple[str, Any]:
    """The key of what is asked, and how it is shown in the file, both without secrets. Raises Unfaithful."""
    form = values.map_text(encode(asked), mask)
    written = json.dumps([kind, form], sort_keys=True)
    shown = form if len(written) <= _MAX_ARGS else values.cut(written, 1000)
    return hashlib.sha256(written.encode()).hexdigest()[:24], shown


_OWN = "ot"
Steps = Generator[None, ToolResult, ToolResult | None]


def around(cassette: Cassette, bound: BoundCall, mask: Callable[[str], str]) -> Steps | None:
    """The step around one call while a cassette is on."""
    return _played(cassette, bound, mask) if _is_kept(bound) else None


def _played(cassette: Cassette, bound: BoundCall, mask: Callable[[str], str]) -> Steps:
    try:
        key, shown = key_of(bound.tool, bound.call.args, mask)
    except Unfaithful as exc:
        if cassette.mode == "replay":
            raise NotRecorded(f"'{bound.tool}': its arguments cannot be recorded: {exc.message}.") from exc
        _warn(f"'{bound.tool}' was not recorded: in its arguments, {exc.message}.")
        return None
    try:
        found = cassette.find(bound.tool, key, lambda version: _is_current(bound.spec, version))
    except NotRecorded:
        if bound.spec is None:
            return None  # and so the miss is said as one
        if type(bound.call) is not UncheckedCall:
            bound.spec.checker.check(bound.call.args, bound.spec.name, mask)
        raise
    if found is not None:
        meta = {"replayed": True}
        if found.failure is None:
            return ToolResult(True, found.value, None, meta)
        return ToolResult(False, None, _failure(found.failure, bound.tool), meta)
    result = yield
    if result.error is None or _is_worth_it(result):
        _record(cassette, bound, key, shown, result)
    return None


def _record(cassette: Cassette, bound: BoundCall, key: str, shown: Any, result: ToolResult) -> None:
    failure = None if result.error is None else _form(result.error)
    ms = float(result.meta.get("duration_ms") or 0)
    version = "" if bound.spec is None else schema_hash(bound.spec)
    try:
        said = cassette.keep(bound.tool, key, shown, version, value=result.data, failure=failure, ms=ms)
    except StoreError as exc:
        said = exc.message
    if said:
        _warn(f"'{bound.tool}' was not recorded: {said.rstrip('.')}.")


def _is_kept(bound: BoundCall) -> bool:
    """Whether this is a call whose answer belongs into a cassette."""
    if bound.tool.startswith(f"{_OWN}."):
        return False
    if bound.spec is not None and (bound.spec.disabled or not _is_allowed(bound)):
        return False
    outer = current.scope()
    if outer is None or outer.depth == 0:
        return True
    return outer.depth == 1 and outer.spec is not None and outer.spec.pack == _OWN


def _is_allowed(bound: BoundCall) -> bool:
    return bound.allow is None or names.allowed(bound.tool, bound.allow)


def _is_current(spec: ToolSpec | None, version: str) -> bool:
    """Whether a tool still is as it was recorded; one that is only known by its text is looked at in full first."""
    if spec is None or not version or version == schema_hash(spec):
        return True
    if spec.live is None:
        return False
    try:
        return version == schema_hash(spec.live())
    except CallFailure:
        return False


def _is_worth_it(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == "execution_error" and not is_passing(result)


def _form(error: Failure) -> dict[str, Any]:
    form: dict[str, Any] = {"code": error.code, "message": error.message, "reason": error.reason}
    form |= {"hint": error.hint, "status": error.status, "details": error.details}
    own = error.exception
    if own is not None and type(own) is getattr(builtins, type(own).__name__, None):
        try:
            form["exception"] = {"type": type(own).__name__, "args": encode(list(own.args))}
        except Unfaithful:
            form["exception"] = {"type": type(own).__name__, "args": [error.message]}
    return {key: value for key, value in form.items() if value not in (None, "")}


def _failure(form: Mapping[str, Any], tool: str) -> Failure:
    own = form.get("exception") or {}
    kind = getattr(builtins, str(own.get("type")), None)
    exception: BaseException | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            exception = kind(*decode(own.get("args") or []))
        except (TypeError, ValueError, Unfaithful):  # some want arguments of their own
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


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=2)
