"""Bundles and their tools as records: the same model on disk and on the wire, JSON in camelCase.

Owns which fields there are and what each may hold. A record is frozen; its fields are attributes
and wire names (`tool.is_enabled`, `tool["isEnabled"]`). Invalid data raises one InvalidRequest that
names every field. Whether a schema compiles, a slug is free or a function exists is not checked
here.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from onetool_ipy.base import values
from onetool_ipy.base.errors import BodyTooLarge, InvalidRequest, OneToolError
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.definition import (
    ActiveEnvironment,
    Auth,
    BaseUrl,
    HttpDefinition,
    ToolLimits,
)
from onetool_ipy.bundles.validation import (
    fault,
    of_validation,
    require_id,
    require_slug,
    require_version,
    whole,
)
from onetool_ipy.core import names

ToolType = Literal["go", "python", "http"]
"""`go` is the word of 002 for a local function; `python` means the same."""

SchemaOrigin = Literal["author", "document"]
"""Who wrote an outputSchema: the tool's author, whose schema is binding, or an imported document,
whose schema is a hint.
"""

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

_READING = ("GET", "HEAD")
_MAX_NAME = 256
_MAX_TEXT = 100_000
_MAX_TAGS = 64
_MAX_BYTES = 1024 * 1024
"""The largest record of a tool that may be stored, as JSON."""
_READ_ONLY = frozenset(
    (
        "toolID",
        "bundleID",
        "isBuiltIn",
        "available",
        "reason",
        "createdAt",
        "modifiedAt",
        "callCount",
        "lastCalledAt",
    )
)
_FIRST = ("toolID", "bundleID", "slug", "version")
"""The first fields of a record, for people who read the files."""

Kind = TypeVar("Kind", bound="WireModel")


def _utc(moment: datetime.datetime) -> datetime.datetime:
    if moment.tzinfo is None:
        raise ValueError("it needs a time zone, as in 2026-01-02T12:00:00Z")
    return moment.astimezone(datetime.UTC)


def _func(text: str) -> str:
    if "." not in names.require_name(text):
        raise ValueError(f"'{text}' is not of the form 'pack.tool'")
    return names.canonical(text)


def _arguments(schema: Schema) -> Schema:
    if schema.get("type") != "object":
        raise ValueError('its "type" must be "object"')
    return schema


def _validator(check: Any) -> AfterValidator:
    """Make a pydantic validator of a check that raises one of our errors."""

    def run(value: Any) -> Any:
        try:
            return check(value)
        except OneToolError as exc:
            message = (
                exc.message.partition(": ")[2] if isinstance(exc, InvalidRequest) else exc.message
            )
            raise ValueError(f"{message} {exc.hint}".strip()) from None

    return AfterValidator(run)


Moment = Annotated[
    datetime.datetime,
    BeforeValidator(
        lambda value: datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    ),
    AfterValidator(_utc),
]
Id = Annotated[str, _validator(require_id)]
Slug = Annotated[str, _validator(require_slug)]
Version = Annotated[str, _validator(require_version)]
Name = Annotated[str, Field(max_length=_MAX_NAME)]
Text = Annotated[str, Field(max_length=_MAX_TEXT)]
Tag = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f,]+$")]
Tags = Annotated[
    list[Tag], Field(max_length=_MAX_TAGS), AfterValidator(lambda tags: list(dict.fromkeys(tags)))
]
Schema = dict[str, Any]


class WireModel(BaseModel):
    """Base of all records: frozen, camelCase outside, unknown keys refused."""

    model_config = ConfigDict(
        alias_generator=lambda field: (
            {"bundle_id": "bundleID", "tool_id": "toolID"}.get(field) or to_camel(field)
        ),
        populate_by_name=True,
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )
    _optional: ClassVar[frozenset[str]] = frozenset()

    def to_dict(self) -> Json:
        """The record as JSON. Optional fields are left out if they are empty."""
        dumped = self.model_dump(mode="json", by_alias=True)
        return {
            key: value
            for key, value in dumped.items()
            if value is not None or key not in self._optional
        }

    def keys(self) -> list[str]:
        return list(self.to_dict())

    def __getitem__(self, key: Any) -> Any:
        return self.to_dict()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.to_dict().get(key, default)


def _auth_has_place(record: Kind) -> Kind:
    node: Any = record
    if node.auth is not None and node.base_url is None:
        raise ValueError("auth needs a baseUrl: it is sent to that host alone")
    if node.environment is not None and node.base_url is None:
        raise ValueError("environment needs a baseUrl")
    return record


class Bundle(WireModel):
    """A bundle: a name, one switch, a base URL and auth for all tools in it, and the variables of
    its environment.

    The auth goes to the origin of the base URL only.
    """

    _optional: ClassVar[frozenset[str]] = frozenset(
        ("softDeletedAt", "baseUrl", "auth", "environment")
    )
    _was_created: bool = PrivateAttr(default=False)

    bundle_id: Id
    slug: Slug
    display_name: Name
    description: Text = ""
    is_enabled: bool = True
    is_built_in: bool = False
    created_at: Moment
    modified_at: Moment
    soft_deleted_at: Moment | None = None
    base_url: BaseUrl | None = None
    auth: Auth | None = None
    environment: ActiveEnvironment | None = None

    _check_auth = model_validator(mode="after")(_auth_has_place)

    @property
    def was_created(self) -> bool:
        """Whether the PUT that returned this record created the bundle."""
        return self._was_created

    def __repr__(self) -> str:
        return f"<bundle {self.slug} ({_state(self)}) {self.bundle_id}>"

    def created(self) -> Self:
        """The same record, as the result of the PUT that created it."""
        fresh = self.model_copy()
        fresh._was_created = True
        return fresh


class GoTool(WireModel):
    """The function a local tool calls, by its name in the registry; never an import path."""

    func: Annotated[str, _validator(_func)]


class _ToolFields(WireModel):
    """The fields that a PUT of a tool sets."""

    display_name: Name = ""
    description: Text = ""
    tags: Tags = Field(default_factory=list)
    type: ToolType
    arg_schema: Annotated[Schema, AfterValidator(_arguments)] = Field(
        default_factory=lambda: dict(NO_ARGUMENTS)
    )
    output_schema: Schema | bool | None = None
    output_schema_from: SchemaOrigin | None = None
    read_only: bool | None = None
    http: HttpDefinition | None = None
    go_tool: GoTool | None = None
    limits: ToolLimits | None = None
    is_enabled: bool = True

    @property
    def is_output_strict(self) -> bool:
        """Whether a value that does not fit outputSchema is a failure; with the schema of a
        document it is noted."""
        return self.output_schema_from != "document"

    @model_validator(mode="after")
    def _check(self) -> Self:
        part, other = ("http", "goTool") if self.type == "http" else ("goTool", "http")
        parts = {"http": self.http, "goTool": self.go_tool}
        if parts[part] is None:
            raise ValueError(f"a tool of type '{self.type}' needs '{part}'")
        if parts[other] is not None:
            raise ValueError(f"a tool of type '{self.type}' has no '{other}'")
        return self

    def within(self, bundle: Bundle) -> Self:
        """The tool with the base URL, the auth and the environment of its bundle, as it is
        called."""
        if self.http is None or bundle.base_url is None:
            return self
        http = self.http.within(bundle.base_url, bundle.auth, bundle.environment, bundle.slug)
        return self if http is self.http else self.model_copy(update={"http": http})

    def below(self, base_url: str | None) -> Self:
        """The tool as a bundle with this base URL stores it: each address below the base URL is its
        path."""
        if self.http is None or base_url is None:
            return self
        http = self.http.below(base_url)
        return self if http is self.http else self.model_copy(update={"http": http})

    def whole(self, base_url: str) -> Self:
        """The tool with its whole addresses, of a bundle with this base URL."""
        http = None if self.http is None else self.http.whole(base_url)
        return self if http is self.http else self.model_copy(update={"http": http})

    def unsigned_for(self, bundle: Bundle) -> Self:
        """The tool with `none` as the auth of each request to the bundle's host that has none."""
        base_url = bundle.base_url or ""
        http = None if self.http is None else self.http.unsigned_for(base_url)
        return self if http is self.http else self.model_copy(update={"http": http})

    def without_auth(self, bundle: Bundle) -> Self:
        """The tool without auth where it is that of the bundle."""
        if self.http is None or bundle.base_url is None or bundle.auth is None:
            return self
        http = self.http.without_auth(bundle.base_url, bundle.auth)
        return self if http is self.http else self.model_copy(update={"http": http})

    def to_dict(self) -> Json:
        copied: Json = _own_copy(self.shared())
        return copied

    def shared(self) -> Json:
        """`to_dict` that shares the record's own schemas: to be read or written, never returned to
        a caller."""
        apart = {"arg_schema", "output_schema", "http", "limits"}
        dumped = self.model_dump(mode="json", by_alias=True, exclude=apart)
        limits = self.limits and self.limits.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        dumped |= {"http": self.http and self.http.wire(), "limits": limits}
        dumped |= {"argSchema": self.arg_schema, "outputSchema": self.output_schema}
        ordered = {
            str(field.alias): dumped[str(field.alias)] for field in type(self).model_fields.values()
        }
        return {
            key: value
            for key, value in ordered.items()
            if value is not None or key not in self._optional
        }


class Tool(_ToolFields):
    """A tool of a bundle: one version of one slug."""

    _optional: ClassVar[frozenset[str]] = frozenset(
        ("outputSchema", "outputSchemaFrom", "readOnly", "http", "goTool", "limits", "reason")
    )
    _computed: ClassVar[frozenset[str]] = frozenset(
        ("available", "reason", "callCount", "lastCalledAt")
    )

    tool_id: Id
    bundle_id: Id
    slug: Slug
    version: Version
    is_built_in: bool = False
    created_at: Moment
    modified_at: Moment
    available: bool = True
    reason: str | None = None
    call_count: int = 0
    last_called_at: Moment | None = None

    def __repr__(self) -> str:
        return (
            f"<tool {self.slug}@{self.version} ({self.type}, {_state(self)}) of the bundle"
            f" {self.bundle_id}>"
        )

    @property
    def pair(self) -> tuple[str, str]:
        return (self.slug, self.version)

    @property
    def was_created(self) -> bool:
        """Always: a PUT never replaces a tool."""
        return True

    def shared(self) -> Json:
        record = super().shared()
        first = {key: record[key] for key in _FIRST}
        return {**first, **record}

    def stored(self) -> Json:
        """The part of the record that is stored; the rest is computed when it is needed."""
        return {key: value for key, value in self.shared().items() if key not in self._computed}

    @property
    def is_read_only(self) -> bool:
        """Whether a call changes nothing: as the record says, else if it sends only GET and
        HEAD."""
        if self.read_only is not None:
            return self.read_only
        return self.http is not None and all(
            step.request.method in _READING for _, step in self.http.plan()
        )


class BundleBody(WireModel):
    """The body of PUT /bundles/{bundleID}."""

    slug: Slug
    display_name: Name
    description: Text = ""
    is_enabled: bool = True
    base_url: BaseUrl | None = None
    auth: Auth | None = None
    environment: ActiveEnvironment | None = None

    _check_auth = model_validator(mode="after")(_auth_has_place)


class ToolBody(_ToolFields):
    """The body of PUT .../tools/{slug}/version/{version}."""


class Switch(WireModel):
    """The body of PATCH; it changes nothing else."""

    is_enabled: bool


class Page(WireModel):
    """A page of a list: iterate over it; `next_page_token` fetches the next one."""

    items: list[Any]
    next_page_token: str | None = None

    def to_dict(self) -> Json:
        listed = {"items": [item.to_dict() for item in self.items]}
        return (
            listed
            if self.next_page_token is None
            else {**listed, "nextPageToken": self.next_page_token}
        )

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # a page is its rows, not its fields
        return iter(self.items)

    def __repr__(self) -> str:
        more = ["..."] if self.next_page_token is not None else []
        return "\n".join([*(repr(item) for item in self.items), *more]) or "<nothing>"

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Any:
        return self.items[key] if isinstance(key, int | slice) else super().__getitem__(key)


def _state(record: Bundle | Tool) -> str:
    return ", ".join(
        ["on" if record.is_enabled else "off", *(["built-in"] if record.is_built_in else [])]
    )


def read(kind: type[Kind], data: Any, *, own: tuple[str, str] | None = None) -> Kind:
    """Make a record of foreign data, or raise InvalidRequest naming every field that is wrong.

    With `own`, the slug and version that a tool is PUT under, fields that only the store sets are
    ignored, so that a record that was read can be sent back. Raises BodyTooLarge for a tool that is
    too large to be stored.
    """
    if isinstance(data, WireModel):
        data = data.to_dict()
    if not isinstance(data, Mapping):
        raise whole(f"An object is needed, not {values.safe_repr(data, 80)}.")
    if not values.is_json(dict(data)):
        raise whole("Only JSON can be kept, at most 200 levels deep: no NaN, no other types.")
    if own is not None:
        fresh = {key: value for key, value in data.items() if key not in _READ_ONLY}
        for field, label, check in (
            ("slug", own[0], require_slug),
            ("version", own[1], require_version),
        ):
            if field in fresh and check(fresh.pop(field)) != label:
                message = f"it is another one than '{label}', which it is PUT under."
                raise InvalidRequest(f"{field}: {message}", details=[fault(f"/{field}", message)])
        data = _own_copy(fresh, most=_MAX_BYTES)
    try:
        return kind.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as exc:
        raise of_validation(exc, kind, data) from None
    except RecursionError:
        raise whole("The tool is nested too deeply.") from None


def _own_copy(data: Mapping[str, Any], *, most: float = math.inf) -> Any:
    """A deep copy of JSON of at most so many bytes. Refuses lone surrogates, which no JSON file can
    hold."""
    loads: Callable[[bytes], Any] = orjson.loads
    try:
        text = orjson.dumps(data)
    except TypeError:  # numbers of more than 64 bits, halves of characters
        try:
            text, loads = json.dumps(data, ensure_ascii=False).encode("utf-8"), json.loads
        except UnicodeEncodeError as exc:
            excerpt = ascii(exc.object[max(0, exc.start - 20) : exc.end])
            raise whole(
                f"The text {excerpt} ends in half a character (a lone surrogate)."
            ) from None
    if len(text) > most:
        message = f"The tool has {len(text):,} bytes; at most {most:,} are kept."
        raise BodyTooLarge(message, details=[fault("", message)])
    return loads(text)
