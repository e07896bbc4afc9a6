"""One notebook, five ways to run it: the same values; recorded once, also where there is no network
at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.kernel import private_kernel
from tests.harness.programs import python
from tests.net.loopback import Loopback

CONFIG = "version: 1\naliases: {fetch: web.get}\npacks: {web: {base: BASE}}\n"
PACK = '''
pack = "web"
import json, random, urllib.request
from onetool_ipy.sdk import get_config

def get(path: str, times: int = 1) -> dict:
    """Get JSON over the network, with a number that is another one each time."""
    with urllib.request.urlopen(get_config()["base"] + path, timeout=60) as reply:
        return {"body": json.load(reply), "luck": random.random(), "times": times}
'''
CELLS = [
    "%load_ext onetool_ipy",
    "%tool replay calls.jsonl",
    "import json\nfrom onetool_ipy import tool",
    '@tool\ndef double(n: int) -> int:\n    """Double."""\n    return n * 2',
    "a = %tool web.get path=/json\nb = $fetch path=/json times=2\nc = web.get(path='/json')",
    "%%tool -o d web.get --args\npath: /json\ntimes: 7",
    "%%snippet twice n\n{{ n }} * 2",
    "e = $twice n=21\nf = %tool nb.double n={e}\nt = %tool time.now",
    (
        "frame = ot.map('web.get', {'path': ['/json', '/json'], 'times': [3, 4]}, workers=1,"
        " fresh=True)"
    ),
    "with ot.replay('inner.jsonl'):\n    g = web.get('/json', times=9)",
    (
        "values = [a.data, b.data, c, d.data, e, f.data, t.data, frame['luck'].tolist(),"
        " frame['ok'].tolist(), g]"
    ),
    "open('values.json', 'w').write(json.dumps(values))",
]
FAILS = [
    "%load_ext onetool_ipy",
    "%tool fs.read_file path=nowhere.txt",
    "open('reached', 'w').close()",
]
BIN = Path(sys.executable).parent
HANG_S = 120

WAYS = {
    "ipython": ["-m", "IPython", "nb.ipynb"],
    "nbclient": ["-c", "from nbclient.cli import main; main()", "nb.ipynb"],
    "papermill": ["-m", "papermill", "nb.ipynb", "out.ipynb", "-k", "python3"],
    "script": ["nb.py"],
}
LONELY = (
    "import fcntl, os, socket, struct, sys\n"
    "with socket.socket() as s:\n"
    "    fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 1 | 64))\n"  # SIOCSIFFLAGS: kernels talk over loopback
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)


def write_notebook(file: Path, cells: Sequence[str]) -> None:
    body = [
        {
            "cell_type": "code",
            "id": f"c{i}",
            "source": cell,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for i, cell in enumerate(cells)
    ]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    text = json.dumps({"cells": body, "metadata": spec, "nbformat": 4, "nbformat_minor": 5})
    file.write_text(text, encoding="utf-8")


def run(
    folder: Path, way: str, *, alone: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the notebook in a folder; `alone` in a network of its own, where nobody is."""
    head = ["unshare", "-n", sys.executable, "-c", LONELY] if alone else [sys.executable]
    surroundings = {**os.environ, "CI": "", "PATH": f"{BIN}:{os.environ['PATH']}", **env}
    return subprocess.run(
        [*head, *WAYS[way]],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )


def export(folder: Path) -> None:
    subprocess.run(
        [BIN / "onetool-ipy", "export", "nb.ipynb"], cwd=folder, check=True, capture_output=True
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[object]]:
    """A project whose notebook was run once in a kernel as JupyterLab does, with a server that is
    gone now."""
    folder = tmp_path_factory.mktemp("anywhere")
    (folder / ".onetool" / "tools").mkdir(parents=True)
    (folder / ".onetool" / "tools" / "web.py").write_text(PACK, encoding="utf-8")
    write_notebook(folder / "nb.ipynb", CELLS)
    with Loopback() as server:
        config = CONFIG.replace("BASE", server.url(""))
        (folder / ".onetool" / "onetool.yaml").write_text(config, encoding="utf-8")
        export(folder)
        with private_kernel(tmp_path_factory.mktemp("kernel"), env={"CI": ""}) as kernel:
            kernel.execute(f"import os; os.chdir({str(folder)!r})")
            for cell in CELLS:
                kernel.execute(cell)
        asked = len(server.seen)
    assert asked == 7, "each call went out once"
    return folder, json.loads((folder / "values.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "alone"),
    [("ipython", False), ("papermill", False), ("nbclient", True), ("script", True)],
)
def test_every_way_gives_the_values_that_the_kernel_gave(
    recorded: tuple[Path, list[object]], way: str, alone: bool
) -> None:
    """The server is gone; two of the ways run where there is no network at all, if this machine
    lets us."""
    folder, values = recorded
    (folder / "values.json").unlink(missing_ok=True)

    ran = run(folder, way, alone=alone and _may_be_alone(), CI="true")

    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads((folder / "values.json").read_text(encoding="utf-8")) == values


def _may_be_alone() -> bool:
    return (
        subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.slow
def test_without_the_cassette_the_network_is_missed(recorded: tuple[Path, list[object]]) -> None:
    """The check of the checks above: the server is really gone."""
    folder, _ = recorded
    script = (
        (folder / "nb.py")
        .read_text(encoding="utf-8")
        .replace("ot.replay('calls.jsonl').begin_alone()", "None")
    )
    ran = python(script, check=False, cwd=folder)
    assert ran.returncode == 1
    assert "URLError" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        "papermill",
        "script",
        pytest.param("ipython", marks=pytest.mark.soak),
        pytest.param("nbclient", marks=pytest.mark.soak),
    ],
)
def test_a_failed_call_ends_every_way_with_1(tmp_path: Path, way: str) -> None:
    write_notebook(tmp_path / "nb.ipynb", FAILS)
    export(tmp_path)
    ran = run(tmp_path, way)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert not (tmp_path / "reached").exists()
    assert "nowhere.txt" in ran.stdout + ran.stderr
