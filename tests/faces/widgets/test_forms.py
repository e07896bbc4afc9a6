"""A form's arguments: checked as a line's are, variables by name, and the call as code."""

from __future__ import annotations

import json
import shlex
from typing import Any, Literal, TypedDict

from tests.faces.widgets.conftest import SECRET, Side


class Circle(TypedDict):
    kind: Literal["circle"]
    radius: float


class Box(TypedDict):
    kind: Literal["box"]
    width: int


def test_checking_is_that_of_the_tool_line(side: Side) -> None:
    """The same words as `%tool`, each with its JSON pointer; code that does the same stands
    beside."""

    def locate(address: str, limit: int = 5) -> list[str]:
        return [address] * limit

    side.box.adopt(locate)
    answer = side.ask("check", name="nb.locate", args={"limit": "many", "nope": 1})
    assert {error["pointer"] for error in answer["errors"]} >= {"/limit"}
    good = side.ask("check", name="nb.locate", args={"address": "Ring 1", "limit": 2})
    assert good["errors"] == []
    assert good["code"]["tool"] == '%tool nb.locate address="Ring 1" limit=2'
    assert good["code"]["python"] == "ot.run('nb.locate', address='Ring 1', limit=2)"


def test_variables_of_the_notebook(side: Side) -> None:
    """`=name` is the object itself, `==text` a text, and what is not there is said."""
    seen: list[Any] = []

    def take(value: Any, more: list[Any] | None = None) -> str:
        seen.append((value, more))
        return "taken"

    side.box.adopt(take)
    side.names["df"] = marker = object()
    side.names["rows"] = [{"a": 7}]
    side.run("nb.take", value="=df", more=["=rows[0]", "==plain"])
    assert seen == [(marker, [{"a": 7}, "=plain"])]
    missing = side.ask("check", name="nb.take", args={"value": "=nothing"})
    assert "nothing" in missing["errors"][0]["message"]
    code = side.ask("check", name="nb.take", args={"value": "=df"})["code"]
    assert code["tool"] == "%tool nb.take value={df}"
    assert code["python"] == "ot.run('nb.take', value=df)"
    harmless = side.ask("check", name="nb.take", args={"value": "=__import__('os').system('true')"})
    assert harmless["errors"] == [], "what is no variable is text"


def test_large_integers_arrive_whole(side: Side) -> None:
    def double(n: int) -> int:
        return 2 * n

    side.box.adopt(double)
    shown = side.run("nb.double", n="12345678901234567890")
    assert shown["preview"] == ["24691357802469135780"]


def test_the_variables_of_the_notebook_are_offered(side: Side) -> None:
    side.names |= {
        "rows": [1],
        "_hidden": 1,
        "In": [],
        "helper": lambda: 1,
        "json": json,
        "word": "x",
    }
    offered = side.ask("variables")["items"]
    assert offered == [{"name": "word", "kind": "str"}, {"name": "rows", "kind": "list"}]


def test_an_http_tool_reads_as_curl_with_its_secret_by_name(side: Side) -> None:
    bundle = side.box.bundles.put_bundle(side.box.bundles.new_id(), slug="api", display_name="API")
    request = {
        "method": "POST",
        "urlTemplate": "https://api.example.com/users/${id}",
        "headers": {"X-Note": "it's"},
        "auth": {"type": "bearer", "value": "${KEY}"},
        "body": {"text": "${text}"},
    }
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
    }
    record = {
        "type": "http",
        "http": {"request": request},
        "argSchema": schema,
        "description": "Say it.",
    }
    side.box.bundles.put_tool(bundle.bundle_id, "say", "1", record)
    code = side.ask("check", name="api.say", args={"id": 7, "text": "a b"})["code"]
    words = shlex.split(code["curl"])
    assert words[:4] == ["curl", "-X", "POST", "https://api.example.com/users/7"]
    assert "Authorization: Bearer $KEY" in words
    assert "X-Note: it's" in words
    assert "a b" in words[-1]
    stars = side.ask("check", name="api.say", args={"id": 7, "text": "***hi***"})["code"]["curl"]
    assert "$KEY" not in stars, "the secret would be sent in place of the person's own stars"
    assert stars.startswith("# *** stands for: KEY\ncurl -X POST")
    assert SECRET not in json.dumps(side.everything)
    assert "curl" not in side.ask("check", name="time.now", args={})["code"]


def test_the_branch_that_is_meant_is_checked(side: Side) -> None:
    def draw(shape: Circle | Box) -> str:
        return "drawn"

    side.box.adopt(draw)
    answer = side.ask("check", name="nb.draw", args={"shape": {"kind": "box", "width": "three"}})
    assert [error["pointer"] for error in answer["errors"]] == ["/shape/width"]
