"""No tool, server, model or file sends a control character to a terminal: every exit shows it
escaped.

One real IPython in a pseudo-terminal and the real command line, over every place where text of
others comes out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.patience import HANG_S
from tests.harness.servers import hostile

ATTACKS = {
    "title": "\x1b]0;OWNED\x07",
    "clear": "\x1b[2J\x1b[H",
    "clipboard": "\x1b]52;c;T1dORUQ=\x07",
    "colour": "\x1b[8mhidden",
    "c1": "\x9b2J",
    "c1-title": "\x9d0;OWNED\x9c",
    "right-to-left": "\u202efdp.exe",
    "isolate": "\u2067txt",
    "return": "\rOVER",
    "backspace": "\x08\x08BACK",
    "bell": "\x07BELL",
    "line": "\u2028LINE",
}
UNSAFE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
EVIL = "".join(f"<{attack}>" for attack in ATTACKS.values())

PACK = f'''"""A pack that attacks the terminal."""
import time

from onetool_ipy.sdk import progress

pack = "evil"
__all__ = ["say", "rows", "nested", "frame", "fail", "slow", "long", "media"]
EVIL = {EVIL!r}


def say(word: str = {EVIL!r}) -> str:
    {EVIL!r}
    return EVIL


def rows() -> list:
    """Rows."""
    return [{{"a": EVIL[:40], EVIL[:8]: 1}}, {{"a": EVIL[40:80], EVIL[:8]: 2}}, {{"a": EVIL[80:], EVIL[:8]: 3}}]


def nested() -> dict:
    """Nested data."""
    return {{"a": {{EVIL: [EVIL, {{"b": EVIL}}]}}, "c": EVIL}}


def frame() -> object:
    """A table."""
    import pandas as pd

    return pd.DataFrame({{EVIL: [EVIL]}})


def fail() -> str:
    """Fails."""
    raise ValueError(EVIL)


def slow() -> None:
    """Takes its time, and tells of it."""
    until = time.monotonic() + 3
    while time.monotonic() < until:
        progress(1, 3, EVIL[:70])
        progress(1, 3, EVIL[70:])


def long() -> str:
    """Is cut."""
    return "\\n".join([EVIL] * 300)


def media() -> object:
    """A resource and a link, as servers give them."""
    from onetool_ipy.render.media import Blocks, Resource, ResourceLink

    return Blocks([EVIL, Resource(EVIL, EVIL, EVIL), ResourceLink(EVIL, EVIL, EVIL)])
'''

CELLS = {
    "result": ["%load_ext onetool_ipy", "%tool evil.say"],
    "table": ["%tool evil.rows"],
    "nested": ["%tool evil.nested"],
    "frame": ["%tool evil.frame"],
    "cut": ["%tool evil.long"],
    "media": ["evil.media()"],
    "failure": ["%tool evil.fail"],
    "soft failure": ["%tool evil.fail --soft"],
    "repr of a failure": ["r = %tool evil.fail --soft", "repr(r)", "r.error"],
    "failure in python": ["evil.fail()"],
    "failure in a snippet": ["$broken"],
    "why": ["%tool why"],
    "page": ["%tool info evil.say"],
    "pack": ["%tool evil"],
    "help": ["ot.help('evil.say')", "ot.help('evil.say', info='full')", "ot.help('evil')"],
    "question mark": ["evil.say?"],
    "list": ["%tool list evil", "ot.tools('evil', info='full')", "ot.packs('evil', info='full')"],
    "history": ["%tool history", "ot.history()"],
    "results": ["%tool results", "ot.results()"],
    "stored lines": ["ot.result(handle=ot.results()[0]['handle'])"],
    "dry": ["w = chr(27) + ']0;OWNED' + chr(7)", "%tool evil.say word={w} --dry"],
    "arguments refused": ["%tool evil.say word={[w]}", "%tool evil.say w={w}"],
    "progress": ["%tool evil.slow"],
    "job": ["j = %tool evil.say --bg", "_ = j.result(30)", "j"],
    "snippet": ["%snippet odd --show", "ot.snippets(info='full')"],
    "browser": ["%tool browse"],
    "health": ["ot.health()"],
    "ask": [
        "from onetool_ipy.llm.scripted import ScriptedModel",
        f"m = ScriptedModel([[{EVIL!a}, ('evil.say', {{}})], {EVIL!a}])",
        "a = %ask --model m --approve evil.say hello",
        "a",
    ],
    "calls of an ask": [
        "m = ScriptedModel([('evil.fail', {}), 'ok'])",
        "a = %ask --model m --approve evil.fail hello",
        "a.calls",
    ],
    "printed answer": [f"a.text = {EVIL!a}", "print(a)"],
    "printed failure": ["print(r.error)"],
    "printed exception": [
        "exec('try: evil.say(word=1, **{w: 1})\\nexcept Exception as e: print(e)')"
    ],
    "server": [
        "%tool server start hostile",
        "%tool server logs hostile",
        "%tool server",
        "%tool hostile",
    ],
    "server's tool": ["%tool info hostile.fail", "hostile.fail?", "%tool hostile.echo text=x"],
    "server's failure": ["%tool hostile.fail", "%tool hostile.refuse", "hostile.fail()"],
}


def _project(folder: Path) -> dict[str, str]:
    """A project that attacks through every file it has; gives the environment that names it."""
    home = folder / ".onetool"
    (home / "tools").mkdir(parents=True)
    (home / "tools" / "evil.py").write_text(PACK, encoding="utf-8")
    config = {
        "version": 1,
        "tools": [{"name": EVIL, "description": EVIL, "type": EVIL}],
        "servers": {"hostile": hostile(f"--attack={json.dumps(EVIL)}")},
        "snippets": {
            "odd": {
                "description": EVIL,
                "body": f"# {EVIL.replace(chr(13), '').replace(chr(0x2028), '')}\n1",
            },
            "broken": {"body": f"raise KeyError({EVIL!a} + chr(27) + '[2J')"},
        },
    }
    (home / "onetool.yaml").write_text(json.dumps(config), encoding="utf-8")
    (home / "prompts.yaml").write_text(json.dumps({"packs": {"evil": EVIL}}), encoding="utf-8")
    return {"ONETOOL_CONFIG": str(home / "onetool.yaml"), "ONETOOL_STATE": str(folder / "state")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("evil")
    named = _project(folder)
    return folder, {
        **os.environ,
        **named,
        "TERM": "dumb",
        "COLUMNS": "2000",
        "IPYTHONDIR": str(folder / "ipython"),
    }


@pytest.fixture(scope="module")
def shown(project: tuple[Path, dict[str, str]]) -> Mapping[str, str]:
    """What a real terminal got of each of the cells."""
    folder, env = project
    typed: list[str] = []
    for name, lines in CELLS.items():
        typed += [f"print('@@' + {name!r} + '@@')", *lines]
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--simple-prompt",
        "--no-banner",
        "--no-confirm-exit",
    ]
    text = run_in_terminal(
        command, "\n".join([*typed, "%unload_ext onetool_ipy", "exit", ""]), folder, env
    )
    found = dict(zip(*[iter(re.split(r"@@([^@]+)@@", text)[1:])] * 2, strict=True))
    assert list(found) == list(CELLS), text
    return found


def run_in_terminal(command: list[str], typed: str, folder: Path, env: Mapping[str, str]) -> str:
    """All that a program writes to its terminal, while this is typed."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    process = subprocess.Popen(
        command, cwd=folder, env=dict(env), stdin=subprocess.PIPE, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    assert process.stdin is not None
    process.stdin.write(typed.encode())
    process.stdin.close()
    read: list[bytes] = []
    try:
        while piece := os.read(ours, 65_536):
            read.append(piece)
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
    process.wait(HANG_S)
    return b"".join(read).decode("utf-8").replace("\r\n", "\n")


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
@pytest.mark.parametrize("exit_name", CELLS)
def test_a_terminal_gets_no_control_characters(shown: Mapping[str, str], exit_name: str) -> None:
    text = shown[exit_name]
    assert [name for name, attack in ATTACKS.items() if attack in text] == []
    plain = re.sub(r"\r\x1b\[K|\x1b\[[0-9;]*m", "", text)
    assert re.findall(f".{{0,30}}{UNSAFE}.{{0,30}}", plain) == []


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
@pytest.mark.parametrize(
    "exit_name", [name for name in CELLS if name not in ("job", "history", "results")]
)
def test_what_is_escaped_is_still_seen(shown: Mapping[str, str], exit_name: str) -> None:
    assert re.search(r"(\\x1b|\\u001b|\?)\]0;OWNED", shown[exit_name])


COMMANDS = {
    "list": ["tools", "list"],
    "list as JSON": ["tools", "list", "--json"],
    "info": ["tools", "info", "evil.say"],
    "invoke": ["tools", "invoke", "evil.nested"],
    "failure": ["tools", "invoke", "evil.fail"],
    "missing": ["tools", "invoke", f"evil.{ATTACKS['title']}"],
    "health": ["health"],
}


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_writes_no_control_characters(
    project: tuple[Path, dict[str, str]], command: str
) -> None:
    folder, env = project
    text = run_in_terminal(
        [sys.executable, "-m", "onetool_ipy", *COMMANDS[command]], "", folder, env
    )
    assert re.findall(UNSAFE, text) == []
    assert r"]0;OWNED" in text


@pytest.mark.slow
def test_json_on_stdout_means_the_same(project: tuple[Path, dict[str, str]]) -> None:
    folder, env = project
    command = [sys.executable, "-m", "onetool_ipy", "tools", "invoke", "evil.say"]
    ran = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, check=True, timeout=HANG_S
    )
    assert json.loads(ran.stdout)["data"] == EVIL
