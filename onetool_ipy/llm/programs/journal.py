"""Kept programs: a folder for each, so that a program can go on in another kernel.

    programs.lock                 held for a moment by who takes, tries or removes a lock below
    programs/<id>.lock            held by the kernel that runs it
    programs/<id>/digest          how many lines the journal has, and their chained hash; there
                                  from the beginning
    programs/<id>/program.json    the program, its variables, clock, seed, project; written once,
                                  and then it is kept
    programs/<id>/journal.jsonl   what it read, and each write: begun before it runs, done after

A line of the journal is on disk before the next step. Each line carries a hash of all before it,
beginning with program.json: a file that somebody changed is refused. The digest may lag behind the
journal, after a crash, but is never ahead of it. No yes is ever kept here: whoever resumes a
program is asked again. Secrets are masked; an answer in which something was masked is marked, and
read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from onetool_ipy.base import files, values
from onetool_ipy.base.errors import ProgramBusy, ProgramChanged, ProgramLimit, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import CallSource

if TYPE_CHECKING:
    from filelock import BaseFileLock

MAX_WAITING = 20
MAX_JOURNAL = 64_000_000
_ID = re.compile(r"[0-9a-f]{10}")
_LIST = "See what waits with: %ask --waiting"

Mask = Callable[[str], str]


class ProgramRecord(BaseModel):
    """What is fixed about a kept program. `is_masked` says that its text or a variable held a
    secret. `told` is what the guard of its conversation remembers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    code: str
    variables: dict[str, Any]
    clock: datetime
    seed: int
    source: CallSource
    allow: list[str] | None
    told: dict[str, Any] | None = None
    project: str = ""
    created: AwareDatetime = datetime(2000, 1, 1, tzinfo=UTC)
    expires: AwareDatetime = datetime(2000, 1, 1, tzinfo=UTC)
    is_masked: bool = False
    format: Literal[1] = 1


def new_id() -> str:
    """Make an id for a program."""
    return secrets.token_hex(5)


class KeptProgram:
    """One kept program that this process holds the lock of."""

    def __init__(self, folder: Path, record: ProgramRecord, mask: Mask) -> None:
        self.record = record
        self.lines: list[Json] = []
        self._folder = folder
        self._mask = mask
        self._chain = ""
        self._size = 0

    def append(self, kind: str, **fields: Any) -> None:
        """Add a line; it is on disk when this returns. Raises StoreError or ProgramLimit, and then
        nothing was added.

        A field that holds a secret is masked, and the line says so.
        """
        text = json.dumps({"kind": kind, **fields}, ensure_ascii=False, sort_keys=True)
        masked = self._mask(text)
        line: Json = {"kind": kind, **fields}
        if masked != text:
            try:
                line = {**json.loads(masked), "masked": True}
            except ValueError:
                # A secret such as `:` breaks the JSON text. Then nothing of the answer is kept.
                line = {
                    "kind": kind,
                    "n": fields.get("n"),
                    "tool": fields.get("tool"),
                    "masked": True,
                }
        chain = _chained(self._chain, line)
        data = json.dumps({**line, "chain": chain}, ensure_ascii=True).encode() + b"\n"
        if self._size + len(data) > MAX_JOURNAL:
            raise ProgramLimit(
                f"The program read more than the {MAX_JOURNAL // 10**6} MB that are kept of it."
            )
        files.append(self._folder / "journal.jsonl", data, sync=True)
        self._chain, self._size = chain, self._size + len(data)
        self.lines.append(line)
        # The digest is for files changed by hand. A crash between the two leaves it one line
        # behind, which is allowed.
        with suppress(OSError):
            fd = os.open(self._folder / "digest", os.O_WRONLY)
            try:
                os.write(fd, _digest(len(self.lines), chain))
            finally:
                os.close(fd)

    def delete(self) -> None:
        """Remove the program: it has ended, or somebody dropped it."""
        _remove(self._folder)

    def load(self, first: bytes) -> None:
        """Read the journal. Raises ProgramChanged if a file is not as it was written."""
        self._chain = hashlib.sha256(first).hexdigest()
        data = files.read_own(self._folder / "journal.jsonl", MAX_JOURNAL) or b""
        # A line without its end was being written when the kernel ended, so what it is about did
        # not begin.
        whole = data[: data.rfind(b"\n") + 1]
        for text in whole.splitlines():
            try:
                line = json.loads(text)
                chain = line.pop("chain")
                is_right = chain == _chained(self._chain, line)
            except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
                is_right, chain = False, ""
            if not is_right:
                raise _changed(self.record.id)
            self.lines.append(line)
            self._chain = chain
        self._size = len(whole)
        if len(whole) != len(data):
            files.write_whole(self._folder / "journal.jsonl", whole)
        digest = files.read_own(self._folder / "digest", 1_000) or b""
        count = digest.strip().partition(b" ")[0]
        if not count.isdigit() or int(count) > len(self.lines):
            raise _changed(self.record.id)


class ProgramStore:
    """The kept programs of one user. `now` is the clock; `ttl_s` is how long results, and so
    programs, are kept."""

    def __init__(
        self, folder: Path, *, project: str, now: Callable[[], datetime], ttl_s: float, mask: Mask
    ) -> None:
        self._root = folder
        self._project = project
        self._now = now
        self._ttl_s = ttl_s
        self._mask = mask

    @contextmanager
    def keep(self, record: ProgramRecord) -> Iterator[KeptProgram]:
        """Keep a new program, locked while the block runs. Raises ProgramLimit if too many wait."""
        created = self._now().astimezone(UTC)
        expires = datetime.fromtimestamp(created.timestamp() + min(self._ttl_s, 1e9), UTC)
        facts: Json = {"project": self._project, "created": created, "expires": expires}
        facts["told"] = values.map_text(record.told, self._mask)
        variables = json.dumps(record.variables)
        masked_code, masked_variables = self._mask(record.code), self._mask(variables)
        if (masked_code, masked_variables) != (record.code, variables):
            is_broken = masked_variables != variables
            facts |= {
                "code": masked_code,
                "variables": {} if is_broken else record.variables,
                "is_masked": True,
            }
        record = record.model_copy(update=facts)
        content = json.dumps(record.model_dump(), default=str).encode()
        folder = self._root / record.id
        files.make_private(self._root)
        with self._locked(record.id, is_new=True):
            files.make_private(folder)
            files.write_whole(folder / "digest", _digest(0, ""))
            files.write_whole(folder / "program.json", content)
            kept = KeptProgram(folder, record, self._mask)
            kept.load(content)
            yield kept

    @contextmanager
    def open(self, program_id: str) -> Iterator[KeptProgram]:
        """Open a kept program of this project, locked while the block runs."""
        self._require(program_id)
        with self._locked(program_id):
            record, content = self._read(program_id)
            if record.project != self._project:
                raise ProgramChanged(
                    f"The program '{program_id}' belongs to another project: '{record.project}'."
                )
            kept = KeptProgram(self._root / program_id, record, self._mask)
            if record.expires <= self._now():
                kept.delete()
                raise UsageProblem(
                    f"The program '{program_id}' has expired. Nothing was run.", hint=_LIST
                )
            kept.load(content)
            yield kept

    def listed(self) -> list[ProgramRecord]:
        """Return the programs of this project that wait, oldest first.

        Removes those that have expired, and what a kernel left that ended while it kept or removed
        one.
        """
        names = self._names()
        if any(self._is_over(name) for name in names):
            with files.locked(self._root):
                self._tidy()
        return self._waiting(names)

    def _names(self) -> list[str]:
        """Return the ids of all that is in the folder: programs, and what is left of some."""
        names = {entry.removesuffix(".lock") for entry in files.names_in(self._root)}
        return [name for name in names if _ID.fullmatch(name)]

    def _waiting(self, names: Iterable[str]) -> list[ProgramRecord]:
        """Return those of the named programs that are whole and of this project, oldest first."""
        records = []
        for name in names:
            with suppress(UsageProblem, ProgramChanged):
                records.append(self._read(name)[0])
        own = [
            record
            for record in records
            if record.project == self._project and record.expires > self._now()
        ]
        return sorted(own, key=lambda record: record.created)

    def _is_over(self, program_id: str) -> bool:
        """Whether nobody can go on with a program: its time is over, or it was never kept whole."""
        try:
            return self._read(program_id)[0].expires <= self._now()
        except (UsageProblem, ProgramChanged):
            return not os.path.lexists(self._root / program_id / "program.json")

    def _tidy(self) -> None:
        """Remove what is over and not running. Call it under the lock of the store."""
        for name in filter(self._is_over, self._names()):
            lock = self._lock(name)
            try:
                self._acquire(lock, name)
            except ProgramBusy:
                continue
            try:
                # Its owner may have made it whole, and released it, since it was looked at.
                is_over = self._is_over(name)
                if is_over:
                    _remove(self._root / name)
            finally:
                lock.release()
            if is_over:
                # Windows removes no file that is open. Nobody takes the lock meanwhile.
                with suppress(OSError):
                    (self._root / f"{name}.lock").unlink()

    def _is_busy(self, program_id: str) -> bool:
        """Whether a kernel runs a program. Call it under the lock of the store."""
        lock = self._lock(program_id)
        try:
            self._acquire(lock, program_id)
        except ProgramBusy:
            return True
        lock.release()
        return False

    def planned(self, program_id: str) -> int:
        """Return how many writes the newest plan of a program has."""
        data = files.read_own(self._root / program_id / "journal.jsonl", MAX_JOURNAL) or b""
        plans = [line for line in data.splitlines() if b'"kind": "plan"' in line]
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            return len(json.loads(plans[-1])["rows"]) if plans else 0
        return 0

    def drop(self, program_id: str) -> None:
        """Remove a kept program; one that was damaged can be removed, too. Raises ProgramBusy if it
        runs."""
        self._require(program_id)
        with self._locked(program_id):
            _remove(self._root / program_id)

    def _require(self, program_id: str) -> None:
        """Raise UsageProblem if there is no such program."""
        if (
            not isinstance(program_id, str)
            or not _ID.fullmatch(program_id)
            or not (self._root / program_id).is_dir()
        ):
            names = [name for name in files.names_in(self._root) if _ID.fullmatch(name)]
            near = did_you_mean(str(program_id)[:40], names)
            raise UsageProblem(
                f"No program '{str(program_id)[:40]}' waits. {near}".strip(), hint=_LIST
            )

    def _read(self, program_id: str) -> tuple[ProgramRecord, bytes]:
        """Return what program.json holds. Raises UsageProblem if it is not there, ProgramChanged if
        it is damaged."""
        content = files.read_own(self._root / program_id / "program.json", MAX_JOURNAL)
        if content is None:
            raise UsageProblem(f"No program '{program_id}' waits.", hint=_LIST)
        try:
            record = ProgramRecord.model_validate(json.loads(content))
        except (ValidationError, ValueError, RecursionError):
            raise _changed(program_id) from None
        if record.id != program_id:
            raise _changed(program_id)
        return record, content

    @contextmanager
    def _locked(self, program_id: str, *, is_new: bool = False) -> Iterator[None]:
        """Hold the lock of a program. Its file is beside the folder, so that a folder can be
        deleted whole.

        The lock of a program is taken, and only looked at, under the lock of the store. So who
        looks whether a program runs never has its lock in the moment in which its owner takes it.
        """
        lock = self._lock(program_id)
        try:
            with files.locked(self._root):
                if is_new:
                    self._require_place()
                self._acquire(lock, program_id)
            yield
        finally:
            lock.release()
            if not (self._root / program_id).exists():
                # A file that stays is removed at the next listing.
                with suppress(files.StoreError), files.locked(self._root):
                    self._tidy()

    def _require_place(self) -> None:
        """Raise ProgramLimit if too many programs wait. Call it under the lock of the store."""
        self._tidy()
        waiting = self._waiting(self._names())
        if sum(not self._is_busy(record.id) for record in waiting) >= MAX_WAITING:
            raise ProgramLimit(
                f"{MAX_WAITING} programs wait for a yes, which is the limit. Nothing was written.",
                hint="Drop one with: %ask --drop ID. " + _LIST,
            )

    def _lock(self, program_id: str) -> BaseFileLock:
        from filelock import FileLock

        return FileLock(self._root / f"{program_id}.lock", mode=0o600, thread_local=False)

    def _acquire(self, lock: BaseFileLock, program_id: str) -> None:
        """Take a lock at once. Raises ProgramBusy if somebody else holds it."""
        from filelock import Timeout

        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise ProgramBusy(
                f"The program '{program_id}' runs in another kernel now.",
                hint="Wait for it to end.",
            ) from None
        except OSError as exc:
            raise files.StoreError.of(self._root / program_id, exc, doing="lock") from exc


def _remove(folder: Path) -> None:
    # Without this file it is no program. A kernel that ends in between leaves nothing that looks as
    # if it waited.
    with suppress(OSError):
        (folder / "program.json").unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _digest(count: int, chain: str) -> bytes:
    """Return the text of the digest. It is always as long, and written at once, so that it is never
    half old."""
    return f"{count:>12} {chain:>64}\n".encode()


def _chained(before: str, line: Json) -> str:
    text = json.dumps(line, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _changed(program_id: str) -> ProgramChanged:
    return ProgramChanged(
        f"The files of the program '{program_id}' are not as they were written. Nothing was run.",
        hint=f"Drop it with: %ask --drop {program_id}",
    )
