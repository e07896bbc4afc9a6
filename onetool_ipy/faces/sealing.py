"""Sealed notebooks: a notebook with its recording in one file, which runs offline anywhere and says
what differs.

`NB.sealed.zip` holds the notebook, the lock file, the recordings that it replays and the stored
results that it shows. Opening one runs the notebook in a folder and a home of its own. Every tool
is answered from the recordings. Nothing of an archive is written outside that folder: names, kinds
and sizes of its parts are checked first.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import bytes_of, make_folder, windows_fault, write_whole
from onetool_ipy.base.foreign_json import NotJson, parse_json
from onetool_ipy.base.printable import visible
from onetool_ipy.base.processes import words_in
from onetool_ipy.base.values import Json
from onetool_ipy.config.lock import NAME as LOCK
from onetool_ipy.config.paths import FOLDER, home_at, state_folder
from onetool_ipy.faces.mcp.mock import holds_secret, read_recording
from onetool_ipy.stores.cassettes import MAX_FILE
from onetool_ipy.stores.results import is_handle
from onetool_ipy.toolbox import Toolbox

VERSION = 1
_MANIFEST = "sealed.json"
_HANDLE = re.compile(r"\b[a-z][0-9a-z]{11}\b")
_VARIES = re.compile(
    r"<?(?:Off: )?Replay '[^'\n]*' \(\w+\)[^\n]*|"
    r"0x[0-9a-f]+|\b\d[\d,.]{0,20}\s{0,2}(?:ms|s|µs|min)\b|\b\d\d:\d\d(?::\d\d)?\b|<1 ms"
)
_SHOWN_ELSEHOW = re.compile(r"<IPython\.core\.display\.\w+ object>")
"""The plain text of what IPython shows as HTML, Markdown, a picture, ..., whatever is in it."""
_OURS = ("nb", "ot", "fs", "tools", "time", "system")
_MAX_PARTS = 1_000
_MAX_BYTES = 1 << 30
_MAX_RATIO = 500
_CELL_LIMIT_S = 600
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""What the library raises for an archive with other bytes than it was written with."""


def seal(notebook: Path, box: Toolbox) -> Path:
    """Pack a notebook into `NB.sealed.zip` beside it. Raises UsageProblem if it has no recording or
    holds a secret."""
    text = _read_text(notebook)
    cells = _cells(text, notebook)
    code = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    names = list(dict.fromkeys(name for source in code for name in _recordings(source)))
    if not names:
        hint = "Begin the notebook with: %tool replay calls.jsonl"
        raise UsageProblem(
            f"'{notebook.name}' replays no recording, so it cannot run offline.", hint=hint
        )
    if holds_secret(text, box.mask):
        raise UsageProblem(
            f"'{notebook.name}' holds a secret of this project.", hint="Remove it, and save again."
        )
    parts: dict[str, bytes] = {notebook.name: text.encode()}
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise UsageProblem(
                f"The recording '{name}' is not beside the notebook.", hint="Move it there."
            )
        read_recording(notebook.parent / name, box.mask)
        parts[name] = bytes_of(notebook.parent / name, MAX_FILE) or b""
    folder = box.config.paths.onetool_dir
    if folder is not None and (lock := bytes_of(folder / LOCK, MAX_FILE)) is not None:
        parts[LOCK] = lock
    parts |= _shown_results(cells, box)
    manifest = {"version": VERSION, "notebook": notebook.name, "recordings": names}
    if taken := {_MANIFEST, LOCK, notebook.name}.intersection(names):
        raise UsageProblem(
            f"A recording cannot be called '{min(taken)}' in a sealed notebook.", hint="Rename it."
        )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in {_MANIFEST: json.dumps(manifest, indent=1).encode(), **parts}.items():
            # A fixed time makes the same bytes of the same parts.
            archive.writestr(
                zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), part, zipfile.ZIP_DEFLATED
            )
        # What cannot be opened again is not sealed.
        _require_harmless(archive)
    target = notebook.with_suffix(".sealed.zip")
    write_whole(target, data.getvalue(), mode=0o644)
    return target


def _recordings(source: str) -> Iterator[str]:
    """Yield the recordings that a cell replays, as names of parts, from what Python would run."""
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        tree = ast.parse(TransformerManager().transform_cell(source))  # type: ignore[no-untyped-call]  # IPython has no types here
    except SyntaxError:  # it runs nothing
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "file")]
        texts = [str(each.value) for each in arguments if isinstance(each, ast.Constant)]
        if called.endswith(".run_cell_magic"):
            # `%%time` and `%%capture` run the rest of their cell as a cell.
            yield from _recordings("".join(texts[2:]))
            continue
        if called.endswith(".run_line_magic") and texts[:1] == ["tool"]:
            try:
                words = words_in(texts[1].rstrip("; "))
            except ValueError:  # a quote is open, so the line fails
                continue
            texts = [word for word in words[1:] if not word.startswith("--")]
            is_replay = words[:1] == ["replay"] and texts != ["off"]
        else:
            is_replay = re.search(r"\bot\.replay$", called) is not None
            if is_replay and arguments and not isinstance(arguments[0], ast.Constant):
                raise UsageProblem(
                    f"'{values.cut(ast.unparse(node), 80)}' does not name its recording as a text,"
                    " so it cannot be sealed."
                )
        if is_replay and texts:
            yield PurePosixPath(texts[0]).as_posix()


def _shown_results(cells: Iterable[Json], box: Toolbox) -> dict[str, bytes]:
    """Return the files of the stored results that the notebook shows."""
    parts: dict[str, bytes] = {}
    for handle in sorted({word for cell in cells for word in _HANDLE.findall(json.dumps(cell))}):
        files = [box.results.folder / f"{handle}.{end}" for end in ("txt", "json")]
        if is_handle(handle) and all(file.is_file() for file in files):
            for file in files:
                data = file.read_bytes()
                text = data.decode(errors="replace")
                # A value may have become a secret after the result was stored.
                if holds_secret(text, box.mask):
                    raise UsageProblem(
                        f"The result '{handle}' holds a secret of this project.",
                        hint="Clear that output.",
                    )
                parts[f"results/{file.name}"] = data
    return parts


def run_sealed(file: Path) -> list[str]:
    """Run a sealed notebook offline and say what differs from its saved outputs, a line for each
    cell."""
    with _unpacked(file) as (folder, manifest):
        notebook = folder / manifest["notebook"]
        before = _cells(_read_text(notebook), notebook)
        _offer_recorded_tools(folder, manifest["recordings"])
        after = _run(notebook, folder)
        # A result that is stored again has another handle.
        handles = {
            file.stem for file in folder.parent.glob("**/results/*.json") if is_handle(file.stem)
        }
    lines = []
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        texts = [
            _HANDLE.sub(lambda word: "…" if word[0] in handles else word[0], _outputs(cell))
            for cell in (old, new)
        ]
        if (
            old.get("cell_type") == "code"
            and texts[0] != texts[1]
            and "%load_ext" not in _source(old)
        ):
            was, now = (values.cut(text or "nothing", 300) for text in texts)
            lines.append(f"Cell {number} differs.\n  was: {was}\n  is:  {now}")
    return lines


@contextmanager
def _unpacked(file: Path) -> Iterator[tuple[Path, Json]]:
    """Unpack an archive into a new folder. Raises UsageProblem if it is hostile or damaged."""
    if not file.is_file():
        raise UsageProblem(
            f"There is no file '{file}'.", hint="Make one: onetool-ipy seal NB.ipynb"
        )
    with tempfile.TemporaryDirectory(prefix="onetool-sealed-") as place:
        folder = Path(place).resolve() / "work"
        # Only the unpacking is guarded: a failure of the notebook is not one of the archive.
        try:
            names = _unpack(file, folder)
        except _DAMAGE as exc:
            message = f"'{file.name}' is not a sealed notebook: it is damaged, or no zip file."
            raise UsageProblem(message) from exc
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise UsageProblem(f"'{file.name}' cannot be unpacked: {reason}.") from exc
        yield folder, _manifest(folder, file, names)


def _unpack(file: Path, folder: Path) -> set[str]:
    """Write the parts of an archive into a folder and return their names."""
    with zipfile.ZipFile(file) as archive:
        _require_harmless(archive)
        for entry in archive.infolist():
            target = folder / entry.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source:
                data = source.read(entry.file_size + 1)
            if len(data) > entry.file_size:
                raise UsageProblem(f"'{entry.filename}' in '{file.name}' is larger than it says.")
            target.write_bytes(data)
        return set(archive.namelist())


def _require_harmless(archive: zipfile.ZipFile) -> None:
    """Raise UsageProblem unless every part is a plain file of its own inside the folder."""
    entries = archive.infolist()
    size, packed = (
        sum(getattr(each, name) for each in entries) for name in ("file_size", "compress_size")
    )
    if len(entries) > _MAX_PARTS or size > _MAX_BYTES or size > _MAX_RATIO * max(packed, 1 << 12):
        count = f"{size:,} bytes in {len(entries):,} parts"
        raise UsageProblem(f"The archive would unpack to {count}, which is too much.")
    files: set[str] = set()
    folders: set[str] = set()
    for entry in entries:
        label, path = visible(entry.filename, 80), PurePosixPath(entry.filename)
        # Some file systems do not tell capital letters from small ones.
        plain = entry.filename.casefold()
        is_inside = not (
            path.is_absolute() or {"..", FOLDER} & {part.casefold() for part in path.parts}
        )
        is_plain = entry.filename.isprintable() and path.as_posix() == entry.filename and path.parts
        # On Windows `.onetool.` is `.onetool`, and `nul` a device.
        is_portable = "\\" not in plain and not windows_fault(plain, ())
        if not (is_inside and is_plain and is_portable) or plain in files:
            raise UsageProblem(
                f"The archive has a part with the name '{label}', which it may not have."
            )
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG) or entry.is_dir():
            raise UsageProblem(f"The part '{label}' of the archive is a link or no plain file.")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UsageProblem(
                f"The part '{label}' of the archive is packed in a way that is not supported."
            )
        files.add(plain)
        folders |= {outer.as_posix() for outer in PurePosixPath(plain).parents}
    if both := sorted(files & folders):
        raise UsageProblem(f"'{visible(both[0], 80)}' is a file and a folder in the archive.")


def _manifest(folder: Path, file: Path, names: set[str]) -> Json:
    """Return the list of parts. What it names are parts of the archive."""
    try:
        manifest = parse_json((folder / _MANIFEST).read_bytes()) if _MANIFEST in names else None
    except NotJson:
        manifest = None
    manifest = manifest if isinstance(manifest, dict) else {}
    version, notebook, recordings = (
        manifest.get(key) for key in ("version", "notebook", "recordings")
    )
    if isinstance(version, int) and version > VERSION:
        hint = "Upgrade: pip install --upgrade onetool-ipy"
        raise UsageProblem(
            f"'{file.name}' was sealed by a later version of onetool-ipy.", hint=hint
        )
    recordings = recordings if isinstance(recordings, list) else []
    # Each is another part: recordings are written anew before the notebook runs.
    recordable = names - {_MANIFEST, LOCK}
    is_known = all(isinstance(name, str) and name in recordable for name in (notebook, *recordings))
    if version != VERSION or not recordings or not is_known or notebook in recordings:
        raise UsageProblem(
            f"'{file.name}' is not a sealed notebook: its list of parts is missing or wrong."
        )
    return {"notebook": notebook, "recordings": list(dict.fromkeys(recordings))}


def _offer_recorded_tools(folder: Path, recordings: list[str]) -> None:
    """Write a configuration with the recorded tools, so that their names and schemas are known;
    none of them runs."""
    tools: dict[str, dict[str, Any]] = {}
    for name in recordings:
        lines = []
        for call in read_recording(folder / name, str):
            # What a cell defines is there once the cell has run.
            is_ours = call.of_notebook or call.tool.partition(".")[0] in _OURS
            if call.input_schema and "." in call.tool and not is_ours:
                about = {
                    "name": call.tool,
                    "description": "Recorded.",
                    "type": "function",
                    "handler": "recorded",
                }
                body = {
                    "parameters": call.input_schema,
                    "implementation": {"type": "mock", "mock_response": None},
                }
                tools[call.tool] = about | body
            # The hash of a schema covers parts that the recording does not have.
            record = {
                key: value for key, value in json.loads(call.to_line()).items() if key != "version"
            }
            lines.append(json.dumps(record, ensure_ascii=False))
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    home = folder / FOLDER
    home.mkdir()
    (home / "onetool.yaml").write_text(
        json.dumps({"version": 1, "tools": [*tools.values()]}), encoding="utf-8"
    )


def _run(notebook: Path, folder: Path) -> list[Json]:
    """Run all cells in a kernel with a home of its own, in which only recordings answer."""
    import nbformat
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    home, state = folder.parent / "home", folder.parent / "state"
    env = {
        **os.environ,
        **home_at(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_DATA_DIR": str(home / "data"),
    }
    env |= {"ONETOOL_STATE": str(state), "ONETOOL_TRUST": str(folder), "ONETOOL_REPLAY": "replay"}
    results = state_folder(folder, env=env, home=home) / "results"
    for place in (home, results):
        make_folder(place)
    _restore_results(folder / "results", results)
    env.pop("ONETOOL_CONFIG", None)
    started: list[int] = []
    try:
        node = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]  # it ships no types
        client = NotebookClient(
            node,
            timeout=_CELL_LIMIT_S,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
            on_cell_start=lambda **about: started.append(about["cell_index"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as exc:
        raise UsageProblem(f"'{notebook.name}' is not a notebook that can be run.") from exc
    try:
        client.execute(env=env)
    except (DeadKernelError, CellTimeoutError) as exc:
        where = f"in cell {started[-1] + 1}" if started else "before the first cell"
        is_dead = isinstance(exc, DeadKernelError)
        message = "The kernel died" if is_dead else f"A cell ran for more than {_CELL_LIMIT_S} s"
        raise UsageProblem(
            f"{message} {where} of '{notebook.name}'.", hint="The archive is whole."
        ) from exc
    except (NoSuchKernel, OSError) as exc:
        hint = "Install one: pip install ipykernel"
        raise UsageProblem(
            f"No kernel could be started for '{notebook.name}': {exc}.", hint=hint
        ) from exc
    cells: list[Json] = list(node.cells)
    return cells


def _restore_results(parts: Path, results: Path) -> None:
    """Put the stored results of an archive where the kernel looks for them. They do not expire."""
    for part in sorted(parts.glob("*")) if parts.is_dir() else ():
        if not (is_handle(part.stem) and part.suffix in (".txt", ".json") and part.is_file()):
            continue
        data = part.read_bytes()
        if part.suffix == ".json":
            try:
                about = parse_json(data)
            except NotJson as exc:
                raise UsageProblem(f"The part 'results/{part.name}' of the archive {exc}.") from exc
            if not isinstance(about, dict):
                raise UsageProblem(
                    f"The part 'results/{part.name}' of the archive is not a stored result."
                )
            data = json.dumps({**about, "expires": "9999-01-01T00:00:00+00:00"}).encode()
        (results / part.name).write_bytes(data)


def _read_text(path: Path) -> str:
    content = bytes_of(path, MAX_FILE)
    if content is None:
        raise UsageProblem(
            f"There is no notebook '{path}'.", hint="Give the path of its .ipynb file."
        )
    try:
        return content.decode()
    except ValueError as exc:
        raise UsageProblem(f"'{path}' is not a notebook: it is not UTF-8 text.") from exc


def _cells(text: str, path: Path) -> list[Json]:
    try:
        document = parse_json(text)
    except NotJson as exc:
        hint = "Give the path of an .ipynb file."
        raise UsageProblem(f"'{path.name}' is not a notebook: it {exc}.", hint=hint) from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise UsageProblem(f"'{path.name}' is not a notebook.")
    return cells


def _source(cell: Json) -> str:
    return _text(cell.get("source"))


def _text(value: object) -> str:
    """Return a text of a notebook, which may be a list of lines."""
    return (
        "".join(map(str, value))
        if isinstance(value, list)
        else value
        if isinstance(value, str)
        else ""
    )


def _outputs(cell: Json) -> str:
    """Return what a cell shows as text, without what differs from run to run: times, durations,
    addresses, and where a recording is."""
    texts = []
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        plain = data.get("text/plain", "") if isinstance(data, dict) else output.get("text", "")
        if isinstance(data, dict) and _SHOWN_ELSEHOW.fullmatch(_text(plain)):
            plain = "\n".join(_text(data[kind]) or str(data[kind]) for kind in sorted(data))
        is_error = output.get("output_type") == "error"
        texts.append(f"{output.get('ename')}: {output.get('evalue')}" if is_error else _text(plain))
    return _VARIES.sub("…", "\n".join(texts).strip())
