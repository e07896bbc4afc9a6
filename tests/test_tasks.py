"""tasks.py in a small project of its own: real uv and pip, on packages from a folder, without a
network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onetool_ipy.base.processes import is_running
from tests.harness.patience import until
from tests.harness.programs import python
from tests.harness.surroundings import OUTSIDE, ROOT

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "small"
version = "1.0"
optional-dependencies = {test = ["thing"], programs = ["thing"]}
"""
# The least that pip and uv ask of a build backend, for an editable install.
BACKEND = """
import zipfile
def get_requires_for_build_editable(settings=None):
    return []
def build_editable(folder, settings=None, metadata=None):
    name = "small-1.0-py3-none-any.whl"
    extras = "Provides-Extra: test\\nRequires-Dist: thing; extra == 'test'\\n"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("small.py", "")
        wheel.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n" + extras)
        wheel.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("small-1.0.dist-info/RECORD", "")
    return name
"""


def _write_wheel(folder: Path, name: str, version: str, text: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


class Small:
    """A project that needs `thing`, of which a folder has two versions; version 1.0 is pinned."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.links = root / "links"
        self.links.mkdir()
        _write_wheel(self.links, "thing", "1.0")
        _write_wheel(self.links, "thing", "2.0")
        _write_wheel(self.links, "pip", "99.0")
        files = {
            "tasks.py": (ROOT / "tasks.py").read_text(encoding="utf-8"),
            "pyproject.toml": PYPROJECT,
            "backend.py": BACKEND,
            "constraints.txt": "thing==1.0\n",
            "onetool_ipy/_version.py": "",
            "onetool_ipy/labextension/package.json": "{}",
        }
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")

    def lend_uv(self) -> None:
        """Use the uv that `make test` installed for this checkout."""
        assert (ROOT / ".venv-uv").exists(), (
            "There is no .venv-uv: run `make test`, which makes it."
        )
        (self.root / ".venv-uv").symlink_to(ROOT / ".venv-uv")

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of tasks.py without any index but the folder."""
        kept = {
            name: value
            for name, value in OUTSIDE.items()
            if not name.startswith(("PIP_", "UV_", "PYTHON"))
        }
        kept |= {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.links),
        }
        return subprocess.run(
            [sys.executable, "tasks.py", *words],
            cwd=self.root,
            env={**kept, "UV_CACHE_DIR": str(self.root / "cache"), **env},
            capture_output=True,
            text=True,
            check=False,
        )

    def version_of_thing(self, folder: str = ".venv") -> str:
        (info,) = (self.root / folder).glob("lib/python*/site-packages/thing-*.dist-info")
        return info.name.removeprefix("thing-").removesuffix(".dist-info")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("latest", "folder", "version"), [("", ".venv", "1.0"), ("1", ".venv-latest", "2.0")]
)
def test_the_pinned_version_is_installed_unless_the_newest_is_wanted(
    small: Small, latest: str, folder: str, version: str
) -> None:
    small.lend_uv()

    outcome = small.run("install", "test", LATEST=latest)

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert f"Installing onetool-ipy and its test tools into {folder} ..." in outcome.stdout
    assert "\n  Resolved 3 packages" in outcome.stdout, "it says how far it is"
    assert "so pip does" not in outcome.stdout
    assert small.version_of_thing(folder) == version


@pytest.mark.slow
def test_an_environment_is_made_again_only_when_its_files_change(small: Small) -> None:
    small.lend_uv()
    small.run("install", "test")

    assert small.run("install", "test").stdout == ""
    assert small.run("install", "lab").stdout == "", (
        "the tests' environment has all that JupyterLab needs"
    )
    (small.root / "constraints.txt").write_text("thing==2.0\n", encoding="utf-8")
    assert "Installed" in small.run("install", "test").stdout
    assert small.version_of_thing() == "2.0"


@pytest.mark.slow
def test_pip_installs_where_uv_cannot_be_had(small: Small) -> None:
    outcome = small.run("install", "test")

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (
        "uv could not be installed, so pip installs everything, which takes minutes."
        in outcome.stdout
    )
    assert small.version_of_thing() == "1.0"


@pytest.mark.slow
def test_a_package_that_cannot_be_had_is_told_in_a_sentence(small: Small) -> None:
    small.lend_uv()
    for wheel in small.links.glob("thing-*"):
        wheel.unlink()

    outcome = small.run("install", "test")

    assert outcome.returncode == 1
    assert "uv could not install onetool-ipy and its test tools, so pip does." in outcome.stdout
    assert outcome.stderr.startswith(
        "pip could not install onetool-ipy and its test tools into .venv. It said: "
    )
    assert "Traceback" not in outcome.stderr
    assert not (small.root / ".venv" / ".test").exists(), "the next run tries again"


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_replaced(small: Small) -> None:
    small.lend_uv()
    (small.root / "no-folder").write_text("", encoding="utf-8")

    outcome = small.run("install", "test", UV_CACHE_DIR=str(small.root / "no-folder"))

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "no-folder cannot be written (" in outcome.stdout
    assert small.version_of_thing() == "1.0"


FULL = "The disk is full: free some space, then run this again."


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("error: failed to write: No space left on device (os error 28)", FULL),
        ("ERROR: Could not install: [Errno 28] No space left on device", FULL),
        ("npm ERR! nospc ENOSPC: no space left on device, write", FULL),
        ("error: Read-only file system (os error 30)", "A folder is read-only: "),
        ("npm ERR! code EAI_AGAIN", "There is no network, or its proxy is not set: "),
        ("WARNING: old\nwhat it said last", "It said: what it said last"),
    ],
)
def test_the_last_words_of_an_installer_are_a_sentence(
    small: Small, said: str, sentence: str
) -> None:
    code = (
        "import subprocess, sys, tasks;"
        "print(tasks._reason(subprocess.CompletedProcess([], 1, '', sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, said],
        cwd=small.root,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith(sentence)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_a_sentence_also_for_what_it_writes_itself(small: Small) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "tasks.py", "install", "test"],
            cwd=small.root,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == f"A file could not be written. {FULL}"
    assert "Traceback" not in done.stderr


def test_unknown_words_are_told(small: Small) -> None:
    assert small.run("tset").returncode == 2
    assert "There is no environment 'tests'." in small.run("install", "tests").stderr
    assert (
        "'chrome' is not one of: browser, node, ripgrep, strace."
        in small.run("need", "chrome").stderr
    )


@pytest.mark.posix("scripts that are programs")
def test_a_node_that_does_not_run_tells_why(small: Small) -> None:
    """pip could install it, so pip's words say nothing."""
    programs = small.root / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, text in {
        "python": "true",
        "npm": "true",
        "node": "echo Too old a system.; false",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)

    said = small.run("need", "node").stderr

    assert said.endswith("install Node and run this again. It said: Too old a system.\n")


CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pid", "w").write(str(child.pid))
child.wait()
"""
TASK = """
import signal, sys, tasks
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
with tasks.running([sys.executable, "-c", CHILD]) as process:
    process.wait()
"""


@pytest.mark.posix("SIGTERM")
def test_what_a_task_started_ends_with_it(small: Small) -> None:
    """pytest and its workers end when `tasks.py test` is ended."""
    task = subprocess.Popen([sys.executable, "-c", f"CHILD = {CHILD!r}\n{TASK}"], cwd=small.root)
    file = small.root / "pid"
    assert until(lambda: file.exists() and file.read_text(encoding="ascii"))

    task.send_signal(signal.SIGTERM)
    task.wait()

    assert until(lambda: not is_running(int(file.read_text(encoding="ascii"))))


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_only_programs_that_a_system_has_are_asked_for(system: str) -> None:
    """Chrome is found where its installer puts it."""
    script = f"import sys; sys.platform = {system!r}; import tasks; print(*tasks.PROGRAMS)"
    done = python(script, cwd=ROOT)

    assert done.stdout.split() == ["browser", "strace"][: 2 if system == "linux" else 1]


def test_a_home_with_an_umlaut_is_read_and_told_on_every_console(small: Small) -> None:
    """uv prints UTF-8 whatever the code page of Windows is, and a pipe may take less than that."""
    script = (
        "import sys, tasks\n"
        "tasks.main(['need'])\n"
        "uv = 'import sys; sys.stdout.buffer.write(\"C:/J\\\\xf6rg M\".encode())'\n"
        "said = tasks._quiet([sys.executable, '-c', uv]).stdout\n"
        "said += tasks._quiet([sys.executable, '-c', 'print(\"/J\\\\xf6rg\")']).stdout\n"
        "tasks._say(ascii(said))\n"
        "tasks._say(said)\n"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = python(script, check=False, cwd=small.root, env={**OUTSIDE, **plain})

    assert done.stdout.splitlines() == [
        r"'C:/J\xf6rg M/J\xf6rg\n'",
        r"C:/J\xf6rg M/J\xf6rg",
        "",
    ], done.stderr
