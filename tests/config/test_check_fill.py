"""`${NAME}`: where it is filled, with what, and what a missing name costs."""

from __future__ import annotations

import pytest

from onetool_ipy.config.check import BadTemplate, UnknownName, fill
from tests.config.conftest import Project

NAMES = {"A": "one", "B_2": "two", "EMPTY": "", "DOLLAR": "${A} $& \\1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "one"),
        ("x${A}y${B_2}z", "xoneytwoz"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$${${A}", "${one"),
        ("$A $ {A} $$ $", "$A $ {A} $$ $"),
        ("[${EMPTY}]", "[]"),
        ("${DOLLAR}", "${A} $& \\1"),
    ],
)
def test_fill(text: str, expected: str) -> None:
    """`$${` is literal; what was filled in is not looked at again."""
    assert fill(text, NAMES.get) == expected


@pytest.mark.parametrize(
    "text", ["${", "${}", "${A", "${A B}", "${1}", "${A:-x}", "${ A }", "${é}", "a ${A} ${"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    """A typing error does not travel on as text."""
    with pytest.raises(BadTemplate):
        fill(text, NAMES.get)


def test_missing_name_is_told() -> None:
    """The exception knows which one."""
    with pytest.raises(UnknownName) as caught:
        fill("${A} ${NOPE}", NAMES.get)
    assert caught.value.name == "NOPE"


FOUR = """\
packs: {brave: {key: "${TOKEN}", list: ["${TOKEN}", {deep: "x-${TOKEN}"}]}}
servers:
  gh: {command: "${TOKEN}", args: ["--t=${TOKEN}", "$${TOKEN}"], env: {T: "${TOKEN}"}}
  docs: {url: "https://h/${TOKEN}", headers: {Authorization: "Bearer ${TOKEN}"}}
models: {m: {provider: openai, model: "${TOKEN}", base_url: "http://h/${TOKEN}"}}
http: {allowed_hosts: ["${HOST}"], timeout_s: "${SECONDS}", allow_private: "${PRIVATE}"}
aliases: {ws: "${TOKEN}"}
tools: [{name: "${TOKEN}"}]
fs: {roots: ["${TOKEN}"]}
"""


def test_filled_in_packs_servers_models_and_http_only(project: Project) -> None:
    """From secrets, then the environment; numbers and booleans are read out of the text."""
    project.write("secrets.yaml", "TOKEN: s3cr3t-value\n")
    config = project.load(
        FOUR, TOKEN="from-env", HOST="api.example.com", SECONDS="2.5", PRIVATE="true"
    )
    assert config.problems == ()
    s = config.settings
    assert s.packs["brave"].data == {
        "key": "s3cr3t-value",
        "list": ["s3cr3t-value", {"deep": "x-s3cr3t-value"}],
    }
    assert s.servers["gh"].data["command"] == "s3cr3t-value"
    assert s.servers["gh"].data["args"] == ["--t=s3cr3t-value", "${TOKEN}"]
    assert s.servers["gh"].data["env"] == {"T": "s3cr3t-value"}
    assert s.servers["docs"].data["headers"] == {"Authorization": "Bearer s3cr3t-value"}
    assert s.models.named["m"].base_url == "http://h/s3cr3t-value"
    assert (s.http.allowed_hosts, s.http.timeout_s, s.http.allow_private) == (
        ("api.example.com",),
        2.5,
        True,
    )
    assert s.aliases == {"ws": "${TOKEN}"}
    assert s.tools[0].data == {"name": "${TOKEN}"}
    assert s.fs.roots == ("${TOKEN}",)


MISSING = """\
packs:
  brave:
    key: "${NOPE}"
    timeout: 5
    hosts: [a, "${NOPE}"]
servers:
  bad:
    command: x
    env:
      T: "${NOPE}"
  good: {command: x}
models:
  bad: {provider: openai, model: "${NOPE}"}
  good: {provider: openai, model: x}
http:
  timeout_s: "${NOPE}"
  allowed_hosts: [a.org, "${NOPE}"]
"""


def test_missing_name_leaves_out_what_needs_it(project: Project) -> None:
    """A whole server or model; in packs and http the one value. It is a problem, not an error:
    machines differ."""
    config = project.load(MISSING)
    words = "${NOPE} is neither in secrets.yaml nor in the environment. Add NOPE to one of them."
    assert sorted(map(str, config.problems)) == sorted(
        f".onetool/onetool.yaml:{line}: {key}: {words}"
        for line, key in [
            (3, "packs.brave.key"),
            (5, "packs.brave.hosts[1]"),
            (10, "servers.bad.env.T"),
            (13, "models.bad.model"),
            (16, "http.timeout_s"),
            (17, "http.allowed_hosts[1]"),
        ]
    )
    assert not config.errors
    s = config.settings
    assert s.packs["brave"].data == {"timeout": 5, "hosts": ["a"]}
    assert list(s.servers) == ["good"]
    assert list(s.models.named) == ["good"]
    assert (s.http.timeout_s, s.http.allowed_hosts) == (10, ("a.org",))


def test_default_model_that_was_left_out_is_not_called_unknown(project: Project) -> None:
    """One problem for one cause."""
    config = project.load('models: {default: m, m: {provider: openai, model: "${NOPE}"}}\n')
    assert len(config.problems) == 1
    assert config.settings.models.default is None


def test_bad_template_is_an_error(project: Project) -> None:
    """It names the text as it was written."""
    config = project.load('packs: {p: {a: "${oops"}}\n')
    (error,) = config.errors
    assert str(error).startswith(
        ".onetool/onetool.yaml:1: packs.p.a: '${oops' has a '${' without 'NAME}'."
    )
    assert error.hint == "Write ${NAME}, or $${ for a literal '${'."


@pytest.mark.parametrize(
    "text",
    [
        'http: {timeout_s: "${TOKEN}"}',
        'http: {allowed_hosts: ["${TOKEN}"]}',
        'http: {allowed_hosts: [1, "${TOKEN}"]}',
        'http: {allowed_hosts: ["${NOPE}", a.org, "${TOKEN}"]}',
        'models: {m: {provider: "${TOKEN}", model: x}}',
        'servers: {s: {url: "${TOKEN}"}}',
        'servers: {s: {type: "${TOKEN}"}}',
        'servers: {s: {command: x, args: "${TOKEN}"}}',
        'servers: {s: {command: x, env: ["${TOKEN}"]}}',
        'servers: {s: {command: x, env: {A: ["${TOKEN}"]}}}',
        'packs: {p: "${TOKEN}"}',
        'models: "${TOKEN}"',
    ],
)
@pytest.mark.parametrize("secret", ["a b/c", "12345 not", "long secret value"])
def test_message_about_a_filled_value_shows_the_template(
    project: Project, text: str, secret: str
) -> None:
    """Also where the secret is too short to be masked."""
    project.write("secrets.yaml", f'TOKEN: "{secret}"\n')
    config = project.load(text + "\n")
    assert config.problems
    assert secret not in " ".join(map(str, config.problems))
