"""The settings: defaults, every key read, every mistake named with file, line and key, and the rest
kept."""

from __future__ import annotations

import pytest

from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.settings import AskSettings, Settings
from tests.config.conftest import Project

FULL = """\
version: 1
tools_dir: ["tools/*.py", "more/*.py"]
packs: {brave: {timeout: 5, nested: {a: [1, two]}}}
tools:
  - name: greet
    description: Say hello.
    type: function
    parameters: {type: object}
    implementation: {type: mock, mock_response: {n: 1.5, ok: true, none: null}}
aliases: {ws: brave.web_search}
alias: {now: time.now}
snippets:
  research:
    description: Look it up.
    params: {topic: {description: What}, count: {default: 5, example: 3}, free: null}
    body: "search('{{ topic }}', {{ count }})"
servers:
  github: {type: stdio, command: npx, args: [-y, 8080, true], env: {PORT: 80, DEBUG: false, X: y}}
  docs: {type: http, url: "http://127.0.0.1:9/mcp", headers: {A: b}, trusted: true, sampling: true, roots: [a, ~/b]}
topics: [{pattern: "notes", file: notes.yaml}, {pattern: "a:*", file: a.yaml}]
http:
  allowed_hosts: ["API.example.com", "*.example.org:8443", "[::1]:80"]
  timeout_s: 2.5
  max_response_bytes: 99
  allow_private: true
fs: {roots: [".", data]}
output: {max_inline_bytes: 1, preview_lines: 2, result_ttl_s: 3, max_store_bytes: 4}
stats: {enabled: false, context_per_call: 5, time_overhead_per_call_ms: 6, chars_per_token: 3.5}
models:
  default: local
  local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3}
  big: {provider: openai, model: x, key: OPENAI_KEY, options: {temperature: 0, stop: ["a", "b"], extra: {b: 1.5}}}
ask: {with_tools: false, tool_allow: [brave.*], max_steps: 7, approve: [a.b], max_calls: 3, max_tokens: 4,
  max_seconds: 0.5, context_tokens: 6, stream: false, max_cost: 2}
timeouts: {local_s: 1, mcp_s: 2}
guard: {tools: {"brave.*": {reads: public, sends: api.example.com}}}
state_dir: here
recommended: [brave, fs.read_file]
"""


def test_no_file_gives_the_defaults_of_the_contract(project: Project) -> None:
    """`%load_ext` works in a directory without configuration."""
    config = project.load()
    assert config.settings == Settings()
    assert config.problems == ()
    assert not config.errors
    s = config.settings
    assert s.tools_dir == ("tools/*.py",)
    assert (s.http.allowed_hosts, s.http.timeout_s, s.http.max_response_bytes) == (
        (),
        10,
        5_242_880,
    )
    assert s.http.allow_private is False
    assert s.fs.roots == (".",)
    assert (s.output.max_inline_bytes, s.output.preview_lines) == (50_000, 10)
    assert (s.output.result_ttl_s, s.output.max_store_bytes) == (86_400, 1_073_741_824)
    assert (s.stats.enabled, s.stats.context_per_call) == (True, 30_000)
    assert (s.stats.time_overhead_per_call_ms, s.stats.chars_per_token) == (4_000, 4)
    assert (s.ask.with_tools, s.ask.tool_allow, s.ask.max_steps, s.ask.approve) == (
        True,
        None,
        5,
        (),
    )
    assert (s.ask.max_calls, s.ask.max_tokens, s.ask.max_seconds) == (50, 200_000, 300)
    assert (s.ask.context_tokens, s.ask.stream, s.ask.max_cost) == (100_000, True, None)
    assert (s.timeouts.local_s, s.timeouts.mcp_s) == (8, 30)
    assert s.models.default is None


def test_every_key_is_read(project: Project) -> None:
    """Each key of the settings, with a value that is not its default."""
    config = project.load(FULL)
    assert [
        "ask.approve: is ignored in a project." in str(problem) for problem in config.problems
    ] == [True]
    s = config.settings
    for name in Settings._fields:
        assert name == "version" or getattr(s, name) != getattr(Settings(), name), name
    assert s.packs["brave"].data == {"timeout": 5, "nested": {"a": [1, "two"]}}
    assert s.tools[0].data["implementation"] == {
        "type": "mock",
        "mock_response": {"n": 1.5, "ok": True, "none": None},
    }
    assert s.aliases == {"ws": "brave.web_search", "now": "time.now"}
    assert s.snippets["research"].data == {
        "description": "Look it up.",
        "params": {
            "topic": {"description": "What"},
            "count": {"default": 5, "example": 3},
            "free": {},
        },
        "body": "search('{{ topic }}', {{ count }})",
    }
    assert [(t.pattern, t.file) for t in s.topics] == [("notes", "notes.yaml"), ("a:*", "a.yaml")]
    assert s.http.allowed_hosts == ("api.example.com", "*.example.org:8443", "[::1]:80")
    assert s.http.timeout_s == 2.5
    assert s.models.default == "local"
    assert s.models.named["big"].key == "OPENAI_KEY"
    assert s.models.named["big"].options == {
        "temperature": 0,
        "stop": ["a", "b"],
        "extra": {"b": 1.5},
    }
    assert s.models.named["local"].options == {}
    assert s.models.named["local"].provider == "ollama"
    # A project approves no tool for its user, so `approve` does not count.
    assert s.ask == AskSettings(
        with_tools=False,
        tool_allow=("brave.*",),
        max_steps=7,
        max_calls=3,
        max_tokens=4,
        max_seconds=0.5,
        context_tokens=6,
        stream=False,
        max_cost=2,
    )
    assert s.state_dir == "here"


def test_a_server_has_its_keys_and_the_defaults_of_the_others(project: Project) -> None:
    s = project.load(FULL).settings
    assert s.servers["github"].data == {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "8080", "true"],
        "env": {"PORT": "80", "DEBUG": "false", "X": "y"},
        "cwd": None,
        "inherit": [],
        "enabled": True,
        "trusted": False,
        "sampling": False,
        "roots": [],
        "log_level": "info",
        "protocol": "auto",
        "timeout_s": None,
        "idle_s": None,
    }
    assert s.servers["docs"].data == {
        "type": "http",
        "url": "http://127.0.0.1:9/mcp",
        "headers": {"A": "b"},
        "auth": {},
        "enabled": True,
        "trusted": True,
        "sampling": True,
        "roots": ["a", "~/b"],
        "log_level": "info",
        "protocol": "auto",
        "timeout_s": None,
        "idle_s": None,
    }


def test_entries_know_where_they_stand(project: Project) -> None:
    """Tools, servers, snippets, packs and models carry `file:line` for the messages of others."""
    s = project.load(FULL).settings
    assert s.tools[0].where == ".onetool/onetool.yaml:5"
    assert s.servers["docs"].where == ".onetool/onetool.yaml:19"
    assert s.snippets["research"].where == ".onetool/onetool.yaml:13"
    assert s.packs["brave"].where == ".onetool/onetool.yaml:3"
    assert s.models.named["local"].where == ".onetool/onetool.yaml:31"


def test_settings_are_frozen() -> None:
    """A value is changed by making another one."""
    s = Settings()
    with pytest.raises(AttributeError):
        s.version = 2  # type: ignore[misc]  # the point of the test
    with pytest.raises(AttributeError):
        s.http.extra = 1  # type: ignore[attr-defined]  # the point of the test
    changed = s._replace(http=s.http._replace(timeout_s=3))
    assert (changed.http.timeout_s, s.http.timeout_s) == (3, 10)
    with pytest.raises(TypeError):
        s.aliases["a"] = "b"  # type: ignore[index]  # the point of the test


ERRORS = {
    "unknown key": ("a: 1\nhtpp: {}\n", "2: htpp: unknown key. Did you mean 'http'?"),
    "unknown inner key": (
        "http:\n  timeout: 5\n",
        "2: http.timeout: unknown key. Did you mean 'timeout_s'?",
    ),
    "wrong case": ("Aliases: {a: b.c}\n", "1: Aliases: unknown key. Did you mean 'aliases'"),
    "not a number": ("http:\n  timeout_s: abc\n", "2: http.timeout_s: 'abc' is not a number."),
    "boolean for a number": (
        "http: {timeout_s: true}\n",
        "1: http.timeout_s: 'True' is not a number.",
    ),
    "zero seconds": (
        "timeouts:\n  local_s: 0\n",
        "2: timeouts.local_s: '0' is too small; it must be more than 0.",
    ),
    "negative": (
        "output: {preview_lines: -1}\n",
        "1: output.preview_lines: '-1' is too small; it must be at least 0.",
    ),
    "half a line": (
        "output: {preview_lines: 1.5}\n",
        "1: output.preview_lines: '1.5' is not a whole number.",
    ),
    "too many steps": (
        "ask: {max_steps: 100000}\n",
        "1: ask.max_steps: '100000' is too large; it may be at most 1000.",
    ),
    "not a boolean": (
        "stats: {enabled: maybe}\n",
        "1: stats.enabled: 'maybe' is not true or false.",
    ),
    "number for a boolean": (
        "stats: {enabled: 1}\n",
        "1: stats.enabled: '1' is not true or false.",
    ),
    "section is a list": ("http: [1]\n", "1: http: '[1]' is not 'key: value' lines."),
    "section is text": ("\nservers: github\n", "2: servers: 'github' is not 'key: value' lines."),
    "tools is a mapping": ("tools: {name: x}\n", "1: tools: '{'name': 'x'}' is not a list."),
    "recommended numbers": (
        "recommended: [1, 2]\n",
        "1: recommended: '[1, 2]' is not a list of texts.",
    ),
    "list of numbers": ("fs: {roots: [1, 2]}\n", "1: fs.roots: '[1, 2]' is not a list of texts."),
    "NUL in a list": (
        'fs: {roots: [".", "a\\0b"]}\n',
        "1: fs.roots: '['.', 'a\\x00b']' is not a list of texts.",
    ),
    "NUL in a text": (
        'topics: [{pattern: x, file: "a\\0b"}]\n',
        "1: topics[0].file: 'a?b' is empty or holds a NUL character.",
    ),
    "url as host": (
        "http:\n  allowed_hosts:\n    - ok.org\n    - https://api.example.com/x\n",
        "4: http.allowed_hosts[1]: 'https://api.example.com/x' is not a host.",
    ),
    "any host": ("http: {allowed_hosts: ['*']}\n", "1: http.allowed_hosts[0]: '*' is not a host."),
    "port": (
        "http: {allowed_hosts: ['a.b:99999']}\n",
        "1: http.allowed_hosts[0]: 'a.b:99999' is not a host.",
    ),
    "duplicate section": (
        "fs: {roots: [a]}\nhttp: {}\nfs: {}\n",
        "3: fs: is written twice; line 1 counts",
    ),
    "duplicate key": (
        "http:\n  timeout_s: 1\n  timeout_s: 2\n",
        "3: http.timeout_s: is written twice; line 2 counts",
    ),
    "version": ("version: 2\n", "1: version: '2' is not a version this release knows."),
    "alias target": ("aliases:\n  ws: [a]\n", "2: aliases.ws: '['a']' is not text."),
    "alias without target": ("aliases:\n  ws:\n", "2: aliases.ws: names no tool."),
    "alias name": ("aliases: {'a-b': c.d}\n", "1: aliases.a-b: 'a-b' is not a name."),
    "alias twice": (
        "aliases: {a: b.c}\nalias: {a: d.e}\n",
        "2: alias.a: is ignored, since 'aliases' has this name.",
    ),
    "topic without file": ("topics:\n  - {pattern: x}\n", "2: topics[0]: has no 'file'."),
    "topic is text": ("topics: [notes]\n", "1: topics[0]: 'notes' is not 'key: value' lines."),
    "provider": (
        "models: {a: {provider: opnai, model: x}}\n",
        (
            "1: models.a.provider: 'opnai' is not one of openai, ollama, gemini, anthropic. Did you"
            " mean 'openai'?"
        ),
    ),
    "model's key": (
        "models: {a: {provider: openai, model: x, api_key: y}}\n",
        "1: models.a.api_key: unknown key.",
    ),
    "default model": (
        "models: {default: lokal, local: {provider: ollama, model: x}}\n",
        "1: models.default: there is no model 'lokal'. Did you mean 'local'?",
    ),
    "pack is text": ("packs: {brave: fast}\n", "1: packs.brave: 'fast' is not 'key: value' lines."),
    "fault in a pack": ("packs: {brave: {a: .nan}}\n", "1: packs.brave.a: '.nan' is not a number"),
    "state_dir": ("state_dir: 7\n", "1: state_dir: '7' is not text. Put it in quotes."),
    **{
        f"ask: {value}": (f"ask: {{{value}}}\n", f"1: ask.{value.partition(':')[0]}: ")
        for value in (
            "max_calls: 0",
            "max_tokens: many",
            "max_seconds: 0",
            "context_tokens: -1",
            "stream: 7",
            "max_call: 3",
        )
    },
    **{
        f"options of a model: {options}": (
            f"models: {{m: {{provider: openai, model: x, options: {options}}}}}\n",
            f"1: models.m.options{said}",
        )
        for options, said in {
            "{messages: []}": (
                ".messages: 'messages' is set by %ask itself and cannot be an option."
            ),
            "{stream: true}": ".stream: 'stream' is set by %ask itself",
            "{limit: .nan}": ".limit: '.nan' is not a number that JSON can hold",
            "[temperature]": ": '['temperature']' is not 'key: value' lines",
            "7": ": '7' is not 'key: value' lines",
        }.items()
    },
    "control characters in a key": ('"a\\u0007b": 1\n', "1: a?b: unknown key."),
}


@pytest.mark.parametrize(("text", "said"), ERRORS.values(), ids=ERRORS.keys())
def test_error_names_file_line_and_key(project: Project, text: str, said: str) -> None:
    """It is one line, and `open_toolbox(path)` can raise it."""
    config = project.load(text + "timeouts: {mcp_s: 77}\n" if "timeouts" not in text else text)
    found = [str(p) for p in config.errors]
    assert any(line.startswith(f".onetool/onetool.yaml:{said}") for line in found), found
    assert all("\n" not in line for line in found)
    assert config.errors
    assert "timeouts" in text or config.settings.timeouts.mcp_s == 77


ENTRIES = {
    "tool is text": (
        "tools:\n  - {name: good}\n  - oops\n",
        "3: tools[1]: 'oops' is not 'key: value' lines.",
    ),
    "tool is nothing": (
        "tools:\n  - {name: good}\n  -\n",
        "3: tools[1]: 'None' is not 'key: value' lines.",
    ),
    "tool with a fault": (
        "tools:\n  - {name: good}\n  - {x: !!binary aGk=}\n",
        "3: tools[1].x: the tag '!!binary'",
    ),
    "tool with a key twice": (
        "tools:\n  - {name: good}\n  - {x: 1, x: 2}\n",
        "3: tools[1].x: is written twice.",
    ),
    "server's name": (
        "servers:\n  good: {command: x}\n  a.b: {command: x}\n",
        "3: servers.a.b: 'a.b' is not a server's name.",
    ),
    **{
        f"server: {server}": (
            f"servers:\n  good: {{command: x}}\n  bad: {server}\n",
            f"3: servers.bad{said}",
        )
        for server, said in {
            "": ": has no 'command'.",
            "{}": ": has no 'command'.",
            "{type: pipe, url: 'http://x'}": ".type: 'pipe' is not one of stdio, http, sse.",
            "{command: x, arg: [1]}": ".arg: unknown key. Did you mean 'args'?",
            "{type: http, url: 'http://x', command: x}": ".command: unknown key.",
            "{url: 'ftp://x'}": ".url: 'ftp://x' is not an http:// or https:// address.",
            "{url: 'http://h.example/mcp'}": (
                ".url: 'http://h.example/mcp' is plain http to another machine."
            ),
            "{url: 'http://127.0.0.1@evil.example/'}": (
                ".url: 'http://127.0.0.1@evil.example/' is plain http to"
            ),
            "{url: 'https://:80/x'}": (
                ".url: 'https://:80/x' is not an http:// or https:// address."
            ),
            '{url: "https://h/", headers: {A: "b\\nC: d"}}': (
                ".headers.A: 'b?C: d' is not a header's value."
            ),
            "{command: x, inherit: [A=1]}": (
                ".inherit[0]: 'A=1' is not the name of an environment variable."
            ),
            "{command: x, timeout_s: 0}": ".timeout_s: '0' is too small; it must be more than 0.",
            "{command: x, idle_s: soon}": ".idle_s: 'soon' is not a number.",
            "{command: x, enabled: 2}": ".enabled: '2' is not true or false.",
            "{command: x, args: -y}": ".args: '-y' is not a list.",
            "{command: x, env: {A: .inf}}": ".env.A: '.inf'",
        }.items()
    },
    **{
        f"server's sign-in: {auth}": (
            (
                'servers:\n  good: {command: x}\n  bad: {url: "https://a.example/mcp", auth:'
                f" {auth}}}\n"
            ),
            f"3: servers.bad.auth{said}",
        )
        for auth, said in {
            "yes": ": 'yes' is not 'key: value' lines.",
            "{scope: [a]}": ".scope: unknown key. Did you mean 'scopes'?",
            "{scopes: [a b]}": ".scopes[0]: 'a b' is not a scope.",
            "{grant: password}": ".grant: 'password' is not",
            "{issuer: 'http://a.example'}": (
                ".issuer: 'http://a.example' is plain http to another machine."
            ),
            "{redirect_uri: 'javascript:1'}": (
                ".redirect_uri: 'javascript:1' is not an http:// or https:// address."
            ),
            "{client_metadata_url: 'https://a.example/'}": (
                ".client_metadata_url: 'https://a.example/' is not"
            ),
            "{client_id: a, client_secret: canary}": ".client_secret: is written out here.",
            "{client_secret: '${A_SECRET}'}": ": has a 'client_secret' and no 'client_id'.",
            "{grant: client_credentials, client_id: a, issuer: 'https://a.example'}": (
                ": needs a 'client_secret' or"
            ),
            "{grant: client_credentials, client_id: a, client_secret: '${A_SECRET}'}": (
                ": has no 'issuer'."
            ),
        }.items()
    },
    "snippet without body": (
        "snippets:\n  good: {body: x}\n  bad: {description: y}\n",
        "3: snippets.bad: has no 'body'.",
    ),
    "snippet's name": (
        "snippets:\n  good: {body: x}\n  a-b: {body: x}\n",
        "3: snippets.a-b: 'a-b' is not a name.",
    ),
    "snippet's parameter": (
        "snippets:\n  good: {body: x}\n  bad: {body: x, params: {p: {defualt: 5}}}\n",
        "3: snippets.bad.params.p.defualt: unknown key. Did you mean 'default'?",
    ),
    "snippet is text": (
        "snippets:\n  good: {body: x}\n  bad: print(1)\n",
        "3: snippets.bad: 'print(1)' is not",
    ),
}


@pytest.mark.parametrize(("text", "said"), ENTRIES.values(), ids=ENTRIES.keys())
def test_bad_tool_server_or_snippet_stops_nothing(project: Project, text: str, said: str) -> None:
    """It is left out and listed; the others stay, and nothing is raised."""
    config = project.load(text, A_SECRET="some-secret")
    assert str(config.problems[0]).startswith(f".onetool/onetool.yaml:{said}")
    assert "canary" not in str(config.problems)
    assert not config.errors
    config.raise_if_bad()
    s = config.settings
    assert len(s.tools) + len(s.servers) + len(s.snippets) == 1


@pytest.mark.parametrize("name", ["0", "007", "a/b", "x~1y", "12345678901234567890"])
def test_a_name_that_looks_like_a_number_or_a_path_is_a_name(project: Project, name: str) -> None:
    text = f"servers:\n  '7': {{command: x}}\n  '{name}': {{command: [1]}}\n"
    config = project.load(text)
    assert [str(p) for p in config.problems] == [
        f".onetool/onetool.yaml:3: servers.{name}.command: '[1]' is not text."
    ]
    assert list(config.settings.servers) == ["7"]


def test_empty_sections_are_the_defaults(project: Project) -> None:
    """A section whose lines are all commented out is no mistake."""
    text = "".join(f"{name}:\n" for name in Settings._fields if name != "version")
    config = project.load(text)
    assert config.problems == ()
    assert config.settings == Settings()


@pytest.mark.parametrize(
    ("word", "expected"),
    [("yes", True), ("on", True), ("True", True), ("no", False), ("OFF", False)],
)
def test_booleans_as_other_yaml_readers_take_them(
    project: Project, word: str, expected: bool
) -> None:
    """Where a boolean is wanted, yes and no are understood; everywhere else they are text."""
    s = project.load(f"stats: {{enabled: {word}}}\naliases: {{{word}: a.b, y: c.d}}\n").settings
    assert s.stats.enabled is expected
    assert s.aliases == {word: "a.b", "y": "c.d"}


def test_one_model_is_the_default_one(project: Project) -> None:
    """With a single model nobody has to say `default:`."""
    assert (
        project.load("models: {m: {provider: ollama, model: x}}\n").settings.models.default == "m"
    )


@pytest.mark.parametrize("nested", [False, True], ids=["at the top", "under snippets"])
def test_snippets_yaml(project: Project, nested: bool) -> None:
    """The names stand at the top or under `snippets:`; onetool.yaml wins over it; a bad one costs
    itself."""
    lines = ["one: {body: a}", "two: {body: b}", "bad: {}"]
    head, pad = ("snippets:\n", "  ") if nested else ("", "")
    project.write("snippets.yaml", head + "".join(f"{pad}{line}\n" for line in lines))
    config = project.load("snippets: {one: {body: main}}\n")
    assert {name: d.data["body"] for name, d in config.settings.snippets.items()} == {
        "one": "main",
        "two": "b",
    }
    first = 2 if nested else 1
    prefix = "snippets." if nested else ""
    assert [str(p) for p in config.problems] == [
        f".onetool/snippets.yaml:{first + 2}: {prefix}bad: has no 'body'.",
        (
            f".onetool/snippets.yaml:{first}: {prefix}one: is ignored, since"
            " .onetool/onetool.yaml:1 has this name."
        ),
    ]
    assert config.settings.snippets["two"].where == f".onetool/snippets.yaml:{first + 1}"
    assert not config.errors


def test_snippet_bodies_are_not_filled_from_secrets(project: Project) -> None:
    """Contract 15: `${NAME}` in a body is the body's own text."""
    project.write("snippets.yaml", "s: {body: 'x = \"${HOME} ${NOPE}\"'}\n")
    config = project.load()
    assert config.settings.snippets["s"].data["body"] == 'x = "${HOME} ${NOPE}"'
    assert config.problems == ()


def test_prompts(project: Project) -> None:
    """`packs:` of prompts.yaml; a wrong one costs itself."""
    project.write("prompts.yaml", "packs:\n  excel: Read first.\n  bad: [1]\npack: {}\n")
    config = project.load()
    assert config.prompts == {"excel": "Read first."}
    assert [str(p) for p in config.problems] == [
        ".onetool/prompts.yaml:4: pack: unknown key. Did you mean 'packs'?",
        ".onetool/prompts.yaml:3: packs.bad: '[1]' is not text.",
    ]


class TestRaising:
    """`load_config` never raises for content; `raise_if_bad` is for those who want it raised."""

    def test_invalid_config_holds_every_error_and_shows_the_first(self, project: Project) -> None:
        config = project.load("".join(f"x{i}: 1\n" for i in range(9)) + "tools: [1]\n")
        with pytest.raises(InvalidConfig) as caught:
            config.raise_if_bad()
        assert len(caught.value.problems) == 9
        assert len(caught.value.lines()) == 4
        assert ".onetool/onetool.yaml:1: x0: unknown key." in caught.value.message
        assert "6 more" in caught.value.hint

    def test_text_that_is_no_yaml_is_one(self, project: Project) -> None:
        config = project.load("a: [\n")
        assert config.settings == Settings()
        with pytest.raises(InvalidConfig, match=r"onetool\.yaml:\d+: is not valid YAML"):
            config.raise_if_bad()

    def test_good_one_passes(self, project: Project) -> None:
        project.load(FULL).raise_if_bad()


def test_names_in_messages_are_short_and_true(project: Project) -> None:
    """`.onetool/...` inside a project, `~/.onetool/...` for the user's own, the full path for any
    other file."""
    other = project.home / "other.yaml"
    other.write_text("x: 1\n")
    own = project.home / ".onetool" / "onetool.yaml"
    own.parent.mkdir()
    own.write_text("x: 1\n")
    env = {"ONETOOL_STATE": str(project.state)}

    def where(config: Config) -> str:
        return config.problems[0].where

    assert where(project.load("x: 1\n")) == ".onetool/onetool.yaml:1"
    assert (
        where(load_config(env=env, cwd=project.home, home=project.home))
        == "~/.onetool/onetool.yaml:1"
    )
    assert where(load_config(other, env=env, cwd=project.home, home=project.home)) == f"{other}:1"
