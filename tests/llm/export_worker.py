"""Our tools in the hands of another framework, in a process that has it.

Runs in .venv-frameworks:

    python export_worker.py langchain FOLDER

prints one JSON object: which tools are exported, and what the framework's own way of calling them
gave.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Literal

from onetool_ipy import open_toolbox, tool
from onetool_ipy.toolbox import Toolbox

SECRET = "hunter-22-hunter"


@tool(read_only=True)
def look(city: str, days: int = 1, mode: Literal["brief", "full"] = "brief") -> dict:
    """Look at the weather.

    Args:
        city: Where.
    """
    if city == "nowhere":
        raise LookupError(f"no such city, {SECRET}")
    return {"city": city, "days": days, "key": SECRET}


@tool(read_only=True)
def much(rows: int) -> list:
    """Give much."""
    return list(range(rows))


@tool(read_only=True)
def odd() -> dict:
    """Give what JSON has no types for."""
    import pandas as pd

    times = [pd.Timestamp("2026-01-02"), None]
    return {
        "big": 2**70,
        "frame": pd.DataFrame({"at": times}),
        "key": SECRET,
        "half": "\ud800",
        "nan": float("nan"),
    }


@tool
def send(text: str) -> str:
    """Send it."""
    return f"sent {text}"


def by_langchain(tools: dict[str, Any]) -> dict[str, Any]:
    from langchain_core.messages import ToolMessage

    def call(name: str, args: dict[str, Any]) -> ToolMessage:
        return tools[name].invoke({"type": "tool_call", "name": name, "args": args, "id": "c1"})

    good, bad, failed = (
        call("nb_look", args) for args in ({"city": "Oslo"}, {"days": "x"}, {"city": "nowhere"})
    )
    strange = call("nb_odd", {})
    asked = {"type": "tool_call", "name": "nb_look", "args": {"city": "Rome"}, "id": "2"}
    later = asyncio.run(tools["nb_look"].ainvoke(asked))
    return {
        "schema": tools["nb_look"].args_schema,
        "good": good.content,
        "artifact": good.artifact,
        "kept": kept_by_langchain([good, failed, strange, call("nb_much", {"rows": 50_000})]),
        "odd": strange.artifact,
        "async": later.content,
        "bad": [bad.status, bad.content],
        "failed": [failed.status, failed.content],
        "large": call("nb_much", {"rows": 50_000}).content,
        "approval": {name: each.metadata["requires_approval"] for name, each in tools.items()},
    }


def kept_by_langchain(messages: list[Any]) -> dict[str, bool]:
    """Keep messages in the three ways there are, and say which gave the same ones back."""
    from langchain_core.messages import messages_from_dict, messages_to_dict
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    serializer = JsonPlusSerializer(allowed_msgpack_modules=None)
    texts = [message.model_dump_json() for message in messages]
    return {
        "messages_to_dict": messages_from_dict(json.loads(json.dumps(messages_to_dict(messages))))
        == messages,
        "checkpoint": serializer.loads_typed(serializer.dumps_typed(messages)) == messages,
        "model_dump_json": [
            type(one).model_validate_json(text) for one, text in zip(messages, texts, strict=True)
        ]
        == messages,
    }


def endured(tools: dict[str, Any]) -> dict[str, Any]:
    """Let a model call a tool that fails, four times and once with success, and say how its run
    ended."""
    from pydantic_ai import (
        Agent,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
    )
    from pydantic_ai.models.function import FunctionModel

    cities = ["nowhere"] * 4 + ["Oslo"]

    def reply(messages: list, _info: Any) -> ModelResponse:
        if not cities:
            return ModelResponse([TextPart("done")])
        return ModelResponse(
            [ToolCallPart("nb_look", {"city": cities.pop(0)}), ToolCallPart("nb_odd", {})]
        )

    run = Agent(FunctionModel(reply), tools=list(tools.values())).run_sync("go")
    parts = [
        part
        for message in run.all_messages()
        if isinstance(message, ModelRequest)
        for part in message.parts
    ]
    loaded = ModelMessagesTypeAdapter.validate_json(run.all_messages_json())
    return {
        "output": run.output,
        "replies": [
            str(part.content) for part in parts if getattr(part, "tool_name", "") == "nb_look"
        ],
        "kept": {"all_messages_json": loaded == run.all_messages()},
    }


def by_pydantic_ai(tools: dict[str, Any]) -> dict[str, Any]:
    from pydantic_ai import (
        Agent,
        DeferredToolRequests,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
    )
    from pydantic_ai.models.function import FunctionModel

    def ask(name: str, args: dict[str, Any]) -> Any:
        def reply(messages: list, _info: Any) -> ModelResponse:
            parts = [
                part
                for message in messages
                if isinstance(message, ModelRequest)
                for part in message.parts
            ]
            returned = [part for part in parts if part.part_kind != "user-prompt"]
            replies.extend(returned[-1:])
            return ModelResponse([TextPart("done") if returned else ToolCallPart(name, args)])

        replies: list[Any] = []
        agent = Agent(
            FunctionModel(reply),
            tools=list(tools.values()),
            output_type=[str, DeferredToolRequests],
        )
        output = agent.run_sync("go").output
        return replies[-1] if replies else output

    good = ask("nb_look", {"city": "Oslo"})
    deferred = ask("nb_send", {"text": "x"}) if "nb_send" in tools else None
    return {
        "schema": tools["nb_look"].tool_def.parameters_json_schema,
        "good": good.content,
        "artifact": good.metadata,
        "odd": ask("nb_odd", {}).metadata,
        "kept": (endurance := endured(tools)).pop("kept"),
        "endured": endurance,
        "async": ask("nb_look", {"city": "Rome"}).content,
        "bad": [(bad := ask("nb_look", {"days": "x"})).retry is not None, bad.content],
        "failed": [
            (failed := ask("nb_look", {"city": "nowhere"})).retry is not None,
            failed.content,
        ],
        "large": ask("nb_much", {"rows": 50_000}).content,
        "approval": {name: each.requires_approval for name, each in tools.items()},
        "deferred": None if deferred is None else [call.tool_name for call in deferred.approvals],
    }


def by_openai_agents(tools: dict[str, Any]) -> dict[str, Any]:
    from agents.tool_context import ToolContext

    def call(name: str, text: str) -> str:
        context = ToolContext(context=None, tool_name=name, tool_call_id="c1", tool_arguments=text)
        return asyncio.run(tools[name].on_invoke_tool(context, text))

    return {
        "schema": tools["nb_look"].params_json_schema,
        "good": call("nb_look", '{"city": "Oslo"}'),
        "artifact": None,
        "async": call("nb_look", '{"city": "Rome"}'),
        "bad": ["", call("nb_look", '{"days": "x"}')],
        "not_json": call("nb_look", "{"),
        "failed": ["", call("nb_look", '{"city": "nowhere"}')],
        "large": call("nb_much", '{"rows": 50000}'),
        "approval": {name: each.needs_approval for name, each in tools.items()},
    }


def by_smolagents(tools: dict[str, Any]) -> dict[str, Any]:
    def failed(**args: Any) -> list[str]:
        try:
            tools["nb_look"](**args)
        except Exception as exc:
            return [type(exc).__name__, str(exc)]
        return []

    return {
        "schema": {"properties": tools["nb_look"].inputs},
        "prompt": tools["nb_look"].to_code_prompt(),
        "good": json.dumps(tools["nb_look"](city="Oslo", days=None)),
        "artifact": None,
        "async": json.dumps(tools["nb_look"](city="Rome")),
        "bad": failed(days="x"),
        "failed": failed(city="nowhere"),
        "large": json.dumps(tools["nb_much"](rows=50_000)),
        "approval": None,
    }


CALLERS = {
    "langchain": by_langchain,
    "pydantic-ai": by_pydantic_ai,
    "openai-agents": by_openai_agents,
    "smolagents": by_smolagents,
}


def exported(box: Toolbox, framework: str, allow: Any = None) -> dict[str, Any]:
    """Return the exported tools by their names there."""
    return {each.name: each for each in box.export(framework, allow)}


def main(framework: str, folder: str) -> None:
    """Export, call, and print what came of it."""
    home = Path(folder) / ".onetool"
    home.mkdir(parents=True)
    (home / "onetool.yaml").write_text("version: 1\n")
    (home / "secrets.yaml").write_text(f"KEY: {SECRET}\n")
    (home / "secrets.yaml").chmod(0o600)
    with open_toolbox(folder, env={"ONETOOL_STATE": f"{folder}/state"}) as box:
        for function in (look, much, odd, send):
            box.adopt(function)
        by_default = exported(box, framework)
        report = CALLERS[framework](exported(box, framework, ["nb.*"]))
        report["default"] = sorted(by_default)
        report["log"] = sorted(
            {row.source for row in box.log.history(limit=50) if row.tool.startswith("nb.")}
        )
    sys.stdout.write(f"\n{json.dumps(report)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
