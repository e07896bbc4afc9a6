"""`onetool-ipy export`: the script does what the notebook does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onetool_ipy.faces.cli import main
from tests.harness.kernel import Kernel
from tests.harness.servers import hostile, write_project

CELLS = [
    "%load_ext onetool_ipy",
    "import json\nfrom onetool_ipy import tool",
    '@tool\ndef double(n: int, times: int = 1) -> int:\n    """Double."""\n    return n * 2**times',
    "a = %tool nb.double n=4  \nb = %tool nb.double(n=a.data, times=2)\nc = $say message={b.data}",
    "%%tool -o d tools.echo\nlong text",
    "%%snippet add x y=1\ntotal = {{ x }} + {{ y }}\ntotal",
    "g = %tool nb.double n='ab' --unchecked",
    (
        "e = $add x={a.data - 3}\nf = %tool nope.nope --soft\n%tool list\n%matplotlib_like_magic"
        " inline"
    ),
    "values = [a.data, b.data, c.data, d.data, e, total, f.ok, nb.double(1), g.data]",
    "open('values.json', 'w').write(json.dumps(values))",
]


def write_notebook(file: Path, cells: list[str]) -> None:
    body = [
        {
            "cell_type": "code",
            "source": cell,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for cell in cells
    ]
    file.write_text(
        json.dumps({"cells": body, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
        encoding="utf-8",
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text(
        "version: 1\naliases: {say: tools.echo}\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_script_gives_what_the_notebook_gives(project: Path, kernel: Kernel) -> None:
    """Every form of ours: line, call, cell, alias, snippet, soft, unchecked, proxies."""
    write_notebook(project / "nb.ipynb", CELLS)
    assert main(["export", "nb.ipynb"]) == 0
    ran = subprocess.run(
        [sys.executable, "nb.py"], capture_output=True, text=True, check=False, cwd=project
    )
    assert ran.returncode == 0, ran.stderr
    from_script = json.loads((project / "values.json").read_text(encoding="utf-8"))
    kernel.execute(f"import os; os.chdir({str(project)!r})")
    for cell in CELLS:
        kernel.execute(cell.replace("%matplotlib_like_magic inline", ""))
    assert from_script == json.loads((project / "values.json").read_text(encoding="utf-8"))
    assert from_script == [8, 32, 32, "long text", 6, 6, False, 2, "abab"]
    assert "get_ipython" not in (project / "nb.py").read_text(encoding="utf-8")


@pytest.mark.slow
def test_jobs_dry_runs_pages_and_await_do_in_a_script_what_they_do_in_a_notebook(
    project: Path, kernel: Kernel
) -> None:
    cells = [
        "%load_ext onetool_ipy",
        "import asyncio, json\nfrom onetool_ipy import tool\nseen = []",
        (
            '@tool\ndef note(text: str) -> str:\n    """Note."""\n    seen.append(text)\n    return'
            " text"
        ),
        "job = %tool --bg nb.note text=job\njob.result(30)",
        (
            "%tool --dry nb.note text=dry\n%tool time\n%tool jobs\n%tool bundle off"
            " nothing-of-this-name --help"
        ),
        "event = asyncio.Event()\nasync def later():\n    seen.append('later')\n    event.set()",
        (
            "task = asyncio.ensure_future(later())\nawait event.wait()\nlast = await"
            " asyncio.sleep(0, '\\'\\'\\'é\\n')"
        ),
        "await task\nseen.append('end')",
        "open('values.json', 'w').write(json.dumps([*seen, last, job.status]))",
    ]
    write_notebook(project / "nb.ipynb", cells)
    assert main(["export", "nb.ipynb"]) == 0
    ran = subprocess.run(
        [sys.executable, "nb.py"], capture_output=True, text=True, check=False, cwd=project
    )
    assert ran.returncode == 0, ran.stderr
    from_script = json.loads((project / "values.json").read_text(encoding="utf-8"))
    kernel.execute(f"import os; os.chdir({str(project)!r})")
    for cell in cells:
        kernel.execute(cell.replace("%tool bundle off nothing-of-this-name --help", ""))
    assert from_script == json.loads((project / "values.json").read_text(encoding="utf-8"))
    assert from_script == ["job", "later", "end", "'''é\n", "done"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["%%bash\nls"], "Cell 1"),
        (["x = !ls"], "only IPython"),
        (["def f(:"], "not Python"),
        # A shell would fill these in otherwise than IPython, or not at all.
        (["folder = 'old'", "!rm -r $folder/*"], "Cell 2"),
        (["!echo {1 + 1}"], "variables of the notebook"),
        # Left out, these would change what the rest of the script does.
        (["%cd data"], "'%cd'"),
        (["%env REGION=eu"], "'%env'"),
        (["%time x = 1"], "'%time'"),
        (["%run other.py"], "'%run'"),
    ],
)
def test_what_cannot_be_exported_is_said(
    project: Path, capsys: pytest.CaptureFixture[str], cells: list[str], said: str
) -> None:
    write_notebook(project / "nb.ipynb", cells)
    assert main(["export", "nb.ipynb"]) == 1
    assert said in capsys.readouterr().err
    assert not (project / "nb.py").exists()


def test_a_file_is_not_written_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_notebook(project / "nb.ipynb", ["1"])
    (project / "nb.py").write_text("mine", encoding="utf-8")
    assert main(["export", "nb.ipynb"]) == 2
    assert (project / "nb.py").read_text(encoding="utf-8") == "mine"
    assert main(["export", "nowhere.ipynb"]) == 1
    assert "There is no notebook 'nowhere.ipynb'" in capsys.readouterr().err


@pytest.mark.slow
def test_resources_and_prompts_of_servers_are_read_by_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, {"srv": hostile("--offers")})
    monkeypatch.chdir(tmp_path)
    cells = [
        "%load_ext onetool_ipy",
        "r = %tool server read srv x:page/{number} number=7",
        "p = $srv.greet city=Rome",
        "from onetool_ipy.llm import ScriptedModel\nm = ScriptedModel(['ok'])",
        "%ask --model m What is in +srv:x:json?",
        "print(r.data, p.data[0].content[:11], '{\"a\": [1, 2]}' in m.requests[0].prompt)",
    ]
    write_notebook(tmp_path / "nb.ipynb", cells)

    assert main(["export", "nb.ipynb"]) == 0

    ran = subprocess.run(
        [sys.executable, "nb.py"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "x:page/7 Greet Rome. True"
