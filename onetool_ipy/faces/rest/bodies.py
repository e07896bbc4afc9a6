"""Request and response bodies that only REST has. Those of bundles and tools are in `bundles.model`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from onetool_ipy.bundles.model import Bundle, Slug, Tool, ToolBody, WireModel

__all__ = [
    "BundlePage",
    "ChosenOperations",
    "DraftTool",
    "ErrorBody",
    "ErrorDetail",
    "ImportBody",
    "ImportPreview",
    "ImportedTools",
    "InvokeBody",
    "Invoked",
    "OfferedOperation",
    "PreviewBody",
    "Refusal",
    "TestBody",
    "Tested",
    "ToolPage",
    "TrustBody",
    "TrustState",
]

Json = dict[str, Any]

Confirmed = Annotated[
    list[str],
    Field(description="NAME=HOST for each secret that may go to a host that did not get it before.", max_length=256),
]


class InvokeBody(WireModel):
    """The body of POST .../invoke."""

    args: Annotated[Json | SkipJsonSchema[Any], Field(description="The arguments, as argSchema has them.")] = Field(
        default_factory=dict
    )


class DraftTool(ToolBody):
    """A tool that is not stored. Fields that only the store sets are accepted and ignored."""

    model_config = ConfigDict(extra="ignore")


class TestBody(WireModel):
    """The body of POST /onetool/tools/test."""

    tool: DraftTool
    args: Json = Field(default_factory=dict)
    confirm_secrets: Confirmed = Field(default_factory=list)


class NewBundle(WireModel):
    """The bundle that an import creates."""

    slug: Slug
    display_name: Annotated[str, Field(max_length=256)] = ""


class ChosenOperations(WireModel):
    """Which operations of a document become tools; patterns match a name, a path or `GET /path`."""

    tags: list[str] = Field(default_factory=list)
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    names: list[str] | None = None
    read_only: bool = False


class PreviewBody(WireModel):
    """The body of POST /onetool/tools/import/preview: a document of another format or its address."""

    document: Json | str = Field(
        validation_alias=AliasChoices("document", "openapi"),
        description="OpenAPI 3, Swagger 2.0, a Postman collection or a HAR file, or its address; also as `openapi`.",
    )
    server: Annotated[
        str, Field(max_length=2000, description="The server to call, where the document names none or another.")
    ] = ""
    choose: ChosenOperations = Field(default_factory=ChosenOperations)


class ImportBody(PreviewBody):
    """The body of POST /onetool/tools/import: a document or its address, and the bundle to create."""

    bundle: NewBundle
    confirm_secrets: Confirmed = Field(default_factory=list)


class TrustBody(WireModel):
    """The body of POST /onetool/trust: a yes or a no to the project, or a yes to one server of it."""

    is_trusted: bool
    would_run: Annotated[
        Json | None, Field(description="With a yes: what the person was shown, as GET gave it in wouldRun.")
    ] = None
    server: Annotated[str, Field(max_length=128, description="Say yes to this server alone.")] = ""


class TrustState(WireModel):
    """Whether a project is trusted, why, and what a yes would let run."""

    folder: str
    is_trusted: bool
    how: Literal["no project", "home", "named", "environment", "listed", "untrusted"]
    would_run: Json


class BundlePage(WireModel):
    """One page of bundles."""

    items: list[Bundle]
    next_page_token: str | None = None


class ToolPage(WireModel):
    """One page of tools."""

    items: list[Tool]
    next_page_token: str | None = None


class ImportedTools(WireModel):
    """What an import created, which secrets and hosts its tools need, and what of the document was left out."""

    bundle: Bundle
    tools: list[Tool]
    secrets: list[Json] = Field(default_factory=list)
    hosts: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class OfferedOperation(WireModel):
    """An operation that can be imported, by the name that its tool would have."""

    name: str
    method: str
    url: str
    tags: list[str]
    description: str


class ImportPreview(WireModel):
    """What an import would make of a document."""

    kind: str
    bundle: Json
    operations: list[OfferedOperation]
    secrets: list[Json]
    hosts: list[str]
    notes: list[str]


class ErrorDetail(WireModel):
    """What is wrong at one place in the body."""

    model_config = ConfigDict(extra="allow")

    pointer: Annotated[
        str,
        Field(
            description="JSON Pointer into the body, or into args with the code `invalid_args`; empty for the whole of "
            "it. Values from the path are `/slug` and `/version`.",
            examples=["/http/request/urlTemplate"],
        ),
    ]
    message: str


class ErrorBody(WireModel):
    """What went wrong. For an invoke, `code` is that of spec 004 and `reason` is more specific."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    tool: str | None = None
    reason: str | None = None
    details: Annotated[
        list[ErrorDetail] | Json | None,
        Field(description="For an invalid body or invalid arguments: every error with its place."),
    ] = None


class Refusal(WireModel):
    """The body of every response that is not a success."""

    ok: Literal[False]
    error: ErrorBody


class Meta(WireModel):
    """Where a value does not fit the schema of the imported document."""

    mismatch: list[ErrorDetail]


class Invoked(WireModel):
    """The result of an invoke: `value`, or the tool's own `error`."""

    ok: bool
    value: Any = None
    error: ErrorBody | None = None
    meta: Meta | None = None


class Tested(WireModel):
    """What a draft sent and received, without secrets; `steps` if it has several."""

    model_config = ConfigDict(extra="allow")

    request: Json | None
    response: Json | None
    result: Invoked
    steps: list[Json] | None = None
