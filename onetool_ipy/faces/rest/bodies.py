"""The bodies that only REST has. Those of bundles and tools are `bundles.model`'s; the description is made of both."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from onetool_ipy.bundles.model import Bundle, Slug, Tool, ToolBody, WireModel

__all__ = [
    "BundlePage",
    "DraftTool",
    "ErrorBody",
    "ErrorDetail",
    "ImportBody",
    "ImportedTools",
    "InvokeBody",
    "Invoked",
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
    """A tool that is not stored, or not yet; what only the store decides may stand in it, and is ignored."""

    model_config = ConfigDict(extra="ignore")


class TestBody(WireModel):
    """The body of POST /onetool/tools/test."""

    tool: DraftTool
    args: Json = Field(default_factory=dict)
    confirm_secrets: Confirmed = Field(default_factory=list)


class NewBundle(WireModel):
    """The bundle that an import makes."""

    slug: Slug
    display_name: Annotated[str, Field(max_length=256)] = ""


class ImportBody(WireModel):
    """The body of POST /onetool/tools/import: an OpenAPI document or its address, and the bundle to make of it."""

    openapi: Json | str
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
    """Some of the bundles."""

    items: list[Bundle]
    next_page_token: str | None = None


class ToolPage(WireModel):
    """Some of the tools."""

    items: list[Tool]
    next_page_token: str | None = None


class ImportedTools(WireModel):
    """What an import made: which secrets and hosts its tools need, and what of the document was not taken over."""

    bundle: Bundle
    tools: list[Tool]
    secrets: list[Json] = Field(default_factory=list)
    hosts: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class ErrorDetail(WireModel):
    """What is wrong with one place."""

    model_config = ConfigDict(extra="allow")

    pointer: Annotated[
        str,
        Field(
            description="JSON Pointer into the body, with the code `invalid_args` into args; empty where all of it is "
            "meant. What stands in the path is `/slug` or `/version`.",
            examples=["/http/request/urlTemplate"],
        ),
    ]
    message: str


class ErrorBody(WireModel):
    """What went wrong. Of an invoke, `code` is spec 004's and `reason` is finer."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    tool: str | None = None
    reason: str | None = None
    details: Annotated[
        list[ErrorDetail] | Json | None,
        Field(description="Of a body or of arguments that are invalid: every fault, with its place."),
    ] = None


class Refusal(WireModel):
    """Every answer that is no success."""

    ok: Literal[False]
    error: ErrorBody


class Meta(WireModel):
    """What is said of a value: where it does not fit the schema of an imported document."""

    mismatch: list[ErrorDetail]


class Invoked(WireModel):
    """What an invoke gave: `value`, or the tool's own `error`."""

    ok: bool
    value: Any = None
    error: ErrorBody | None = None
    meta: Meta | None = None


class Tested(WireModel):
    """What a draft sent and got, without secrets; `steps` where it has several."""

    model_config = ConfigDict(extra="allow")

    request: Json | None
    response: Json | None
    result: Invoked
    steps: list[Json] | None = None
