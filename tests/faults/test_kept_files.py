"""Kills while a lock file, a sealed notebook and another client's file are written.

Each file is the old one or the new one, never in between.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.harness.patience import HANG_S

# Each writes its two versions in turn, for ever, and says when it has begun.
WRITER = """
import itertools, os, sys
from pathlib import Path
from onetool_ipy import open_toolbox
from onetool_ipy.faces.cli import main
from onetool_ipy.base.files import write_whole
from onetool_ipy.faces.sealing import seal

kind, work = sys.argv[1], Path.cwd()
for number in itertools.count():
    word = "ab"[number % 2] * 20_000
    if kind == "lock":
        (work / ".onetool/tools/shop.py").write_text(f'def find(x: str = "{word}") -> str:\\n    "Find."\\n')
        assert main(["lock"]) == 0
    elif kind == "seal":
        cell = f'{{"cell_type": "code", "source": "%tool replay calls.jsonl\\\\n# {word}", "outputs": []}}'
        (work / "n.ipynb").write_text(f'{{"cells": [{cell}], "nbformat": 4}}')
        with open_toolbox(work / ".onetool/onetool.yaml") as box:
            seal(work / "n.ipynb", box)
    else:
        os.environ["ONETOOL_STATE"] = f"{work}/{'ab'[number % 2]}"
        text = '{"mcpServers": {' + '"mine": {"command": "' + "x" * 20_000 + '"}}}'
        write_whole(work / ".mcp.json", text.encode())
        assert main(["server", "export", "claude-code", "--self", "--yes"]) == 0
    if number == 1:
        print("begun", file=sys.stderr, flush=True)
"""
FILES = {"lock": ".onetool/onetool.lock", "seal": "n.sealed.zip", "export": ".mcp.json"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(FILES))
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path, kind: str) -> None:
    work = tmp_path / "work"
    (work / ".onetool" / "tools").mkdir(parents=True)
    (work / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (work / "calls.jsonl").write_text("", encoding="utf-8")
    (work / ".mcp.json").write_text("{}", encoding="utf-8")
    env = {
        **os.environ,
        "ONETOOL_TRUST": str(work),
        "ONETOOL_STATE": str(tmp_path / "state"),
        "CI": "",
    }
    chance, versions = random.Random(kind), set()
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, kind]
        with subprocess.Popen(
            command, cwd=work, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as writer:
            assert writer.stderr is not None
            lines = []
            for line in writer.stderr:
                lines.append(line)
                if line == "begun\n":
                    break
            assert lines[-1:] == ["begun\n"], "".join(lines)
            # The kill falls anywhere into the writing, however slow the machine is.
            time.sleep(chance.uniform(0.01, 0.3))
            writer.kill()
            writer.wait(HANG_S)
        versions.add(_version(kind, work / FILES[kind]))
    assert versions <= {"a", "b", "old"}


def _version(kind: str, file: Path) -> str:
    """Which of the two versions a file holds, whole. Raises for anything in between."""
    if kind == "seal":
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
            text = archive.read("n.ipynb").decode()
    else:
        text = file.read_text(encoding="utf-8")
        document = json.loads(text)
        if kind == "export":
            assert document["mcpServers"].pop("mine") == {"command": "x" * 20_000}
            return next(
                (each["env"]["ONETOOL_STATE"][-1] for each in document["mcpServers"].values()),
                "old",
            )
    (version,) = (char for char in "ab" if char * 20_000 in text)
    return version
