"""`%tool new http`, `%tool bundle`, `%tool import openapi`: HTTP tools made and used in a kernel,
on a real API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.kernel import Kernel
from tests.harness.stub import Asked, Stub
from tests.harness.systems import has_mode

TOKEN = "tok-9f8e7d6c5b4a"


def _document(host: str) -> dict[str, Any]:
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    one = {
        "operationId": "getUser",
        "parameters": [number],
        "responses": {"200": {"description": "ok"}},
    }
    return {
        "openapi": "3.0.3",
        "info": {"title": "Small Users", "version": "2.1"},
        "servers": [{"url": f"http://{host}"}],
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
        "paths": {"/users/{id}": {"get": one}},
    }


def _answer(asked: Asked) -> tuple[int, Any]:
    """Answer with what was asked."""
    if asked.path == "/openapi.json":
        return 200, _document(asked.headers["host"])
    return 200, {"path": asked.target, "verb": asked.method}


@pytest.fixture
def api() -> Iterator[Stub]:
    with Stub(_answer) as stub:
        yield stub


@pytest.fixture
def loaded(kernel: Kernel) -> Kernel:
    place = kernel.cwd / ".onetool"
    place.mkdir()
    (place / "onetool.yaml").write_text(
        "# mine\nversion: 1\nhttp:\n  allow_private: true  # loopback\n", encoding="utf-8"
    )
    kernel.execute("%load_ext onetool_ipy")
    return kernel


def _hosts(kernel: Kernel) -> list[str]:
    text = (kernel.cwd / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")
    assert "# mine" in text
    assert "# loopback" in text
    found: list[str] = (yaml.safe_load(text)["http"]).get("allowed_hosts", [])
    return found


@pytest.mark.slow
def test_check_sends_no_request_that_may_write(loaded: Kernel, api: Stub) -> None:
    curl = f"curl -X POST 'http://{api.host}/orders' -d 'item=tea'"
    loaded.execute(f"%%tool new http shop.order --allow-host\n{curl}")

    said = loaded.execute("%tool check shop.order").result_text

    assert api.asked == []
    assert f"would send POST http://{api.host}/orders" in said
    loaded.execute("%tool shop.order")
    loaded.execute("%tool history rerun 1", allow_errors=True)
    assert [each.method for each in api.asked] == ["POST"]


def test_a_pasted_curl_is_a_tool_at_once(loaded: Kernel, api: Stub) -> None:
    curl = (
        f"curl -s -H 'Accept: application/json' 'http://{api.host}/users/{{id}}?limit=5' \\\n "
        " --compressed"
    )

    said = loaded.execute(
        f"%%tool new http my-api.get-user --arg id:integer --allow-host\n{curl}"
    ).result_text

    assert "my-api.get-user@1: stored." in said
    assert "argument id: int, required" in said
    assert "argument limit: int, default 5" in said
    assert f"Allowed: {api.host}, in {Path('.onetool', 'onetool.yaml')}" in said
    assert _hosts(loaded) == [api.host]
    assert "/users/3?limit=5" in loaded.execute("%tool my-api.get-user id=3").text
    assert "/users/4?limit=9" in loaded.execute("my_api.get_user(id=4, limit=9)").text
    assert loaded.complete("%tool my-api.get-").matches
    loaded.execute("%reload_ext onetool_ipy")
    assert "/users/5" in loaded.execute("my_api.get_user(id=5)").text


def test_a_request_names_its_tool_where_only_the_bundle_is_named(loaded: Kernel, api: Stub) -> None:
    """The line that `%tool` shows in an empty project, followed word by word."""
    line = re.search(r"%%tool new http my-api\b", loaded.execute("%tool").result_text)
    assert line is not None

    said = loaded.execute(f"{line[0]} --allow-host\ncurl http://{api.host}/users/7").result_text
    again = loaded.execute(f"{line[0]}\ncurl -X POST http://{api.host}/users").result_text

    assert "Try it: %tool my-api.get-users-7" in said
    assert "/users/7" in loaded.execute("%tool my-api.get-users-7").text
    assert "Try it: %tool my-api.post-users" in again
    assert [request.target for request in api.asked] == ["/users/7"]


def test_a_number_is_text_in_an_address_wherever_it_is_typed(loaded: Kernel, api: Stub) -> None:
    """The line `Try it:` names the call in Python, and there an id is a number."""
    loaded.execute(
        f"%tool new http api.orders --url http://{api.host}/orders/{{id}}?paid={{paid}}"
        " --allow-host"
    )

    loaded.execute("%tool api.orders id=3 paid=true")
    loaded.execute("api.orders(id=3, paid=True)")
    refused = loaded.execute("api.orders(id=[3], paid=True)", allow_errors=True)

    assert [request.target for request in api.asked] == ["/orders/3?paid=true"] * 2
    assert "argument 'id': [3] is not text" in refused.text


def test_a_host_is_not_allowed_without_a_yes(loaded: Kernel, api: Stub) -> None:
    said = loaded.execute(f"%tool new http my-api.get --url http://{api.host}/x").result_text

    assert f"Not allowed yet: {api.host}" in said
    assert "--allow-host" in said
    refused = loaded.execute("%tool my-api.get", allow_errors=True)
    assert "is not allowed" in refused.text
    assert _hosts(loaded) == []
    assert api.asked == []


@pytest.mark.parametrize(("answer", "allowed"), [("y", True), ("n", False), ("", False)])
def test_a_person_is_asked(loaded: Kernel, api: Stub, answer: str, allowed: bool) -> None:
    running = loaded.start_execute(
        f"%tool new http my-api.get --url http://{api.host}/x", allow_stdin=True
    )

    asked = loaded.answer_input(answer)
    running.wait()

    assert asked == f"Allow HTTP tools to reach '{api.host}'? [y/N] "
    assert _hosts(loaded) == ([api.host] if allowed else [])


def test_a_yes_to_a_private_address_is_enough_at_once(kernel: Kernel, api: Stub) -> None:
    (kernel.cwd / "api.json").write_text(
        json.dumps({**_document(api.host), "security": []}), encoding="utf-8"
    )
    kernel.execute("%load_ext onetool_ipy")

    kernel.execute(f"%tool new http my-api.get --url http://{api.host}/x --allow-host")
    assert "/x" in kernel.execute("%tool my-api.get").text
    kernel.execute("%tool import openapi api.json --bundle users --allow-host")
    assert "/users/7" in kernel.execute("%tool users.getUser id=7").text

    settings = yaml.safe_load(
        (kernel.cwd / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")
    )
    assert settings["http"] == {"allowed_hosts": [api.host]}


def test_what_breaks_the_schema_of_a_document_is_shown_with_a_line_below(
    loaded: Kernel, api: Stub
) -> None:
    document = _document(api.host)
    schema = {"type": "object", "properties": {"verb": {"type": "integer"}}, "required": ["id"]}
    content = {"application/json": {"schema": schema}}
    document["paths"]["/users/{id}"]["get"]["responses"]["200"]["content"] = content
    (loaded.cwd / "api.json").write_text(json.dumps({**document, "security": []}), encoding="utf-8")
    loaded.execute("%tool import openapi api.json --bundle users --allow-host")

    shown = loaded.execute("r = %tool users.getUser id=7\nr")

    assert "/users/7" in shown.text
    assert "does not fit the schema of the imported document" in shown.text
    assert "(and 1 more in .meta['mismatch'])" in shown.text
    assert loaded.evaluate("(r.ok, len(r.meta['mismatch']), r.data['verb'])") == "(True, 2, 'GET')"


@pytest.mark.parametrize(
    ("answer", "made"), [("y", True), ("n", False), ("", False), (None, False)]
)
def test_a_secret_goes_to_another_host_only_after_a_yes(
    loaded: Kernel, api: Stub, answer: str | None, made: bool
) -> None:
    place = loaded.cwd / ".onetool" / "secrets.yaml"
    place.write_text(f"MY_KEY: {TOKEN}\n", encoding="utf-8")
    place.chmod(0o600)
    line = "%tool new http {} --url {} --header 'X-Key: $MY_KEY'"
    loaded.execute("%tool reload")
    loaded.execute(line.format("one.get", "https://one.example.com/x"))
    other = line.format("two.get", f"http://{api.host}/x") + " --allow-host"

    if answer is None:
        outcome = loaded.execute(other, allow_errors=True)
        assert f"--secret-host MY_KEY={api.host}" in outcome.text
    else:
        running = loaded.start_execute(other, allow_stdin=True)
        asked = loaded.answer_input(answer)
        outcome = running.wait(allow_errors=True)
        assert "'MY_KEY' is used with 'one.example.com:443'" in asked
        assert f"'{api.host}'" in asked

    assert ("two.get@1: stored." in outcome.text) is made
    assert (loaded.evaluate("ot.packs(pattern='two')") != "[]") is made
    if not made:
        assert _hosts(loaded) == []
        assert "stored" in loaded.execute(f"{other} --secret-host MY_KEY={api.host}").text
    assert "there already" in loaded.execute(other).text


def test_a_secret_in_a_curl_never_reaches_the_record_or_the_output(
    loaded: Kernel, api: Stub
) -> None:
    cell = f"%%tool new http my-api.me --allow-host {{}}\ncurl -H 'Authorization: Bearer {TOKEN}' http://{api.host}/me"

    first = loaded.execute(cell.format(""))
    refused = loaded.execute("%tool my-api.me", allow_errors=True)
    second = loaded.execute(cell.format("--save-secrets"))
    called = loaded.execute("%tool my-api.me")

    assert "Secret API_TOKEN: not kept" in first.text
    assert "API_TOKEN" in refused.text
    assert "there already" in second.text
    assert api.asked[-1].headers["authorization"] == f"Bearer {TOKEN}"
    assert "/me" in called.text
    secrets = loaded.cwd / ".onetool" / "secrets.yaml"
    assert has_mode(secrets, 0o600)
    stored = "".join(
        p.read_text(encoding="utf-8") for p in (loaded.cwd / ".onetool" / "bundles").rglob("*.json")
    )
    for outcome in (first, refused, second, called):
        assert TOKEN not in str(outcome)
    assert TOKEN not in stored
    assert "${API_TOKEN}" in stored


def test_a_secret_is_kept_after_a_yes_and_stop_keeps_what_was_stored(
    loaded: Kernel, api: Stub
) -> None:
    cell = (
        f"%%tool new http my-api.me\ncurl -H 'Authorization: Bearer {TOKEN}' http://{api.host}/me"
    )
    secrets = loaded.cwd / ".onetool" / "secrets.yaml"

    running = loaded.start_execute(cell, allow_stdin=True)
    loaded.wait_for_question()
    loaded.interrupt()
    stopped = running.wait(allow_errors=True)
    kept = secrets.exists()
    running = loaded.start_execute(cell, allow_stdin=True)
    questions = [loaded.answer_input(answer) for answer in ("yes", "no")]
    done = running.wait()

    assert "Stopped at this question; nothing more was done." in stopped.text
    assert not kept
    assert questions == [
        "Keep the value of 'API_TOKEN' in .onetool/secrets.yaml? [y/N] ",
        f"Allow HTTP tools to reach '{api.host}'? [y/N] ",
    ]
    assert "there already" in done.text
    assert f"Not allowed yet: {api.host}" in done.text
    assert TOKEN in secrets.read_text(encoding="utf-8")
    assert TOKEN not in stopped.text + done.text


def test_dry_shows_the_masked_request_and_sends_nothing(loaded: Kernel, api: Stub) -> None:
    body = '{"name": "$name", "age": 5}'
    loaded.execute(
        f"%tool new http my-api.add --url http://{api.host}/users --method POST --header"
        f" 'X-Api-Key: {TOKEN}' --body '{body}' --allow-host --save-secrets --describe 'Add a"
        " user.'"
    )

    shown = loaded.execute("%tool my-api.add name=Ada --dry")

    assert f"POST http://{api.host}/users" in shown.text
    assert "X-Api-Key: ***" in shown.text
    assert '"name":"Ada"' in shown.text.replace(": ", ":")
    assert TOKEN not in shown.text
    assert api.asked == []
    loaded.execute("%tool my-api.add name=Ada")
    assert json.loads(api.asked[0].body) == {"name": "Ada", "age": 5}
    assert api.asked[0].headers["content-type"].startswith("application/json")
    assert api.asked[0].headers["x-api-key"] == TOKEN
    assert "Add a user." in loaded.execute("%tool info my-api.add").text
    wrong = loaded.execute("%tool my-api.add --dry", allow_errors=True)
    assert "name" in wrong.text


def test_a_body_that_is_no_json_is_sent_as_it_is(loaded: Kernel, api: Stub) -> None:
    loaded.execute(
        f"%tool new http my-api.note --url http://{api.host}/notes --body 'tea=1' --allow-host"
    )

    loaded.execute("%tool my-api.note")

    assert api.asked[0].body == b"tea=1"
    assert "json" not in api.asked[0].headers["content-type"]


def test_the_same_cell_can_be_run_again_and_another_needs_replace(
    loaded: Kernel, api: Stub
) -> None:
    line = f"%tool new http my-api.get --url http://{api.host}/x --allow-host"

    assert "stored" in loaded.execute(line).text
    assert "there already" in loaded.execute(line).text
    other = line.replace("/x", "/y")
    assert "--replace" in loaded.execute(other, allow_errors=True).text
    assert "/x" in loaded.execute("%tool my-api.get").text
    assert "stored" in loaded.execute(f"{other} --replace").text
    assert "/y" in loaded.execute("%tool my-api.get").text
    assert "stored" in loaded.execute(line.replace("my-api.get", "my-api.get@2")).text
    assert "/x" in loaded.execute("%tool my-api.get@2").text


@pytest.mark.slow
def test_bundles_are_listed_switched_shown_and_deleted(loaded: Kernel, api: Stub) -> None:
    for name in ("one", "two"):
        loaded.execute(f"%tool new http my-api.{name} --url http://{api.host}/{name} --allow-host")

    listed = loaded.execute("%tool bundle list").text
    assert "bundle: my-api" in listed
    assert "bundle: time" in listed
    assert "my-api.one@1  on, http, 0 calls" in loaded.execute("%tool bundle show my-api").text
    assert '"urlTemplate"' in loaded.execute("%tool bundle show my-api.one@1").text
    report = loaded.execute("%tool bundle run my-api").text
    assert report.count("outcome: ok") == 2
    loaded.execute("%tool bundle off my-api.one")
    assert "switched off" in loaded.execute("%tool my-api.one", allow_errors=True).text
    assert "/two" in loaded.execute("%tool my-api.two").text
    loaded.execute("%tool bundle off my-api")
    assert "%tool bundle on my-api" in loaded.execute("%tool my-api.two", allow_errors=True).text
    loaded.execute("%tool bundle on my-api\n%tool bundle on my-api.one@1")
    assert "/one" in loaded.execute("%tool my-api.one").text
    assert "--with-tools" in loaded.execute("%tool bundle delete my-api", allow_errors=True).text
    assert "deleted" in loaded.execute("%tool bundle delete my-api.one").text
    assert "No tool 'my-api.one'" in loaded.execute("%tool my-api.one", allow_errors=True).text
    assert "with 1 tool." in loaded.execute("%tool bundle delete my-api --with-tools").text
    assert "my-api" not in loaded.execute("%tool bundle list").text
    assert "read-only" in loaded.execute("%tool bundle delete time", allow_errors=True).text
    assert (
        "read-only"
        in loaded.execute("%tool new http time.now2 --url https://x.com/", allow_errors=True).text
    )


def test_an_openapi_document_is_a_bundle_at_once(loaded: Kernel, api: Stub, tmp_path: Path) -> None:
    refused = loaded.execute(
        f"%tool import openapi http://{api.host}/openapi.json", allow_errors=True
    )
    assert "not allowed" in refused.text
    assert api.asked == []

    said = loaded.execute(
        f"%tool import openapi http://{api.host}/openapi.json --bundle users --allow-host"
    ).text

    assert "The bundle users has 1 tool: Small Users" in said
    assert "secrets.yaml" in said
    assert _hosts(loaded) == [api.host]
    name = said.partition("%tool info ")[2].split()[0]
    secret = next(line.split(":")[0].strip() for line in said.splitlines() if ': "..."' in line)
    (loaded.cwd / ".onetool" / "secrets.yaml").write_text(f"{secret}: {TOKEN}\n", encoding="utf-8")
    (loaded.cwd / ".onetool" / "secrets.yaml").chmod(0o600)
    loaded.execute("%tool reload")
    assert "/users/7" in loaded.execute(f"%tool {name} id=7").text
    assert api.asked[-1].headers["authorization"] == f"Bearer {TOKEN}"
    file = tmp_path / "api.json"
    file.write_text(json.dumps(_document(api.host)), encoding="utf-8")
    assert "has 1 tool" in loaded.execute(f"%tool import openapi {file} --bundle from-file").text
    dry = loaded.execute(f"%tool import {file} --bundle dry --dry --read-only").result_text
    assert "getUser" in dry
    assert "GET" in dry
    none = loaded.execute(f"%tool import {file} --bundle dry --exclude 'get*'", allow_errors=True)
    assert "None of the 1 operations is chosen." in none.text
    assert "No bundle 'dry'" in loaded.execute("%tool bundle show dry", allow_errors=True).text
    again = loaded.execute(f"%tool import openapi {file} --bundle from-file", allow_errors=True)
    assert "from-file" in again.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tool new", "makes HTTP tools"),
        ("%tool new ftp a.b", "does not know 'ftp'"),
        ("%tool new http --url https://a.example.com", "needs a name"),
        ("%tool new http --url https://x.com", "needs a name"),
        ("%tool new http noname. --url https://x.com", "is not a valid tool name"),
        ("%tool new http a_b.c --url https://x.com", "'_'"),
        ("%tool new http a.b@.. --url https://x.com", "is not a valid version"),
        ("%tool new http a.b", "No address"),
        ("%tool new http a.b --url", "has no value"),
        ("%tool new http a.b --arg", "needs a value"),
        ("%tool new http a.b --url https://x.com --arg id:integer", "no argument 'id'"),
        ("%tool new http a.b --url https://x.com/{id} --arg id:number2", "is not a type"),
        ("%tool new http a.b --url ftp://x.com/", "http"),
        ("%tool new http a.b --url https://{host}/", "host cannot be a variable"),
        ("%tool new http a.b --curl 'wget https://x.com'", "curl"),
        ("%tool new http a.b --curl 'curl https://x.com' --url https://y.com", "in one place"),
        ("%%tool new http a.b --curl 'curl https://x.com'\ncurl https://y.com", "Keep one"),
        ("%%tool new http a.b\nnot a command", "curl"),
        ("%tool new http a.b --curl {nothing}", "no text called 'nothing'"),
        ("%tool new http a.b --method BREW --url https://x.com", "BREW"),
        ("%tool bundle burn x", "does not know 'burn'"),
        ("%tool bundle on", "needs one name"),
        ("%tool bundle on nothing", "No bundle 'nothing'"),
        ("%tool bundle on tim", "Did you mean 'time'"),
        ("%tool bundle on time.nwo", "has no tool 'nwo'"),
        ("%tool bundle show time.now@9", "has no tool 'now@9'"),
        ("%tool import", "needs one file or address"),
        ("%tool import a.json b.json", "needs one file or address"),
        ("%tool import a.json --tags x", "Did you mean '--tag'"),
        ("%tool import openapi nothing-here.json", "There is no file"),
        ("%tool import openapi .onetool", "is a folder"),
        ("%tool import openapi .onetool/onetool.yaml", "not an OpenAPI 3 document"),
        ("%%tool bundle list\nand more", "takes no cell body"),
    ],
)
def test_what_is_typed_wrong_is_told_in_a_few_lines_and_makes_nothing(
    loaded: Kernel, line: str, said: str
) -> None:
    outcome = loaded.execute(line, allow_errors=True)

    assert outcome.error is not None
    assert said in outcome.text
    assert len(outcome.error.text.splitlines()) <= 5
    assert "Traceback" not in outcome.text
    assert list((loaded.cwd / ".onetool").rglob("*.json")) == []


def test_a_mistake_elsewhere_in_the_configuration_does_not_lose_the_tool(
    loaded: Kernel, api: Stub
) -> None:
    """The tool, the host and the name are there; what must be mended first is said."""
    config = loaded.cwd / ".onetool" / "onetool.yaml"
    config.parent.mkdir(exist_ok=True)
    before = config.read_text(encoding="utf-8") if config.exists() else ""
    wrong = "models: {bad: {provider: openai, base_url: 'htp://x', model: m}}"
    config.write_text(f"{before}\n{wrong}\n", encoding="utf-8")

    said = loaded.execute(
        f"%tool new http my-api.get --url http://{api.host}/x --allow-host"
    ).result_text

    assert "my-api.get@1: stored." in said
    assert "Not in use yet: .onetool/onetool.yaml:" in said
    assert "Correct that, then run: %tool reload" in said
    assert loaded.evaluate("my_api.get") == "<tool my-api.get()>"
    assert _hosts(loaded) == [api.host]


@pytest.mark.slow
def test_a_document_without_security_is_imported_with_auth_for_all_its_tools(
    loaded: Kernel, api: Stub
) -> None:
    """`--auth` names a secret; a wrong one says what can be written. What refuses it names the
    request."""
    (loaded.cwd / "api.json").write_text(
        json.dumps({**_document(api.host), "security": []}), encoding="utf-8"
    )
    secrets = loaded.cwd / ".onetool" / "secrets.yaml"
    secrets.write_text(f"API_TOKEN: {TOKEN}\n", encoding="utf-8")
    secrets.chmod(0o600)
    loaded.execute("%tool reload")
    wrong = loaded.execute(
        "%tool import openapi api.json --bundle users --auth token", allow_errors=True
    )
    assert "Write bearer:API_TOKEN" in wrong.text

    missing = loaded.execute(
        "%tool import openapi api.json --bundle basic --allow-host --auth basic:me:PASS"
    ).text
    line = f"%tool import openapi api.json --allow-host --secret-host API_TOKEN={api.host} --bundle"
    loaded.execute(f"{line} users --auth bearer:API_TOKEN")
    loaded.execute(f"{line} keys --auth header:X-Api-Key:API_TOKEN")

    assert 'PASS: "..."' in missing
    loaded.execute("%tool users.getUser id=7")
    assert api.asked[-1].headers["authorization"] == f"Bearer {TOKEN}"
    loaded.execute("%tool keys.getUser id=7")
    assert api.asked[-1].headers["x-api-key"] == TOKEN


def test_the_second_curl_of_an_api_uses_the_auth_of_the_first(loaded: Kernel, api: Stub) -> None:
    first = f"curl -H 'Authorization: Bearer {TOKEN}' http://{api.host}/me"
    said = loaded.execute(f"%%tool new http shop.me --allow-host --save-secrets\n{first}").text
    assert f"auth: bearer, for all tools of shop at http://{api.host}" in said

    loaded.execute("%tool new http shop.users --url /users/{id}")
    loaded.execute(f"%%tool new http shop.orders\ncurl http://{api.host}/orders")
    for line in ("shop.me", "shop.users id=3", "shop.orders"):
        loaded.execute(f"%tool {line}")

    assert [each.target for each in api.asked] == ["/me", "/users/3", "/orders"]
    assert {each.headers.get("authorization") for each in api.asked} == {f"Bearer {TOKEN}"}
    assert loaded.execute(f"%%tool new http shop.me\n{first}").text.count("there already") == 1
    assert (
        "'Content-Type': 'application/json'"
        in loaded.execute(
            "x = %tool shop.orders\nprint({k.title(): v for k, v in x.meta['headers'].items()})"
        ).text
    )


def test_bundle_set_gives_all_tools_a_base_url_and_auth(loaded: Kernel, api: Stub) -> None:
    loaded.execute(f"%tool new http shop.me --url http://{api.host}/me --allow-host")
    (loaded.cwd / ".onetool" / "secrets.yaml").write_text(f"SHOP: {TOKEN}\n", encoding="utf-8")
    (loaded.cwd / ".onetool" / "secrets.yaml").chmod(0o600)
    loaded.execute("%tool reload")

    said = loaded.execute("%tool bundle set shop --auth header:X-Key:SHOP").text
    loaded.execute("%tool shop.me")
    shown = loaded.execute("%tool bundle show shop").text
    loaded.execute("%tool bundle set shop --auth none")
    loaded.execute("%tool shop.me")
    refused = loaded.execute("%tool bundle set shop --auth magic", allow_errors=True).text

    assert f"The bundle shop: base URL http://{api.host}, auth apiKey." in said
    assert f"base URL: http://{api.host}, auth: apiKey" in shown
    assert [each.headers.get("x-key") for each in api.asked] == [TOKEN, None]
    assert "Write bearer:API_TOKEN" in refused
    elsewhere = "%tool bundle set shop --base-url https://other.example.com --auth bearer:SHOP"
    loaded.execute("%tool bundle set shop --auth bearer:SHOP")
    asked = loaded.execute(elsewhere, allow_errors=True).text
    assert (
        f"The secret 'SHOP' is used with '{api.host}'; this would send it to"
        " 'other.example.com:443'" in asked
    )
    assert api.host in loaded.execute("%tool bundle show shop").text


def test_an_environment_is_made_and_switched(loaded: Kernel, api: Stub) -> None:
    """Base URL and auth change together; the secret is in the file by its name."""
    loaded.execute(f"%tool new http shop.me --url http://{api.host}/live/me --allow-host")
    (loaded.cwd / ".onetool" / "secrets.yaml").write_text(f"SHOP: {TOKEN}\n", encoding="utf-8")
    (loaded.cwd / ".onetool" / "secrets.yaml").chmod(0o600)
    loaded.execute("%tool reload")
    assert "has no environments" in loaded.execute("%tool bundle env shop").text
    loaded.execute(f"%tool bundle set shop --base-url http://{api.host}/live")
    loaded.execute("%tool new http shop.you --url /you")

    made = loaded.execute(
        f"%tool bundle env shop test --base-url http://{api.host}/test --auth bearer:SHOP"
    ).text
    assert f"base URL http://{api.host}/test, auth bearer" in made
    assert "/test/you" in loaded.execute("%tool shop.you").text
    assert f"* test  http://{api.host}/test" in loaded.execute("%tool bundle env shop").text
    loaded.execute("%tool bundle env shop default")
    assert "/live/you" in loaded.execute("%tool shop.you").text
    assert [each.headers.get("authorization") for each in api.asked[-2:]] == [
        f"Bearer {TOKEN}",
        None,
    ]
    wrong = loaded.execute("%tool bundle env shop tst", allow_errors=True).text
    assert "has no environment 'tst'. Did you mean 'test'?" in wrong
    kept = (loaded.cwd / ".onetool" / "environments.json").read_text(encoding="utf-8")
    assert TOKEN not in kept
    assert "${SHOP}" in kept


@pytest.fixture
def staging() -> Iterator[Stub]:
    with Stub(_answer) as stub:
        yield stub


@pytest.mark.slow
@pytest.mark.parametrize("way", ["pasted curl", "import"])
def test_an_environment_moves_tools_that_were_made_with_a_whole_address(
    loaded: Kernel, api: Stub, staging: Stub, way: str
) -> None:
    """One question for host and secret; the token goes along, and says whose it is."""
    if way == "pasted curl":
        curl = f"curl -H 'Authorization: Bearer {TOKEN}' http://{api.host}/users/{{id}}"
        loaded.execute(f"%%tool new http shop.get-user --allow-host --save-secrets\n{curl}")
    else:
        (loaded.cwd / "api.json").write_text(json.dumps(_document(api.host)), encoding="utf-8")
        loaded.execute("%tool import api.json --allow-host --bundle shop")
    (file,) = (loaded.cwd / ".onetool" / "bundles" / "shop").glob("get*@*.json")
    tool = f"shop.{file.name.partition('@')[0]}"
    (secret,) = {
        name
        for path in file.parent.glob("*.json")
        for name in re.findall(r"\$\{([A-Z_]+)\}", path.read_text())
    }
    secrets = loaded.cwd / ".onetool" / "secrets.yaml"
    secrets.write_text(f"{secret}: {TOKEN}\n", encoding="utf-8")
    secrets.chmod(0o600)
    loaded.execute("%tool reload")
    loaded.execute("%tool new http shop.other --url http://localhost:9/x")
    line = f"%tool bundle env shop staging --base-url http://{staging.host}"
    running = loaded.start_execute(line, allow_stdin=True)
    question = loaded.answer_input("y")
    said = running.wait().text

    assert "(the environment 'staging')" in question
    assert f"HTTP tools may not reach '{staging.host}' yet; a yes allows it." in question
    assert "Keeps its own host: shop.other (http://localhost:9)" in said
    assert "get" not in said.partition("Keeps")[2]
    loaded.execute(f"%tool {tool} id=7")
    assert [(each.target, each.headers.get("authorization")) for each in staging.asked] == [
        ("/users/7", f"Bearer {TOKEN}")
    ]
    assert api.asked == []
    refused = loaded.execute(
        f"%tool new http shop.back --url http://{api.host}/x\n%tool shop.back", allow_errors=True
    )
    assert (
        "belongs to the environment 'default', and the bundle 'shop' uses 'staging'" in refused.text
    )
    assert api.asked == []
    back = loaded.execute("%tool bundle env shop default", allow_errors=True).text
    words = f"The secret '{secret}' is used with '{staging.host}' (the environment 'staging'); "
    assert words + f"this would send it to '{api.host}' (the environment 'default')." in back


def test_an_environment_has_variables(loaded: Kernel, api: Stub) -> None:
    """`${region}` of a tool follows the environment; one that is not set is named with it."""
    loaded.execute(f"%tool new http shop.me --url http://{api.host}/me --allow-host")
    env = f"%tool bundle env shop test --base-url http://{api.host}/test"
    made = loaded.execute(f"{env} --set region=eu --set lang=de").text
    assert "test: region=eu, lang=de" in made

    loaded.execute("%tool new http shop.x --url '/${region}/x?l=${lang}'")

    assert "/test/eu/x?l=de" in loaded.execute("%tool shop.x").text
    assert (
        f"* test  http://{api.host}/test  region=eu  lang=de"
        in loaded.execute("%tool bundle env shop").text
    )
    loaded.execute("%tool bundle env shop test --set region=us")
    assert "/test/us/x?l=de" in loaded.execute("%tool shop.x").text
    missing = loaded.execute(
        "%tool bundle env shop test --set region=\n%tool shop.x", allow_errors=True
    ).text
    assert (
        "'shop.x' needs 'region', which is neither a variable of the environment 'test' nor a"
        " secret." in missing
    )
    refused = loaded.execute("%tool bundle env shop test --set api_key=abc", allow_errors=True).text
    assert "'api_key' looks like a secret" in refused
    assert (
        "is not NAME=VALUE"
        in loaded.execute("%tool bundle env shop test --set region", allow_errors=True).text
    )


def test_new_http_alone_opens_the_editor_in_the_cell(loaded: Kernel) -> None:
    shown = loaded.execute("%tool new http")

    assert "The editor of an HTTP tool" in shown.text
    assert any("application/vnd.jupyter.widget-view+json" in each.data for each in shown.displays)
