"""What `onetool-ipy init` writes: a commented `.onetool/` folder, or with `--pack NAME` a new pack.

The text of onetool.yaml is made from `onetool.schema.json`: every key with its description, and its
default or an example in comments. Unedited, the files load to the defaults plus one example pack.
`init_project` never touches a file that exists. The schema is written beside the settings, where
editors find it.

`pack_template` returns the texts of a pack file with two tools, its test, and its settings. The
caller writes them and keeps the files that exist. The settings are the whole text of
`onetool.yaml`, with the pack's lines added and everything else unchanged.
"""

from __future__ import annotations

import json
import keyword
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onetool_ipy.base.errors import InvalidConfig, InvalidTool
from onetool_ipy.config.check import SCHEMA_FILE, resolved, settings_schema
from onetool_ipy.config.edit import with_pack
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER

_SETTINGS = f"{FOLDER}/{CONFIG_NAME}"
_WIDTH = 120
_COMMENT_COLUMN = 34

_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA_FILE.name}
#
# The settings of this project for onetool_ipy. Every key is optional; the commented lines show \
defaults or examples.
# Words such as on, yes, no and dates are plain text here; booleans are true and false.
# ${{NAME}} in packs, servers, models and http is filled from secrets.yaml, then from the \
environment;
# write $${{ for a literal ${{. After a change, run ot.reload() in the notebook. A server, model, \
host or outside folder
# that you add or change here counts after your yes: %tool trust

version: 1
"""

_PROMPTS = """\
# Instructions for a pack, shown by ot.packs(info="full") and given to models.
packs: {}
#  example: Prefer example.count for texts.
"""

_SNIPPETS = """\
# Snippets: code with parameters, run as $name key=value in a cell. {{ param }} becomes its value, \
quoted as needed.
# hello:
#   description: Greet somebody.
#   params:
#     name: {description: Whom to greet, default: world}
#   body: |
#     print("Hello, {{ name }}!")
"""

_SECRETS = """\
# Secrets, one `NAME: "value"` a line, used as ${NAME}. Keep the file mode 0600 and never commit \
this file.
"""

_EXAMPLE = '''\
"""An example pack: edit or delete it. Every name in `__all__` is a tool `example.<name>`."""

pack = "example"

__all__ = ["count"]


def count(text: str, longest: int = 3) -> dict[str, object]:
    """Count words, and list the longest ones.

    Args:
        text: The text to look at.
        longest: How many of the longest words to give.

    Returns:
        The number of words, and the longest words.

    Example:
        example.count(text="one three five", longest=1)
    """
    words = text.split()
    return {"words": len(words), "longest": sorted(words, key=len, reverse=True)[:longest]}
'''

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
    # onetool.yaml has it as packs: {NAME: {greeting: ...}}
    greeting = get_config().get("greeting", "Hello")
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
    counts = NAME.count_words(texts=["one two", "three"])

    assert counts == "=== one two ===\\n2 words\\n\\n=== three ===\\n1 words"
'''


class Written(list[Path]):
    """The files that were written. `left_alone` are the files that existed before."""

    def __init__(self) -> None:
        super().__init__()
        self.left_alone: list[Path] = []


def init_project(folder: Path | str) -> Written:
    """Write a commented `.onetool/` into the folder and return the new files. Raises InvalidConfig
    if that fails."""
    root = Path(folder) / FOLDER
    files = {
        CONFIG_NAME: settings_text(),
        "prompts.yaml": _PROMPTS,
        "snippets.yaml": _SNIPPETS,
        "secrets.yaml": _SECRETS,
        ".gitignore": "# Values that belong to you alone, and locks.\nsecrets.yaml\n*.lock\n",
        "tools/example.py": _EXAMPLE,
        SCHEMA_FILE.name: SCHEMA_FILE.read_text(encoding="utf-8"),
    }
    written = Written()
    for name, text in files.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = _create(path, text, mode=0o600 if name == "secrets.yaml" else 0o644)
        except OSError as exc:
            if root.parent.is_file():
                hint = "Name the folder of the project."
                raise InvalidConfig(f"'{root.parent}' is a file, not a folder.", hint=hint) from exc
            reason = (exc.strerror or str(exc)).lower()
            raise InvalidConfig(f"Cannot write '{path}': {reason}.") from exc
        (written if is_new else written.left_alone).append(path)
    return written


def _create(path: Path, text: str, *, mode: int) -> bool:
    """Write a new file. Return False if the name is taken, also by a link."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError:
        path.unlink()  # the next run would keep half a file
        raise
    return True


def settings_text() -> str:
    """Return a commented onetool.yaml that documents every key of the schema."""
    schema = settings_schema()
    blocks = [_HEAD]
    for name, node in schema["properties"].items():
        if name not in ("version", "alias"):
            words = textwrap.wrap(node["description"], _WIDTH - 2)
            blocks.append(
                "".join(
                    f"# {line}\n"
                    for line in [*words, *_lines(name, resolved(node, schema), schema)]
                )
            )
    return "\n".join(blocks)


def _lines(name: str, node: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """A key with its default, or with an example where it has none; each line with what it means,
    where that fits."""
    import yaml

    if node.get("additionalProperties") is False:
        yield f"{name}:"
        for key, inner in node["properties"].items():
            line, words = f"  {key}: {json.dumps(inner['default'])}", inner["description"]
            if len(commented := f"{line:<{_COMMENT_COLUMN}}# {words}") <= _WIDTH - 2:
                yield commented
            else:
                yield from (f"  # {row}" for row in textwrap.wrap(words, _WIDTH - 6))
                yield line
        return
    value = node["examples"][0] if "examples" in node else node["default"]
    if not isinstance(value, dict) and "items" not in node:
        yield f"{name}: {json.dumps(value)}"
        return
    entry = resolved(node.get("additionalProperties", {}), schema).get("properties", {})
    descriptions = {key: inner["description"] for key, inner in entry.items()}
    for line in yaml.safe_dump(
        {name: value}, sort_keys=False, default_flow_style=None, width=_WIDTH
    ).splitlines():
        # Each key of an entry is explained where it is first seen.
        key = line.partition(":")[0].strip()
        commented = f"{line:<{_COMMENT_COLUMN}}# {descriptions.pop(key, '')}"
        is_fit = (
            len(line) < _COMMENT_COLUMN
            and len(commented) <= _WIDTH - 2
            and not commented.endswith("# ")
        )
        yield commented if is_fit else line


def pack_template(name: str, settings: str = "") -> dict[str, str]:
    """Return path in the project -> text of the file. `settings` is the present text of
    onetool.yaml.

    Raises InvalidTool for an invalid pack name, UsageProblem if the settings cannot be added.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise InvalidTool(
            f"'{name}' is not a valid pack name.", hint="Use letters, digits and _, such as brave."
        )
    return {
        f".onetool/tools/{name}.py": _PACK.replace("NAME", name),
        f"tests/test_{name}.py": _TEST.replace("NAME", name),
        _SETTINGS: with_pack(settings, name),
    }
