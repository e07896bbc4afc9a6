"""The tools, prompts and resources that the official MCP exam asks a server for, as an ordinary pack."""

import base64
import time
from typing import Annotated

from pydantic import Field

from onetool_ipy import tool
from onetool_ipy.sdk import (
    Audio,
    Blocks,
    Image,
    Resource,
    Roots,
    Sample,
    UserForm,
    ask_client,
    ask_model,
    ask_user,
    client_can,
    log,
    progress,
)

pack = "test"
__all__ = [
    "audio_content",
    "elicitation",
    "elicitation_sep1034_defaults",
    "elicitation_sep1330_enums",
    "embedded_resource",
    "error_handling",
    "header",
    "image_content",
    "input_required_result_capabilities",
    "input_required_result_elicitation",
    "input_required_result_list_roots",
    "input_required_result_multi_round",
    "input_required_result_multiple_inputs",
    "input_required_result_prompt",
    "input_required_result_request_state",
    "input_required_result_sampling",
    "input_required_result_tampered_state",
    "logging_tool",
    "missing_capability",
    "multiple_content_types",
    "prompt_with_arguments",
    "prompt_with_embedded_resource",
    "prompt_with_image",
    "sampling",
    "simple_prompt",
    "simple_text",
    "static_binary",
    "static_text",
    "streaming_elicitation",
    "template_data",
    "tool_with_logging",
    "tool_with_progress",
    "trigger_prompt_change",
    "trigger_tool_change",
    "watched",
]

_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
_WAV = b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x02\x00\x00\x00\x80\x80"
_OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def _text(field):
    return {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}


def simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


def image_content() -> bytes:
    """Give an image as bytes."""
    return _PNG


def audio_content() -> Audio:
    """Give a sound."""
    return Audio("audio/wav", _WAV)


def embedded_resource() -> Resource:
    """Give a resource."""
    return Resource(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."
    )


def multiple_content_types() -> Blocks:
    """Give a text, an image and a resource."""
    data = Resource(
        "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
    )
    return Blocks(["Multiple content types test:", Image("image/png", _PNG), data])


def error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


def header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Give back an argument that clients send as a header, too.

    Args:
        region: Any text.
    """
    return region


def tool_with_progress() -> str:
    """Tell how far it is."""
    for done in (0, 50, 100):
        progress(done, 100)
        time.sleep(0.05)
    return "done"


def tool_with_logging() -> str:
    """Log three lines."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        log(text)
        time.sleep(0.05)
    return "done"


def logging_tool() -> str:
    """Log one line."""
    log("A line for those who want it")
    return "done"


def sampling(prompt: str) -> str:
    """Ask the client's model.

    Args:
        prompt: What to ask.
    """
    return f"LLM response: {ask_model(prompt, max_tokens=100)}"


def missing_capability() -> str:
    """Ask the client's model; a client without one is refused."""
    return ask_model("Is anybody there?", max_tokens=10)


def elicitation(message: str) -> str:
    """Ask the person for a name and an address.

    Args:
        message: What to say.
    """
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    found = ask_user(
        {"type": "object", "properties": fields, "required": ["username", "email"]}, message
    )
    return f"User response: {found}"


def elicitation_sep1034_defaults() -> str:
    """Ask with a default for every kind of field."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {ask_user({'type': 'object', 'properties': fields}, 'Please check these')}"


def elicitation_sep1330_enums() -> str:
    """Ask with every kind of choice."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    legacy = {
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    }
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **legacy},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {ask_user({'type': 'object', 'properties': fields}, 'Please choose')}"


def streaming_elicitation() -> str:
    """Tell how far it is, then ask."""
    progress(1, 2)
    return f"{ask_user(_OK, 'Go on?')}"


def input_required_result_elicitation() -> str:
    """Ask for a name."""
    found = ask_user(_text("name"), "What is your name?", name="user_name")
    return f"Hello, {found['name']}!" if found else "Hello, whoever you are!"


def input_required_result_sampling() -> str:
    """Ask the client's model."""
    return ask_model("What is the capital of France?", max_tokens=100, name="capital_question")


def input_required_result_list_roots() -> str:
    """Ask for the client's folders."""
    return f"Roots: {ask_client(client_roots=Roots())['client_roots']}"


def input_required_result_request_state() -> str:
    """Ask, and say that the state came back."""
    return f"state-ok {ask_user(_OK, 'Please confirm', name='confirm')}"


def input_required_result_tampered_state() -> str:
    """Ask; the answer must come with the right state."""
    return f"{ask_user(_OK, 'Please confirm', name='confirm')}"


def input_required_result_multiple_inputs() -> str:
    """Ask three things at once."""
    found = ask_client(
        user_name=UserForm(_text("name"), "What is your name?"),
        greeting=Sample("Generate a greeting", max_tokens=50),
        client_roots=Roots(),
    )
    return f"{found['greeting']} {found['user_name']} {found['client_roots']}"


def input_required_result_multi_round() -> str:
    """Ask two things, one after the other."""
    name = ask_user(_text("name"), "Step 1: What is your name?", name="step1")
    color = ask_user(_text("color"), "Step 2: What is your favorite color?", name="step2")
    return f"{name} {color}"


def input_required_result_capabilities() -> str:
    """Ask what the client can answer."""
    wanted = {}
    if "sampling" in client_can():
        wanted["sample"] = Sample("Say something", max_tokens=10)
    if "elicitation" in client_can():
        wanted["form"] = UserForm(_OK, "Go on?")
    return f"{ask_client(**wanted)}"


@tool(prompt=True)
def simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@tool(prompt=True)
def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument.
        arg2: Second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@tool(prompt=True)
def prompt_with_embedded_resource(resourceUri: str) -> list:
    """A prompt with a resource.

    Args:
        resourceUri: Its address.
    """
    embedded = Resource(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [embedded, "Please process the embedded resource above."]


@tool(prompt=True)
def prompt_with_image() -> list:
    """A prompt with an image."""
    return [Image("image/png", _PNG), "Please analyze the image above."]


@tool(prompt=True)
def input_required_result_prompt() -> str:
    """A prompt that asks."""
    found = ask_user(_text("context"), "What context should the prompt use?", name="user_context")
    return f"Use this: {found}"


@tool(resource="test://static-text")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@tool(resource="test://static-binary")
def static_binary() -> bytes:
    """An image."""
    return _PNG


@tool(resource="test://watched-resource")
def watched() -> str:
    """A text to watch."""
    return "Nothing new."


@tool(resource="test://template/{id}/data")
def template_data(id: str) -> dict:
    """Data by number.

    Args:
        id: The number.
    """
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def trigger_tool_change() -> str:
    """Add a tool."""
    tool(_new("extra_tool"))
    return "done"


def trigger_prompt_change() -> str:
    """Add a prompt."""
    tool(prompt=True)(_new("extra_prompt"))
    return "done"


def _new(kind):
    def made() -> str:
        """Something new."""
        return kind

    made.__name__ = f"{kind}_{time.time_ns()}"
    return made
