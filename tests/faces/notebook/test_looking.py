"""Looking at a tool of a pack file imports nothing, in a real kernel and on the command line; a
call does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.kernel import Kernel
from tests.harness.servers import hostile, write_project

PACK = '''
import pathlib
from enum import Enum

pathlib.Path({marker!r}).touch()

pack = "geo"
requires = {{"lib": ["json"]}}


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


def locate(place: str, size: Size = Size.SMALL, count: int = 1) -> str:
    """Find a place.

    Args:
        place: Where.

    Example:
        geo.locate(place="here")
    """
    return f"{{place}} {{size}} {{count}}"
'''
LOOKS = [
    "%tool",
    "%tool list",
    "%tool geo",
    "%tool info geo.locate",
    "%tool geo.locate --help",
    "%tool geo.locate?",
    "$where?",
    "geo.locate?",
    "geo.locate??",
    "geo",
    "geo.locate",
    "dir(geo)",
    "help(geo.locate)",
    "import inspect; inspect.signature(geo.locate)",
    "ot.help(query='geo.locate')",
    "ot.help(query='locate', info='full')",
    "ot.help()",
    "ot.tools(pattern='geo', info='full')",
    "ot.tools()",
    "ot.packs(pattern='geo', info='full')",
    "ot.packs()",
    "ot.aliases(info='full')",
    "ot.deps()",
    "ot.deps(tool='geo.locate')",
    "ot.browser('geo.locate')",
    "import onetool_ipy.sdk; onetool_ipy.sdk.check_deps('geo')",
    (
        "from onetool_ipy.core import current;"
        " current.toolbox().registry.require('geo.locate').checker"
    ),
    "from onetool_ipy.live import geo as other; other.locate.__signature__",
    "@onetool_ipy.tool\ndef mine(x: int): 'Mine.'",
    "ot.version()",
    "ot.reload()",
    "%tool time.now",
]


@pytest.fixture(params=["first", "edited"])
def looking(kernel: Kernel, request: pytest.FixtureRequest) -> tuple[Kernel, Path]:
    """A kernel in a trusted project; in the second case the file was edited since the extension was
    loaded."""
    marker = kernel.cwd / "imported"
    tools = kernel.cwd / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools.parent / "onetool.yaml").write_text("aliases: {where: geo.locate}\n", encoding="utf-8")
    (tools / "geo.py").write_text(PACK.format(marker=str(marker)), encoding="utf-8")
    kernel.execute(f"import os; os.environ['ONETOOL_TRUST'] = {str(kernel.cwd)!r}")
    kernel.execute("import onetool_ipy\n%load_ext onetool_ipy")
    if request.param == "edited":
        (tools / "geo.py").write_text(
            PACK.format(marker=str(marker)) + "# edited\n", encoding="utf-8"
        )
    return kernel, marker


@pytest.mark.slow
def test_looking_in_a_kernel_imports_no_pack_file_and_a_call_does(
    looking: tuple[Kernel, Path],
) -> None:
    kernel, marker = looking

    for code in LOOKS:
        kernel.execute(code)
        assert not marker.exists(), code
    for code in (
        "%tool ",
        "%tool geo.",
        "%tool geo.locate ",
        "%tool geo.locate size=",
        "geo.",
        "geo.locate(",
        "$wh",
    ):
        kernel.complete(code)
        assert not marker.exists(), f"Tab after {code}"
    for code in ("%tool geo.locate", "geo.locate", "geo.locate(", "$where", "%tool geo"):
        assert "geo" in kernel.inspect(code), code
        assert not marker.exists(), f"Shift-Tab at {code}"

    assert "here Size.SMALL 2" in kernel.execute("%tool geo.locate place=here count=2").text
    assert marker.exists()


def test_a_dry_call_imports_its_pack_and_is_checked_against_the_code(
    looking: tuple[Kernel, Path],
) -> None:
    kernel, marker = looking

    shown = kernel.execute("%tool geo.locate place=here count=2 --dry").text
    refused = kernel.execute("%tool geo.locate place=here size=huge --dry", allow_errors=True).text

    assert "geo.locate would be called with:" in shown
    assert "count = 2" in shown
    assert "argument 'size'" in refused
    assert marker.exists()


def test_the_browser_imports_a_pack_for_a_form_and_not_for_the_list(
    looking: tuple[Kernel, Path],
) -> None:
    kernel, marker = looking
    kernel.execute(
        "import queue\n"
        "from onetool_ipy.core import current\n"
        "from onetool_ipy.faces.widgets.requests import ScreenRequests\n"
        "said = queue.Queue()\n"
        "desk = ScreenRequests(current.toolbox(), send=said.put, namespace=dict)"
    )

    kernel.execute(
        "desk.receive({'id': 1, 'kind': 'search', 'payload': {'query': 'locate'}});"
        " said.get(timeout=30)"
    )
    assert not marker.exists()
    kernel.execute(
        "desk.receive({'id': 2, 'kind': 'tool', 'payload': {'name': 'geo.locate'}})\n"
        "told = {}\n"
        "while told.get('id') != 2: told = said.get(timeout=30)"
    )

    assert marker.exists()
    assert "small" in kernel.evaluate("str(told)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("tools", "list"),
        ("tools", "list", "--json"),
        ("tools", "info", "geo.locate"),
    ],
    ids=" ".join,
)
def test_looking_on_the_command_line_imports_no_pack_file_and_a_call_does(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    marker = tmp_path / "imported"
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "geo.py").write_text(PACK.format(marker=str(marker)), encoding="utf-8")
    env = {**os.environ, "ONETOOL_STATE": str(tmp_path / "state"), "ONETOOL_TRUST": str(tmp_path)}

    def run(*command: str) -> str:
        line = [sys.executable, "-m", "onetool_ipy", *command]
        done = subprocess.run(
            line, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr

    assert "geo" in run(*words)
    assert not marker.exists()
    run("tools", "invoke", "geo.locate", "--args", '{"place": "x"}')
    assert marker.exists()


@pytest.mark.slow
def test_stubs_import_the_packs_of_a_trusted_project(tmp_path: Path) -> None:
    """They hold the schema of the code: the choices of an Enum that the file defines."""
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "geo.py").write_text(PACK.format(marker=str(tmp_path / "imported")), encoding="utf-8")
    env = {**os.environ, "ONETOOL_STATE": str(tmp_path / "state"), "ONETOOL_TRUST": str(tmp_path)}
    line = [sys.executable, "-m", "onetool_ipy", "stubs", "--output", "typings"]

    subprocess.run(line, cwd=tmp_path, env=env, check=True)

    text = (tmp_path / "typings" / "onetool_ipy" / "live" / "_geo.pyi").read_text(encoding="utf-8")
    assert "Literal['small', 'large']" in text


@pytest.mark.slow
def test_tab_and_shift_tab_start_no_server_whose_offers_are_not_known(kernel: Kernel) -> None:
    journal = kernel.cwd / "journal"
    write_project(kernel.cwd, {"srv": hostile("--offers", f"--journal={journal}")})
    kernel.execute(f"import os; os.environ['ONETOOL_TRUST'] = {str(kernel.cwd)!r}")
    kernel.execute("%load_ext onetool_ipy")

    for code in (
        "srv.",
        "srv.resources.",
        "srv.resources[0].",
        "srv.resources[0]['",
        "srv.prompts.",
        "srv.watch('x:t').",
        "srv.read('x:t",
        "%tool server read srv ",
        "%tool srv.read uri=",
        "$srv.",
        "$srv.greet city=",
        "%ask +srv:x",
    ):
        kernel.complete(code)
        assert not journal.exists(), f"Tab after {code}"
    for code in ("srv.resources", "srv.read", "srv.prompts", "srv.watch", "$srv.greet"):
        kernel.inspect(code)
        assert not journal.exists(), f"Shift-Tab at {code}"
    kernel.execute("ot.snippets(); srv.read; dir(srv); srv")
    assert not journal.exists()

    assert kernel.execute("srv.resources[0]['uri']").result_text == "'x:text'"
    assert journal.exists()
    assert kernel.execute("$srv.greet city=Rome").result_text.startswith("Greet Rome.")


@pytest.mark.slow
def test_a_question_mark_starts_no_server_in_any_spelling(kernel: Kernel) -> None:
    journal = kernel.cwd / "journal"
    aliases = "aliases: {where: geo.locate, far: srv.echo}\nsnippets: {twice: {body: '2 * 2'}}\n"
    write_project(kernel.cwd, {"srv": hostile("--offers", f"--journal={journal}")}, aliases)
    tools = kernel.cwd / ".onetool" / "tools"
    tools.mkdir()
    (tools / "geo.py").write_text(
        PACK.format(marker=str(kernel.cwd / "imported")), encoding="utf-8"
    )
    kernel.execute(f"import os; os.environ['ONETOOL_TRUST'] = {str(kernel.cwd)!r}")
    kernel.execute("import onetool_ipy\n%load_ext onetool_ipy")

    names = (
        "where",
        "far",
        "twice",
        "geo",
        "geo.locate",
        "srv",
        "srv.echo",
        "srv.greet",
        "nothing",
        "time.now",
    )
    places = (
        "geo",
        "geo.locate",
        "srv",
        "srv.echo",
        "srv.resources",
        "srv.prompts",
        "srv.watch",
        "ot",
        "ot.help",
        "nb",
    )
    kernel.execute(
        f"@onetool_ipy.tool\ndef getdoc():\n    'Called by a look.'\n    open({str(journal)!r},"
        " 'w')"
    )
    for code in (
        *(
            "%tool?",
            "%%tool?",
            "?%tool",
            "%tool ?",
            "%snippet?",
            "%ask?",
            "%tool --help",
            "%tool help",
            "%tool list?",
        ),
        *(
            form.format(name)
            for name in names
            for form in ("${}?", "$ {} ?", "${} ?", "${}??", "?${}", "x = ${}?")
        ),
        *(
            form.format(name)
            for name in names
            for form in ("%tool {}?", "%tool {} ?", "%tool {} --help", "%tool --help {}")
        ),
        *(
            form.format(name)
            for name in names
            for form in ("%tool info {}", "%tool help {}", "%tool {}??", "%tool info {}?")
        ),
        *(
            form.format(place)
            for place in places
            for form in ("{}?", "{}??", "?{}", "??{}", "%pinfo {}", "%pinfo2 {}")
        ),
        *(f"help({place})" for place in places),
    ):
        kernel.execute(code, allow_errors=True)
        assert not journal.exists(), code
    for text in (*(f"${name}" for name in names), *(f"%tool {name}" for name in names), *places):
        kernel.inspect(text, detail_level=1)
        assert not journal.exists(), f"Shift-Tab at {text}"

    assert "Signature: geo.locate" in kernel.execute("$geo.locate?").result_text
    assert "has not been started yet" in kernel.execute("$srv.echo?", allow_errors=True).text
    assert (
        "No snippet, alias or tool 'nothing'" in kernel.execute("$nothing?", allow_errors=True).text
    )
