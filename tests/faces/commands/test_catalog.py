"""The pages of `%tool`: what there is, what comes first, and what to type next."""

from __future__ import annotations

import pytest

from tests.faces.notebook.test_extension_magics import BMI, write_pack
from tests.harness.kernel import Kernel


def test_overview_names_packs_counts_and_what_to_type_next(loaded: Kernel) -> None:
    text = loaded.execute("%tool").result_text
    assert "time" in text
    assert "fs" in text
    assert "%tool info NAME" in text
    assert "%tool list" in text
    assert "ot " not in text, "the toolbox itself is no pack of tools"
    assert ", this folder alone. There is no .onetool/ here or above" in " ".join(text.split())


def test_a_list_leaves_the_toolbox_itself_out_and_a_name_finds_it(loaded: Kernel) -> None:
    text = loaded.execute("%tool list").result_text
    assert "fs.read_file" in text
    assert "ot.history" not in text
    assert "The functions of the toolbox itself: %tool ot" in text
    assert "ot.history" in loaded.execute("%tool list ot.h").result_text
    assert "ot.history" in loaded.execute("%tool ot").result_text


def test_an_empty_project_shows_three_ways_to_begin(loaded: Kernel) -> None:
    text = loaded.execute("%tool").result_text
    assert "5 tools in 4 packs" in text
    for way in ("from onetool_ipy import tool", "%%tool new http my-api", "%tool server add NAME"):
        assert way in " ".join(text.split())


def test_help_is_one_screen_in_five_groups(loaded: Kernel) -> None:
    """A word has one name; the old ones work, and are shown nowhere."""
    text = loaded.execute("%tool --help").result_text
    titles = [line.rstrip(":") for line in text.splitlines() if line.endswith(":")]
    assert titles == ["Call", "Make", "Look back", "Trust", "More"]
    assert len(text.splitlines()) <= 36
    everything = loaded.execute("%tool help all").result_text
    assert "%tool replay FILE" in everything
    assert "--soft" in everything
    for old in ("usage", "view", "verify", "diff", "why"):
        assert f"%tool {old}" not in text
        assert f"%tool {old}" not in everything
        assert f"%tool {old}" in loaded.execute(f"%tool {old} --help").result_text


def test_help_forms_show_the_page_of_a_tool(loaded: Kernel) -> None:
    for line in ("%tool fs.read_file --help", "%tool info fs.read_file", "%tool help fs.read_file"):
        page = loaded.execute(line).result_text
        assert "fs.read_file(path: str, maxBytes: int = 204800)" in page
        assert "required" in page
        assert "Read a text file" in page
        assert "Example:" in page
    assert "key=value" in loaded.execute("%tool --help").result_text
    assert "fs.list_dir" in loaded.execute("%tool fs").result_text


def test_the_page_of_a_built_in_tool_says_how_python_gets_it(loaded: Kernel) -> None:
    assert (
        "In Python: from onetool_ipy.live import fs"
        in loaded.execute("%tool info fs.read_file").result_text
    )
    assert "In Python" not in loaded.execute("%tool info ot.help").result_text


@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "untrusted"])
def test_what_the_project_recommends_comes_first_and_runs_nothing(
    kernel: Kernel, is_trusted: bool
) -> None:
    pack = """
    open("imported", "w").close()
    def go() -> int:
        "Go."
        return 1
    def stop() -> int:
        "Stop."
        return 1
    """
    for name in ("art", "zoo"):
        write_pack(kernel.cwd, pack, f"{name}.py")
    recommended = "recommended: [fs.read_file, zoo, no.such, '<b>bold</b>']\n"
    (kernel.cwd / ".onetool" / "onetool.yaml").write_text(recommended, encoding="utf-8")
    if not is_trusted:
        kernel.execute("import os; os.environ['ONETOOL_TRUST'] = ''")
    assert kernel.execute("%load_ext onetool_ipy").text == ""

    overview = kernel.execute("%tool")
    rows = [line.split(maxsplit=1) for line in overview.result_text.splitlines() if "tool" in line]
    assert [name for name, _ in rows[1:4]] == ["fs", "zoo", "art"]
    assert "2 tools, recommended: read_file" in rows[1][1]
    assert "2 tools, recommended" in rows[2][1]
    assert "recommended" not in rows[3][1]
    assert "bold" not in overview.text

    listed = [line.split() for line in kernel.execute("%tool list").result_text.splitlines()]
    assert [line[:2] for line in listed[:3]] == [
        ["fs.read_file", "recommended"],
        ["zoo.go", "recommended"],
        ["zoo.stop", "recommended"],
    ]
    assert listed[3][0] == "art.go"
    assert kernel.complete("%tool info ").matches[0] == "fs.read_file"
    assert not (kernel.cwd / "imported").exists()


def test_overview_and_commands_tell_what_can_be_typed(loaded: Kernel) -> None:
    loaded.execute(BMI)
    overview = loaded.execute("%tool").result_text
    assert "6 tools in 5 packs" in overview
    assert "%tool browse" in overview
    assert "%tool --help" in overview
    assert "Begin" not in overview, "who has a tool has begun"
    importing = loaded.execute("%tool import --help").result_text
    assert "--auth KIND:SECRET" in importing
    assert "%tool import FILE_OR_URL" in importing.splitlines()[0]
    assert "%tool server" not in importing
    assert "%tool server add NAME COMMAND" in loaded.execute("%tool server --help").result_text
    for line in (
        "install --always --help",
        "install --help --always",
        "bundle off time --help",
        "trust --help --remove",
    ):
        word = line.split()[0]
        assert f"%tool {word}" in loaded.execute(f"%tool {line}").result_text, line
    assert (
        "%tool server add"
        in loaded.execute("%tool server add x no-such-command --help").result_text
    )
    assert "%tool list [TEXT]" not in loaded.execute("%tool list -- --help", allow_errors=True).text
    assert loaded.execute("%tool time.now").result is not None, "none of these did anything"
    assert "%tool history" in loaded.execute("%tool history --help").result_text
    assert "nb (Python, 1 tool)" in loaded.execute("%tool nb").result_text
    assert loaded.execute("%tool browse nb").error is None


def test_stats_show_people_what_was_counted_and_programs_all(loaded: Kernel) -> None:
    """Times are local, shares in percent; what is only estimated is in the value alone."""
    none = loaded.execute("%tool stats").result_text.splitlines()
    assert none[:2] == ["period: all", "total_calls: 0"]
    assert "success_rate" not in none[2]
    loaded.execute("%tool time.now")
    shown = loaded.execute("x = %tool stats\nx")

    assert "success_rate: 100 %" in shown.result_text
    assert "+00:00" not in shown.result_text
    assert "context_saved" not in shown.text + (shown.result or {})["text/html"]
    assert loaded.evaluate("'context_saved' in x, 'context_saved' in repr(x)") == "(True, True)"


def test_health_is_a_page_and_a_wrong_handle_is_named(loaded: Kernel) -> None:
    """Both print something: a command that shows nothing leaves a person guessing."""
    assert "folder" in loaded.execute("%tool health").result_text
    assert "Handle not found: 'zzz'" in loaded.execute("%tool view zzz", allow_errors=True).text
