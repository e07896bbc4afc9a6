"""Sealed notebooks: they run without a network in an empty home and say what differs; hostile
archives do nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.cli import main
from onetool_ipy.faces.sealing import run_sealed, seal
from onetool_ipy.stores.results import is_handle
from tests.faces.commands.test_shell import at_terminal
from tests.harness.patience import HANG_S

CELLS = [
    "%load_ext onetool_ipy\n%tool replay calls.jsonl",
    "r = %tool shop.prices page=1\nr.data",
    "shop.prices(page=2)",
    "sum(row['price'] for row in r.data)",
]
PACK = '''
import random

def prices(page: int) -> list:
    """Give prices."""
    return [{"id": number, "price": random.random()} for number in range(page)]
'''


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose notebook was run once, with its recording."""
    root = tmp_path_factory.mktemp("sealing")
    work = root / "work"
    (work / ".onetool" / "tools").mkdir(parents=True)
    (work / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (work / ".onetool" / "tools" / "shop.py").write_text(PACK, encoding="utf-8")
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    client = NotebookClient(
        node, timeout=HANG_S, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    client.execute(env={**os.environ, "ONETOOL_STATE": str(root / "state"), "CI": ""})
    nbformat.write(node, work / "report.ipynb")
    return work


@pytest.fixture
def sealed(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The notebook in a project of the test's own, sealed by the command line."""
    work = tmp_path / "work"
    shutil.copytree(report, work)
    monkeypatch.setenv("ONETOOL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ONETOOL_TRUST", str(work))
    monkeypatch.setenv("CI", "")
    monkeypatch.chdir(work)
    assert main(["lock"]) == 0
    assert main(["seal", "report.ipynb"]) == 0
    return work / "report.sealed.zip"


def _open_alone(archive: Path) -> subprocess.CompletedProcess[str]:
    """Open a sealed notebook with an empty home beside it and without a network."""
    env = {"PATH": os.environ["PATH"], **home_at(archive.parent / "home")}
    command = [sys.executable, "-m", "onetool_ipy", "open", "--yes", archive.name]
    alone = ["unshare", "-rn", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "sh"]
    has_namespaces = (
        shutil.which("unshare") is not None
        and subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0
    )
    return subprocess.run(
        [*(alone if has_namespaces else []), *command],
        cwd=archive.parent, env=env, capture_output=True, text=True, check=False, timeout=2 * HANG_S,
    )  # fmt: skip


@pytest.mark.slow
def test_a_sealed_notebook_runs_without_a_network_in_an_empty_home(
    sealed: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(sealed) as archive:
        assert {"sealed.json", "report.ipynb", "calls.jsonl", "onetool.lock"} == {
            *archive.namelist()
        }
    place = tmp_path / "elsewhere"
    (place / "home").mkdir(parents=True)
    shutil.move(sealed, place / sealed.name)
    shutil.rmtree(sealed.parent / ".onetool")
    run = _open_alone(place / sealed.name)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "gives what it gave when it was sealed" in run.stdout
    assert [each.name for each in place.iterdir() if each.is_file()] == [sealed.name], (
        "nothing is left beside it"
    )


OWN_TOOL = """\
from onetool_ipy import tool
import random
@tool(name="geo.town")
def town(name: str) -> dict:
    "Find a town."
    return {"name": name, "n": random.random()}"""


@pytest.mark.slow
def test_a_notebook_is_sealed_as_it_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first run, in which it recorded: where the recording is, and how much of it is played, is
    no difference, and a tool of a cell is defined again, whatever its pack."""
    for name in ("ONETOOL_STATE", "HOME", "ONETOOL_TRUST"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("CI", "")
    monkeypatch.chdir(tmp_path)
    cells = [
        "%load_ext onetool_ipy",
        OWN_TOOL,
        "%tool replay calls.jsonl",
        "%tool geo.town name=Graz",
        "ot.replay('calls.jsonl')",
        "geo.town(name='Linz')",
        "%tool replay off",
    ]
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    NotebookClient(node, timeout=HANG_S, kernel_name="python3").execute()
    nbformat.write(node, tmp_path / "first.ipynb")

    assert main(["seal", "first.ipynb"]) == 0
    code = main(["open", "--yes", "first.sealed.zip"])

    assert (code, capsys.readouterr().out.count("differs")) == (0, 0)


@pytest.mark.slow
def test_stored_results_that_a_notebook_shows_are_sealed_and_paged_offline(
    sealed: Path, tmp_path: Path
) -> None:
    """A large result is shown by its handle; a later cell pages it, where neither its tool nor its
    store is."""
    work = sealed.parent
    cells = [
        "%load_ext onetool_ipy\n%tool replay calls.jsonl",
        "big = %tool shop.prices page=4000\nbig",
    ]
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    client = NotebookClient(
        node, timeout=HANG_S, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    with client.setup_kernel(env=dict(os.environ)):
        for place, cell in enumerate(node.cells):
            client.execute_cell(cell, place)
        (handle,) = {
            word
            for word in re.findall(r"\b[a-z][0-9a-z]{11}\b", json.dumps(node.cells[1]))
            if is_handle(word)
        }
        node.cells.append(
            nbformat.v4.new_code_cell(f"ot.result(handle='{handle}', offset=3999, limit=2)")
        )
        client.execute_cell(node.cells[2], 2)
    assert "2 of 4,000 lines" in json.dumps(node.cells[2].outputs)
    nbformat.write(node, work / "large.ipynb")
    assert main(["seal", "large.ipynb"]) == 0
    with zipfile.ZipFile(work / "large.sealed.zip") as archive:
        assert {f"results/{handle}.txt", f"results/{handle}.json"} <= {*archive.namelist()}

    place = tmp_path / "elsewhere"
    (place / "home").mkdir(parents=True)
    shutil.move(work / "large.sealed.zip", place / "large.sealed.zip")
    for folder in (work, tmp_path / "state"):
        shutil.rmtree(folder)
    run = _open_alone(place / "large.sealed.zip")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "gives what it gave when it was sealed" in run.stdout


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
def test_a_person_is_asked_before_the_code_of_a_notebook_runs(sealed: Path) -> None:
    code, text = at_terminal("open", sealed.name, typed="n\n")

    assert code == 1
    assert (
        "This runs the code of 'report.sealed.zip' on this machine, with your rights. Run it? [y/N]"
        in text
    )
    assert text.rstrip().endswith("Nothing was run.")


@pytest.mark.slow
def test_where_nobody_can_be_asked_nothing_runs(sealed: Path) -> None:
    """A script, CI or an agent that runs `open` without a terminal has said nothing; `--yes` says
    it."""
    command = [sys.executable, "-m", "onetool_ipy", "open", sealed.name]
    run = subprocess.run(
        command,
        cwd=sealed.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "The code of 'report.sealed.zip' would run here, and nobody can be asked." in run.stderr
    assert "onetool-ipy open --yes report.sealed.zip" in run.stderr


def _with_cell(sealed: Path, number: int, source: str, **fields: Any) -> Path:
    """The archive with other code, and other fields, in one cell."""
    other = sealed.with_name("other.sealed.zip")
    with zipfile.ZipFile(sealed) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "report.ipynb":
                node = json.loads(data)
                node["cells"][number] |= {"source": source, **fields}
                data = json.dumps(node).encode()
            new.writestr(name, data)
    return other


@pytest.mark.slow
def test_a_kernel_that_dies_is_said_with_its_cell(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _with_cell(sealed, 2, "import os; os._exit(3)")
    capsys.readouterr()
    assert main(["open", other.name, "--yes"]) == 1
    error = capsys.readouterr().err
    assert "The kernel died in cell 3 of 'report.ipynb'." in error
    assert "damaged" not in error


@pytest.mark.slow
def test_what_differs_is_said_and_the_exit_code_is_1(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _with_cell(sealed, 3, "len(r.data) + 41")
    capsys.readouterr()
    assert main(["open", other.name, "--yes"]) == 1
    out = capsys.readouterr().out
    assert "Cell 4 differs." in out
    assert "is:  42" in out
    assert "Cell 2" not in out


@pytest.mark.slow
@pytest.mark.parametrize("html", ["<b>42</b>", "<b>43</b>"])
def test_what_is_shown_as_html_is_compared_too(
    sealed: Path, capsys: pytest.CaptureFixture[str], html: str
) -> None:
    """Its plain text is the same, whatever it shows."""
    data = {"text/plain": "<IPython.core.display.HTML object>", "text/html": html}
    output = {"output_type": "display_data", "metadata": {}, "data": data}
    source = (
        "from IPython.display import HTML, display\ndisplay(HTML(f'<b>{len(r.data) + 41}</b>'))"
    )
    other = _with_cell(sealed, 3, source, outputs=[output])
    capsys.readouterr()

    assert main(["open", other.name, "--yes"]) == (html != "<b>42</b>")

    assert ("Cell 4 differs." in capsys.readouterr().out) == (html != "<b>42</b>")


@pytest.mark.slow
def test_the_same_notebook_gives_the_same_bytes(sealed: Path) -> None:
    first = sealed.read_bytes()
    assert main(["seal", "report.ipynb"]) == 0
    assert sealed.read_bytes() == first


@pytest.mark.slow
def test_a_notebook_that_cannot_be_sealed_says_why(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = 'it\'s "it"'
    (sealed.parent / ".onetool" / "secrets.yaml").write_text(
        f'KEY: "sk-seal-0123456789"\nWORDS: {json.dumps(words)}\n', encoding="utf-8"
    )
    (sealed.parent / ".onetool" / "secrets.yaml").chmod(0o600)
    text = (sealed.parent / "report.ipynb").read_text(encoding="utf-8")
    for changed, message in (
        (text.replace("%tool replay calls.jsonl", "pass"), "replays no recording"),
        (text.replace("replay calls.jsonl", "replay ../calls.jsonl"), "is not beside the notebook"),
        (text.replace("replay calls.jsonl", "replay none.jsonl"), "There is no recording"),
        (text.replace("page=2", "page='sk-seal-0123456789'"), "holds a secret"),
        (text.replace("page=2", json.dumps(f"page={words!r}")[1:-1]), "holds a secret"),
        ("{}", "is not a notebook"),
    ):
        (sealed.parent / "bad.ipynb").write_text(changed, encoding="utf-8")
        assert main(["seal", "bad.ipynb"]) == 1
        assert message in capsys.readouterr().err
    assert not (sealed.parent / "bad.sealed.zip").exists()


@pytest.mark.slow
def test_a_stored_result_with_a_later_secret_is_not_sealed(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = sealed.parent
    with open_toolbox(work / ".onetool" / "onetool.yaml", env=dict(os.environ)) as box:
        handle = box.results.put("token sk-seal-0123456789", tool="shop.prices", call_id="")
        box.results.store(handle)
    text = (work / "report.ipynb").read_text(encoding="utf-8")
    (work / "late.ipynb").write_text(text.replace("page=2", f"page=2 # {handle}"), encoding="utf-8")
    assert main(["seal", "late.ipynb"]) == 0
    (work / "late.sealed.zip").unlink()
    (work / ".onetool" / "secrets.yaml").write_text('KEY: "sk-seal-0123456789"\n', encoding="utf-8")
    (work / ".onetool" / "secrets.yaml").chmod(0o600)

    assert main(["seal", "late.ipynb"]) == 1
    assert f"The result '{handle}' holds a secret of this project." in capsys.readouterr().err
    assert not (work / "late.sealed.zip").exists()


def _archive(path: Path, *parts: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in parts:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


PLAIN = stat.S_IFREG | 0o644


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([("../evil", b"x", PLAIN)], "may not have"),
        ([("a/../../evil", b"x", PLAIN)], "may not have"),
        ([("/tmp/evil", b"x", PLAIN)], "may not have"),
        ([("..\\evil", b"x", PLAIN)], "may not have"),
        ([("C:evil", b"x", PLAIN)], "may not have"),
        ([(".onetool/tools/evil.py", b"x", PLAIN)], "may not have"),
        ([(".onetool./tools/evil.py", b"x", PLAIN)], "may not have"),
        ([("nul", b"x", PLAIN)], "may not have"),
        ([("link", b"/etc/passwd", stat.S_IFLNK | 0o777)], "is a link"),
        ([("pipe", b"", stat.S_IFIFO | 0o644)], "is a link or no plain file"),
        ([("bomb", bytes(1 << 26), PLAIN)], "too much"),
        ([(f"part{number}", b"", PLAIN) for number in range(1_200)], "too much"),
        ([("sealed.json", b'{"version": 2}', PLAIN)], "later version"),
        (
            [("sealed.json", b'{"version": 1, "notebook": "../x", "recordings": ["y"]}', PLAIN)],
            "is missing or wrong",
        ),
        ([("sealed.json", b"[]", PLAIN)], "is missing or wrong"),
        ([("sealed.json", b"[" * 5_000, PLAIN)], "is missing or wrong"),
        ([("a", b"x", PLAIN), ("a/b", b"x", PLAIN)], "'a' is a file and a folder"),
        ([("a/b/c", b"x", PLAIN), ("A", b"x", PLAIN)], "'a' is a file and a folder"),
        ([("a", b"x", PLAIN), ("A", b"x", PLAIN)], "may not have"),
        ([("a//b", b"x", PLAIN)], "may not have"),
        ([("./a", b"x", PLAIN)], "may not have"),
        ([("a\u202e", b"x", PLAIN)], r"'a\\u202e', which it may not have"),
        ([("x/.OneTool/tools/evil.py", b"x", PLAIN)], "may not have"),
        ([("d/", b"", PLAIN)], "may not have"),
        ([("n" * 300, b"x", PLAIN)], "cannot be unpacked: File name too long"),
        ([], "is missing or wrong"),
    ],
)
def test_a_hostile_archive_is_refused_and_writes_nothing(
    tmp_path: Path, parts: list[tuple[str, bytes, int]], message: str
) -> None:
    path = _archive(tmp_path / "bad.sealed.zip", *parts)
    with pytest.raises(UsageProblem, match=message):
        run_sealed(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "manifest",
    [
        {"notebook": "/etc/hostname", "recordings": ["c.jsonl"]},
        {"notebook": "n.ipynb", "recordings": ["/etc/hostname"]},
        {"notebook": "n.ipynb", "recordings": ["../work/c.jsonl"]},
        {"notebook": "n.ipynb", "recordings": ["./c.jsonl"]},
        {"notebook": "n.ipynb", "recordings": ["n.ipynb"]},
        {"notebook": "n.ipynb", "recordings": ["sealed.json"]},
        {"notebook": "n.ipynb", "recordings": ["onetool.lock"]},
        {"notebook": "n.ipynb", "recordings": "c"},
        {"notebook": "n.ipynb", "recordings": [["c.jsonl"]]},
        {"notebook": ["n.ipynb"], "recordings": ["c.jsonl"]},
        {"notebook": "n.ipynb", "recordings": []},
        {"notebook": "n.ipynb", "recordings": {"c.jsonl": 1}},
    ],
    ids=str,
)
def test_a_manifest_names_parts_of_its_archive_only(
    tmp_path: Path, manifest: dict[str, object]
) -> None:
    """A recording is written anew before the notebook runs, so a name may not lead elsewhere."""
    parts = [("n.ipynb", b"{}"), ("c.jsonl", b""), ("c", b""), ("onetool.lock", b"{}")]
    listed = json.dumps({"version": 1, **manifest}).encode()
    path = _archive(
        tmp_path / "bad.sealed.zip", *((*part, PLAIN) for part in (("sealed.json", listed), *parts))
    )
    with pytest.raises(UsageProblem, match="its list of parts is missing or wrong"):
        run_sealed(path)


@pytest.mark.parametrize(
    ("notebook", "result", "message"),
    [
        (b'{"cells": 5}', b"{}", "'n.ipynb' is not a notebook"),
        (b'{"cells": ["text"]}', b"{}", "'n.ipynb' is not a notebook"),
        (b'{"cells": ' + b"[" * 5_000, b"{}", "it is nested deeper than 200 levels"),
        (b'{"cells": [], "nbformat": "x"}', b"{}", "not a notebook that can be run"),
        (b'{"cells": []}', b"[]", "is not a stored result"),
        (b'{"cells": []}', b"{,", "is not JSON"),
    ],
    ids=["no list", "a text", "deep", "no version", "a list", "no JSON"],
)
def test_odd_parts_are_said_in_words(
    tmp_path: Path, notebook: bytes, result: bytes, message: str
) -> None:
    listed = json.dumps({"version": 1, "notebook": "n.ipynb", "recordings": ["c.jsonl"]}).encode()
    parts = [
        ("sealed.json", listed),
        ("n.ipynb", notebook),
        ("c.jsonl", b""),
        ("results/r00000000000.json", result),
    ]
    assert is_handle("r00000000000")
    path = _archive(tmp_path / "bad.sealed.zip", *((*part, PLAIN) for part in parts))
    with pytest.raises(UsageProblem, match=message):
        run_sealed(path)


@given(at=st.integers(0, 10_000), change=st.integers(1, 255), cut=st.booleans())
def test_an_archive_with_a_changed_byte_is_unpacked_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, at: int, change: int, cut: bool
) -> None:
    """No byte of it makes a traceback. The list of parts is empty, so no notebook runs."""
    folder = tmp_path_factory.mktemp("flipped")
    parts = [
        ("sealed.json", b'{"version": 1}'),
        ("deep/part", bytes(range(256)) * 4),
        ("c", b"x" * 50),
    ]
    path = _archive(folder / "a.sealed.zip", *((*part, PLAIN) for part in parts))
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= change
    path.write_bytes(data[: at % len(data)] if cut else data)
    with pytest.raises(UsageProblem):
        run_sealed(path)
    assert [each.name for each in folder.iterdir()] == [path.name]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.sealed.zip"
    path.write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(UsageProblem, match="not a sealed notebook"):
        run_sealed(path)
    with pytest.raises(UsageProblem, match="There is no file"):
        run_sealed(tmp_path / "missing.zip")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with recordings, which no kernel made."""
    folder = tmp_path / "project"
    (folder / ".onetool").mkdir(parents=True)
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    with (
        open_toolbox(folder, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box,
        box.ot.replay(folder / "calls.jsonl", mode="auto"),
    ):
        box.call("time.now")
    (folder / "sub").mkdir()
    for copy in ("sub/calls.jsonl", "my calls.jsonl"):
        shutil.copy(folder / "calls.jsonl", folder / copy)
    return folder


@pytest.mark.parametrize(
    ("line", "recordings"),
    [
        ("%tool replay calls.jsonl", ["calls.jsonl"]),
        ("%tool replay ./calls.jsonl\n%tool replay calls.jsonl", ["calls.jsonl"]),
        ("%tool replay sub//calls.jsonl", ["sub/calls.jsonl"]),
        ("%tool replay --only calls.jsonl;", ["calls.jsonl"]),
        ('%tool replay "my calls.jsonl"', ["my calls.jsonl"]),
        ("x = %tool replay calls.jsonl\n%tool replay off", ["calls.jsonl"]),
        ("with ot.replay(file='my calls.jsonl', mode='replay'):\n    pass", ["my calls.jsonl"]),
        ("%%time\n%%capture out\n%tool replay calls.jsonl\nprint(1)", ["calls.jsonl"]),
        ("# ot.replay('gone.jsonl')\nbox.ot.replay(\n  'calls.jsonl')", ["calls.jsonl"]),
    ],
)
def test_a_recording_is_what_python_would_open(
    project: Path, line: str, recordings: list[str]
) -> None:
    """However it is written; what the manifest names are parts of the archive."""
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(line)])
    nbformat.write(node, project / "page.ipynb")

    with open_toolbox(project, env={"ONETOOL_STATE": str(project / "state")}) as box:
        archive = seal(project / "page.ipynb", box)

    with zipfile.ZipFile(archive) as parts:
        assert json.loads(parts.read("sealed.json"))["recordings"] == recordings
        assert set(recordings) <= set(parts.namelist())


def test_a_recording_that_is_not_named_as_a_text_is_refused(project: Path) -> None:
    node = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("name = 'calls.jsonl'\not.replay(name)")]
    )
    nbformat.write(node, project / "page.ipynb")

    with (
        open_toolbox(project, env={"ONETOOL_STATE": str(project / "state")}) as box,
        pytest.raises(UsageProblem, match=r"'ot.replay\(name\)' does not name its recording"),
    ):
        seal(project / "page.ipynb", box)
