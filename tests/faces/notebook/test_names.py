"""`ot` and the packs as names of the notebook: a name of the user is never taken."""

from __future__ import annotations

from tests.faces.notebook.test_extension_magics import write_pack
from tests.harness.kernel import Kernel


def test_names_of_the_user_are_never_taken(kernel: Kernel) -> None:
    write_pack(kernel.cwd, 'def good() -> int:\n    "Good."\n    return 1\n', "mine.py")
    kernel.execute("mine = 'the user has this name'")
    kernel.execute("%load_ext onetool_ipy")
    assert kernel.evaluate("mine") == repr("the user has this name")
    assert "ot" not in kernel.execute("%who").stdout.split()
    kernel.execute("%reset -f")
    assert kernel.execute("%tool mine.good").result_text == "1"
    assert kernel.evaluate("type(ot).__name__ != 'NoneType'") == "True"
    kernel.execute("%unload_ext onetool_ipy")
    assert kernel.evaluate("'ot' in globals()") == "False"
    gone = kernel.execute("%tool time.now", allow_errors=True)
    assert "not found" in gone.text


def test_live_gives_the_packs_of_the_notebooks_toolbox(kernel: Kernel) -> None:
    write_pack(kernel.cwd, 'def good() -> int:\n    "Good."\n    return 1\n', "fine.py")
    kernel.execute("%load_ext onetool_ipy")
    assert (
        kernel.execute("from onetool_ipy.live import fine as imported\nimported.good()").result_text
        == "1"
    )
    missing = kernel.execute("from onetool_ipy.live import nothing", allow_errors=True)
    assert "nothing" in missing.text


def test_a_mistyped_tool_of_a_pack_is_two_lines_too(loaded: Kernel) -> None:
    for cell in ("ot.tolos()", "ot['tolos']()"):
        outcome = loaded.execute(cell, allow_errors=True)
        assert outcome.error is not None
        assert outcome.error.text.splitlines() == [
            "ToolCallError: No tool 'ot.tolos'. Did you mean 'ot.tools'?",
            "  See all with: %tool ot",
        ]
    assert loaded.evaluate("hasattr(ot, 'tolos')") == "False"
