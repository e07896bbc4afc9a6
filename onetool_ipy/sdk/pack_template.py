"""`onetool-ipy init --pack NAME`: the texts of a new pack file with two tools, its test, and its settings. Pure.

The caller writes the files and keeps those that exist. The settings are the whole text of `onetool.yaml`, with the
pack's lines added and everything else unchanged.
"""

from __future__ import annotations

import keyword
import re

from onetool_ipy.base.errors import InvalidTool, UsageProblem

__all__ = ["pack_template"]

_MAIN = ".onetool/onetool.yaml"


def pack_template(name: str, settings: str = "") -> dict[str, str]:
    """Return path in the project -> text of the file. `settings` is the present text of onetool.yaml.

    Raises InvalidTool for an invalid pack name, UsageProblem if the settings cannot be added.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise InvalidTool(f"'{name}' is not a valid pack name.", hint="Use letters, digits and _, such as brave.")
    return {
        f".onetool/tools/{name}.py": _PACK.replace("NAME", name),
        f"tests/test_{name}.py": _TEST.replace("NAME", name),
        _MAIN: _with_settings(settings, name),
    }


def _with_settings(text: str, name: str) -> str:
    """Return the text of onetool.yaml with the pack's settings added."""
    own = f"  {name}:\n    greeting: Hello   # read with get_config()\n"
    if not text.strip():
        return f"version: 1\n\npacks:\n{own}"
    found = re.search(r"^packs:(?P<rest>.*)$", text, re.MULTILINE)
    if found is None:
        return f"{text.rstrip()}\n\npacks:\n{own}"
    if found["rest"].split("#")[0].strip() not in ("", "{}"):
        raise UsageProblem(
            f"'packs' in onetool.yaml is written in one line, so '{name}' cannot be added.",
            hint=f"Add it by hand: {name}: {{greeting: Hello}}",
        )
    before, after = text[: found.start()], text[found.end() :].removeprefix("\n")
    indent = re.match(r"(?:[ \t]*(?:#.*)?\n)*(?P<indent> +)\S", after)
    if re.search(rf"^ +{name}:", _block(after), re.MULTILINE):
        return text
    if indent is not None and indent["indent"] != "  ":
        own = own.replace("    ", indent["indent"] * 2).replace(f"  {name}", f"{indent['indent']}{name}", 1)
    comment = found["rest"].strip().removeprefix("{}").strip()
    return f"{before}packs:{f' {comment}' if comment else ''}\n{own}{after}"


def _block(text: str) -> str:
    """Return the indented lines that belong to the key above them."""
    ends = re.search(r"^[^\s#]", text, re.MULTILINE)
    return text[: ends.start()] if ends else text


_PACK = '''\
"""The pack NAME: what its tools have in common, in a line or two."""

from onetool_ipy.sdk import batch_execute, get_config

pack = "NAME"
__all__ = ["greet", "count_words"]

# What the tools need besides Python; `ot.deps()` shows what is missing.
# requires = {"cli": [("rg", "apt install ripgrep")], "lib": ["httpx"]}


def greet(name: str, excited: bool = False) -> str:
    """Greet someone.

    Args:
        name: Whom to greet.
        excited: With an exclamation mark.

    Returns:
        The greeting.

    Example:
        NAME.greet(name="Ada")
    """
    greeting = get_config().get("greeting", "Hello")  # packs: {NAME: {greeting: ...}} in onetool.yaml
    return f"{greeting} {name}{'!' if excited else '.'}"


def count_words(texts: list[str]) -> str:
    """Count the words of several texts at once.

    Args:
        texts: The texts.

    Returns:
        A section for each text.

    Example:
        NAME.count_words(texts=["one two", "three"])
    """
    return batch_execute(texts, _count)


def _count(text: str) -> str:
    return f"{len(text.split())} words"
'''

_TEST = '''\
"""Tests of the pack NAME; run them with `pytest`."""

import os
from pathlib import Path

import pytest

from onetool_ipy import open_toolbox

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture
def NAME(tmp_path):
    """The pack, as a notebook sees it."""
    env = {**os.environ, "ONETOOL_STATE": str(tmp_path)}
    with open_toolbox(PROJECT, env=env) as box:
        yield box.pack("NAME")


def test_greet_uses_the_greeting_of_the_settings(NAME):
    assert NAME.greet(name="Ada") == "Hello Ada."
    assert NAME.greet(name="Ada", excited=True) == "Hello Ada!"


def test_count_words_gives_a_section_for_each_text(NAME):
    assert NAME.count_words(texts=["one two", "three"]) == "=== one two ===\\n2 words\\n\\n=== three ===\\n1 words"
'''
