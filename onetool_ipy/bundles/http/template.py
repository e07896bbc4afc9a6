"""Placeholders (`${name}`) in a text, and the values of one call that fill them. Pure.

`$${` is a literal `${`. `${ids|csv}` names a form: how a list or an object is written in a URL
(`FORMS`). `bind` decides once per definition whether a name is an argument, an earlier step or a
secret; nothing else is looked up. A variable of the bundle's environment comes before a secret of
the same name, and its text may name secrets in turn. `CallValues` holds the real values, for a
request that is sent. `MaskedValues` has `***` for each secret, for a request that is shown.
Selectors, the JMESPath and RE2 expressions that take a part of a response, are compiled here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Final, Literal, NamedTuple, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidOutput, InvalidTool, MissingSecret, TooLarge

Kind = Literal["argument", "secret", "step"]

FORMS = {"csv": ",", "space": " ", "pipe": "|", "json": "", "deep": "", "spread": ""}
"""How a list or an object is written: joined by a character, as JSON text, as `name[key]=...`, or
as `key=...`."""

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}\r\n]{1,200})\}|\$\{")
_PATH = re.compile(r"(?P<head>[A-Za-z_][\w-]*)(?P<rest>(?:\.[\w$@-]+|\[\d{1,9}\])*)")
_PART = re.compile(r"\.([\w$@-]+)|\[(\d+)\]")
_MAX_MATCHES = 100_000
_MAX_DEPTH = 50

SecretLookup = Callable[[str], str | None]
"""name -> its value, or None."""

Select = Callable[[object, str], object]
"""(data, text) -> the selected part, or None."""

HIDDEN: Final = "***"


MISSING: Final = object()
"""Stands for an optional argument that has no value."""


class Placeholder(NamedTuple):
    """A `${...}` as written."""

    name: str
    form: str = ""


class Ref(NamedTuple):
    """The meaning of a placeholder: an argument, secret or step, and the path into its value."""

    kind: Kind
    name: str
    path: tuple[str | int, ...] = ()
    form: str = ""

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return self.name + path


def pieces(text: str) -> list[str | Placeholder]:
    """Split a text at its placeholders; raises ValueError for a `${` without end or name."""
    if "${" not in text:
        return [text] if text else []
    split: list[str | Placeholder] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        split.append(text[end : match.start()])
        end = match.end()
        if match[0] == "$${":
            split.append("${")
            continue
        if match["inside"] is None:
            start = text[match.start() : match.start() + 40]
            raise ValueError(f"'{start}' is not a ${{name}}; write $${{ for a literal ${{")
        name, bar, form = (part.strip() for part in match["inside"].rpartition("|"))
        if not bar or form not in FORMS:
            name, form = match["inside"].strip(), ""
        if not name:
            raise ValueError("'${}' names nothing")
        split.append(Placeholder(name, form))
    split.append(text[end:])
    return [piece for piece in split if piece != ""]


def placeholders(text: str) -> list[Placeholder]:
    """The placeholders of a text, in order."""
    return [piece for piece in pieces(text) if isinstance(piece, Placeholder)]


def placeholders_in(value: object) -> Iterator[Placeholder]:
    """The placeholders of every text in a JSON value; raises ValueError for one in a key."""
    if isinstance(value, str):
        yield from placeholders(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if placeholders(key):
                raise ValueError(f"'{key}' is a key, and a key cannot be a ${{name}}")
            yield from placeholders_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from placeholders_in(inner)


def secrets_of(name: str, variables: Mapping[str, str]) -> set[str]:
    """The secrets that a name other than an argument or step draws on: those in the variable, else
    the name itself."""
    return {each.name for each in placeholders(variables[name])} if name in variables else {name}


def bind(placeholder: Placeholder, *, arguments: Set[str], steps: Set[str]) -> Ref:
    """Find the meaning of a placeholder: an argument of the schema, else an earlier step, else a
    secret."""
    if placeholder.name in arguments:
        return Ref("argument", placeholder.name, (), placeholder.form)
    match = _PATH.fullmatch(placeholder.name)
    if match is not None:
        head = match["head"]
        path = tuple(
            part[1] if part[1] is not None else int(part[2])
            for part in _PART.finditer(match["rest"])
        )
        if head in arguments:
            return Ref("argument", head, path, placeholder.form)
        if head in steps:
            return Ref("step", head, path, placeholder.form)
        if not path and SECRET_NAME.fullmatch(head):
            return Ref("secret", head, (), placeholder.form)
    raise InvalidTool(
        f"'${{{placeholder.name}}}' is neither an argument of argSchema, nor an earlier step, "
        "nor a valid name of a secret.",
        hint=(
            "Declare it in argSchema, or write the secret's name in letters, digits and"
            " underscores."
        ),
    )


class ValueSource(Protocol):
    """Returns the value of a reference, or MISSING."""

    def value(self, ref: Ref) -> object:
        """The value, in its JSON form."""


class CallValues:
    """The real values of one call; raises TooLarge once they hold more than `room` characters."""

    def __init__(
        self,
        args: Mapping[str, object],
        secret: SecretLookup,
        *,
        defaults: Mapping[str, object],
        room: int,
        tool: str,
        environment: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._args = args
        self._defaults = defaults
        self._environment = environment
        self._variables = variables or {}
        self._secret = secret
        self._room = room
        self._tool = tool
        self._arguments: dict[str, object] = {}
        self.steps: dict[str, object] = {}

    def value(self, ref: Ref) -> object:
        if ref.kind == "secret":
            return self.text(ref.name, self.secret)
        if ref.kind == "argument":
            return _walk(self._argument(ref.name), ref.path)
        value = _walk(self.steps.get(ref.name, MISSING), ref.path)
        if value is MISSING:
            raise InvalidOutput(f"The response of '{ref.name}' has nothing at '{ref}'.")
        return value

    def text(self, name: str, secret: Callable[[str], str]) -> str:
        """Return the text of a variable, with `secret` for each name in it; any other name is that
        of a secret."""
        if name not in self._variables:
            return secret(name)
        return "".join(
            part if isinstance(part, str) else secret(part.name)
            for part in pieces(self._variables[name])
        )

    def secret(self, name: str) -> str:
        """Return a secret, or raise MissingSecret."""
        secret = self._secret(name)
        if secret is None and self._environment:
            raise MissingSecret(
                f"'{self._tool}' needs '{name}', which is neither a variable of the environment"
                f" '{self._environment}' nor a secret.",
                hint=(
                    f"Set it: %tool bundle env {self._tool.partition('.')[0]} {self._environment}"
                    f" --set {name}=VALUE, or add '{name}' to secrets.yaml."
                ),
            )
        if secret is None:
            raise MissingSecret(
                f"'{self._tool}' needs the secret '{name}', which is missing.",
                hint=f'Write into .onetool/secrets.yaml: {name}: "...", then run ot.reload()',
            )
        return secret

    def _argument(self, name: str) -> object:
        """An argument in its JSON form, which is made once. What all of them add up to is
        limited."""
        if name not in self._arguments:
            value = self._args.get(name, self._defaults.get(name, MISSING))
            if value is not MISSING:
                self._room -= _length(value)
                if self._room < 0:
                    raise TooLarge(
                        f"The arguments of '{self._tool}' are too large to send.", hint="Send less."
                    )
                value = values.to_json(value)
            self._arguments[name] = value
        return self._arguments[name]


class MaskedValues:
    """The values of a call as they may be shown: no secrets; a step without a response yet stays a
    placeholder."""

    def __init__(self, real: CallValues) -> None:
        self._real = real

    def value(self, ref: Ref) -> object:
        if ref.kind == "secret":
            return self._real.text(ref.name, lambda _: HIDDEN)
        if ref.kind == "step" and ref.name not in self._real.steps:
            return f"${{{ref}}}"
        return self._real.value(ref)


def _walk(value: object, path: tuple[str | int, ...]) -> object:
    for part in path:
        if isinstance(part, str):
            value = value.get(part, MISSING) if isinstance(value, dict) else MISSING
        else:
            value = value[part] if isinstance(value, list) and part < len(value) else MISSING
    return value


def _length(value: object, depth: int = 0) -> int:
    """A lower bound for the encoded size of a value."""
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return sum(
            _length(key, depth + 1) + _length(inner, depth + 1) for key, inner in value.items()
        )
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return sum(_length(inner, depth + 1) for inner in value)
    return 1


def compile_selector(
    kind: Literal["jmespath", "regex"], expr: str, *, every: bool = False
) -> Select:
    """Compile a selector to a function; raises ValueError for an invalid expression.

    A pattern selects its first match, or `every` match as a list.
    """
    if kind == "regex":
        return _by_pattern(expr, every)
    import jmespath  # type: ignore[import-untyped]  # it ships no types
    from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

    try:
        compiled = jmespath.compile(expr)
    except (JMESPathError, RecursionError) as exc:
        raise ValueError(
            f"'{expr[:80]}' is not a JMESPath expression: {str(exc).splitlines()[0][:120]}"
        ) from None

    def select(data: object, text: str) -> object:  # noqa: ARG001 - the shape of every selector
        try:
            return compiled.search(data)
        except (JMESPathError, RecursionError) as exc:
            raise InvalidOutput(
                f"The selector does not fit the response: {str(exc).splitlines()[0][:200]}"
            ) from None

    return select


def _by_pattern(expr: str, every: bool) -> Select:
    import re2  # type: ignore[import-untyped]  # it ships no types

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(expr, options)
    except re2.error as exc:
        reason = exc.args[0] if exc.args else exc
        words = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"'{expr[:80]}' is not an RE2 pattern: {words[:120]}") from None

    def groups(match: re.Match[str]) -> object:
        named, listed = match.groupdict(), match.groups()
        if named or not listed:
            return named or match[0]
        return listed[0] if len(listed) == 1 else list(listed)

    def select(data: object, text: str) -> object:  # noqa: ARG001 - the shape of every selector
        if not every:
            match = compiled.search(text)
            return None if match is None else groups(match)
        matches = []
        for match in compiled.finditer(text):
            matches.append(groups(match))
            if len(matches) > _MAX_MATCHES:
                raise InvalidOutput(f"The selector matches more than {_MAX_MATCHES:,} times.")
        return matches

    return select
