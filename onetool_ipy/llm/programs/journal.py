"""Kept programs: a folder for each, so that a program can go on in another kernel.

    programs/<id>/program.json    the program, its variables, clock, seed, project; written once
    programs/<id>/journal.jsonl   what it read, and each write: begun before it runs, done after
    programs/<id>/digest          how many lines the journal has, and their chained hash

A line of the journal is on disk before the next step. Each line carries a hash of all before it, beginning with
program.json: a file that somebody changed is refused. The digest may lag behind the journal, after a crash, but is
never ahead of it. No yes is ever kept here: whoever resumes a program is asked again. Secrets are masked; an answer in
which something was masked is marked, and read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onetool_ipy.base import files
from onetool_ipy.base.errors import ProgramBusy, ProgramChanged, ProgramLimit, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json

MAX_WAITING = 20
MAX_JOURNAL = 64_000_000
_ID = re.compile(r"[0-9a-f]{10}")
_FORMAT = 1
_LIST = "See what waits with: %ask --waiting"

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecord:
    """What is fixed about a kept program. `is_masked` says that its text or a variable held a secret."""

    id: str
    code: str
    variables: Json = field(default_factory=dict)
    clock: str = ""
    seed: int = 0
    source: str = "magic"
    allow: list[str] | None = None
    project: str = ""
    created: str = ""
    expires: str = ""
    is_masked: bool = False
    format: int = _FORMAT

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return datetime.fromisoformat(self.expires) <= now


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
        """Add a line; it is on disk when this returns. Raises StoreError or ProgramLimit, and then nothing was added.

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
                line = {"kind": kind, "n": fields.get("n"), "tool": fields.get("tool"), "masked": True}
        chain = _chained(self._chain, line)
        data = json.dumps({**line, "chain": chain}, ensure_ascii=True).encode() + b"\n"
        if self._size + len(data) > MAX_JOURNAL:
            raise ProgramLimit(f"The program read more than the {MAX_JOURNAL // 10**6} MB that are kept of it.")
        files.append(self._folder / "journal.jsonl", data, sync=True)
        self._chain, self._size = chain, self._size + len(data)
        self.lines.append(line)
        # The digest is for files changed by hand. A crash between the two leaves it one line behind, which is allowed.
        with suppress(OSError):
            fd = os.open(self._folder / "digest", os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(fd, f"{len(self.lines):>12} {chain}\n".encode())
            finally:
                os.close(fd)

    def delete(self) -> None:
        """Remove the program: it has ended, or somebody dropped it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, first: bytes) -> None:
        """Read the journal. Raises ProgramChanged if a file is not as it was written."""
        self._chain = hashlib.sha256(first).hexdigest()
        data = files.read_own(self._folder / "journal.jsonl", MAX_JOURNAL) or b""
        # A line without its end was being written when the kernel ended, so what it is about did not begin.
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
        if (digest or self.lines) and (not count.isdigit() or int(count) > len(self.lines)):
            raise _changed(self.record.id)


class ProgramStore:
    """The kept programs of one user. `now` is the clock; `ttl_s` is how long results, and so programs, are kept."""

    def __init__(self, folder: Path, *, project: str, now: Callable[[], datetime], ttl_s: float, mask: Mask) -> None:
        self._root = folder
        self._project = project
        self._now = now
        self._ttl_s = ttl_s
        self._mask = mask

    @contextmanager
    def keep(self, record: ProgramRecord) -> Iterator[KeptProgram]:
        """Keep a new program, locked while the block runs. Raises ProgramLimit if too many wait."""
        waiting = [kept for kept in self.listed() if not self._is_busy(kept.id)]
        if len(waiting) >= MAX_WAITING:
            raise ProgramLimit(
                f"{MAX_WAITING} programs wait for a yes, which is the limit. Nothing was written.",
                hint="Drop one with: %ask --drop ID. " + _LIST,
            )
        created = self._now().astimezone(UTC)
        data = asdict(record) | {
            "project": self._project,
            "created": created.isoformat(),
            "expires": datetime.fromtimestamp(created.timestamp() + min(self._ttl_s, 1e9), UTC).isoformat(),
        }
        text = json.dumps(data, ensure_ascii=False)
        masked = self._mask(text)
        if masked != text:
            code, variables = self._mask(record.code), json.dumps(record.variables)
            is_broken = self._mask(variables) != variables
            data |= {"code": code, "variables": {} if is_broken else record.variables, "is_masked": True}
            text = json.dumps(data, ensure_ascii=False)
        folder = self._root / record.id
        files.make_private(folder)
        with self._locked(record.id):
            files.write_whole(folder / "program.json", text.encode())
            kept = KeptProgram(folder, ProgramRecord(**data), self._mask)
            kept.load(text.encode())
            yield kept

    @contextmanager
    def open(self, program_id: str) -> Iterator[KeptProgram]:
        """Open a kept program of this project, locked while the block runs."""
        record, data = self._read(program_id)
        if record.project != self._project:
            raise ProgramChanged(f"The program '{program_id}' belongs to another project: '{record.project}'.")
        if record.is_expired(self._now()):
            shutil.rmtree(self._root / program_id, ignore_errors=True)
            raise UsageProblem(f"The program '{program_id}' has expired. Nothing was run.", hint=_LIST)
        with self._locked(program_id):
            # Another kernel may have ended it, or gone on with it, before the lock was free.
            record, data = self._read(program_id)
            kept = KeptProgram(self._root / program_id, record, self._mask)
            kept.load(data)
            yield kept

    def listed(self) -> list[ProgramRecord]:
        """Return the programs of this project that wait, oldest first. Removes those that have expired."""
        records = []
        for name in files.names_in(self._root):
            if _ID.fullmatch(name) is None:
                continue
            with suppress(UsageProblem, ProgramChanged):
                record, _ = self._read(name)
                if record.is_expired(self._now()):
                    if not self._is_busy(name):
                        shutil.rmtree(self._root / name, ignore_errors=True)
                elif record.project == self._project:
                    records.append(record)
        return sorted(records, key=lambda record: record.created)

    def planned(self, program_id: str) -> int:
        """Return how many writes the newest plan of a program has."""
        data = files.read_own(self._root / program_id / "journal.jsonl", MAX_JOURNAL) or b""
        for text in reversed(data.splitlines()):
            if b'"kind": "plan"' in text:
                with suppress(ValueError, TypeError, RecursionError):
                    return len(json.loads(text)["rows"])
        return 0

    def drop(self, program_id: str) -> ProgramRecord:
        """Remove a kept program; one that was damaged can be removed, too. Raises ProgramBusy if it runs."""
        try:
            record, _ = self._read(program_id)
        except ProgramChanged:
            record = ProgramRecord(id=program_id, code="")
        with self._locked(program_id):
            shutil.rmtree(self._root / program_id, ignore_errors=True)
        return record

    def _read(self, program_id: str) -> tuple[ProgramRecord, bytes]:
        folder = self._root / program_id
        is_known = isinstance(program_id, str) and _ID.fullmatch(program_id) is not None and folder.is_dir()
        content = files.read_own(folder / "program.json", MAX_JOURNAL) if is_known else None
        if not is_known:
            names = [name for name in files.names_in(self._root) if _ID.fullmatch(name)]
            near = did_you_mean(str(program_id)[:40], names)
            raise UsageProblem(f"No program '{str(program_id)[:40]}' waits. {near}".strip(), hint=_LIST)
        if content is None:
            raise _changed(program_id)
        try:
            data = json.loads(content)
            record = ProgramRecord(**data)
            datetime.fromisoformat(record.expires)
            is_right = record.format == _FORMAT and record.id == program_id and isinstance(record.variables, Mapping)
        except (ValueError, TypeError, RecursionError):
            is_right = False
        if not is_right:
            raise _changed(program_id)
        return record, content

    @contextmanager
    def _locked(self, program_id: str) -> Iterator[None]:
        lock = self._lock(program_id)
        if not lock:
            raise ProgramBusy(f"The program '{program_id}' runs in another kernel now.", hint="Wait for it to end.")
        try:
            yield
        finally:
            lock.release()
            # The lock's file is beside the folder, so that a folder can be deleted whole.
            if not (self._root / program_id).exists():
                with suppress(OSError):
                    (self._root / f"{program_id}.lock").unlink()

    def _is_busy(self, program_id: str) -> bool:
        lock = self._lock(program_id)
        if not lock:
            return True
        lock.release()
        return False

    def _lock(self, program_id: str) -> Any:
        from filelock import FileLock, Timeout

        lock = FileLock(self._root / f"{program_id}.lock", mode=0o600, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        except OSError as exc:
            raise files.StoreError.of(self._root / program_id, exc, doing="lock") from exc
        return lock


def _chained(before: str, line: Json) -> str:
    text = json.dumps(line, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _changed(program_id: str) -> ProgramChanged:
    return ProgramChanged(
        f"The files of the program '{program_id}' are not as they were written. Nothing was run.",
        hint=f"Drop it with: %ask --drop {program_id}",
    )
