"""Secrets are looked up by name, and gone from every text in every spelling that the contract
names."""

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

from onetool_ipy.base.masking import Form, Secrets

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


WHOLE = {
    name: spell for name, spell in SPELLINGS.items() if "auth" not in name and " at " not in name
}


def leaks(text: str, secret: str) -> bool:
    """Whether base64 text, read at any position, gives back four bytes of the secret in a row."""
    data = secret.encode()
    windows = {data[i : i + 4] for i in range(len(data) - 3)}
    for run in re.findall(r"[A-Za-z0-9+/_-]{4,}", text):
        for start in range(4):
            part = run[start:]
            read = base64.b64decode(
                part[: len(part) // 4 * 4], altchars=b"-_" if set(part) & set("-_") else None
            )
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
    """Contract 4: also url-encoded, base64 and JSON-escaped; here also as Python and HTML write
    it."""
    masked = hidden(secret).mask(f"before {spell(secret)} after")
    assert re.sub(r'[\\"]', "", masked) == "before *** after"


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


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(secret=VALUES, name=st.sampled_from(sorted(WHOLE)))
def test_no_secret_survives_any_spelling(secret: str, name: str) -> None:
    """Whatever the characters."""
    masked = hidden(secret).mask(f"[ {WHOLE[name](secret)} ]")
    assert re.sub(r'[\\"]', "", masked) == "[ *** ]"


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(secret=VALUES, before=st.binary(max_size=7), after=st.binary(max_size=7), safe=st.booleans())
def test_no_secret_survives_inside_base64(
    secret: str, before: bytes, after: bytes, safe: bool
) -> None:
    """Whatever the bytes around it."""
    encode = base64.urlsafe_b64encode if safe else base64.b64encode
    text = encode(before + secret.encode() + after).decode()
    masked = hidden(secret).mask(text)
    assert "***" in masked
    kept = masked.replace("*", " ")
    assert sum(len(part) for part in kept.split()) <= (len(before) + len(after)) * 4 / 3 + 4


@pytest.mark.slow
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
    ids=[
        "one begins the other",
        "one inside the other",
        "overlapping",
        "twice",
        "overlaps itself",
        "case counts",
    ],
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


def test_a_form_shows_nothing_of_its_secret() -> None:
    assert repr(Form("secret-1", "secret-1")) == "Form(***)"


@pytest.mark.slow
def test_very_long_secret_is_masked() -> None:
    """No pattern grows without end."""
    secret = "".join(chr(33 + i * 7919 % 90) for i in range(10_000)).replace("*", "x")
    masked = hidden(secret).mask(f"a {secret} b {json.dumps(secret)} c")
    assert len(masked) < 100


@pytest.mark.parametrize(
    "secret", ["\\" * 60, '\\"' * 30 + "X", "%" * 60, "&" * 60, "\n" * 60 + "x" * 6], ids=repr
)
def test_no_secret_makes_masking_slow(secret: str) -> None:
    """Text that begins like the secret again and again and never ends like it, made to mislead the
    patterns.

    Patterns that try each beginning against the whole rest would need minutes: the limit of every
    test ends that.
    """
    secrets = hidden(f"k{secret}k")
    for part in (json.dumps(secret)[1:-1], quote(secret), html.escape(secret), secret):
        near = f"k{part}- " * 200

        assert secrets.mask(f"{near}k{part}k") == f"{near}***"


class TestPlainValues:
    """`mask_value` for what is nested; what holds no secret is not changed."""

    def test_nested(self) -> None:
        value = {
            "token": ["x abcdef", ("abcdef", 1.5, None, True)],
            "abcdef": {"n": 123456},
            "other": b"abcdef",
        }
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
        assert (secrets.get("A"), secrets.get("B"), secrets.get("C")) == (
            "from-file",
            "env-value",
            None,
        )
        assert secrets.names() == ["A"]

    def test_environment_counts_once_asked_for(self) -> None:
        secrets = Secrets({}, {"B": "env-value", "OTHER": "other-value"})
        assert secrets.mask("env-value other-value") == "env-value other-value"
        secrets.get("B")
        assert secrets.mask("env-value other-value") == "*** other-value"

    def test_home_and_the_like_are_no_secrets(self) -> None:
        secrets = Secrets({}, {"HOME": "/home/somebody"})
        secrets.get("HOME")
        assert secrets.mask("/home/somebody/x") == "/home/somebody/x"

    def test_short_value_is_not_masked(self) -> None:
        assert hidden("12345").mask("12345") == "12345"


class TestSettled:
    """How much of a growing text can be shown already."""

    def test_all_of_it_without_secrets(self) -> None:
        assert hidden().settled("some text") == 9

    def test_up_to_the_last_blank(self) -> None:
        assert hidden("hunter2hunter2").settled("the key is hunter2hun") == len("the key is ")

    def test_a_secret_with_a_blank_waits_for_one_more(self) -> None:
        assert hidden("correct horse").settled("the key is correct ho") == len("the key is ")

    def test_never_inside_a_secret(self) -> None:
        text = "a correct horse" + " " * 3 + "x"
        end = hidden("correct horse", "abc def ghi jkl").settled(text)
        assert end <= 2 or end >= len("a correct horse")


class TestNothingShowsAValue:
    """Neither pickle nor the attributes that a completion lists."""

    def test_pickle_and_copy(self) -> None:
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(hidden("abcdef"))

    def test_no_dict(self) -> None:
        assert not hasattr(hidden("abcdef"), "__dict__")
