"""AnswerType: the type that an answer must have. Its JSON Schema for the model, and the check of
what came back.

A provider wants an object at the top, so the value is the one field of an object; a model that
leaves the object out is understood all the same. pydantic reads the type and makes the value. Where
it refuses one, the reasons are told in our own words, as far as the schema explains them.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import AskFailed, InvalidTool, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.schema.check import Checker, dotted

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_FIELD = "value"
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(?P<body>.*?)\n?```", re.DOTALL)
_MAX_REASONS = 10
_MAX_REASON = 200


class AnswerMismatch(AskFailed, reason="answer_mismatch"):
    """A model's answer is not of the type that was asked for. `text` is the answer, `reasons` say
    what is wrong."""

    def __init__(self, message: str, *, text: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint="; ".join(reasons))
        self.text = text
        self.reasons = reasons


class AnswerType:
    """A Python type that an answer must have: a class, `list[City]`, a Literal, a TypedDict,
    anything pydantic reads.

    Raises UsageProblem for a type that cannot be checked.
    """

    def __init__(self, kind: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        self.name = (
            kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
        )
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            inner = self._adapter.json_schema()
        except (PydanticUserError, TypeError, ValueError, NameError) as exc:
            raise UsageProblem(
                f"An answer cannot be checked against '{values.cut(self.name, 80)}'.",
                hint=(
                    "Use a type that JSON can hold: str, int, list[...], dict[...], a dataclass or"
                    " a pydantic model."
                ),
            ) from exc
        definitions = inner.pop("$defs", None)
        self.schema: Json = {
            "type": "object",
            "properties": {_FIELD: inner},
            "required": [_FIELD],
            **({} if definitions is None else {"$defs": definitions}),
        }
        for node in _objects(self.schema):
            node.setdefault("additionalProperties", False)

    @property
    def instruction(self) -> str:
        """What a model is told, also where its provider has structured answers."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return (
            f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{schema}"
        )

    def read(self, text: str) -> Any:
        """Return the value in a model's answer. Raises AnswerMismatch."""
        fenced = _FENCE.search(text)
        try:
            data = values.from_json(text if fenced is None else fenced["body"])
        except (ValueError, RecursionError):
            return self.check(text, text)
        if not isinstance(data, dict) or data.keys() != {_FIELD}:
            return self.check(data, text)
        try:
            return self.check(data[_FIELD], text)
        except AnswerMismatch:
            # A dict may have a key of this name itself.
            with suppress(AnswerMismatch):
                return self.check(data, text)
            raise

    def check(self, value: object, text: str = "") -> Any:
        """Return a value as one of this type, converted where that is plain. Raises
        AnswerMismatch."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(value)
        except ValidationError as exc:
            reasons = tuple(self._reasons(value, exc))[:_MAX_REASONS]
        message = f"The answer is not of the type '{values.cut(self.name, 80)}'."
        raise AnswerMismatch(message, text=text, reasons=reasons)

    def _reasons(self, value: object, error: Any) -> Iterator[str]:
        """Yield what is wrong: by the schema, or in the words of a validator that the type's author
        wrote."""
        if isinstance(value, str) and self.schema["properties"][_FIELD].get("type") not in (
            None,
            "string",
        ):
            yield "it is not JSON"
            return
        violations = (
            self._checker.violations({_FIELD: values.to_json(value)})
            if self._checker is not None
            else []
        )
        for violation in violations:
            yield values.cut(violation["message"], _MAX_REASON)
        if not violations:
            for each in error.errors(include_url=False):
                place = dotted([_FIELD, *each["loc"]])
                yield values.cut(
                    f"field '{place}': {each['msg'].removeprefix('Value error, ')}", _MAX_REASON
                )

    @cached_property
    def _checker(self) -> Checker | None:
        try:
            return Checker(self.schema)
        except InvalidTool:
            return None


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether every object of a schema has all its fields required and no others, as OpenAI's
    strict mode wants."""
    is_closed = all(
        node.get("additionalProperties") is False
        and node["properties"].keys() == set(node.get("required", ()))
        for node in _objects(schema)
    )
    is_open = any(
        node.get("type") == "object" and "properties" not in node for node in _nodes(schema)
    )
    return is_closed and not is_open


def type_named(text: str, namespace: Mapping[str, object]) -> object:
    """Return the type that a person wrote, such as `list[City]`, by the names of the notebook.
    Raises UsageProblem."""
    names: dict[str, Any] = {
        **{name: getattr(typing, name) for name in typing.__all__},
        **namespace,
    }
    try:
        return eval(text, {"__builtins__": __builtins__, **names})  # noqa: S307 - the person's own code, typed in a cell
    except NameError as exc:
        near = did_you_mean(
            exc.name or "", [name for name in namespace if not name.startswith("_")]
        )
        message = f"--as {text}: there is no '{exc.name}'. {near}".rstrip()
        raise UsageProblem(message, hint="Define the type first.") from exc
    except Exception as exc:
        raise UsageProblem(
            f"--as {text}: this is not a type.", hint='For example: --as "list[str]"'
        ) from exc


def _objects(schema: object) -> Iterator[dict[str, Any]]:
    """Yield each object with named fields in a schema."""
    return (node for node in _nodes(schema) if "properties" in node)


def _nodes(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for key, inner in schema.items():
            # The keys of these are names, which may be called like a keyword.
            for part in (
                inner.values()
                if key in ("properties", "$defs") and isinstance(inner, dict)
                else [inner]
            ):
                yield from _nodes(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _nodes(part)
