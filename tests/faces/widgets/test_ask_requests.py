"""The screen Ask: a model is found, tried and saved, and what was asked is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.load import own_settings
from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.widgets.ask_requests import AskRequests
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.llm.ask.setup import LocalServer
from tests.faces.widgets.conftest import SECRET, Side
from tests.harness.systems import has_mode
from tests.llm.misbehaving import Answer, Misbehaving, answered

LIST = answered(200, {"data": [{"id": "small"}, {"id": "big"}, {"id": "text-embedding"}]})
SAID = answered(
    200,
    {
        "choices": [
            {"message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    },
)


@pytest.fixture
def home(side: Side, tmp_path: Path) -> Path:
    """The home of the person, whose settings are their own."""
    home: Path = side.box.config.home
    assert home.is_relative_to(tmp_path)
    return home


def looking_at(side: Side, server: Misbehaving) -> None:
    port = urlsplit(server.url).port
    assert port is not None
    side.box.ask.setup.servers = [LocalServer(port, "LM Studio", "openai", "/v1/models")]


def entry(server: Misbehaving, **more: str) -> dict[str, str]:
    return {"provider": "openai", "base_url": f"{server.url}/v1", "model": "small", **more}


def test_nothing_is_dialled_before_a_person_presses_look(side: Side) -> None:
    with Misbehaving(LIST) as server:
        looking_at(side, server)
        known = side.ask("models")
        side.ask("sessions")
        side.ask("conversation", session="chat")

    assert server.seen == []
    assert (known["models"], known["inProject"]) == ([], False)
    assert "KEY" in known["keys"]
    assert known["addresses"]["ollama"] == "http://127.0.0.1:11434"


def test_a_model_is_found_tried_and_saved_without_yaml(side: Side, home: Path) -> None:
    with Misbehaving(LIST, SAID) as server:
        looking_at(side, server)
        (found,) = side.ask("findModels")["items"]
        tried = side.ask("testModel", entry=found["entry"])
        saved = side.ask("saveModel", entry=found["entry"])

    assert (found["models"], found["entry"]) == (["small", "big"], entry(server))
    assert found["place"].startswith("LM Studio on port")
    assert tried["isOk"] is True
    assert tried["said"].startswith("small answered in ")
    assert tried["said"].endswith(": Hello!")
    sent = server.seen[1].body
    assert (sent["max_tokens"], len(sent["tools"])) == (64, 1)
    assert saved["said"] == "Saved as 'local' in ~/.onetool/onetool.yaml."
    assert own_settings(home).models.named["local"].model == "small"
    assert side.ask("models")["default"] == "local"


def test_a_key_for_all_projects_is_kept_in_the_users_own_file_and_shown_nowhere(
    side: Side, home: Path, tmp_path: Path
) -> None:
    """Another project of the user asks with it; a `${NAME}` of a project does not read it."""
    key = "own-key-0123456789"
    with Misbehaving(SAID, SAID) as server:
        kept = side.ask("httpSecret", name="OWN_KEY", value=key, isOwn=True)
        tried = side.ask("testModel", entry=entry(server, key="OWN_KEY"))
        saved = side.ask("saveModel", entry=entry(server, key="OWN_KEY"))
        other = tmp_path / "other"
        (other / ".onetool").mkdir(parents=True)
        (other / ".onetool" / "onetool.yaml").write_text(
            "version: 1\naliases: {x: time.now}\nservers:\n"
            '  a: {type: http, url: "http://127.0.0.1:9/mcp", headers: {K: "${OWN_KEY}"}}\n'
        )
        env = {"ONETOOL_STATE": str(tmp_path / "other-state"), **home_at(home)}
        with open_toolbox(other, env=env) as box:
            answer = box.ask("Hello", with_tools=False)
            problems = [problem.secret for problem in box.problems()]

    assert kept.get("errors") is None
    assert (tried["isOk"], str(answer.text)) == (True, "Hello!")
    assert [dict(each.headers)["authorization"] for each in server.seen] == [f"Bearer {key}"] * 2
    assert problems == ["OWN_KEY"]
    file = home / ".onetool" / "secrets.yaml"
    assert key in file.read_text(encoding="utf-8")
    assert has_mode(file, 0o600)
    holders = [
        path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()
    ]
    assert holders == [file]
    assert side.box.mask(f"says {key}") == "says ***"
    assert key not in str([kept, tried, saved, side.ask("models")])
    assert "OWN_KEY" in side.ask("models")["keys"]
    again = side.ask("httpSecret", name="OWN_KEY", value="another-one", isOwn=True)
    assert "There is a key 'OWN_KEY' already." in str(again["errors"])


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            answered(404, {"error": {"message": "no model 'small'"}}),
            "answered 404: no model 'small'",
        ),
        (answered(401, {"error": f"bad key {SECRET}"}), "answered 401: bad key ***"),
        (answered(400, {"error": "small does not support tools"}), "does not support tools"),
        (answered(200, b"<html>"), "says it is JSON, but is not"),
        (Answer(b""), "127.0.0.1"),
    ],
    ids=["missing", "key", "tools", "page", "closed"],
)
def test_a_test_that_fails_says_why(side: Side, reply: Answer, words: str) -> None:
    with Misbehaving(reply) as server:
        tried = side.ask("testModel", entry=entry(server))

    assert tried["isOk"] is False
    assert words in tried["said"]
    assert SECRET not in tried["said"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "Choose the kind"),
        ({"provider": "other"}, "Choose the kind"),
        ({"provider": "openai", "base_url": "http://x"}, "Type the name of the model"),
        ({"provider": "openai", "model": "m"}, "Choose the key"),
        ({"provider": "openai", "model": "m", "base_url": "x"}, "begins with http://"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(
    side: Side, wrong: dict[str, str], words: str
) -> None:
    for kind in ("testModel", "saveModel"):
        assert words in side.raw(kind, entry=wrong)["error"]["message"]


def test_a_named_server_lists_its_models(side: Side) -> None:
    with Misbehaving(LIST) as server:
        listed = side.ask("modelNames", entry=entry(server, key="KEY"))

    assert listed == {"models": ["small", "big"]}
    assert server.seen[0].path == "/v1/models"
    assert server.seen[0].headers["authorization"] == f"Bearer {SECRET}"


def test_what_a_server_lists_is_bounded_and_can_be_seen(side: Side) -> None:
    names = ["good", "good", "", " ", "a\u200bb", "\u3164", "x" * 5_000, *map(str, range(10_000))]
    with Misbehaving(answered(200, {"data": [{"id": name} for name in names]})) as server:
        listed = side.ask("modelNames", entry=entry(server))["models"]
        looking_at(side, server)
        found = side.ask("findModels")["items"][0]["models"]

    assert listed[:3] == found[:3] == ["good", "0", "1"]
    assert len(listed) == len(found) == 200


def test_a_server_that_refuses_to_list_says_why(side: Side) -> None:
    with Misbehaving(answered(401, {"error": f"bad key {SECRET}"})) as server:
        message = side.raw("modelNames", entry=entry(server))["error"]["message"]

    assert "answered with 401: bad key ***" in message


def test_the_name_of_a_model_takes_no_secret(side: Side) -> None:
    """A server that lists `${KEY}` would be sent the key as the name of its model."""
    with Misbehaving(SAID) as server:
        side.ask("saveModel", entry=entry(server, model="${KEY}"), inProject=True)

    (model,) = side.box.config.settings.models.named.values()
    assert model.model == "${KEY}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "http://"},
        {"base_url": "http://[::1"},
        {"base_url": "http://user:word@a.example/v1"},
        {"base_url": "http://a.example:99999"},
        {"base_url": "http://a b.example"},
        {"base_url": "https://\ud800"},
        {"model": "a\nb"},
        {"model": "a\u2028b"},
        {"model": "\ud800"},
    ],
)
def test_what_could_not_be_asked_is_not_saved(
    side: Side, wrong: dict[str, str], tmp_path: Path
) -> None:
    files = {path: path.read_bytes() for path in tmp_path.rglob("onetool.yaml")}
    whole = {"provider": "openai", "base_url": "http://a.example/v1", "model": "m", **wrong}

    with pytest.raises(UsageProblem):
        AskRequests(side.box, lambda _event: None).save({"entry": whole, "inProject": True})

    assert {path: path.read_bytes() for path in tmp_path.rglob("onetool.yaml")} == files


def test_in_an_untrusted_project_nothing_is_dialled(
    side: Side, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "project")
    env = {"ONETOOL_STATE": str(tmp_path / "other"), **home_at(tmp_path / "home")}
    box = open_toolbox(env=env)
    requests = AskRequests(box, lambda _message: None)
    with Misbehaving(LIST) as server:
        looking_at(side, server)
        box.ask.setup.servers = side.box.ask.setup.servers
        for act, payload in (
            (requests.find, {}),
            (requests.names, {"entry": entry(server)}),
            (requests.test, {"entry": entry(server)}),
            (requests.save, {"entry": entry(server), "inProject": True}),
        ):
            with pytest.raises(UsageProblem, match="This project is not trusted"):
                act(payload)
    box.close()

    assert server.seen == []


@pytest.mark.parametrize(
    "models",
    [
        'models:  # mine\n  old: {provider: ollama, model: "m"}\n',
        "# of the team\nmodels:\n    old:\n        provider: ollama\n        model: m # small\n",
    ],
    ids=["line", "block"],
)
def test_a_second_model_keeps_every_line_and_the_default(side: Side, models: str) -> None:
    file = side.box.config.paths.config_file
    assert file is not None
    before = f"version: 1\n{models}"
    file.write_text(before, encoding="utf-8")
    side.box.reload()

    with Misbehaving(SAID) as server:
        refused = side.raw("saveModel", entry=entry(server))["error"]["message"]
        saved = side.ask("saveModel", entry=entry(server), inProject=True)

    assert "The project names models of its own" in refused
    assert saved["name"] == "local"
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line in before.splitlines()] == before.splitlines()
    known = side.ask("models")
    assert (known["default"], {each["name"] for each in known["models"]}) == (
        "old",
        {"old", "local"},
    )
    assert side.box.model("local").name == "local"


def test_a_conversation_is_sent_live_and_read_later(side: Side) -> None:
    assert side.ask("conversation", session="chat")["items"] == []

    side.box.ask(
        f"Hi {SECRET}", model=ScriptedModel(["![p](http://x/p.png) <b>Hello</b>"]), session="chat"
    )

    live = side.wait(lambda m: m.get("event") == "ask" and m["exchange"]["state"] == "done")
    (kept,) = side.ask("conversation", session="chat")["items"]
    assert (live["session"], live["exchange"]) == ("chat", kept)
    assert kept["prompt"] == "Hi ***"
    (part,) = kept["parts"]
    assert part["text"] == "![p](http://x/p.png) <b>Hello</b>"
    assert "![" not in part["markdown"]
    assert "<b>" not in part["markdown"]
    assert side.ask("sessions") == {"items": ["chat"]}
    side.ask("forgetSession", session="chat")
    assert side.ask("conversation", session="chat")["items"] == []


def test_a_closed_screen_hears_of_no_ask(side: Side) -> None:
    side.ask("conversation", session="chat")
    side.desk.close()

    side.box.ask("Hi", model=ScriptedModel(["Hello."]), session="chat")

    heard: list[Any] = [message for message in side.everything if '"event": "ask"' in message]
    assert heard == []
