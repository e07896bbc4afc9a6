"""Nothing configured: what is found on this machine, what is asked, and what is written."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.load import own_settings
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.llm.ask.setup import LOCAL_SERVERS, LocalServer
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox
from tests.llm.misbehaving import Answer, Misbehaving, answered

TAGS = answered(
    200, {"models": [{"name": "nomic-embed-text"}, {"name": "qwen3:8b"}, {"name": "llama4"}]}
)
REPLY = answered(
    200,
    {"message": {"role": "assistant", "content": "Hello."}, "done": True, "done_reason": "stop"},
    kind="application/x-ndjson",
)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, as long as the test holds it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def port_of(server: Misbehaving) -> int:
    port = urlsplit(server.url).port
    assert port is not None
    return port


class Person:
    """Answers the questions of a toolbox; None means that nobody is there."""

    def __init__(self, box: Toolbox, reply: Reply | None) -> None:
        self.questions: list[Question] = []
        self._reply = reply
        box.host.ask = self._ask  # type: ignore[method-assign]  # a host with a person of the test's own

    def _ask(self, question: Question) -> Reply:
        self.questions.append(question)
        if self._reply is None:
            raise NobodyToAsk("Nobody could be asked.")
        return self._reply


def test_rule_16_these_ports_are_looked_at() -> None:
    assert [(server.port, server.provider) for server in LOCAL_SERVERS] == [
        (11434, "ollama"),
        (1234, "openai"),
        (8080, "openai"),
        (8000, "openai"),
    ]


def test_rule_16_a_yes_writes_the_model_into_the_users_own_settings_and_the_ask_goes_on(
    make_box: MakeBox, tmp_path: Path, closed_port: int
) -> None:
    box = make_box()
    person = Person(box, Reply("accept"))
    with Misbehaving(TAGS, REPLY) as server:
        box.ask.setup.servers = [
            LocalServer(closed_port, "LM Studio", "openai", "/v1/models"),
            LocalServer(port_of(server), "Ollama", "ollama", "/api/tags"),
        ]
        answer = box.ask("Hi", with_tools=False)
        box.ask("Hi again", with_tools=False)

    (question,) = person.questions
    assert "Ollama on port" in question.text
    assert "qwen3:8b, llama4" in question.text
    assert "Use 'qwen3:8b' from now on?" in question.text
    assert (answer.text, answer.model) == ("Hello.", "local")
    model = own_settings(tmp_path / "home").models.named["local"]
    assert (model.provider, model.base_url, model.model) == ("ollama", server.url, "qwen3:8b")
    assert "models" not in (tmp_path / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "reply", [None, Reply("decline"), Reply("cancel")], ids=["nobody", "no", "dismissed"]
)
def test_rule_16_without_a_yes_nothing_is_written_and_the_message_has_the_line(
    make_box: MakeBox, tmp_path: Path, reply: Reply | None
) -> None:
    box = make_box()
    Person(box, reply)
    with Misbehaving(answered(200, {"data": [{"id": "some-model"}]})) as server:
        box.ask.setup.servers = [LocalServer(port_of(server), "vLLM", "openai", "/v1/models")]
        with pytest.raises(UsageProblem) as caught:
            box.ask("Hi")

    assert "vLLM on port" in caught.value.message
    assert "on the tab Ask" in caught.value.hint
    assert "Or write in ~/.onetool/onetool.yaml:\nmodels: {local: {" in caught.value.hint
    assert f'"base_url": "{server.url}/v1", "model": "some-model"' in caught.value.hint
    assert not (tmp_path / "home" / ".onetool").exists()


OPENAI_MODELS = {
    "data": [
        {"id": "gpt-old", "created": 1},
        {"id": "text-embedding-3", "created": 9},
        {"id": "gpt-new", "created": 5},
        {"id": "gpt-new-audio", "created": 6},
    ]
}


@pytest.mark.parametrize(
    ("name", "provider", "listing", "path", "header"),
    [
        (
            "ANTHROPIC_API_KEY",
            "anthropic",
            {"data": [{"id": "claude-new"}, {"id": "claude-old"}]},
            "/v1/models",
            "x-api-key",
        ),
        ("OPENAI_API_KEY", "openai", OPENAI_MODELS, "/v1/models", "authorization"),
        (
            "GEMINI_API_KEY",
            "gemini",
            {"models": [{"name": "models/gemini-new"}]},
            "/models",
            "x-goog-api-key",
        ),
        (
            "GOOGLE_API_KEY",
            "gemini",
            {"models": [{"name": "models/gemini-new"}]},
            "/models",
            "x-goog-api-key",
        ),
    ],
)
def test_rule_16_a_key_variable_is_found_by_its_name_and_its_provider_says_which_models_it_has(
    make_box: MakeBox,
    tmp_path: Path,
    name: str,
    provider: str,
    listing: dict[str, Any],
    path: str,
    header: str,
) -> None:
    """Nothing is dialled before the yes; a name of a model is never from memory."""
    box = make_box(env={name: "key-of-the-tests-1"})
    box.ask.setup.servers = []
    with Misbehaving(answered(200, listing)) as server:
        box.ask.setup.base_urls = {provider: server.url}
        Person(box, None)
        with pytest.raises(UsageProblem) as caught:
            box.ask.setup.offer()
        dialled_before = list(server.seen)
        person = Person(box, Reply("accept"))
        box.ask.setup.offer()

    assert dialled_before == []
    assert f'"model": "NAME", "key": "{name}"' in caught.value.hint
    assert f"the variable {name}" in person.questions[0].text
    assert "Ask 127.0.0.1 for the models of this key" in person.questions[0].text
    assert (server.seen[0].path, "key-of-the-tests-1" in server.seen[0].headers[header]) == (
        path,
        True,
    )
    (model,) = own_settings(tmp_path / "home").models.named.values()
    assert (model.provider, model.key, model.model.endswith("-new")) == (provider, name, True)
    shown = str(person.questions) + (tmp_path / "home" / ".onetool" / "onetool.yaml").read_text(
        encoding="utf-8"
    )
    assert "key-of-the-tests-1" not in shown


@pytest.mark.parametrize(
    "reply",
    [answered(401, {"error": "no"}), answered(200, {"data": [{"id": "embed"}]}), Answer(b"")],
)
def test_rule_16_a_provider_that_lists_no_model_writes_nothing(
    make_box: MakeBox, tmp_path: Path, reply: Answer
) -> None:
    """The message has the line, with a place for the name of the model."""
    box = make_box(env={"OPENAI_API_KEY": "key-of-the-tests-1"})
    Person(box, Reply("accept"))
    box.ask.setup.servers = []
    with Misbehaving(reply) as server:
        box.ask.setup.base_urls = {"openai": server.url}
        with pytest.raises(
            UsageProblem, match="lists no model for the key 'OPENAI_API_KEY'"
        ) as caught:
            box.ask("Hi")

    assert 'models: {openai: {"provider": "openai", "model": "NAME"' in caught.value.hint
    assert not (tmp_path / "home" / ".onetool").exists()


@pytest.mark.parametrize(
    "strange",
    [
        answered(404, {}),
        answered(200, b"<html>"),
        answered(200, ["list"]),
        answered(200, {"models": [{"name": 3}, 4]}),
        Answer(b""),
    ],
    ids=["missing", "page", "list", "odd", "closed"],
)
def test_rule_16_another_program_on_the_port_is_no_model(
    make_box: MakeBox, strange: Answer
) -> None:
    box = make_box()
    with Misbehaving(strange) as server:
        box.ask.setup.servers = [LocalServer(port_of(server), "Ollama", "ollama", "/api/tags")]
        with pytest.raises(
            UsageProblem, match=r"No model is configured\. None answers on the ports"
        ) as caught:
            box.ask("Hi")

    assert "models: {local: {provider: ollama" in caught.value.hint


def test_rule_16_nothing_is_looked_for_where_a_model_is_configured_or_passed(
    make_box: MakeBox,
) -> None:
    box = make_box("models: {local: {provider: ollama, model: m, base_url: 'http://127.0.0.1:9'}}")
    with Misbehaving(TAGS) as server:
        box.ask.setup.servers = [LocalServer(port_of(server), "Ollama", "ollama", "/api/tags")]
        box.ask("Hi", model=ScriptedModel(["Fine."]))
        box.ask.setup.offer()

    assert server.seen == []


def test_rule_16_the_users_own_models_count_where_a_project_has_none(
    make_box: MakeBox, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / ".onetool"
    folder.mkdir(parents=True)
    (folder / "onetool.yaml").write_text(
        "models: {mine: {provider: ollama, model: m}}\n", encoding="utf-8"
    )

    assert make_box().model().name == "mine"
