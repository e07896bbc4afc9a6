"""Every kind of call in a process that has a tracer provider, which can be set only once.

    python tracing_worker.py FOLDER SECRET

prints one JSON object: the spans of the in-memory exporter, and those that a real OTLP receiver on
this machine got.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onetool_ipy import open_toolbox, tool
from onetool_ipy.llm.programs.run import ProgramOptions, Programs
from onetool_ipy.sdk import batch_execute
from onetool_ipy.toolbox import Toolbox
from tests.harness.stub import Asked, Stub

SECRET = sys.argv[2]
ANSWERS = [
    {
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "nb_inner", "arguments": '{"a": 1}'},
            }
        ]
    },
    {"content": "It is two."},
]


def inner(a: int) -> int:
    """Add one."""
    return a + 1


def outer(a: int) -> int:
    """Call another tool."""
    return int(current_box().ot.run("nb.inner", a=a).data)


async def later(a: int) -> int:
    """Call another tool, later."""
    await asyncio.sleep(0)
    return int((await current_box().acall("nb.inner", {"a": a}, source="tool")).data)


def boom(a: int) -> int:
    """Fail with a secret."""
    raise KeyError(SECRET)


def parallel(a: int) -> str:
    """Call another tool in many threads."""
    return batch_execute(
        [a, a], lambda each: current_box().call("nb.inner", {"a": each}, source="tool").data
    )


def current_box() -> Toolbox:
    from onetool_ipy.core import current

    box: Toolbox = current.require()
    return box


def answer(asked: Asked) -> tuple[int, Any]:
    """Be the model, the HTTP tool's server and the OTLP receiver."""
    if asked.path == "/v1/traces":
        return 200, b""
    if not asked.path.endswith("/chat/completions"):
        return 200, {"ok": True}
    message = {"role": "assistant", "content": None, **ANSWERS.pop(0)}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return 200, {
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage,
    }


def calls(box: Toolbox, stub: Stub) -> None:
    """Make every kind of call, each inside a span of the user's own."""
    mine = trace.get_tracer("mine")
    for function in (inner, outer, later, boom, parallel):
        box.adopt(function)
    bundle = box.bundles.put_bundle(box.bundles.new_id(), slug="web", display_name="Web")
    request = {"request": {"method": "GET", "urlTemplate": stub.url("/things")}}
    box.bundles.put_tool(bundle.bundle_id, "get", "1", {"type": "http", "http": request})
    with mine.start_as_current_span("nested"):
        box.call("nb.outer", {"a": 1})
    with mine.start_as_current_span("async"):
        box.call("nb.later", {"a": 1})
    with mine.start_as_current_span("async caller"):
        asyncio.run(box.acall("nb.later", {"a": 1}))
    with mine.start_as_current_span("limited"):
        box.call("nb.outer", {"a": 1}, timeout=60)
    with mine.start_as_current_span("mapped"):
        box.ot.map("nb.inner", [{"a": 1}, {"a": 2}])
    with mine.start_as_current_span("parallel"):
        box.call("nb.parallel", {"a": 1})
    with mine.start_as_current_span("job"):
        box.start("nb.outer", {"a": 1}).result()
    with mine.start_as_current_span("failed"):
        box.call("nb.boom", {"a": 1})
        box.call("nb.inner", {"a": "x"})
    with mine.start_as_current_span("http"):
        box.call("web.get")
        asyncio.run(box.acall("web.get"))
    with mine.start_as_current_span("own header"):
        own = {"method": "GET", "urlTemplate": stub.url("/own"), "headers": {"traceparent": "mine"}}
        box.bundles.put_tool(
            bundle.bundle_id, "own", "1", {"type": "http", "http": {"request": own}}
        )
        box.call("web.own")
    with mine.start_as_current_span("program"):
        Programs(box).run("import nb\nnb.inner(a=1)", {}, ProgramOptions(approve=["nb.inner"]))
    with mine.start_as_current_span("ask"):
        box.ask(f"What is 1 + 1? {SECRET}", approve=["nb.inner"])
    with mine.start_as_current_span("secret"):
        box.call("nb.inner", {"a": SECRET})
        tool("nb.give")(lambda: [SECRET, "bread"])
        box.call("nb.give")


def main(folder: str) -> None:
    """Make the calls and print their spans."""
    memory = InMemorySpanExporter()
    with Stub(answer) as stub:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(memory))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(stub.url("/v1/traces"))))
        trace.set_tracer_provider(provider)
        home = Path(folder) / ".onetool"
        home.mkdir(parents=True)
        model = {"provider": "openai", "base_url": stub.url(""), "model": "m-1", "key": "KEY"}
        http = {"allowed_hosts": ["127.0.0.1"], "allow_private": True}
        settings = {
            "version": 1,
            "models": {"default": "m", "m": model},
            "http": http,
            "ask": {"stream": False},
        }
        (home / "onetool.yaml").write_text(json.dumps(settings), encoding="utf-8")
        (home / "secrets.yaml").write_text(f"KEY: {SECRET}\n", encoding="utf-8")
        (home / "secrets.yaml").chmod(0o600)
        with open_toolbox(
            folder, env={"ONETOOL_STATE": f"{folder}/state", "HOME": f"{folder}/home"}
        ) as box:
            calls(box, stub)
        provider.shutdown()
        received = [asked.body for asked in stub.asked if asked.path == "/v1/traces"]
        sent = [
            {"path": asked.path, "traceparent": asked.headers.get("traceparent", "")}
            for asked in stub.asked
            if asked.path != "/v1/traces"
        ]
    spans = memory.get_finished_spans()
    names = [name for body in received for name in names_in(body)]
    sys.stdout.write(json.dumps({"spans": rows(spans), "sent": sent, "received": names}))


def rows(spans: tuple[ReadableSpan, ...]) -> list[dict[str, Any]]:
    """Return the spans as JSON, each with the names of its parents."""
    by_id = {span.get_span_context().span_id: span for span in spans}

    def path(span: ReadableSpan) -> list[str]:
        parent = None if span.parent is None else by_id.get(span.parent.span_id)
        return [] if parent is None else [*path(parent), parent.name]

    return [
        {
            "id": f"{span.get_span_context().span_id:016x}",
            "name": span.name,
            "path": path(span),
            "attributes": dict(span.attributes or {}),
            "status": span.status.status_code.name,
            "kind": span.kind.name,
            "events": len(span.events),
        }
        for span in spans
    ]


def names_in(body: bytes) -> list[str]:
    """Return the names of the spans that a client sent."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    groups = [scope for resource in request.resource_spans for scope in resource.scope_spans]
    return [span.name for scope in groups for span in scope.spans]


if __name__ == "__main__":
    main(sys.argv[1])
