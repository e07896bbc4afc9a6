"""What `onetool-ipy init` writes: a commented `.onetool/` folder, or with `--pack NAME` a new pack.

The texts document every key of the settings; a test compares them with `settings`. Unedited, they load to the
defaults plus one example pack. `init_project` never touches a file that exists.

`pack_template` returns the texts of a pack file with two tools, its test, and its settings. The caller writes them and
keeps the files that exist. The settings are the whole text of `onetool.yaml`, with the pack's lines added and
everything else unchanged.
"""

from __future__ import annotations

import keyword
import os
import re
from pathlib import Path

from onetool_ipy.base.errors import InvalidConfig, InvalidTool, UsageProblem
from onetool_ipy.config.paths import CONFIG_NAME, FOLDER

__all__ = ["Written", "init_project", "pack_template"]

_SETTINGS = f"{FOLDER}/{CONFIG_NAME}"


class Written(list[Path]):
    """The files that were written. `left_alone` are the files that existed before."""

    def __init__(self) -> None:
        super().__init__()
        self.left_alone: list[Path] = []


def init_project(folder: Path | str) -> Written:
    """Write a commented `.onetool/` into the folder and return the new files. Raises InvalidConfig if that fails."""
    root = Path(folder) / FOLDER
    out = Written()
    for name, text in _FILES.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = _create(path, text, mode=0o600 if name == "secrets.yaml" else 0o644)
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            raise InvalidConfig(f"Cannot write '{path}': {reason}.") from exc
        (out if is_new else out.left_alone).append(path)
    return out


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


_MAIN = """\
# The settings of this project for onetool_ipy. Every key is optional; the commented lines show defaults or examples.
# Words such as on, yes, no and dates are plain text here; booleans are true and false.
# ${NAME} in packs, servers, models and http is filled from secrets.yaml, then from the environment;
# write $${ for a literal ${. After a change, run ot.reload() in the notebook. A server, model, host or outside folder
# that you add or change here counts after your yes: %tool trust

version: 1

# Pack files, inside this folder: `pack = "name"`, `__all__`, docstrings with Args / Returns / Example.
# tools_dir: ["tools/*.py"]

# Packs and tools that lists show first, marked as recommended. It runs and allows nothing.
# recommended: ["brave", "fs.read_file"]

# A pack's own settings, which it reads with onetool_ipy.sdk.get_config().
# packs:
#   brave: {timeout: 5, key: "${BRAVE_KEY}"}

# Tools defined right here. Kinds of implementation: mock, builtin, internal.
# tools:
#   - name: greeting
#     description: Say hello.
#     type: function
#     handler: greeting
#     parameters: {type: object, properties: {}}
#     implementation: {type: mock, mock_response: "hello"}

# Another name for a tool, written $ws in a cell. (`alias` is accepted too.)
# aliases:
#   ws: brave.web_search

# Pieces of code with parameters, written $name key=value in a cell. More of them go into snippets.yaml.
# snippets:
#   research:
#     description: Search the web for a topic.
#     params:
#       topic: {description: What to search for, example: Python}
#       count: {description: Number of results, default: 5, type: integer}
#     body: |
#       brave.web_search(query="{{ topic }}", count={{ count }})

# MCP servers; their tools are <server>.<tool>. A process gets HOME, PATH and the like, the variables in `inherit`, and
# `env`. `trusted: true` accepts the server's own read-only marks; `timeout_s` limits a call (default timeouts.mcp_s),
# `idle_s` limits the silence within a call. Addresses are https://, or http:// on this machine. `protocol` is auto,
# legacy (servers before 2026) or 2026-07-28; `type: sse` is the older HTTP with two addresses. With `sampling: true`
# the server may ask for a reply of your model; you are asked each time. `log_level` is the least that it logs here.
# servers:
#   github:
#     type: stdio
#     command: npx
#     args: [-y, some-mcp-server]
#     env: {TOKEN: "${GITHUB_TOKEN}"}
#     cwd: "."                      # relative to the folder that holds .onetool/
#     inherit: [HTTPS_PROXY]
#     enabled: true
#     trusted: false
#     sampling: false
#     log_level: info
#     timeout_s: 30
#     idle_s: 10
#     protocol: auto
#   docs: {type: http, url: "http://127.0.0.1:9000/mcp", headers: {Authorization: "Bearer ${DOCS_TOKEN}"}}
#   crm: {type: http, url: "https://crm.example.com/mcp", auth: {scopes: [read]}}   # sign in: %tool server login crm

# Where ot.notify() writes; files are relative to this folder. The first pattern that matches wins.
# topics:
#   - {pattern: "notes", file: notes.yaml}

# HTTP tools reach these hosts only; an empty list allows nothing. allow_private: also 127.0.0.1, 10.x and the like.
# http:
#   allowed_hosts: []               # e.g. ["api.example.com", "*.example.org:8443"]
#   timeout_s: 10
#   max_response_bytes: 5242880
#   allow_private: false

# Folders that fs tools may read, relative to the folder that holds .onetool.
# fs:
#   roots: ["."]

# How much of a result is shown or sent; how much is stored, and for how long.
# output:
#   max_inline_bytes: 50000
#   preview_lines: 10
#   result_ttl_s: 86400
#   max_store_bytes: 1073741824

# Usage counts, and the assumptions behind the two estimates of ot.stats().
# stats:
#   enabled: true
#   context_per_call: 30000
#   time_overhead_per_call_ms: 4000
#   chars_per_token: 4

# Language models. provider: openai, ollama, gemini or anthropic. key: the NAME of a secret, not its value.
# Other parameters to send, as the provider names them, go into options.
# models:
#   default: local
#   local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3, options: {num_ctx: 16384}}
#   big: {provider: openai, model: gpt-x, key: OPENAI_KEY}

# Defaults of %ask. tool_allow: null offers every tool, [] none, or names and pack.* patterns.
# ask:
#   with_tools: true
#   tool_allow: null
#   max_steps: 5
#   approve: []                     # in ~/.onetool/onetool.yaml only: tools that models may run without asking
#   max_calls: 50                   # of one ask: calls, tokens, seconds (without the time you take to answer)
#   max_tokens: 200000
#   max_seconds: 300
#   context_tokens: 100000          # how much of a session is sent
#   stream: true                    # false for servers that cannot stream

# Seconds. local_s limits calls by models, REST, MCP and the command line, not your own.
# timeouts:
#   local_s: 8
#   mcp_s: 30

# Where results, call log and caches go; relative to the folder that holds .onetool. $ONETOOL_STATE wins over it.
# state_dir: ~/.local/state/my-project
"""

_PROMPTS = """\
# Instructions for a pack, shown by ot.packs(info="full") and given to models.
packs: {}
#  example: Prefer example.count for texts.
"""

_SNIPPETS = """\
# Snippets: code with parameters, run as $name key=value in a cell. {{ param }} becomes its value, quoted as needed.
# hello:
#   description: Greet somebody.
#   params:
#     name: {description: Whom to greet, default: world}
#   body: |
#     print("Hello, {{ name }}!")
"""

_SECRETS = """\
# Secrets, one `NAME: "value"` a line, used as ${NAME}. Keep the file mode 0600 and never commit this file.
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

_FILES = {
    CONFIG_NAME: _MAIN,
    "prompts.yaml": _PROMPTS,
    "snippets.yaml": _SNIPPETS,
    "secrets.yaml": _SECRETS,
    ".gitignore": "# Values that belong to you alone, and locks.\nsecrets.yaml\n*.lock\n",
    "tools/example.py": _EXAMPLE,
}


def pack_template(name: str, settings: str = "") -> dict[str, str]:
    """Return path in the project -> text of the file. `settings` is the present text of onetool.yaml.

    Raises InvalidTool for an invalid pack name, UsageProblem if the settings cannot be added.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise InvalidTool(f"'{name}' is not a valid pack name.", hint="Use letters, digits and _, such as brave.")
    return {
        f".onetool/tools/{name}.py": _PACK.replace("NAME", name),
        f"tests/test_{name}.py": _TEST.replace("NAME", name),
        _SETTINGS: _with_settings(settings, name),
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
