"""The one table: what a notebook has a shell has, and what only one of them has says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

import onetool_ipy
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.cli import main
from onetool_ipy.faces.commands.table import (
    TABLE,
    command_words,
    continuation,
    find,
    help_lines,
    rows,
    shell_lines,
)
from tests.harness.kernel import Kernel
from tests.harness.project import Project

_ADVICE = re.compile(r"(%tool|onetool-ipy) (server|bundle|lock|jobs|replay|trust) ([a-z]{2,})")


def test_every_command_runs_in_both_places_or_says_where() -> None:
    """A row of one place has a twin of the same name in the other, a sentence, or a group that has
    one."""
    for command in TABLE:
        other = "shell" if command.place == "notebook" else "notebook"
        first = command.name.split()[0]
        is_told = command.elsewhere or any(row.name == first and row.elsewhere for row in TABLE)
        is_own_file = command.place == "shell" and first in (
            "init",
            "stubs",
            "export",
            "tools",
            "completion",
        )
        assert (
            command.runs_in(other)
            or command.name in rows(other)
            or first == "trust"
            or is_told
            or is_own_file
        )


@pytest.mark.parametrize(
    "word",
    [
        "history",
        "stats",
        "server",
        "bundle",
        "health",
        "trust",
        "search",
        "results",
        "check",
        "import",
        "new",
    ],
)
def test_what_the_notebook_has_the_shell_has(word: str) -> None:
    assert word in rows("shell")
    assert word in rows("notebook")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jobs"], "Jobs belong to the notebook that started them"),
        (["browse"], "a screen of a notebook"),
        (["serve"], "In a shell: onetool-ipy mcp"),
        (["why"], "onetool-ipy history --failed"),
        (["server", "start", "x"], "A server runs in the notebook that started it"),
        (["list"], "No command 'list'. Did you mean 'tools list'?"),
        (["invoke"], "Did you mean 'tools invoke'?"),
        (["hstory"], "Did you mean 'history'?"),
        (["server", "ad"], "Did you mean 'add'?"),
        (["qqqq"], "See all with: onetool-ipy --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_is_not_there_says_what_to_type(words: list[str], message: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        find(words, "shell")
    assert message in "\n".join(caught.value.lines())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lock chek", "does not know 'chek'. Did you mean 'check'?"),
        ("health now", "%tool health does not know 'now'."),
        ("history why not", "does not know 'not'"),
        ("reload onetool.yaml", "does not know 'onetool.yaml'"),
    ],
)
def test_a_word_too_many_does_nothing(kernel: Kernel, line: str, message: str) -> None:
    (kernel.cwd / ".onetool").mkdir(exist_ok=True)
    (kernel.cwd / ".onetool" / "onetool.yaml").write_text("{}\n", encoding="utf-8")
    kernel.execute("%load_ext onetool_ipy")
    assert message in kernel.execute(f"%tool {line}", allow_errors=True).text
    assert not (kernel.cwd / ".onetool" / "onetool.lock").exists()


def test_options_are_named_once_and_described() -> None:
    for command in TABLE:
        names = [option.name for option in command.options]
        assert len(set(names)) == len(names), command.name
        assert all(option.help for option in command.options), command.name
        assert command.help


def test_no_alias_is_the_name_of_another_option() -> None:
    for command in TABLE:
        spellings = [option.name for option in command.options]
        spellings += [alias.partition("=")[0] for each in command.options for alias in each.aliases]
        assert len(set(spellings)) == len(spellings), command.name


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("seal", ["Commands", "onetool-ipy seal NOTEBOOK"]),
        ("history", ["ot.history", "onetool-ipy history rerun"]),
        ("qqqq", ["No matches"]),
    ],
)
def test_a_search_finds_tools_and_commands(
    project: Project, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]
) -> None:
    assert main(["--config", str(project.settings()), "search", *words.split()]) == 0

    said = capsys.readouterr().out
    assert [part for part in parts if part not in said] == []


def test_help_has_a_line_for_each_command_and_no_more() -> None:
    lines = help_lines("notebook")
    named = [row for name, row in rows("notebook").items() if " " not in name and not row.alias_of]
    assert len(lines) == len(named)
    assert any(line.startswith("%tool history [N] [WORDS]") and "rerun" in line for line in lines)
    assert {line.split()[1] for line in lines} <= command_words()


@pytest.mark.parametrize(
    ("words", "last", "listed", "names"),
    [
        (["history"], "--", ["--failed", "--since", "--tool"], []),
        (["history", "--failed"], "--", ["--since", "--tool"], []),
        (["history", "--since"], "", ["today", "yesterday", "2h", "7d"], []),
        (["stats", "--tool"], "", [], ["tool"]),
        (["server", "read"], "", [], ["server"]),
        (["server", "read", "x"], "", [], ["uri"]),
        (["bundle"], "", ["list", "show", "on", "off", "run", "set", "env", "delete"], []),
        (["nothing"], "", [], []),
        (["import", "--tag", "a"], "--t", None, []),
    ],
)  # fmt: skip
def test_what_can_follow(
    words: list[str], last: str, listed: list[str] | None, names: list[str]
) -> None:
    found = continuation(words, last, "notebook")
    assert found.names == names
    if listed is None:
        assert "--tag" in found.words, "an option that may be given again is offered again"
    else:
        assert found.words == listed


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("See: %tool history", "See: onetool-ipy history"),
        ("See all with: %tool list", "See all with: onetool-ipy tools list"),
        ("Try: %tool server test x", "Try: onetool-ipy server test x"),
        ("For example: %tool time.now", "For example: onetool-ipy tools invoke time.now"),
        ("in a notebook: %tool greet", "in a notebook: %tool greet"),
        ("a screen of a notebook: %tool browse", "a screen of a notebook: %tool browse"),
    ],
)
def test_lines_to_type_are_those_of_the_shell(text: str, there: str) -> None:
    assert shell_lines(text) == there


def test_wrong_words_in_a_notebook_say_what_to_type(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy")
    for line, part in (
        (
            "%tool export nb.ipynb",
            "'export' is a command of the shell, and no tool has this name.",
        ),
        ("%tool mcp", "In a notebook: %tool serve"),
        ("%tool hstory", "Did you mean '%tool history'?"),
        ("%tool history --fialed", "Did you mean '--failed'?"),
        ("%tool server strat x", "%tool server does not know 'strat'. Did you mean 'start'?"),
        ("%tool bundle shw", "Did you mean 'show'?"),
    ):
        assert part in kernel.execute(line, allow_errors=True).text
    kernel.execute("%%tool --save export\ndef go() -> int:\n    'Go.'\n    return 7")
    assert "7" in kernel.execute("%tool export.go").text
    assert "export.go" in kernel.execute("%tool export").text, (
        "a command of the shell takes no name from a pack"
    )
    assert "%%tool save PACK" in " ".join(kernel.execute("%tool --help").text.split())
    assert "--since WHEN" in kernel.execute("%tool help history").text


def test_every_command_that_a_text_advises_is_there() -> None:
    """Messages, pages and notebooks name commands of two words, such as `%tool server test`."""
    root = Path(onetool_ipy.__file__).parents[1]
    places = (
        ("onetool_ipy", "*.py"),
        ("docs", "*.md"),
        ("notebooks", "*.ipynb"),
        (".", "README.md"),
    )
    advised: set[tuple[Literal["notebook", "shell"], str, str]] = set()
    for folder, pattern in places:
        for file in (root / folder).glob(f"{'**/' if folder == 'onetool_ipy' else ''}{pattern}"):
            for start, group, verb in _ADVICE.findall(file.read_text(encoding="utf-8")):
                advised.add(("notebook" if start == "%tool" else "shell", group, verb))
    assert len(advised) > 40

    for place, group, verb in sorted(advised):
        find([group, verb], place)
