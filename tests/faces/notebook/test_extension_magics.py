"""`%tool` in a real kernel: every form a user can type, and what the notebook then holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from onetool_ipy.faces.commands.setup import Mode, install
from tests.conftest import FreshKernel
from tests.harness.kernel import Kernel
from tests.harness.servers import hostile
from tests.harness.surroundings import ROOT

BOOM = '''
from onetool_ipy import tool

@tool
def boom(n: int) -> float:
    """Divide one by n.

    Args:
        n: What to divide by.
    """
    part = 1 / n
    return part
'''

BMI = """
from onetool_ipy import tool
@tool
def bmi(weight: float, flag: bool = False) -> float:
    "Body mass index."
    return weight / 4
"""


def write_pack(folder: Path, text: str, name: str = "shop.py") -> Path:
    tools = folder / ".onetool" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (tools / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return tools / name


def test_load_ext_prints_nothing_and_starts_no_thread(kernel: Kernel) -> None:
    """Contract 2: it works where there is no configuration, says nothing and starts nothing."""
    kernel.execute("import threading; before = threading.active_count()")
    outcome = kernel.execute("%load_ext onetool_ipy")
    assert outcome.text == ""
    assert kernel.evaluate("threading.active_count() - before") == "0"
    heavy = (
        "[m for m in ('pandas','httpx','pydantic','jinja2','mcp','anywidget') if m in"
        " __import__('sys').modules]"
    )
    fresh = kernel.execute(f"import subprocess, sys; print(subprocess.run([sys.executable, '-c', '''"
                           "from IPython.core.interactiveshell import InteractiveShell\n"
                           "ip = InteractiveShell.instance()\n"
                           "ip.run_line_magic(\"load_ext\", \"onetool_ipy\")\n"
                           f"print({heavy})"
                           "'''], capture_output=True, text=True).stdout)")  # fmt: skip
    assert fresh.stdout.strip() == "[]"


def test_a_line_before_the_last_shows_its_value(loaded: Kernel) -> None:
    assert len(loaded.execute("%tool time.now\n1").displays) == 1


def test_a_project_made_above_since_the_start_is_named_and_taken_by_a_reload(
    kernel: Kernel,
) -> None:
    (kernel.cwd / "inner").mkdir()
    kernel.execute("%cd -q inner\n%load_ext onetool_ipy\n%tool time.now")
    (kernel.cwd / ".onetool").mkdir()

    for line in ("%tool", "%tool health"):
        text = " ".join(kernel.execute(line).text.split())
        assert "There is no .onetool/" not in text
        assert f"There is a project in {kernel.cwd} now: %tool reload" in text
    kernel.execute("%tool reload")
    assert kernel.execute("%tool health").text.strip().endswith(f"Project: {kernel.cwd}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%tool tools.echo message=hello", "hello"),
        ('%tool tools.echo message="hello world"', "hello world"),
        ("%tool tools.echo(message='hello')", "hello"),
        ('%tool tools.echo {"message": "hello"}', "hello"),
        ("%tool tools.echo message=[1, 2, 3]", [1, 2, 3]),
        ("%tool tools.echo message={[i * 2 for i in mine]}", [2, 4]),
        ("%tool --timeout 5 tools.echo message=5", 5),
        ("%tool tools.echo message=5 --soft", 5),
        ("%tool tools.echo -- message=--soft", "--soft"),
        ("%tool tools.echo message='$5 {braces} C:\\temp'", "$5 {braces} C:\\temp"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_every_form_of_a_call_gives_the_tools_own_value(
    loaded: Kernel, line: str, expected: object
) -> None:
    """Contract 8: `key=value`, `NAME(...)`, `NAME {...}`, flags on both sides, `{expression}`."""
    loaded.execute("mine = [1, 2]")
    loaded.execute(f"x = {line}")
    assert loaded.evaluate("x.data") == repr(expected)
    assert loaded.evaluate("(x.ok, x.error, x.meta['tool'], x.meta['source'])") == repr(
        (True, None, "tools.echo", "magic")
    )


def test_magic_works_at_top_level_in_a_function_in_a_loop_and_assigned(loaded: Kernel) -> None:
    outcome = loaded.execute(
        textwrap.dedent("""
        def double(value):
            result = %tool tools.echo message={value * 2}
            return result.data

        found = []
        for number in (1, 2):
            each = %tool tools.echo message={number}
            found.append(each.data)
        print(found, double(21))
        """)
    )
    assert outcome.stdout == "[1, 2] 42\n"


def test_cell_magic_takes_the_body_as_the_missing_text(loaded: Kernel) -> None:
    loaded.execute(
        "from onetool_ipy import tool\n@tool\n"
        'def count(text: str, of: str = "a") -> int:\n    "Count."\n    return text.count(of)'
    )
    assert loaded.execute("%%tool nb.count of=b\nabb\nbb\n").result_text == "4"
    loaded.execute("%%tool nb.count -o kept\naaa\n")
    assert loaded.evaluate("kept.data") == "3"
    assert loaded.execute("%%tool nb.count --args\ntext: xx\nof: x\n").result_text == "2"


def test_semicolon_hides_the_output(loaded: Kernel) -> None:
    assert loaded.execute("%tool time.now;").result is None


def test_unchecked_sends_what_was_typed_where_a_schema_is_wrong(kernel: Kernel) -> None:
    """A server's schema allows no `extra`; the line, the alias, and the dry run go past it."""
    server = hostile("--schemas")
    folder = kernel.cwd / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text(
        f"version: 1\naliases: {{given: srv.given}}\nservers: {json.dumps({'srv': server})}\n",
        encoding="utf-8",
    )
    kernel.execute("%load_ext onetool_ipy")
    refused = kernel.execute("%tool srv.given query=x extra=5", allow_errors=True)
    assert refused.error is not None
    assert "argument 'extra': no value is allowed here" in refused.text

    kernel.execute("x = %tool srv.given extra=5 urls=a --unchecked")
    assert kernel.execute("x.data").result_text == "{'args': {'extra': 5, 'urls': 'a'}}"
    kernel.execute("y = $given extra=6 --unchecked")
    assert kernel.execute("y.data").result_text == "{'args': {'extra': 6}}"
    assert "extra = 7" in kernel.execute("%tool srv.given extra=7 --unchecked --dry").result_text
    kernel.execute("z = %tool srv.given query='[1]' urls='[\"a\", \"b\"]'")
    assert (
        kernel.execute("z.data").result_text
        == "{'args': {'query': '[1]', 'urls': ['a', 'b'], 'depth': 3}}"
    )
    shown = kernel.execute("%tool srv.given x --dry").result_text
    assert "depth = 3" in shown
    assert "default 3" in kernel.execute("%tool info srv.given").result_text


def test_soft_gives_the_failed_result_instead_of_raising(loaded: Kernel) -> None:
    loaded.execute("x = %tool fs.read_file path=/etc/passwd --soft")
    assert loaded.evaluate("(x.ok, x.error.code, x.error['code'])") == repr(
        (False, "execution_error", "execution_error")
    )
    assert loaded.execute("x").result_text.startswith("failed: ")


def test_pack_files_are_callable_by_name_and_read_again_after_an_edit(kernel: Kernel) -> None:
    """Contract 8: packs of pack files are names; an edited pack file is used by its next call."""
    file = write_pack(
        kernel.cwd,
        '''
        pack = "shop"
        print("imported")

        def price(item: str) -> int:
            """Tell a price."""
            return 1
        ''',
    )
    assert kernel.execute("%load_ext onetool_ipy").text == ""
    first = kernel.execute("%tool shop.price item=tea")
    assert first.result_text == "1"
    assert first.stdout == "imported\n"
    file.write_text(
        file.read_text(encoding="utf-8").replace("return 1", "return 2"), encoding="utf-8"
    )
    assert kernel.execute("shop.price('tea')").result_text == "2"


def test_a_broken_pack_file_is_reported_and_stops_nothing(kernel: Kernel) -> None:
    write_pack(kernel.cwd, 'def good() -> int:\n    "Good."\n    return 1\n', "fine.py")
    write_pack(kernel.cwd, "def broken(:\n", "broken.py")
    write_pack(kernel.cwd, 'import sys\nsys.exit(3)\ndef leave():\n    "Leave."\n', "leaving.py")
    kernel.execute("%load_ext onetool_ipy")
    assert kernel.execute("%tool fine.good").result_text == "1"
    assert "broken.py" in kernel.execute("%tool").result_text
    outcome = kernel.execute("%tool leaving.leave", allow_errors=True)
    assert outcome.error is not None
    assert "SystemExit: 3" in outcome.error.text
    assert len(outcome.error.text.splitlines()) <= 5


def test_bad_configuration_opens_with_what_is_good_and_prints_one_line(kernel: Kernel) -> None:
    """Contract 15: `%load_ext` never fails."""
    write_pack(kernel.cwd, 'def good() -> int:\n    "Good."\n    return 1\n', "fine.py")
    (kernel.cwd / ".onetool" / "onetool.yaml").write_text(
        "version: 1\nhtpp: {}\n", encoding="utf-8"
    )
    outcome = kernel.execute("%load_ext onetool_ipy")
    assert len(outcome.stdout.splitlines()) == 1
    assert "htpp" in outcome.stdout
    assert "onetool.yaml:2" in outcome.stdout
    assert kernel.execute("%tool fine.good").result_text == "1"


@pytest.mark.slow
def test_a_foreign_tool_magic_is_not_overwritten(fresh_kernel: FreshKernel) -> None:
    kernel = fresh_kernel()
    kernel.execute(
        "from IPython.core.magic import register_line_magic\n@register_line_magic\n"
        "def tool(line):\n    return 'foreign'"
    )
    outcome = kernel.execute("%load_ext onetool_ipy")
    assert "%onetool" in outcome.stdout
    assert kernel.execute("%tool x").result_text == "'foreign'"
    assert kernel.execute("%onetool tools.echo message=ours").result_text == "ours"


@pytest.mark.slow
def test_secrets_never_show_in_outputs_or_errors(fresh_kernel: FreshKernel, tmp_path: Path) -> None:
    """Contract 4 and 15: masked wherever shown; a returned value is unaltered."""
    secret = "hunter2-very-secret"
    project = tmp_path / "project"
    write_pack(
        project,
        f'''
        def fail(how: str) -> str:
            """Fail with a secret in the words."""
            if how == "raise":
                raise RuntimeError("GET https://x/?key={secret}")
            if how == "chain":
                try:
                    raise KeyError("{secret}")
                except KeyError as exc:
                    raise ValueError("outer") from exc
            return "{secret}"
        ''',
        "leaky.py",
    )
    (project / ".onetool" / "secrets.yaml").write_text(f"KEY: {secret}\n", encoding="utf-8")
    (project / ".onetool" / "secrets.yaml").chmod(0o600)
    kernel = fresh_kernel(cwd=project)
    kernel.execute("%load_ext onetool_ipy")
    for cell in (
        "%tool leaky.fail how=raise",
        "%tool leaky.fail how=chain",
        "leaky.fail('raise')",
        "leaky.fail('chain')",
        "%tool leaky.fail how=no",
        "%tool why",
        "%tool info leaky.fail",
    ):
        outcome = kernel.execute(cell, allow_errors=True)
        said = json.dumps([outcome.text, outcome.reply, dict(outcome.result or {})], default=str)
        assert secret not in said, cell
    assert kernel.evaluate(f"leaky.fail('no') == '{secret}'") == "True"


def test_reload_picks_up_a_changed_configuration(kernel: Kernel) -> None:
    write_pack(kernel.cwd, 'def good() -> int:\n    "Good."\n    return 1\n', "fine.py")
    kernel.execute("%load_ext onetool_ipy")
    write_pack(kernel.cwd, 'def other() -> int:\n    "Other."\n    return 2\n', "more.py")
    assert kernel.execute("%tool reload").result_text == "OK: Configuration reloaded"
    assert kernel.execute("%tool more.other").result_text == "2"
    assert kernel.execute("more.other()").result_text == "2"


@pytest.mark.slow
def test_config_sets_limits_softness_and_a_default_timeout(fresh_kernel: FreshKernel) -> None:
    """Precedence: flag > `%config OneTool` > file > default."""
    loaded = fresh_kernel()
    loaded.execute("%load_ext onetool_ipy")
    loaded.execute("%config OneTool.max_lines = 3")
    shown = loaded.execute("%tool tools.echo message={list(range(50))}").result_text
    assert "3 of 52 lines" in shown
    loaded.execute("%config OneTool.soft = True")
    assert loaded.execute("%tool nope.nope").result_text.startswith("failed:")
    loaded.execute("%config OneTool.timeout = 0.2")
    loaded.execute(
        "from onetool_ipy import tool\n@tool\ndef spin():\n    'Spin.'\n    while going:\n       "
        " pass\ngoing = True"
    )
    assert "'nb.spin' did not finish within 0.2 s" in loaded.execute("%tool nb.spin").result_text
    assert (
        "'nb.spin' did not finish within 0.1 s"
        in loaded.execute("%tool nb.spin --timeout 0.1").result_text
    )
    loaded.execute("going = False")
    assert "max_lines" in loaded.execute("%config OneTool").text
    loaded.execute("%unload_ext onetool_ipy")
    assert "OneTool" not in loaded.execute("%config").text


@pytest.mark.slow
def test_install_is_one_file_and_undoable(fresh_kernel: FreshKernel) -> None:
    kernel = fresh_kernel()
    kernel.execute("%load_ext onetool_ipy")
    wrote = kernel.execute("%tool install --lazy").result_text
    assert "register_lazy" in wrote
    assert "--remove" in wrote
    kernel.restart()
    assert kernel.evaluate("'onetool_ipy' in get_ipython().extension_manager.loaded") == "False"
    assert kernel.execute("%tool tools.echo message=lazy").text == "lazy"
    kernel.execute("%tool install --always")
    kernel.restart()
    assert kernel.execute("x = %tool tools.echo message=always\nx.data").result_text == "'always'"
    assert "Removed" in kernel.execute("%tool install --remove").result_text
    kernel.restart()
    assert "not found" in kernel.execute("%tool", allow_errors=True).text


_GONE = """
import sys
sys.path[:] = [place for place in sys.path if place != {root!r}]
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in getattr(each, "__module__", "")]
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["always", "lazy"])
def test_the_startup_file_says_nothing_where_the_package_is_gone(
    tmp_path: Path, mode: Mode
) -> None:
    """As after `pip uninstall`, or in another environment that shares the IPython profile."""
    install(tmp_path / "ipython" / "profile_default", mode)
    (tmp_path / "sitecustomize.py").write_text(_GONE.format(root=str(ROOT)), encoding="utf-8")
    asked = "print('here:', [n for n in dir() if 'onetool' in n.lower()]); import onetool_ipy"
    env = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "IPython", "--colors=nocolor", "-c", asked]
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert "No module named 'onetool_ipy'" in ran.stdout + ran.stderr  # it is gone indeed
    assert ran.stdout.startswith("here: []\n")


@pytest.mark.parametrize("body", ["select (1", 'it\'s """ text', "{[(", "select 1;", "a = 1;"])
def test_a_body_is_text_and_need_not_be_python(loaded: Kernel, body: str) -> None:
    """A bracket left open must not break the cell, nor a `;` at the end of a query hide what it
    gives."""
    assert loaded.execute(f"%%tool tools.echo\n{body}\n").result_text == body


def test_a_semicolon_inside_a_value_hides_nothing(loaded: Kernel) -> None:
    assert loaded.execute('%tool tools.echo message="a;"').result_text == "a;"
    assert loaded.execute("%tool search read (a;").result is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tool lsit", ["No tool or command 'lsit'. Did you mean '%tool list'?"]),
        ("%tool stat", ["No tool or command 'stat'. Did you mean '%tool stats'?"]),
        ("%tool ask hello", ["Did you mean '%ask'?"]),
        (
            "%tool tools.echo --message 5",
            ["No flag '--message'.", "An argument has no dashes: message=value."],
        ),
        ("%tool now", ["No tool 'now'.", "'now' is a shortcut: write $now"]),
        (
            "%tool ghost.tell a=1",
            [
                "No tool 'ghost.tell'.",
                "The server 'ghost' did not start.",
                "no command 'no-such-command'",
                "test ghost",
            ],
        ),
    ],
)
def test_a_miss_says_what_the_name_may_have_meant(
    kernel: Kernel, line: str, said: list[str]
) -> None:
    folder = kernel.cwd / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text(
        "aliases: {now: time.now}\nservers: {ghost: {type: stdio, command: no-such-command}}\n",
        encoding="utf-8",
    )
    kernel.execute("%load_ext onetool_ipy")
    outcome = kernel.execute(line, allow_errors=True)
    assert outcome.error is not None
    assert [part for part in said if part not in outcome.error.text] == []
    assert len(outcome.error.text.splitlines()) <= 5


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('"\\ud800 half"', "\\ud800 half"),
        ("10**5000", hex(10**5000)),
        ("[10**5000, '\\ud800']", "\\ud800"),
    ],
)
def test_a_value_that_no_message_can_hold_is_shown_all_the_same(
    loaded: Kernel, value: str, shown: str
) -> None:
    """Contract 4: what JSON cannot hold never breaks a call; neither may it break what the kernel
    sends."""
    outcome = loaded.execute(f"%tool tools.echo message={{{value}}}")
    assert shown in outcome.result_text


@pytest.mark.slow
def test_a_tool_may_be_given_to_ot_instead_of_its_name(loaded: Kernel) -> None:
    loaded.execute(
        'from onetool_ipy import tool\n@tool\ndef twice(n: int) -> int:\n    "Double."\n    return'
        " 2 * n"
    )
    assert loaded.evaluate("list(ot.map(nb.twice, [1, 2])['twice'])") == "[2, 4]"
    assert loaded.evaluate("ot.help(nb.twice) == ot.help('nb.twice')") == "True"


@pytest.mark.parametrize(
    "line", ["x = %tool tools.echo message=5;", "if True:\n    x = %tool tools.echo message=5 ;"]
)
def test_a_semicolon_does_not_take_the_result_from_a_variable(loaded: Kernel, line: str) -> None:
    assert loaded.execute(line).result is None
    assert loaded.evaluate("x.data") == "5"
    loaded.execute('x = %tool tools.echo message="a;"')
    assert loaded.evaluate("x.data") == "'a;'"


def test_a_replay_without_with_says_how_it_is_switched_on(loaded: Kernel) -> None:
    assert (
        "off; switch it on by `with ot.replay(...):`"
        in loaded.execute("ot.replay('calls.jsonl')").result_text
    )


def test_a_wrong_argument_says_what_to_write(loaded: Kernel) -> None:
    loaded.execute(BMI)
    said = {
        "wieght=80": "'nb.bmi': unknown argument 'wieght' (did you mean 'weight'?)\n",
        "weight=80,": "'80,' is not a number: write 80 without the comma",
        'weight="80"': "'80' is not a number: it is text, so write 80 without quotes",
        "weight=80 --flag": "No flag '--flag'.\n  An argument has no dashes: flag=value.",
    }
    for typed, wanted in said.items():
        assert wanted in loaded.execute(f"%tool nb.bmi {typed}", allow_errors=True).text


def test_an_image_of_an_http_tool_is_shown_as_one(loaded: Kernel) -> None:
    loaded.execute(
        "import base64\npng = base64.b64encode(b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 20).decode()"
    )
    shown = loaded.execute(
        "%tool tools.echo message={{'mime': 'image/png', 'base64': png, 'size': 28}}"
    ).result
    odd = loaded.execute(
        "%tool tools.echo message={{'mime': 'image/png', 'base64': '???', 'size': 3}}"
    ).result
    assert shown is not None
    assert shown["image/png"] == loaded.evaluate("png").strip("'")
    assert odd is not None
    assert "image/png" not in odd


def test_the_saved_picture_of_a_table_is_a_table(loaded: Kernel) -> None:
    loaded.execute("import pandas as pd\nrows = [{'city': 'Porto', 'n': n} for n in range(300)]")
    for shown in ("rows", "pd.DataFrame(rows)"):
        picture = loaded.execute(f"ot.view({shown})").displays[0].data["text/html"]
        assert "<table" in picture
        assert ">Porto</td>" in picture
        assert "300 rows" in picture
