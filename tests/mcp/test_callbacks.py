"""Servers that ask: forms and addresses reach whoever made the call, folders are answered, log
messages are kept."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CreateMessageRequestParams, SamplingMessage, TextContent

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.base.errors import CallTimeout
from onetool_ipy.core import current
from onetool_ipy.core.question import Question, QuestionRefused, Reply
from onetool_ipy.host import Host
from onetool_ipy.mcp.callbacks import ServerCallbacks
from onetool_ipy.mcp.definition import read_server
from tests.harness.models import ModelDouble
from tests.harness.patience import HANG_S
from tests.harness.servers import hostile, real, write_project

Open = Callable[..., Toolbox]
ASKING = Path(__file__).with_name("asking_server.py")


class Person(Host):
    """A person at a screen, who replies the same to everything."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        return self.reply


def asking(protocol: str, **keys: Any) -> dict[str, Any]:
    """It imports the SDK, which takes a while on a busy machine."""
    command = {"command": sys.executable, "args": [str(ASKING)], "timeout_s": HANG_S}
    return {**command, "protocol": protocol, **keys}


@pytest.fixture(scope="module", params=["legacy", "2026-07-28"])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Toolbox]:
    """A toolbox with the server that asks, by either protocol."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "data").mkdir()
    write_project(
        folder, {"shop": asking(request.param, roots=[".", "data"])}, "fs: {roots: [other]}"
    )
    with open_toolbox(folder) as box:
        assert box.servers.start("shop") == "connected"  # a call would wait for it only so long
        yield box


@pytest.mark.slow
def test_form_of_a_server_reaches_the_person(shop: Toolbox) -> None:
    person = shop.host = Person(Reply("accept", {"size": "large", "count": 2}))

    assert shop.call("shop.order").unwrap() == "2 x large"

    (question,) = person.questions
    assert (question.asker, question.text) == ("server 'shop'", "Which size?")
    assert question.form is not None
    assert list(question.form["properties"]) == ["size", "count"]
    assert question.form["required"] == ["count"]


@pytest.mark.slow
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_no_is_told_to_the_server(shop: Toolbox, action: Any) -> None:
    shop.host = Person(Reply(action))

    assert shop.call("shop.order").unwrap() == f"no order: {action}"


def test_where_nobody_can_answer_the_server_hears_no(shop: Toolbox) -> None:
    person = shop.host = Person(Reply("accept", {"count": 1}))

    result = shop.call("shop.order", source="rest")
    assert result.unwrap() == "no order: decline"
    error = shop.call("shop.must_order", source="rest").error

    assert error is not None
    assert (
        error.hint == "Server 'shop' asks a person, and the client of this call cannot ask anybody."
    )
    assert result.meta["note"] == error.hint
    assert person.questions == []


def test_password_is_not_asked_for(shop: Toolbox) -> None:
    person = shop.host = Person(Reply("accept", {"password": "hunter2"}))

    error = shop.call("shop.login").error

    assert error is not None
    assert (
        "asks for a secret ('password'), which a form must not" in f"{error.message} {error.hint}"
    )
    assert person.questions == []


def test_address_of_a_server_is_shown_and_never_opened(shop: Toolbox) -> None:
    person = shop.host = Person(Reply("accept"))

    assert shop.call("shop.consent", {"url": "https://shop.example/yes"}).unwrap() == "accept"
    assert person.questions[0].url == "https://shop.example/yes"
    assert "neither https nor" in str(
        shop.call("shop.consent", {"url": "http://shop.example/"}).error
    )


@pytest.mark.slow
def test_server_that_asks_for_ever_is_ended(opened: Open) -> None:
    box = opened({"shop": asking("2026-07-28")})
    person = box.host = Person(Reply("accept"))

    error = box.call("shop.for_ever").error

    assert error is not None
    assert error.message == "The server 'shop' asked 10 times in a row and did not finish."
    assert len(person.questions) == 10


@pytest.fixture(scope="module", params=["legacy", "2026-07-28"])
def poet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Toolbox, ModelDouble]]:
    """A toolbox with a model, and the server that may use it."""
    folder = tmp_path_factory.mktemp("poet")
    with ModelDouble(tmp_path_factory.mktemp("model")) as double:
        model = {"provider": "openai", "base_url": double.url, "model": "m-1"}
        models = f"models: {json.dumps({'default': 'double', 'double': model})}"
        servers = {"poet": asking(request.param, sampling=True), "other": asking(request.param)}
        write_project(folder, servers, f"{models}\nhttp: {{allow_private: true}}")
        with open_toolbox(folder) as box:
            yield box, double


@pytest.mark.slow
def test_model_is_lent_to_a_server_after_a_yes(poet: tuple[Toolbox, ModelDouble]) -> None:
    box, double = poet
    double.say(
        [
            {
                "match": {"userMessage": "Write a line about rain"},
                "response": {"content": "Rain, rain."},
            }
        ]
    )
    person = box.host = Person(Reply("accept", {"run": [1]}))

    assert box.call("poet.poem").unwrap() == "double: Rain, rain."

    (question,) = person.questions
    assert (question.asker, question.text) == ("server 'poet'", "wants to use your model.")
    (shown,) = question.calls
    assert dict(shown.args) == {
        "system": '"You are a poet."',
        "user": '"Write a line about rain"',
        "max_tokens": "4096",
    }
    assert len(double.journal()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("word", "end"), [("length", "maxTokens"), ("content_filter", "refusal")])
def test_server_is_told_that_the_lent_models_reply_was_cut_or_refused(
    poet: tuple[Toolbox, ModelDouble], word: str, end: str
) -> None:
    box, double = poet
    response = {"content": "Rain, r", "finishReason": word}
    double.say([{"match": {"userMessage": "Write a line about rain"}, "response": response}])
    box.host = Person(Reply("accept", {"run": [1]}))

    assert box.call("poet.poem").unwrap() == f"double: Rain, r ({end})"


@pytest.mark.parametrize("reply", [Reply("decline"), Reply("cancel"), Reply("accept", {"run": []})])
def test_without_a_yes_the_model_is_not_asked(
    poet: tuple[Toolbox, ModelDouble], reply: Reply
) -> None:
    box, double = poet
    double.say([])
    box.host = Person(reply)

    error = box.call("poet.poem").error

    assert error is not None
    assert "did not allow the use of the model" in f"{error.message} {error.hint}"
    assert double.journal() == []


@pytest.mark.slow
def test_model_is_not_lent_for_too_much_text_or_to_other_servers(
    poet: tuple[Toolbox, ModelDouble],
) -> None:
    box, double = poet
    double.say([])
    person = box.host = Person(Reply("accept", {"run": [1]}))

    assert "longer than 50,000 characters" in str(box.call("poet.novel").error)
    assert "more than 50 messages" in str(box.call("poet.dialogue").error)
    assert box.call("other.poem").error is not None
    assert person.questions == []
    assert double.journal() == []


async def test_time_of_the_person_counts_towards_no_limit() -> None:
    definition = read_server(
        "shop", {"type": "stdio", "timeout_s": 2, "idle_s": 1}, "", folder=Path(), timeout_s=9
    )
    callbacks = ServerCallbacks(definition, print)
    asked = []

    class Slow:
        async def aput_question(self, question: Question) -> Reply:
            asked.append(question)
            await asyncio.sleep(3)
            return Reply("accept")

    async def fall_silent() -> None:
        async with callbacks.call() as call:
            await call.ask(Question("server 'shop'", "Which size?"))
            await asyncio.sleep(60)

    token = current.enter(current.Scope(Slow()))
    try:
        async with callbacks.call() as call:
            assert (await call.ask(Question("server 'shop'", "Which size?"))).action == "accept"
        with pytest.raises(CallTimeout, match=r"Nothing was heard for 1 s"):
            await fall_silent()
    finally:
        current.leave(token)
    assert len(asked) == 2


@pytest.mark.parametrize(("texts", "max_tokens"), [([], 10), (["hi"], 0), (["hi"], -5)])
async def test_nobody_is_asked_to_lend_a_model_for_nothing(
    texts: list[str], max_tokens: int
) -> None:
    definition = read_server("shop", {"type": "stdio"}, "", folder=Path(), timeout_s=9)
    messages = [SamplingMessage(role="user", content=TextContent(text=text)) for text in texts]
    params = CreateMessageRequestParams(messages=messages, max_tokens=max_tokens)

    # Without a scope any question would raise NobodyToAsk.
    async with ServerCallbacks(definition, print).call() as call:
        with pytest.raises(QuestionRefused, match="asked your model for nothing"):
            await call.sample("server 'shop'", params)


def test_roots_are_the_folders_of_the_definition(shop: Toolbox) -> None:
    project = shop.config.paths.project

    assert shop.call("shop.roots").unwrap() == [project.as_uri(), (project / "data").as_uri()]


@pytest.mark.slow
@pytest.mark.parametrize("roots", [{}, {"roots": []}], ids=["none", "empty"])
def test_server_without_roots_in_its_definition_cannot_ask_for_them(
    opened: Open, roots: dict[str, Any]
) -> None:
    """`fs.roots` opens folders to our own tools; it is not for servers."""
    box = opened({"every": real("everything", **roots)}, "fs: {roots: ['.']}")

    assert box.servers.start("every") == "connected"
    (asked,) = [
        row
        for row in box.servers.trace("every")
        if row["method"] == "initialize" and row["way"] == "→"
    ]
    assert '"roots"' not in asked["message"]
    assert '"elicitation"' in asked["message"]
    assert "every.get-roots-list" not in {spec.name for spec in box.registry.packs()["every"]}


def test_log_messages_stand_in_the_log_of_the_server(shop: Toolbox) -> None:

    assert shop.call("shop.log", {"text": "two\nlines \x1b[31m" + "x" * 5000}).unwrap() == "logged"

    (line,) = [
        line for line in shop.servers.logs("shop").splitlines() if line.startswith("[warning]")
    ]
    assert line.startswith(r"[warning] shop: two\nlines \x1b[31mxxx")
    assert len(line) < 2_100


@pytest.mark.slow
@pytest.mark.parametrize(("key", "level"), [({}, "info"), ({"log_level": "error"}, "error")])
def test_older_server_is_told_the_log_level(opened: Open, key: dict[str, str], level: str) -> None:
    box = opened({"every": real("everything", **key)})

    assert box.servers.start("every") == "connected"
    asked, answered = [
        row for row in box.servers.trace("every") if row["method"] == "logging/setLevel"
    ]
    assert (asked["way"], asked["message"]) == ("→", f'{{"level": "{level}"}}')
    assert (answered["way"], answered["message"]) == ("←", "{}")


def test_server_that_takes_no_log_level_is_used_all_the_same(opened: Open) -> None:
    box = opened({"srv": hostile("--no-levels")})

    assert box.call("srv.echo", {"text": "x"}).unwrap() == "x"
    assert "[client] It does not take the log level 'info'." in box.servers.logs("srv")


@pytest.mark.slow
def test_everything_has_its_tools_that_ask(opened: Open, tmp_path: Path) -> None:
    box = opened({"every": real("everything", roots=["."])})
    person = box.host = Person(Reply("accept", {"name": "Ada", "integer": 7}))

    names = {spec.name for spec in box.registry.packs()["every"]}

    assert {
        "every.get-roots-list",
        "every.trigger-elicitation-request",
        "every.trigger-url-elicitation",
    } <= names
    assert tmp_path.as_uri() in str(box.call("every.get-roots-list").unwrap())
    assert "Ada" in str(box.call("every.trigger-elicitation-request").unwrap())
    assert person.questions[0].asker == "server 'every'"
    error = box.call(
        "every.trigger-url-elicitation", {"url": "https://a.example/x", "errorPath": True}
    ).error
    assert error is not None
    assert error.hint == "Visit https://modelcontextprotocol.io, then call again."


@pytest.mark.slow
def test_server_that_does_not_speak_the_wanted_revision_says_so(opened: Open) -> None:
    box = opened({"every": real("everything", protocol="2026-07-28")})

    error = box.call("every.echo", {"message": "hi"}).error

    assert error is not None
    assert "It speaks MCP 2025-11-25, but its definition requires 2026-07-28." in error.message
    assert "protocol: auto" in error.hint
