"""One stored result: plain text that any program can read, a JSON sidecar, and an index of its
lines.

    <handle>.txt    the text, UTF-8; lines end at `\\n` only
    <handle>.json   the sidecar: tool, call_id, created, expires, lines, bytes, form of the value
    <handle>.npy    where each line starts; only beside large texts, made when lines are first read

Text and sidecar are written once and never change. The index is derived: a missing, damaged or
unwritable one is made again from the text. A line longer than 16 KiB is cut in answers, and one
answer holds at most 32 MiB.
"""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from onetool_ipy.base.files import AtomicFile, StoreError
from onetool_ipy.base.processes import IS_WINDOWS
from onetool_ipy.base.values import Json

if TYPE_CHECKING:
    import numpy as np

    LineStarts = np.ndarray[tuple[int], np.dtype[Any]]
    """The offset of each line, and behind the last line one more: the end of line N is `starts[N +
    1] - 1`."""

MAX_LINE_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 32 * 1024 * 1024

_INDEX_BYTES = 4 * 1024 * 1024
"""The index of a smaller text is made in some milliseconds, so it is not written."""
_CHUNK = 1024 * 1024
_NEWLINE = 10
# Windows removes and replaces no file that is mapped.
_MAPPED: Literal["r"] | None = None if IS_WINDOWS else "r"


class DamagedResult(StoreError):
    """A stored result that is damaged; other results are not affected."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            path,
            f"the stored result is damaged ({reason})",
            doing="read",
            hint="Call the tool again.",
        )


class Sidecar(NamedTuple):
    """What is known of a result beside its text."""

    tool: str
    call_id: str
    created: datetime
    expires: datetime
    lines: int
    bytes: int
    form: Json
    """What `result_lines.form_of` said of the value."""

    def write(self, path: Path) -> None:
        """Write the sidecar; the folder is synced when the text beside it is published."""
        with AtomicFile(path) as file:
            file.write(json.dumps(self._asdict(), default=datetime.isoformat).encode() + b"\n")
            file.commit(sync_folder=False)


def read_sidecar(path: Path) -> Sidecar | None:
    """Return the sidecar at a path, or None if there is none. Raises DamagedResult."""
    try:
        record = json.loads(path.read_bytes())
        return Sidecar(
            tool=str(record["tool"]),
            call_id=str(record["call_id"]),
            created=datetime.fromisoformat(record["created"]),
            expires=datetime.fromisoformat(record["expires"]),
            lines=int(record["lines"]),
            bytes=int(record["bytes"]),
            form=dict(record["form"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StoreError.of(path, exc, doing="read") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise DamagedResult(path, "its sidecar is not readable") from exc


class ResultText:
    """The text of a stored result, open for reading: `with ResultText(path, sidecar) as text`.

    `starts` is the index from an earlier use in this process. Numbers of lines count from 0.
    """

    def __init__(self, path: Path, sidecar: Sidecar, starts: LineStarts | None = None) -> None:
        self.path = path
        self.sidecar = sidecar
        self.lines = sidecar.lines
        self.size = sidecar.bytes
        self._starts = starts
        try:
            # Links are not followed, and pipes, which would block, are refused.
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise ValueError("it is not a plain file")
            self._file = io.FileIO(path, "r")
        except (OSError, ValueError) as exc:
            raise StoreError.of(path, exc, doing="read") from exc
        if (size := os.fstat(self._file.fileno()).st_size) != self.size:
            self._file.close()
            raise DamagedResult(path, f"{size:,} bytes instead of {self.size:,}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def starts(self) -> LineStarts:
        """The index of the lines: loaded from beside the text, or made from it."""
        import numpy as np

        if self._starts is None and self.size >= _INDEX_BYTES:
            self._starts = self._load_starts()
            if self._starts is None:
                self._starts = self._write_starts()
        if self._starts is None:
            starts = np.concatenate(list(self._start_parts()))
            if len(starts) != self.lines + 1:
                raise DamagedResult(
                    self.path, f"{len(starts) - 1:,} lines instead of {self.lines:,}"
                )
            self._starts = starts
        return self._starts

    def bounds(self, number: int) -> tuple[int, int]:
        """Return where a line begins and where its newline is."""
        return int(self.starts[number]), int(self.starts[number + 1]) - 1

    def lines_at(self, numbers: Iterable[int]) -> list[str]:
        """Return the lines with these numbers, cut where they are long, as many as fit into one
        answer."""
        lines: list[str] = []
        budget = MAX_ANSWER_BYTES
        for number in numbers:
            if budget <= 0:
                break
            start, end = self.bounds(number)
            data = self.read(start, min(end, start + MAX_LINE_BYTES))
            budget -= len(data) + 1
            if end - start <= MAX_LINE_BYTES:
                lines.append(data.removesuffix(b"\r").decode("utf-8", "replace"))
            else:
                lines.append(
                    f"{data.decode('utf-8', 'ignore')} ... [cut: line of {end - start:,} bytes]"
                )
        return lines

    def chunks(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of lines, in order, of about `size` bytes each. A longer line is a range of
        its own."""
        import numpy as np

        starts, first = self.starts, 0
        while first < self.lines:
            # The key has the type of the index: otherwise numpy would copy the whole index into a
            # wider type.
            limit = starts.dtype.type(min(int(starts[first]) + size, int(starts[-1])))
            end = max(first + 1, int(np.searchsorted(starts, limit, "right")) - 1)
            yield first, end
            first = end

    def pieces(self, number: int, size: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield one line in pieces that overlap by a quarter of `size`.

        Each comes as data, begin and end: the data has one byte more at either side, unless the
        line ends there, so that an expression for the start of a line or of a word does not match
        where we cut.
        """
        start, end = self.bounds(number)
        if end > start and self.read(end - 1, end) == b"\r":
            end -= 1
        for position in range(start, max(end, start + 1), size):
            begin, stop = max(start, position - 1), min(end, position + size + size // 4)
            yield self.read(begin, min(end, stop + 1)), position - begin, stop - begin

    def whole(self) -> str:
        """Return all of the text; no line is cut."""
        return self.read(0, self.size).decode("utf-8", "replace")

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from one offset to another."""
        try:
            self._file.seek(start)
            data = self._file.read(end - start)
        except OSError as exc:
            raise StoreError.of(self.path, exc, doing="read") from exc
        if len(data) != end - start:
            raise DamagedResult(self.path, "it is too short")
        return data

    def _start_parts(self) -> Iterator[LineStarts]:
        """Yield the index part by part, so that a text of gigabytes needs little memory."""
        import numpy as np

        dtype = np.uint32 if self.size < 2**32 - 1 else np.uint64
        yield np.zeros(1, dtype)
        data = b""
        for offset in range(0, self.size, _CHUNK):
            data = self.read(offset, min(offset + _CHUNK, self.size))
            newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
            yield (newlines + (offset + 1)).astype(dtype)
        if data and data[-1] != _NEWLINE:
            yield np.array([self.size + 1], dtype)

    def _load_starts(self) -> LineStarts | None:
        """Map the index beside the text into memory; None if there is none that fits."""
        import numpy as np

        with suppress(OSError, ValueError, EOFError):
            starts: LineStarts = np.load(self.path.with_suffix(".npy"), mmap_mode=_MAPPED)
            if starts.shape == (self.lines + 1,) and int(starts[-1]) - self.size in (0, 1):
                return starts
        return None

    def _write_starts(self) -> LineStarts | None:
        """Write the index beside the text and map it; None if the disk is full or read-only."""
        import numpy as np

        try:
            with AtomicFile(self.path.with_suffix(".npy")) as file:
                for number, part in enumerate(self._start_parts()):
                    if number == 0:
                        header = {
                            "descr": part.dtype.str,
                            "fortran_order": False,
                            "shape": (self.lines + 1,),
                        }
                        np.lib.format.write_array_header_1_0(file, header)
                    file.write(part.tobytes())
                file.commit()
        except StoreError:
            return None
        return self._load_starts()
