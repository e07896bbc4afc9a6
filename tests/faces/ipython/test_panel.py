"""The question the JupyterLab panel puts to a kernel, over the protocol, exactly as it is sent."""

from __future__ import annotations

import json
import re
from typing import Any

from onetool_ipy import __version__
from tests.harness.kernel import Kernel
from tests.harness.surroundings import ROOT

MIME = "application/vnd.onetool.state+json"
IMPORTED = "'onetool_ipy.faces.ipython.panel' in __import__('sys').modules"


def question() -> str:
    """The expression in the panel's source, so that the two cannot drift apart."""
    source = (ROOT / "labextension" / "src" / "kernel.ts").read_text(encoding="utf-8")
    found = re.search(r"const QUESTION =(.*?);\n", source, flags=re.DOTALL)
    assert found is not None
    parts = re.findall(r'"([^"]*)"', found[1])
    assert parts
    return "".join(parts)


def ask(kernel: Kernel) -> dict[str, Any]:
    outcome = kernel.execute("", silent=True, user_expressions={"state": question()})
    answer = outcome.user_expressions["state"]
    assert answer["status"] == "ok", answer
    return dict(answer["data"])


def test_kernel_without_our_extension_is_left_alone(kernel: Kernel) -> None:
    before = kernel.evaluate("sorted(m for m in __import__('sys').modules if m.startswith('onetool'))")

    assert ask(kernel) == {"text/plain": "None"}

    after = kernel.evaluate("sorted(m for m in __import__('sys').modules if m.startswith('onetool'))")
    assert after == before


def test_loading_the_extension_does_not_import_the_panel(fresh_kernel: Any) -> None:
    kernel = fresh_kernel()

    kernel.execute("%load_ext onetool_ipy")

    assert kernel.evaluate(IMPORTED) == "False"


def test_state_counts_tools_and_packs_of_the_toolbox(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute("from onetool_ipy.core.current import toolbox")

    state = ask(kernel)[MIME]

    assert state == {
        "version": __version__,
        "tools": json.loads(kernel.evaluate("len(toolbox().registry.list())")),
        "packs": json.loads(kernel.evaluate("len(toolbox().registry.packs())")),
    }
    assert state["tools"] >= 5
