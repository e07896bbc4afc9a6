"""Secrets: read from a file of mode 0600, looked up by name, and gone from every text in every spelling."""

from __future__ import annotations

import base64
import copy
import html
import json
import pickle
import re
import string
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.base.masking import Secrets
from onetool_ipy.config.load import simple_lines
from onetool_ipy.config.yaml_text import parse
from tests.config.conftest import Project

HARD = "pä55/w+rd \"quoted\" & <b>\\n'x'=?"


def hidden(*values: str) -> Secrets:
    return Secrets({f"S{i}": value for i, value in enumerate(values)}, {})


SPELLINGS = {
    "as it is": lambda s: s,
    "quote": quote,
    "quote, slash too": lambda s: quote(s, safe=""),
    "quote, lower case": lambda s: "".join(
        c if c.isascii() and c.isalnum() else "".join(f"%{b:02x}" for b in c.encode()) for c in s
    ),
    "quote, few characters": lambda s: quote(s, safe=string.punctuation.replace("%", "")),
    "quote_plus": quote_plus,
    "JSON": lambda s: json.dumps(s)[1:-1],
    "JSON, not ASCII": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda s: json.dumps(json.dumps(s)),
    "JSON, escaped slash": lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
    "repr": lambda s: repr(s)[1:-1],
    "ascii": lambda s: ascii(s)[1:-1],
    "HTML": html.escape,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64, urlsafe": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64, no padding": lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
    "base64 in a URL": lambda s: quote(base64.b64encode(s.encode()).decode(), safe=""),
    "basic auth": lambda s: base64.b64encode(f"user:{s}".encode()).decode(),
    "basic auth, as user": lambda s: base64.b64encode(f"{s}:".encode()).decode(),
    "base64 at 1": lambda s: base64.b64encode(f"x{s}tail".encode()).decode(),
    "base64 at 2": lambda s: base64.b64encode(f"xy{s}tail".encode()).decode(),
    "base64 at 3": lambda s: base64.urlsafe_b64encode(f"xyz{s}t".encode()).decode(),
}


def hexed(prefix: str, width: int = 2, suffix: str = "") -> Any:
    return lambda s: "".join(f"{prefix}{ord(c):0{width}x}{suffix}" for c in s)


def percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


DISGUISES: dict[str, Any] = {
    "HTML, decimal": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "HTML, decimal, zeros": lambda s: "".join(f"&#{ord(c):07d};" for c in s),
    "HTML, hexadecimal": hexed("&#x", 2, ";"),
    "HTML, hexadecimal, zeros": lambda s: "".join(f"&#X{ord(c):06X};" for c in s),
    "HTML, every second letter": lambda s: "".join(
        f"&#{ord(c)};" if i % 2 else html.escape(c) for i, c in enumerate(s)
    ),
    "percent, all": percent,
    "percent, all, mixed case": lambda s: "".join(x if i % 2 else x.lower() for i, x in enumerate(percent(s))),
    "percent, twice": lambda s: quote(quote(s, safe=""), safe=""),
    "percent, three times": lambda s: quote(quote(quote(s, safe=""), safe=""), safe=""),
    "percent, all, twice": lambda s: percent(percent(s)),
    "JSON, all escaped": lambda s: "".join(f"\\u{u:04x}" for u in units(s)),
    "JSON, all escaped, in JSON": lambda s: json.dumps("".join(f"\\u{u:04X}" for u in units(s)))[1:-1],
    "JavaScript, braces": lambda s: "".join(f"\\u{{{ord(c):x}}}" for c in s),
    "hexadecimal": lambda s: s.encode().hex(),
    "hexadecimal, upper case": lambda s: s.encode().hex().upper(),
    "percent of HTML": lambda s: quote("".join(f"&#{ord(c)};" for c in s), safe=""),
}


def units(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


WHOLE = {name: spell for name, spell in SPELLINGS.items() if "auth" not in name and " at " not in name}


def leaks(text: str, secret: str) -> bool:
    """Whether base64 text, read at any position, gives back four bytes of the secret in a row."""
    data = secret.encode()
    windows = {data[i : i + 4] for i in range(len(data) - 3)}
    for run in re.findall(r"[A-Za-z0-9+/_-]{4,}", text):
        for start in range(4):
            part = run[start:]
            read = base64.b64decode(part[: len(part) // 4 * 4], altchars=b"-_" if set(part) & set("-_") else None)
            if any(window in read for window in windows):
                return True
    return False


SECRETS = {
    "plain": "hunter2hunter2",
    "token": "sk-live_0123",
    "signs": "a/b+c=d",
    "hard": HARD,
    "backslashes": '\\\\ab\\\n\\"\\cd\\',
    "non-ASCII": "пароль🔑密码",
    "lines": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END KEY-----",
    "six": "abc123",
}


@pytest.mark.parametrize("spell", WHOLE.values(), ids=WHOLE.keys())
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_secret_is_masked_in_every_spelling(spell: Any, secret: str) -> None:
    """Contract 4: also url-encoded, base64 and JSON-escaped; here also as Python and HTML write it."""
    masked = hidden(secret).mask(f"before {spell(secret)} after")
    assert re.sub(r'[\\"]', "", masked) == "before *** after"


@pytest.mark.parametrize("spell", DISGUISES.values(), ids=DISGUISES.keys())
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_secret_is_masked_where_letters_are_escaped_too(spell: Any, secret: str) -> None:
    """As a page or a server may echo it: nothing of the value is written as it is."""
    assert hidden(secret).mask(f"before {spell(secret)} after") == "before *** after"


@pytest.mark.parametrize("wrap", ["\n", "\r\n", "\n    ", "\\n", "\\\n      "], ids=repr)
@pytest.mark.parametrize("place", [1, 5, 9, 16])
@pytest.mark.parametrize("spell", [str, SPELLINGS["base64"]], ids=["plain", "base64"])
def test_secret_is_masked_across_a_line_wrap(wrap: str, place: int, spell: Any) -> None:
    """As YAML, mail and `base64` break long lines."""
    text = spell("hunter2hunter2-and-more")
    masked = hidden("hunter2hunter2-and-more").mask(f"key: {text[:place]}{wrap}{text[place:]} end\nmore")
    assert masked == "key: *** end\nmore"


def test_innocent_text_with_escapes_is_the_same_object() -> None:
    text = "100%41 &#65; \\u0041 abc\ndef &amp; hun&#116;er2 hunter2\nhunter3"
    assert hidden("hunter2hunter2").mask(text) is text


def test_escapes_around_a_secret_stay_as_they_are() -> None:
    masked = hidden("hunter2hunter2").mask("a%20b &#65;&#104;unter2hunter2&#66; \\u00e9 %2Fhunter2%68unter2%2F")
    assert masked == "a%20b &#65;***&#66; \\u00e9 %2F***%2F"


class TestLiveValues:
    """A value that was got while we run, such as a token, is masked as those of the file are."""

    def test_it_is_masked_from_then_on(self) -> None:
        secrets = hidden()
        secrets.hide("tok-abcdef")
        assert secrets.mask("x tok-abcdef y dG9rLWFiY2RlZg==") == "x *** y ***"

    def test_a_short_one_is_not(self) -> None:
        secrets = hidden()
        secrets.hide("abcde")
        assert secrets.mask("abcde") == "abcde"

    def test_only_the_newest_are_kept(self) -> None:
        """A server that gives a new token at each call must not make masking slower and slower."""
        secrets = hidden("from-the-file")
        for number in range(1000):
            secrets.hide(f"token-{number:04d}-x")
        text = "from-the-file token-0001-x token-0999-x"
        assert secrets.mask(text) == "*** token-0001-x ***"


@pytest.mark.parametrize("spell", [s for n, s in SPELLINGS.items() if n not in WHOLE])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_secret_inside_longer_base64_is_masked(spell: Any, secret: str) -> None:
    """Such as the header of basic auth; what stays tells less than four bytes of it."""
    assert leaks(spell(secret), secret)
    masked = hidden(secret).mask(f"before {spell(secret)} after")
    assert "***" in masked
    assert not leaks(masked, secret)


LETTERS = st.characters(exclude_characters="*", exclude_categories=["Cs"])
VALUES = st.text(LETTERS, min_size=6, max_size=40).filter(lambda s: s == s.strip())


@settings(max_examples=300, deadline=None)
@given(secret=VALUES, name=st.sampled_from(sorted(WHOLE)))
def test_no_secret_survives_any_spelling(secret: str, name: str) -> None:
    """Whatever the characters."""
    masked = hidden(secret).mask(f"[ {WHOLE[name](secret)} ]")
    assert re.sub(r'[\\"]', "", masked) == "[ *** ]"


@settings(max_examples=300, deadline=None)
@given(secret=VALUES, before=st.binary(max_size=7), after=st.binary(max_size=7), safe=st.booleans())
def test_no_secret_survives_inside_base64(secret: str, before: bytes, after: bytes, safe: bool) -> None:
    """Whatever the bytes around it."""
    encode = base64.urlsafe_b64encode if safe else base64.b64encode
    text = encode(before + secret.encode() + after).decode()
    masked = hidden(secret).mask(text)
    assert "***" in masked
    kept = masked.replace("*", " ")
    assert sum(len(part) for part in kept.split()) <= (len(before) + len(after)) * 4 / 3 + 4


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200), values=st.lists(VALUES, max_size=3))
def test_text_without_a_secret_is_the_same_object(text: str, values: list[str]) -> None:
    """No hit, no copy."""
    secrets = hidden(*values)
    if secrets.mask(text) == text:
        assert secrets.mask(text) is text


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        (["abcdef", "abcdefghij"], "x abcdefghij y abcdef z", "x *** y *** z"),
        (["cdefgh", "abcdefghij"], "x abcdefghij y", "x *** y"),
        (["abcdef", "defghi"], "x abcdefghi y", "x *** y"),
        (["abcdef"], "abcdefabcdef", "***"),
        (["aaaaaa"], "baaaaaaaaab", "b***b"),
        (["abcdef", "ABCDEF"], "abcdef ABCDEF AbCdEf", "*** *** AbCdEf"),
    ],
    ids=["one begins the other", "one inside the other", "overlapping", "twice", "overlaps itself", "case counts"],
)
def test_several_secrets_vanish_whole(values: list[str], text: str, expected: str) -> None:
    """Where they overlap, all of it goes."""
    assert hidden(*values).mask(text) == expected
    assert hidden(*reversed(values)).mask(text) == expected


def test_long_lines_of_a_secret_are_masked_one_by_one() -> None:
    """A key is often shown indented, or cut at a line."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nkqhkiG9w0BAQEFAASC\n-----END KEY-----\n"
    masked = hidden(key).mask("\n".join(f"    {line}" for line in key.splitlines()[1:]))
    assert "MIIEv" not in masked
    assert "kqhk" not in masked


def test_very_long_secret_is_masked() -> None:
    """No pattern grows without end."""
    secret = "".join(chr(33 + i * 7919 % 90) for i in range(10_000)).replace("*", "x")
    masked = hidden(secret).mask(f"a {secret} b {json.dumps(secret)} c")
    assert len(masked) < 100


@pytest.mark.parametrize("secret", ["\\" * 60, '\\"' * 30 + "X", "%" * 60, "&" * 60, "\n" * 60 + "x" * 6], ids=repr)
def test_no_secret_makes_masking_slow(secret: str) -> None:
    """Text that begins like the secret again and again and never ends like it, made to mislead the patterns.

    Patterns that try each beginning against the whole rest would need minutes: the limit of every test ends that.
    """
    secrets = hidden(f"k{secret}k")
    escaped = "".join(f"&#{ord(char)};" for char in secret)
    for part in (json.dumps(secret)[1:-1], quote(secret), html.escape(secret), secret, escaped, percent(secret)):
        near = f"k{part}- " * 200

        assert secrets.mask(f"{near}k{part}k") == f"{near}***"


class TestPlainValues:
    """`mask_value` for what is nested; what holds no secret is not changed."""

    def test_nested(self) -> None:
        value = {"token": ["x abcdef", ("abcdef", 1.5, None, True)], "abcdef": {"n": 123456}, "other": b"abcdef"}
        before = copy.deepcopy(value)
        assert hidden("abcdef", "123456").mask_value(value) == {
            "token": ["x ***", ("***", 1.5, None, True)],
            "***": {"n": "***"},
            "other": b"abcdef",
        }
        assert value == before

    def test_without_secrets_it_is_the_same_object(self) -> None:
        value = {"a": [1]}
        assert hidden().mask_value(value) is value


class TestLookup:
    """Secrets first, then the environment; what was asked for there counts as a secret."""

    def test_order(self) -> None:
        secrets = Secrets({"A": "from-file"}, {"A": "from-env", "B": "env-value"})
        assert (secrets.get("A"), secrets.get("B"), secrets.get("C")) == ("from-file", "env-value", None)
        assert secrets.names() == ["A"]

    def test_environment_counts_once_asked_for(self) -> None:
        secrets = Secrets({}, {"B": "env-value", "OTHER": "other-value"})
        assert secrets.mask("env-value other-value") == "env-value other-value"
        secrets.get("B")
        assert secrets.mask("env-value other-value") == "*** other-value"

    def test_template_counts_as_asking(self, project: Project) -> None:
        config = project.load('packs: {p: {k: "${TOKEN}"}}\n', TOKEN="env-value")
        assert config.secrets.mask("env-value") == "***"

    def test_home_and_the_like_are_no_secrets(self) -> None:
        secrets = Secrets({}, {"HOME": "/home/somebody"})
        secrets.get("HOME")
        assert secrets.mask("/home/somebody/x") == "/home/somebody/x"

    def test_short_value_is_not_masked(self) -> None:
        assert hidden("12345").mask("12345") == "12345"


class TestNothingShowsAValue:
    """Neither repr, str, format, pickle nor the attributes that a completion lists."""

    def test_repr(self, project: Project) -> None:
        project.write("secrets.yaml", "TOKEN: abcdef123\n")
        config = project.load(
            """
packs: {p: {k: "${TOKEN}"}}
servers: {s: {command: x, env: {K: "${TOKEN}"}}, h: {url: "https://x/${TOKEN}"}}
models: {m: {provider: openai, model: "${TOKEN}", base_url: "http://x/${TOKEN}"}}
http: {allowed_hosts: ["${TOKEN}"]}
"""
        )
        assert config.problems == ()
        s = config.settings
        things = [config, s, s.packs, s.servers, s.models, s.http, config.secrets, s.packs["p"], s.models.named["m"]]
        for thing in [*things, config.paths, config.problems, vars(Secrets), dir(config.secrets)]:
            assert "abcdef123" not in f"{thing!r} {thing!s}"

    def test_pickle_and_copy(self) -> None:
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(hidden("abcdef"))

    def test_no_dict(self) -> None:
        assert not hasattr(hidden("abcdef"), "__dict__")


class TestFile:
    """secrets.yaml: `name: value`, mode 0600."""

    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o400, 0o700], ids=oct)
    def test_other_mode_is_a_problem_and_the_values_still_hold(self, project: Project, mode: int) -> None:
        project.write("secrets.yaml", "TOKEN: abcdef123\n").chmod(mode)
        config = project.load()
        (problem,) = config.problems
        assert str(problem) == (
            f".onetool/secrets.yaml: has the file mode {mode:04o}; it must be 0600, for you alone. "
            "Run: chmod 600 .onetool/secrets.yaml"
        )
        assert not config.errors
        assert config.secrets.get("TOKEN") == "abcdef123"

    def test_short_secret_is_a_problem(self, project: Project) -> None:
        project.write("secrets.yaml", "GOOD: abcdef\nPIN: 12345\n")
        assert project.says() == [
            ".onetool/secrets.yaml: PIN: is shorter than 6 characters, so it is not masked. Use a longer secret."
        ]

    @pytest.mark.parametrize("last", ["", "E: 'geheimnis–x'\n"], ids=["plain lines", "read by YAML"])
    def test_numbers_are_the_text_as_written(self, project: Project, last: str) -> None:
        project.write("secrets.yaml", "A: 00123456\nB: 1e10000\nC: 0x1234567 # note\nD: 2024-01-01\n" + last)
        get = project.load().secrets.get
        assert [get(n) for n in "ABCD"] == ["00123456", "1e10000", "0x1234567", "2024-01-01"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("A: abcdef\nB: [s3cret1]\n", ":2: B: is not text. Put the value in quotes."),
            ("A: abcdef\nB: {x: s3cret1}\n", ":2: B: is not text. Put the value in quotes."),
            ("A: abcdef\nB: true\n", ":2: B: is not text. Put the value in quotes."),
            ("A: abcdef\nB:\n", ":2: B: has no value."),
            ("A: abcdef\nA: s3cret1\n", ":2: A: cannot be used as it is written."),
            ("A: abcdef\nB: !s3cret1 x\n", ":2: B: cannot be used as it is written."),
        ],
        ids=["list", "mapping", "boolean", "nothing", "twice", "tag"],
    )
    def test_bad_value_costs_itself(self, project: Project, text: str, said: str) -> None:
        project.write("secrets.yaml", text)
        config = project.load()
        (problem,) = map(str, config.problems)
        assert problem.startswith(f".onetool/secrets.yaml{said}")
        assert "s3cret1" not in problem
        assert config.secrets.get("A") == "abcdef"

    @pytest.mark.parametrize(
        "text",
        [
            "s3cret1value",
            "- s3cret1value",
            "A: *s3cret1value\n",
            "A: @s3cret1value\n",
            'A: "s3cret1value',
            "A: `s3cret1`\n",
            "A: s3cret1value: x\n",
            "A: %s3cret1value\n",
            "A=s3cret1value\n",
            "A: \x07s3cret1value\n",
            "\tA: s3cret1value\n",
        ],
        ids=repr,
    )
    def test_broken_file_is_a_problem_that_shows_nothing_of_it(self, project: Project, text: str) -> None:
        project.write("secrets.yaml", text)
        config = project.load()
        (problem,) = map(str, config.problems)
        assert problem.startswith((".onetool/secrets.yaml:1: ", ".onetool/secrets.yaml:2: "))
        assert "s3cret1" not in problem
        assert "\n" not in problem
        assert not config.errors

    def test_value_in_the_wrong_file_is_masked_in_its_problem(self, project: Project) -> None:
        project.write("secrets.yaml", "TOKEN: abcdef123\n")
        (problem,) = project.says("http: {timeout_s: abcdef123}\n")
        assert "abcdef123" not in problem


SIMPLE = st.from_regex(
    r"""([A-Z_a][A-Za-z0-9_]{0,3}: +("[ -~]{0,8}"|'[ -~]{0,8}'|[ -~]{0,8})( +#[ -~]{0,4}| *)|#[ -~]{0,5}| *)""",
    fullmatch=True,
)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(SIMPLE, max_size=4))
def test_plain_lines_are_read_as_yaml_reads_them(lines: list[str]) -> None:
    """The short road, taken at each load, and the long one give the same."""
    data = "\n".join(lines).encode()
    short = simple_lines(data)
    if short is not None:
        document = parse(data, numbers=False)
        assert document.faults == []
        assert document.data == short


def test_usual_secrets_file_needs_no_yaml() -> None:
    """Else each load would pay for the library."""
    text = b"# mine\n\nA: sk-abc_123/x+y==\nB: \"quo ted\" # note\nC: 'it: #1'\n_d2: 0012\n"
    assert simple_lines(text) == {"A": "sk-abc_123/x+y==", "B": "quo ted", "C": "it: #1", "_d2": "0012"}
