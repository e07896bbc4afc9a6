"""OpenTelemetry spans of calls, asks, model and HTTP requests, by its conventions for generative AI
and HTTP.

Spans are made where the process has a tracer provider, which the user's own code or
`opentelemetry-instrument` sets. Without one a look at a module's variable is all that a call pays;
the library itself makes no-op spans that cost a hundred times as much. Arguments and results leave
the process only where the capture variable says so, and masked then. A span carries no text of an
exception: that may hold anything; and no URL, which may hold a secret. An HTTP request carries the
id of its span as `traceparent`, so that the spans of a server are below it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.core.resolve import ResolvedCall, Step
from onetool_ipy.core.result import ToolResult

if TYPE_CHECKING:
    from opentelemetry.trace import SpanKind, Tracer

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that lets arguments and results into spans: `true`, SPAN_ONLY or SPAN_AND_EVENT."""

OPENTELEMETRY = "opentelemetry.trace"
"""The module without which nobody traces."""

_MAX_CONTENT = 20_000

Attributes = dict[str, str | int | tuple[str, ...]]


def traced(mask: Callable[[str], str]) -> Step:
    """One span `execute_tool NAME` for each call, around everything that the call does."""

    def step(resolved: ResolvedCall) -> Generator[None, ToolResult, ToolResult | None] | None:
        return None if _tracer() is None else _call_span(resolved, mask)

    return step


def is_traced() -> bool:
    """Whether the process has a tracer provider."""
    # The library's public `get_tracer_provider` sets a proxy where there is none, and its tracers
    # make no-op spans.
    trace = sys.modules.get(OPENTELEMETRY)
    return trace is not None and getattr(trace, "_TRACER_PROVIDER", None) is not None


def _call_span(
    resolved: ResolvedCall, mask: Callable[[str], str]
) -> Generator[None, ToolResult, ToolResult | None]:
    spec, name = resolved.spec, mask(resolved.tool)
    is_remote = spec is not None and (spec.http is not None or bool(spec.server))
    attributes: Attributes = {
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": mask(str(resolved.id)),
        "gen_ai.tool.type": "extension" if is_remote else "function",
    }
    if _captures_content():
        attributes["gen_ai.tool.call.arguments"] = _content(resolved.given, mask)
    with traced_work("execute_tool", name, attributes) as ended:
        result = yield
        if result.error is not None:
            own = result.error.exception if result.error.code == "execution_error" else None
            ended["error.type"] = result.error.code if own is None else type(own).__name__
        elif _captures_content():
            ended["gen_ai.tool.call.result"] = _content(result.data, mask)
    return None


@contextmanager
def traced_work(
    operation: Literal["execute_tool", "invoke_agent", "chat"], name: str, attributes: Attributes
) -> Iterator[Attributes]:
    """Be one span, if the process has a tracer provider. What is put into the yielded dict becomes
    its attributes.

    The span is that of the running context, which threads and event loops of ours copy: spans
    inside have it as parent.
    """
    ended: Attributes = {}
    tracer = _tracer()
    if tracer is None:
        yield ended
        return
    from opentelemetry.trace import SpanKind

    kind = SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL
    attributes = {"gen_ai.operation.name": operation, **attributes}
    with _span(tracer, f"{operation} {name}", kind, attributes, ended):
        yield ended


@contextmanager
def _span(
    tracer: Tracer, name: str, kind: SpanKind, attributes: Attributes, ended: Attributes
) -> Iterator[None]:
    """Be the span of the running context. It gets the attributes in `ended` at its end."""
    from opentelemetry.trace import Status, StatusCode

    with tracer.start_as_current_span(
        name,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as exc:
            ended["error.type"] = type(exc).__name__
            raise
        finally:
            span.set_attributes(ended)
            if "error.type" in ended:
                span.set_status(Status(StatusCode.ERROR))


@contextmanager
def traced_request(method: str, host: str, port: int) -> Iterator[Attributes]:
    """Be the client span of one HTTP request, if the process has a tracer provider, as
    `traced_work` is that of a call.

    The yielded dict gets `http.response.status_code`; a status of an error is the span's.
    """
    ended: Attributes = {}
    tracer = _tracer()
    if tracer is None:
        yield ended
        return
    from opentelemetry.trace import SpanKind

    start: Attributes = {"http.request.method": method, "server.address": host, "server.port": port}
    with _span(tracer, method, SpanKind.CLIENT, start, ended):
        yield ended
        status = ended.get("http.response.status_code")
        if isinstance(status, int) and status >= 400:
            ended["error.type"] = str(status)


def trace_headers() -> dict[str, str]:
    """The headers that put what a server does below the span of now; none without a tracer
    provider."""
    if _tracer() is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def _captures_content() -> bool:
    """Whether arguments and results may be in spans."""
    return os.environ.get(CAPTURE, "").lower() in ("true", "1", "span_only", "span_and_event")


def _content(value: object, mask: Callable[[str], str]) -> str:
    return values.cut(mask(values.to_text(values.to_json(value))), _MAX_CONTENT)


def _tracer() -> Tracer | None:
    if not is_traced():
        return None
    tracer: Tracer = sys.modules[OPENTELEMETRY].get_tracer("onetool_ipy", __version__)
    return tracer
