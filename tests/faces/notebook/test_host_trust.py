"""The one question of a notebook, and `%tool trust`, in a real kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.harness.kernel import Kernel

_PACK = """\
from pathlib import Path
pack = "mine"
Path({marker!r}).open("a").write("x")
def go(x: int = 1) -> int:
    \"\"\"Go.\"\"\"
    return x
"""


class Clone:
    def __init__(self, root: Path) -> None:
        self.folder = root / "clone"
        self.imported = root / "imported"
        self.started = root / "started"
        tools = self.folder / ".onetool" / "tools"
        tools.mkdir(parents=True)
        (tools / "mine.py").write_text(_PACK.format(marker=str(self.imported)), encoding="utf-8")
        self.write_config("first")

    def write_config(self, argument: str) -> None:
        code = f"open({str(self.started)!r}, 'a').write('{argument} ')"
        text = (
            f"servers: {{srv: {{command: {json.dumps(sys.executable)}, args: [-c,"
            f' {json.dumps(code)}], env: {{T: "${{HOME}}"}}}}}}\n'
        )
        more = 'snippets: {hello: {body: "6 * 7"}}\naliases: {g: mine.go}\n'
        (self.folder / ".onetool" / "onetool.yaml").write_text(text + more, encoding="utf-8")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.fixture
def notebook(clone: Clone, kernel: Kernel) -> Kernel:
    _enter(kernel, clone.folder)
    return kernel


def _enter(kernel: Kernel, folder: Path) -> None:
    """Load the extension as somebody who trusts no folder yet."""
    kernel.execute(f"import os\nos.environ['ONETOOL_TRUST'] = ''\nos.chdir({str(folder)!r})")
    assert kernel.execute("%load_ext onetool_ipy").text == ""


def test_the_first_thing_that_would_run_is_asked_for_and_a_yes_runs_it(
    clone: Clone, notebook: Kernel
) -> None:
    running = notebook.start_execute("%tool mine.go x=3", allow_stdin=True)
    question = notebook.answer_input("y")
    outcome = running.wait()
    assert "Trust it?" in question
    assert str(Path("tools/mine.py")) in outcome.text
    assert sys.executable in outcome.text
    assert "sets T=${HOME}" in outcome.text
    assert outcome.result_text.strip() == "3"
    assert clone.imported.read_text() == "x"
    assert not clone.started.exists(), "a call starts what it needs, and nothing else"
    again = notebook.execute("mine.go(x=4)", allow_stdin=True)
    assert again.result_text == "4"


@pytest.mark.parametrize("answer", ["", "n", "no", "ye", "yes please", "1", "Y E S"])
def test_anything_but_yes_is_no_and_is_asked_once(
    clone: Clone, notebook: Kernel, answer: str
) -> None:
    running = notebook.start_execute("%tool mine.go", allow_stdin=True)
    notebook.answer_input(answer)
    outcome = running.wait(allow_errors=True)
    assert outcome.error is not None
    assert "%tool trust" in outcome.text
    assert not clone.imported.exists()
    second = notebook.execute("mine.go()", allow_stdin=True, allow_errors=True)
    assert second.error is not None
    assert not clone.imported.exists()


@pytest.mark.parametrize(
    "line",
    [
        "%tool mine.go",
        "mine.go()",
        "$g",
        "$mine.go",
        "$hello",
        "%snippet hello",
        "ot.run('g')",
        "ot.run('hello')",
    ],
)
def test_every_way_to_run_something_asks_and_is_refused_where_nobody_can_be_asked(
    clone: Clone, notebook: Kernel, line: str
) -> None:
    refused = notebook.execute(line, allow_errors=True)
    assert refused.error is not None
    assert "%tool trust" in refused.text
    assert not clone.imported.exists()
    running = notebook.start_execute(line, allow_stdin=True)
    assert "Trust it?" in notebook.answer_input(" YES ")
    assert running.wait().ok


@pytest.mark.parametrize("verb", ["start", "restart", "test"])
def test_a_server_is_started_by_hand_only_after_a_yes(
    clone: Clone, notebook: Kernel, verb: str
) -> None:
    refused = notebook.execute(f"%tool server {verb} srv", allow_errors=True)
    assert refused.error is not None
    assert "%tool trust" in refused.text
    assert not clone.started.exists()


def test_trust_is_given_listed_and_taken_back_by_a_command(clone: Clone, notebook: Kernel) -> None:
    assert "You trust no project yet." in notebook.execute("%tool trust list").text
    said = notebook.execute("%tool trust").text
    assert f"{clone.folder} is trusted from now on" in said
    assert str(Path("tools/mine.py")) in said
    assert notebook.execute("mine.go()").result_text == "1"
    assert str(clone.folder) in notebook.execute("%tool trust list").text
    assert "is trusted already" in notebook.execute("%tool trust").text
    assert "is no longer trusted" in notebook.execute("%tool trust --remove").text
    assert notebook.execute("mine.go()", allow_errors=True).error is not None
    wrong = notebook.execute("%tool trust everything", allow_errors=True)
    assert "does not know 'everything'" in wrong.text


def test_a_changed_server_asks_for_itself_and_shows_the_difference(
    clone: Clone, notebook: Kernel
) -> None:
    notebook.execute("%tool trust")
    clone.write_config("second")
    notebook.execute("ot.reload()")
    assert "untrusted" in notebook.execute("%tool server list").text
    running = notebook.start_execute("%tool server test srv", allow_stdin=True)
    notebook.answer_input("y")
    outcome = running.wait()
    assert "has changed since you trusted it" in outcome.text
    assert "first" in outcome.text
    assert "second" in outcome.text
    assert "mine.py" not in outcome.text
    assert "second" in clone.started.read_text()


def test_what_is_saved_here_is_trusted(kernel: Kernel) -> None:
    _enter(kernel, kernel.cwd)
    kernel.execute(
        '%%tool --save own\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b'
    )
    assert kernel.execute("%tool own.add a=1 b=2").result_text.strip() == "3"
    kernel.execute("%%snippet twice x --save\n2 * {{ x }}")
    kernel.execute("ot.reload()")
    assert kernel.execute("$twice x=4").result_text == "8"


@pytest.mark.slow
def test_looking_asks_nothing_and_runs_nothing(clone: Clone, notebook: Kernel) -> None:
    for line in (
        *(
            "%tool",
            "%tool list",
            "%tool mine",
            "%tool info mine.go",
            "%tool mine.go?",
            "%tool mine.go --help",
        ),
        *(
            "%tool mine.go --dry",
            "ot.tools()",
            "ot.packs()",
            "ot.help('go')",
            "ot.health()",
            "%tool server list",
        ),
        *(
            "mine",
            "mine.go",
            "dir(mine)",
            "ot.snippets(info='full')",
            "%snippet hello --show",
            "%tool time.now",
        ),
        *(
            "srv",
            "dir(srv)",
            "repr(srv.anything)",
            "%tool search go",
            "%tool stats",
            "%tool history",
        ),
    ):
        outcome = notebook.execute(line, allow_stdin=True)
        assert outcome.ok, line
    for text in ("%tool ", "%tool mine.", "%tool mine.go ", "%tool srv.", "$", "mine.", "srv."):
        notebook.complete(text)
        notebook.inspect(text)
    assert not clone.imported.exists()
    assert not clone.started.exists()
