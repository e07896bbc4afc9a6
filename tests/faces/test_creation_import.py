"""`onetool-ipy import`: JSON on stdout, words on stderr, the configuration only after a yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.faces.cli import main
from tests.harness.stub import Stub

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pet Shop", "version": "1"},
    "servers": [{"url": "https://pets.example.com/v1"}],
    "paths": {
        "/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "ok"}}}}
    },
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return tmp_path


@pytest.fixture
def address() -> Iterator[str]:
    """A server whose document names no address of its own."""
    document = {key: value for key, value in DOCUMENT.items() if key != "servers"}
    with Stub(lambda asked: (200 if asked.path == "/openapi.json" else 404, document)) as stub:
        yield stub.url("")


def test_a_file_becomes_a_bundle(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["import", "openapi", "pets.json", "--bundle", "pets"])

    out, err = capsys.readouterr()
    told = json.loads(out)
    assert code == 0
    assert told["bundle"]["slug"] == "pets"
    assert told["tools"] == ["pets.listPets"]
    assert "Not allowed yet: pets.example.com" in err
    assert not (project / ".onetool" / "onetool.yaml").exists()
    assert main(["tools", "info", "pets.listPets"]) == 0


def test_operations_are_looked_at_and_chosen(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = {
        "get": {"operationId": "listOrders", "tags": ["orders"]},
        "post": {"operationId": "addOrder", "tags": ["orders"]},
    }
    document = {
        **DOCUMENT,
        "paths": {**DOCUMENT["paths"], "/orders": listed},
        "servers": [{"url": "/v1"}],
    }
    (project / "shop.json").write_text(json.dumps(document), encoding="utf-8")

    assert main(["import", "shop.json"]) == 1
    assert "--server https://api.example.com" in capsys.readouterr().err
    common = [
        "import",
        "shop.json",
        "--server",
        "https://shop.example.com",
        "--auth",
        "bearer:SHOP_TOKEN",
    ]
    assert main([*common, "--dry"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["method"]) for row in rows] == [
        ("listPets", "GET"),
        ("listOrders", "GET"),
        ("addOrder", "POST"),
    ]
    assert main([*common, "--tag", "orders", "--exclude", "add*", "--exclude", "x"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["tools"] == ["pet-shop.listOrders"]
    assert "has 1 tool of 3 operations" in err
    assert "SHOP_TOKEN" in err


def test_allow_host_is_the_yes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "openapi", "pets.json", "--allow-host"]) == 0

    assert "pets.example.com" in (project / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")
    assert "Allowed: pets.example.com" in capsys.readouterr().err


def test_an_address_is_fetched_with_a_yes_only(
    project: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = project / ".onetool" / "onetool.yaml"
    config.parent.mkdir()
    config.write_text("http: {allow_private: true}\n", encoding="utf-8")

    assert main(["import", "openapi", f"{address}/openapi.json"]) == 1
    assert "not allowed" in capsys.readouterr().err
    assert main(["import", "openapi", f"{address}/openapi.json", "--allow-host"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["hosts"] == [address.removeprefix("http://")]
    assert main(["import", "openapi", f"{address}/nothing", "--bundle", "x"]) == 1
    assert "answered 404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["import"], 2, "needs one file or address"),
        (["import", "openapi"], 1, "There is no file 'openapi'"),
        (["import", "openapi", "nothing.json"], 1, "There is no file"),
        (["import", "openapi", "."], 1, "'.' is a folder."),
        (["import", "openapi", "broken.json"], 1, "neither JSON nor YAML"),
        (["import", "openapi", "swagger.json"], 1, "Swagger"),
        (["import", "openapi", "pets.json", "--bundle", "a_b"], 1, "--bundle: 'a_b' holds '_'."),
        (["import", "openapi", "pets.json", "--bundle", "time"], 1, "time"),
        (["import", "openapi", "https://", "--allow-host"], 1, "is not an address"),
    ],
)
def test_what_cannot_be_imported_makes_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    (project / "broken.json").write_text('{"openapi": [', encoding="utf-8")
    (project / "swagger.json").write_text('{"swagger": "1.2"}', encoding="utf-8")

    assert main(arguments) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert list(project.rglob("bundle.json")) == []


def test_what_breaks_the_schema_of_a_document_is_said_on_stderr(
    project: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["servers"] = [{"url": address}]
    content = {"application/json": {"schema": {"type": "array"}}}
    document["paths"] = {
        "/openapi.json": {
            "get": {
                "operationId": "get",
                "responses": {"200": {"description": "ok", "content": content}},
            }
        }
    }
    (project / "pets.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["import", "openapi", "pets.json", "--bundle", "pets", "--allow-host"]) == 0
    capsys.readouterr()

    code = main(["tools", "invoke", "pets.get", "--args", "{}"])

    out, err = capsys.readouterr()
    assert code == 0
    assert json.loads(out)["meta"]["mismatch"][0]["pointer"] == ""
    assert "does not fit the schema of the imported document" in err


def test_one_operation_that_cannot_be_a_tool_costs_only_itself(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".onetool").mkdir()
    (project / ".onetool" / "secrets.yaml").write_text(
        "API_KEY: value-of-the-key\n", encoding="utf-8"
    )
    (project / ".onetool" / "secrets.yaml").chmod(0o600)
    document = json.loads(json.dumps(DOCUMENT))
    named = {"name": "API_KEY", "in": "query", "schema": {"type": "string"}}
    huge = {
        "name": "x",
        "in": "query",
        "schema": {"enum": ["x" * 1000 + str(number) for number in range(1100)]},
    }
    document["paths"]["/named"] = {"get": {"operationId": "named", "parameters": [named]}}
    document["paths"]["/huge"] = {"get": {"operationId": "huge", "parameters": [huge]}}
    (project / "pets.json").write_text(json.dumps(document), encoding="utf-8")

    code = main(["import", "openapi", "pets.json", "--bundle", "pets"])

    out, err = capsys.readouterr()
    assert code == 0, err
    assert json.loads(out)["tools"] == ["pets.listPets", "pets.named"]
    assert "'API_KEY' is the argument 'API_KEY_2'" in err
    assert "the tool 'huge' is left out" in err
