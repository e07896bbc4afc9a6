"""Checks of a request, and what is wrong with it: one message for a person, a JSON pointer per
fault for a form. Pure.

A fault is `{pointer, message}`, like the violations of arguments. The pointer leads into the body
that was sent and is empty for the whole body. `slug` and `version`, which may be part of a body,
have their pointers also if they come from the path. They are compared in Unicode's NFC form,
case-sensitive; a version is an opaque label without any order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.search import suggest
from onetool_ipy.schema.check import pointer
from onetool_ipy.schema.words import MISSING, demand

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Fault = dict[str, str]

_MAX_NAMED = 5
_MAX_LISTED = 100
_WORDS = {
    "missing": MISSING,
    "bool_type": demand("boolean"),
    "bool_parsing": demand("boolean"),
    "int_parsing": demand("integer"),
    "string_type": demand("string"),
    "dict_type": demand("object"),
    "list_type": demand("array"),
    "model_type": demand("object"),
    "model_attributes_type": demand("object"),
    "union_tag_not_found": "must have a 'type'",
    "union_tag_invalid": "has an unknown 'type'",
}
"""What is said of a field, by the type of pydantic's error."""

MAX_RUNES = 64
"""The longest slug or version."""

_MAX_SHOWN = 80
_LETTERS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")
_SIMPLE = re.compile(r"[A-Za-z0-9-]+")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def fault(pointer: str, *words: str) -> Fault:
    """Make a fault: its pointer, and its message in whole sentences."""
    sentences = [text if text.endswith((".", "?", "!")) else f"{text}." for text in words if text]
    return {
        "pointer": pointer,
        "message": " ".join(text[:1].upper() + text[1:] for text in sentences),
    }


def whole(message: str) -> InvalidRequest:
    """The refusal of a whole body."""
    return InvalidRequest(message, details=[fault("", message)])


def of_validation(exc: ValidationError, kind: type[BaseModel], data: Any) -> InvalidRequest:
    """The refusal of data that does not fit a model. The message names every field."""
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    # An optional value that is wrong is wrong for None, too, which nobody sent.
    errors = [error for error in errors if error["type"] != "none_required"] or errors
    fields = [str(field.alias) for field in kind.model_fields.values()]
    texts = []
    for error in errors[:_MAX_NAMED]:
        place, words = ".".join(map(str, _path(error, data))), _words_of(error, fields)
        if error["type"] == "extra_forbidden":
            texts.append(f"'{place}': {words}")
        elif error["type"] in _WORDS:
            texts.append(f"'{place}' {_WORDS[error['type']]}")
        else:
            texts.append(f"{place}: {words}" if place else words)
    more = f" (and {len(errors) - _MAX_NAMED} more)" if len(errors) > _MAX_NAMED else ""
    message = "; ".join(dict.fromkeys(texts)) + more
    details = [
        fault(str(pointer(_path(error, data))), _words_of(error, fields))
        for error in errors[:_MAX_LISTED]
    ]
    return InvalidRequest(message if message.endswith("?") else message + ".", details=details)


def together(refusals: Sequence[InvalidRequest]) -> InvalidRequest:
    """Join several refusals of one request."""
    refusals = list({exc.message: exc for exc in refusals}.values())
    if len(refusals) == 1:
        return refusals[0]
    message = "; ".join(exc.message.rstrip(".") for exc in refusals)
    hint = " ".join(dict.fromkeys(exc.hint for exc in refusals if exc.hint))
    details = {(each["pointer"], each["message"]): each for exc in refusals for each in exc.details}
    return InvalidRequest(f"{message}.", hint=hint, details=list(details.values())[:_MAX_LISTED])


def with_others(first: InvalidRequest, checks: Iterable[Callable[[], object]]) -> InvalidRequest:
    """Join a refusal with those of further checks, so that one fault does not hide the others."""
    refusals = [first]
    for check in checks:
        try:
            check()
        except InvalidRequest as exc:
            refusals.append(exc)
    return together(refusals)


def beneath(exc: InvalidRequest, place: str) -> InvalidRequest:
    """The same refusal, with pointers into a larger body that holds this one at `place`."""
    details = [{**each, "pointer": place + each["pointer"]} for each in exc.details]
    return InvalidRequest(
        exc.message, hint=exc.hint, details=details or [fault(place, exc.message, exc.hint)]
    )


def _words_of(error: Mapping[str, Any], fields: list[str]) -> str:
    if error["type"] == "extra_forbidden":
        near = suggest(str(error["loc"][0]), fields, limit=1) if len(error["loc"]) == 1 else []
        return "no such field" + (f", did you mean '{near[0]}'?" if near else "")
    if error["type"] in _WORDS:
        return f"it {_WORDS[error['type']]}"
    message = (
        str(error["msg"])
        .removeprefix("Value error, ")
        .rstrip(".")
        .replace("Input should be", "it must be")
    )
    return message[:1].lower() + message[1:] if message[:2] != message[:2].upper() else message


def _path(error: Mapping[str, Any], data: Any) -> list[Any]:
    """Return where an error is. The names that pydantic adds for branches of a union are not part
    of it."""
    path: list[Any] = []
    *_, last = error["loc"] or (None,)
    for part in error["loc"]:
        is_key = isinstance(data, Mapping) and part in data
        if is_key or (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            path.append(part)
            data = data[part]
        elif error["type"] == "missing" and part is last:
            path.append(part)
    return path


def new_id() -> str:
    """Return a new UUIDv7, larger than all that this process made before."""
    import uuid_utils

    return str(uuid_utils.uuid7())


def is_id(text: str) -> bool:
    """Whether a text is a UUIDv7 in canonical form: 36 characters, lower case."""
    return _ID.fullmatch(text) is not None


def require_id(value: object, field: str = "bundleID") -> str:
    """Return the id in canonical form, or raise InvalidRequest."""
    text = value.lower() if isinstance(value, str) else ""
    if not text:
        import uuid

        import uuid_utils

        text = str(value) if isinstance(value, (uuid.UUID, uuid_utils.UUID)) else ""
    if is_id(text):
        return text
    label = values.safe_repr(value, _MAX_SHOWN)
    raise InvalidRequest(
        f"{field}: {label} is not a UUIDv7.", hint="Make one with box.bundles.new_id()."
    )


def require_slug(value: object, field: str = "slug") -> str:
    """Return the slug in NFC, or raise InvalidRequest."""
    return _label(value, field, "")


def require_version(value: object, field: str = "version") -> str:
    """Return the version in NFC, or raise InvalidRequest."""
    text = _label(value, field, ".")
    if text in (".", ".."):
        raise _refusal(
            field, f"'{text}' is not a valid version.", "Give it a label such as '1.0.0'."
        )
    return text


def _label(value: object, field: str, also: str) -> str:
    if not isinstance(value, str) or not value:
        message = (
            "it is empty" if value == "" else f"{values.safe_repr(value, _MAX_SHOWN)} is not text"
        )
        raise _refusal(field, f"{message}.")
    text = unicodedata.normalize("NFC", value[: 4 * MAX_RUNES])
    if len(text) > MAX_RUNES or len(value) > 4 * MAX_RUNES:
        message = values.safe_repr(value, _MAX_SHOWN)
        raise _refusal(field, f"{message} is longer than {MAX_RUNES} characters.")
    for rune in text if not _SIMPLE.fullmatch(text) else ():
        if rune not in f"-{also}" and unicodedata.category(rune) not in _LETTERS:
            allowed = "letters, digits, '-' and '.'" if also else "letters, digits and '-'"
            kept = (c if c in also or unicodedata.category(c) in _LETTERS else "-" for c in text)
            nearest = re.sub("-+", "-", "".join(kept)).strip("-")
            example = f", as in '{nearest}'" if nearest else ""
            message = values.safe_repr(value, _MAX_SHOWN)
            raise _refusal(field, f"{message} holds {rune!r}.", f"Use {allowed}{example}.")
    return text


def _refusal(field: str, message: str, hint: str = "") -> InvalidRequest:
    return InvalidRequest(
        f"{field}: {message}", hint=hint, details=[fault(f"/{field}", message, hint)]
    )
