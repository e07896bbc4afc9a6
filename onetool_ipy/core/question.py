"""Question and Reply: what a tool, a server, a model or a command asks of a person, and what the
person said.

A question has a text and one of: a form (a flat JSON Schema, as MCP's elicitation has it), an
address to visit, calls to approve, or the words of a yes and a no. `checked` refuses what must not
be asked: a form that is not flat, a field for a password, an address that is neither https nor
loopback. `form_errors` checks what was filled in. How a question is shown is the host's part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import ExecutionFailed, InvalidTool
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.schema.check import Checker, Violation

ReplyAction = Literal["accept", "decline", "cancel"]
"""Yes; no; no decision (the question was dismissed or stopped)."""

MAX_QUESTIONS = 20
"""How often one call may ask a person."""

_MAX_FIELDS = 40
_MAX_TEXT = 4_000
_MAX_BYTES = 64_000
_DRAFT = "http://json-schema.org/draft-07/schema#"
_FORMATS = ("email", "uri", "date", "date-time")
_COMMON = ("title", "description", "default")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("items", "minItems", "maxItems"),
}


class NobodyToAsk(ExecutionFailed, reason="unavailable", status=503):
    """A question was asked where no person can answer it."""


class QuestionRefused(ExecutionFailed, reason="not_approved", status=403):
    """A question that must not be asked of a person, or one question too many."""


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that waits for approval. `args` holds each argument's name and its value as JSON
    text.

    `sends` is the place that data would go to, where that alone is asked about.
    """

    tool: str
    summary: str = ""
    args: tuple[tuple[str, str], ...] = ()
    badges: tuple[str, ...] = ()
    note: str = ""
    sends: str = ""

    @classmethod
    def of(
        cls, spec: ToolSpec, args: Mapping[str, object], note: str = "", sends: str = ""
    ) -> ProposedCall:
        """Make the call of a tool with these arguments."""
        texts = tuple(
            (str(key), json.dumps(values.to_json(value), ensure_ascii=False))
            for key, value in args.items()
        )
        # That a tool only reads says nothing of where its arguments go.
        marks = () if sends else spec.badges
        badges = (*([f"server {spec.server}"] if spec.server else ()), *marks)
        return cls(spec.name, spec.summary, texts, badges, note, sends)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and by whom: `asker` is a phrase such as "server 'shop'", "tool 'shop.order'"
    or "the model".

    `trust` is what a yes to the trust question would let run; `text` says the same. A question of
    our own commands has `yes` and `no`, the words of its two buttons, and `details`: the lines that
    a yes is about. Only such a question may have a form with a field for a secret (`takes_secret`,
    and the field's format is `password`). A question about the calls of a program has its text. It
    offers no "always", and neither does one that is `each_time`.
    """

    asker: str
    text: str
    form: Mapping[str, Any] | None = None
    url: str = ""
    calls: tuple[ProposedCall, ...] = ()
    trust: Mapping[str, Any] | None = None
    details: tuple[str, ...] = ()
    yes: str = ""
    no: str = "No"
    takes_secret: bool = False
    program: str = ""
    each_time: bool = False

    @property
    def offers_always(self) -> bool:
        """Whether a yes may also hold for later calls: of the same tools, or to the same places.
        Not for both at once."""
        is_mixed = len({bool(call.sends) for call in self.calls}) > 1
        return not (self.program or self.each_time or is_mixed)

    @property
    def places(self) -> tuple[str, ...]:
        """The places that a question about data alone is about; empty for any other question."""
        places = dict.fromkeys(call.sends for call in self.calls)
        return () if "" in places else tuple(places)

    @property
    def subject(self) -> str:
        """The asker at the beginning of a sentence."""
        return self.asker[:1].upper() + self.asker[1:]

    def masked(self, mask: Callable[[str], str]) -> Question:
        """The same question without secrets."""
        calls = tuple(
            replace(
                call,
                tool=mask(call.tool),
                summary=mask(call.summary),
                args=tuple((mask(name), mask(text)) for name, text in call.args),
                badges=tuple(map(mask, call.badges)),
                note=mask(call.note),
                sends=mask(call.sends),
            )
            for call in self.calls
        )
        form = None if self.form is None else values.map_text(dict(self.form), mask)
        details = tuple(map(mask, self.details))
        return replace(
            self,
            asker=mask(self.asker),
            text=mask(self.text),
            form=form,
            calls=calls,
            details=details,
            program=mask(self.program),
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What the person said. `content` of an accepted form holds its values by field.

    For calls it is `{"run": [numbers from 1], "always": bool}`. `note` says in words why there was
    no decision.
    """

    action: ReplyAction
    content: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def checked(question: Question) -> Question:
    """Return the question with its form reduced to what a form may have. Raises QuestionRefused."""
    text = question.text
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}… ({len(text) - _MAX_TEXT:,} more characters)"
    if question.url:
        try:
            parts = urlsplit(question.url)
            has_valid_port = parts.port != 0
        except ValueError:
            raise _refused(question, "sends you to something that is not an address") from None
        is_loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
        is_plain = question.url.isascii() and question.url.isprintable() and " " not in question.url
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback)
        if not (is_plain and has_valid_port and parts.hostname and is_safe):
            raise _refused(
                question, "sends you to an address that is neither https nor on this machine"
            )
        if parts.username is not None or parts.password is not None:
            raise _refused(
                question, "sends you to an address with a user name in it, which hides its host"
            )
    if sum(map(len, question.details)) > _MAX_BYTES:
        raise _refused(question, "asks about more than can be shown (64 kB)")
    return replace(question, text=text, form=None if question.form is None else _flat(question))


def count_question(meta: Json) -> None:
    """Count a question in the `meta` of its call. Raises QuestionRefused if there are too many."""
    meta["questions"] = meta.get("questions", 0) + 1
    if meta["questions"] > MAX_QUESTIONS:
        raise QuestionRefused(
            f"A call may ask at most {MAX_QUESTIONS} questions; this one was not shown."
        )


def form_errors(form: Mapping[str, object], content: Mapping[str, object]) -> list[Violation]:
    """What is wrong with the values of a form, each with the JSON pointer of its field."""
    return Checker(form).violations(content)


def choices_of(field: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The values that a field offers, each with its title; empty for a field of free text, a number
    or yes/no."""
    node = field.get("items", {}) if field.get("type") == "array" else field
    options_with_titles = node.get("oneOf") or node.get("anyOf")
    if options_with_titles:
        return [
            (str(one["const"]), str(one.get("title") or one["const"]))
            for one in options_with_titles
        ]
    titles = list(node.get("enumNames") or ())
    options = [str(option) for option in node.get("enum") or ()]
    return list(
        zip(
            options,
            [str(title) for title in titles] if len(titles) == len(options) else options,
            strict=True,
        )
    )


def _flat(question: Question) -> Json:
    form = question.form or {}
    fields, required = form.get("properties", {}), form.get("required", [])
    if (
        form.get("type", "object") != "object"
        or not isinstance(fields, Mapping)
        or not isinstance(required, list)
    ):
        raise _refused(question, "asks with a form that cannot be read")
    if len(fields) > _MAX_FIELDS or len(json.dumps(values.to_json(dict(form)))) > _MAX_BYTES:
        raise _refused(
            question,
            f"asks with a form that is too large (more than {_MAX_FIELDS} fields or 64 kB)",
        )
    properties = {str(name): _field(question, str(name), field) for name, field in fields.items()}
    flat = {
        "$schema": _DRAFT,
        "type": "object",
        "properties": properties,
        "required": [name for name in required if name in properties],
        "additionalProperties": False,
    }
    try:
        Checker(flat)
    except InvalidTool as exc:
        raise _refused(question, f"asks with a form that is not valid: {exc.message}") from exc
    return flat


def _field(question: Question, name: str, field: Any) -> dict[str, Any]:
    kind = str(field.get("type")) if isinstance(field, Mapping) else ""
    if kind not in _KEYS or (kind == "array" and not choices_of(field)):
        raise _refused(
            question, f"asks for '{values.cut(name, 40)}' with a field that a flat form cannot have"
        )
    texts = {key: str(field.get(key) or "") for key in ("title", "description")}
    is_secret = (
        field.get("format") == "password"
        or field.get("writeOnly") is True
        or is_secret_name(name)
        or is_secret_name(texts["title"])
        or re.search(r"\b(password|passphrase)\b", texts["description"], re.IGNORECASE)
    )
    if is_secret and not question.takes_secret:
        raise _refused(
            question, f"asks for a secret ('{values.cut(name, 40)}'), which a form must not"
        )
    entries = {key: field[key] for key in (*_COMMON, *_KEYS[kind]) if key in field}
    if entries.get("format") not in (*_FORMATS, *(["password"] if question.takes_secret else ())):
        entries.pop("format", None)
    return {"type": kind, **entries}


def _refused(question: Question, what: str) -> QuestionRefused:
    return QuestionRefused(f"{question.subject} {what}. It was not shown.")
