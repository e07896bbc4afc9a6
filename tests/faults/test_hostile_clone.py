"""A cloned repository with every bad thing in it, through every face: nothing happens before the
yes (contract 16).

After the yes exactly what the question named happens; that is also the control that no marker is a
dud.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from onetool_ipy import Toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import Untrusted
from onetool_ipy.config.settings import Settings
from onetool_ipy.faces.rest.routes import ROUTES
from onetool_ipy.llm import ScriptedModel
from tests.faces.rest.serving import Server
from tests.faults.hostile_clone import ESCAPE, PROMPT, SECRET, TOKEN, TOKEN_NAME, Clone, Listener
from tests.harness.kernel import Kernel, Outcome
from tests.harness.patience import HANG_S

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.harness.lab import Lab
    from tests.harness.wheel import Installed

PACKS = (
    *(
        "at_import",
        "in_annotation",
        "in_text",
        "in_returns",
        "in_default",
        "in_decorator",
        "in_all",
        "in_class",
    ),
    *("in_docstring", "in_requires", "in_literal", "linked", "globbed", "huge", "deep", "evil"),
)
TOOLS = (
    *(f"{pack}.go" for pack in PACKS),
    "shop.get",
    "shop.signed",
    "shop.go",
    "shop.get@1",
    "config.say",
    "say",
)
SERVED = ("srv.anything", "web.anything", "off.anything")


class Watch:
    """What must not happen. `check` is asked after each thing that was done."""

    def __init__(self, clone: Clone) -> None:
        self._clone = clone
        self._files = clone.files()

    def check(self, done: str, said: str) -> None:
        assert self._clone.fired() == set(), done
        assert self._clone.listener.accepted == 0, f"{done}: {self._clone.listener.received}"
        assert TOKEN not in said, done
        assert SECRET not in said, done
        assert PROMPT not in said, done
        assert ESCAPE not in said, f"{done}: {said!r}"

    def finish(self) -> None:
        """Nothing was written but to the user's state, and there is nothing private in that."""
        assert self._clone.files() == self._files
        for path, data in self._clone.kept():
            assert TOKEN.encode() not in data, path
            assert SECRET.encode() not in data, path


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """The repository that nobody says yes to."""
    listener = Listener()
    yield Clone(tmp_path_factory.mktemp("hostile"), listener)
    listener.close()


@pytest.fixture
def watch(clone: Clone) -> Iterator[Watch]:
    watching = Watch(clone)
    yield watching
    watching.finish()


@pytest.fixture(scope="module")
def notebook(clone: Clone) -> Iterator[Kernel]:
    """A kernel in the repository with the extension loaded, for all tests here."""
    with Kernel(clone.folder, env=clone.env()) as kernel:
        loaded = kernel.execute("%load_ext onetool_ipy")
        assert loaded.text == "", "loading says nothing"
        yield kernel


@pytest.fixture
def box(clone: Clone) -> Iterator[Toolbox]:
    with open_leniently(env={**os.environ, **clone.env()}, cwd=clone.folder) as opened:
        yield opened


def said_in(outcome: Outcome) -> str:
    """All that a cell gave, of every kind."""
    rich = [json.dumps(dict(shown.data)) for shown in outcome.displays] + [
        json.dumps(dict(outcome.result or {}))
    ]
    return "\n".join([outcome.text, *rich])


LOOKS = (
    *("%ask --waiting", "%ask --resume x", "%ask --show hello"),
    *(
        "%tool",
        "%tool list",
        "%tool list go",
        "%tool search go",
        "%tool health",
        "%tool why",
        "%tool help",
    ),
    *(
        "%tool history",
        "%tool stats",
        "%tool results",
        "%tool jobs",
        "%tool usage",
        "%tool sql select count(*) from calls",
        "%tool browse",
        "%tool reload",
    ),
    *(
        "%tool bundle list",
        "%tool bundle show shop",
        "%tool bundle show shop.get",
        "%tool server",
        "%tool server list",
    ),
    *(
        "%tool trust list",
        "%tool trust --remove",
        "%tool install",
        "%tool replay off",
        "%tool serve stop",
        "%tool save x",
    ),
    *("%tool shop", "%tool srv", "%tool web", "%tool at_import", "%tool in_requires", "%tool evil"),
    *(f"%tool info {name}" for name in TOOLS),
    *(f"%tool {name} --help" for name in (*TOOLS, *SERVED)),
    *(f"%tool {name} --dry" for name in (*TOOLS, *SERVED)),
    *(
        "%tool at_import.go?",
        "at_import?",
        "at_import.go?",
        "shop?",
        "srv?",
        "srv.anything?",
        "$boom?",
        "$g?",
    ),
    *(
        "at_import",
        "at_import.go",
        "dir(at_import)",
        "shop",
        "srv",
        "dir(srv)",
        "srv.anything",
        "web.anything",
    ),
    *("%snippet", "%snippet boom --show", "%snippet jinja --show", "%snippet jinja n=3 --show"),
    *(
        "from onetool_ipy.live import at_import as live_pack",
        "live_pack.go",
        "@tool\ndef mine(x: int = 1):\n    'Mine.'",
    ),
    *(
        "%tool server logs srv",
        "%tool server stop srv",
        "%tool server remove nosuch",
        "%tool server import missing.json",
    ),
)
"""What only looks, or is about nothing of the project. Each may fail; none may do anything."""

OT = (
    *(
        "tools()",
        "tools(info='full')",
        "packs()",
        "packs(info='full')",
        "aliases(info='full')",
        "snippets(info='full')",
    ),
    *(
        "help(query='go')",
        "help(query='$boom')",
        "help(query='at_import.go')",
        "help(query='shop')",
        "config()",
    ),
    *(
        "health()",
        "stats()",
        "stats(period='day')",
        "history()",
        "results()",
        "result(handle='x')",
        "deps()",
        "deps(tool='in_requires')",
    ),
    *(
        "version()",
        "reload()",
        "notify(topic='out', message='m')",
        "notify(topic='link', message='m')",
        "browser()",
    ),
    *(
        "browser('at_import.go')",
        "usage()",
        "view({'a': 1})",
        "run('boom')",
        "run('jinja')",
        "run('g')",
        "run('get')",
    ),
    *("map('at_import.go', [{'x': 1}])", "map('shop.get', [{}])", "replay('/nowhere/x.jsonl')"),
    *("origin({'a': 1})", "diff({'a': 1}, {'a': 2})", "refresh('x')", "adopt([])"),
    "sql('select count(*) from calls')",
)
"""Every function of `ot`."""

CALLS = (
    *(f"%tool {name}" for name in (*TOOLS, *SERVED)),
    *(f"%tool {name} --unchecked" for name in ("at_import.go", "shop.get", "srv.anything")),
    *(f"%tool {name} --bg" for name in ("at_import.go", "shop.get", "srv.anything")),
    *(
        f"%tool check {name}"
        for name in ("at_import.go", "in_docstring.go", "shop.get", "shop.signed")
    ),
    *(
        f"%tool check {name} --call"
        for name in ("at_import.go", "in_docstring.go", "shop.get", "shop.signed")
    ),
    *(
        "$boom",
        "$jinja",
        "$jinja n=1",
        "$g",
        "$get",
        "$at_import.go",
        "$shop.get",
        "%snippet boom",
        "%snippet jinja",
    ),
    *(
        "at_import.go()",
        "at_import.go(1)",
        "in_default.go(1)",
        "shop.get()",
        "shop.signed()",
        "shop.go()",
    ),
    *(
        "await at_import.go.aio()",
        "await shop.get.aio()",
        "srv.anything()",
        "srv.anything(1)",
        "web.anything()",
    ),
    *("live_pack.go()", "live_pack.go(2)", "await srv.anything.aio()"),
    *(
        f"%tool server {verb} {name}"
        for verb in ("start", "restart", "test")
        for name in ("srv", "web", "off")
    ),
    *(
        "%ask hello",
        "%ask --model m hello",
        "%ask --model n hello",
        "%%ask\ntool:at_import.go {}",
        "%ask tool:shop.get {}",
        "%ask tool:srv.x {}",
    ),
    *(
        "%tool history rerun",
        "%tool history rerun 1",
        "%tool time.now",
        "nb.mine()",
        "%tool fs.read_file path=/etc/passwd",
    ),
    *("%tool fs.list_dir path=../outside", "%tool fs.read_file path=../outside/secrets.yaml"),
    *("%tool fs.read_file path=.onetool/secrets.yaml", "%tool fs.search_text path=.. pattern=sec-"),
    *(
        "%tool lock",
        "%tool verify",
        "%tool diff at_import.go",
        "%tool diff srv.anything",
        "%tool adopt []",
    ),
    *(
        "%%tool program\nimport at_import\nat_import.go()",
        "%%tool program\nimport shop\nshop.get()",
    ),
    *("%ask --code hello", "%ask --as int hello"),
    *("%tool serve", "%tool serve --allow *", "%tool serve stop", "%tool health", "%tool list"),
)
"""What would run something of the project. Nobody can be asked here, so each is refused."""


@pytest.mark.slow
def test_looking_in_a_notebook_does_nothing(notebook: Kernel, watch: Watch) -> None:
    for line in LOOKS:
        watch.check(line, said_in(notebook.execute(line, allow_errors=True)))
    offered = set(
        re.findall(r"^\s*%%?tool ([a-z]+)\b", notebook.execute("%tool help").text, re.MULTILINE)
    )
    tried = {line.split()[1] for line in (*LOOKS, *CALLS) if line.startswith(("%tool ", "%%tool "))}
    assert offered - tried == {"new", "import"}, "those write what a person asks for"


@pytest.mark.slow
def test_every_function_of_ot_does_nothing(notebook: Kernel, watch: Watch) -> None:
    for call in OT:
        watch.check(f"ot.{call}", said_in(notebook.execute(f"ot.{call}", allow_errors=True)))
    known = json.loads(notebook.evaluate("__import__('json').dumps(dir(ot))")[1:-1])
    assert set(known) == {call.partition("(")[0] for call in OT}


@pytest.mark.slow
def test_tab_and_shift_tab_do_nothing(notebook: Kernel, watch: Watch) -> None:
    names = ("at_import", "in_requires", "shop", "srv")
    places = [
        *(
            "%tool ",
            "%tool info ",
            "%tool check ",
            "%tool bundle show ",
            "%tool server start ",
            "$",
            "$b",
            "$boom ",
        ),
        *(
            "$jinja ",
            "$jinja n",
            "%snippet ",
            "%snippet jinja ",
            "%ask +",
            "%ask --model ",
            "ot.",
            "ot.run(",
        ),
        *(
            "from onetool_ipy.live import ",
            "%tool fs.read_file path=../",
            "%tool fs.read_file path=",
        ),
        *(
            f"{head}{name}{tail}"
            for head in ("%tool ", "$", "")
            for name in names
            for tail in (".", ".go", ".go ")
        ),
        *(f"{name}.go(" for name in names),
        *(f"%tool {name}.go x=" for name in names),
    ]
    for text in places:
        found = notebook.complete(text)
        watch.check(
            f"Tab at {text!r}", json.dumps(dict(found.reply), default=str, ensure_ascii=False)
        )
        watch.check(f"Shift-Tab at {text!r}", notebook.inspect(text, detail_level=1))


@pytest.mark.slow
def test_every_call_in_a_notebook_is_refused(notebook: Kernel, watch: Watch) -> None:
    for line in CALLS:
        outcome = notebook.execute(line, allow_errors=True)
        watch.check(line, said_in(outcome))
        asks_a_model = line.startswith("%ask") and "tool:" not in line
        if asks_a_model or line.startswith(
            ("%tool at_", "%tool in_", "%tool shop.", "%tool srv.", "%tool web.", "$")
        ):
            assert "%tool trust" in outcome.text or "--bg" in line, f"{line}: {outcome.text}"


@pytest.mark.slow
def test_a_no_is_a_no(notebook: Kernel, watch: Watch) -> None:
    running = notebook.start_execute("%tool at_import.go", allow_stdin=True)
    notebook.answer_input("n")
    watch.check("no", said_in(running.wait(allow_errors=True)))
    for line in ("at_import.go()", "$boom", "%tool shop.get", "srv.anything()", "%ask hello"):
        watch.check(line, said_in(notebook.execute(line, allow_stdin=False, allow_errors=True)))


DESK = """
import json, queue
from onetool_ipy.core import current
from onetool_ipy.faces.widgets.requests import ScreenRequests
said = queue.Queue()
desk = ScreenRequests(current.toolbox(), send=said.put, namespace=lambda: get_ipython().user_ns)
def asked(kind, payload):
    desk.receive({"id": 7, "kind": kind, "payload": payload})
    got = []
    def is_over():  # the end of a job may come before the reply that names it
        reply = next((one for one in got if one.get("id") == 7), None)
        if reply is None:
            return False
        job = (reply.get("value") or {}).get("job") if kind == "run" else None
        ended = [one.get("job") for one in got if one.get("status") in ("done", "failed", "cancelled")]
        return job is None or job in ended
    while not is_over():
        got.append(said.get(timeout=60))
    return json.dumps(got, default=str)
kinds = json.dumps([*desk._quick, *desk._slow])
"""


@pytest.mark.slow
def test_the_screens_do_nothing(notebook: Kernel, watch: Watch) -> None:
    notebook.execute(DESK)
    payloads: list[dict[str, Any]] = [{}, {"query": "go"}, {"handle": "x", "offset": 0, "limit": 5}]
    for name in (
        "at_import.go",
        "in_requires.go",
        "shop.get",
        "shop.signed",
        "shop.go",
        "srv.anything",
    ):
        payloads += [{"name": name, "args": {}, "isOn": False}]
    for kind in json.loads(notebook.evaluate("kinds")[1:-1]):
        for payload in payloads:
            outcome = notebook.execute(f"asked({kind!r}, {payload!r})", allow_errors=True)
            assert outcome.ok, outcome.text
            watch.check(f"{kind} {payload}", said_in(outcome))


def test_an_ask_calls_nothing_of_it(box: Toolbox, watch: Watch) -> None:
    calls = [
        ("at_import.go", {}),
        ("shop.get", {}),
        ("shop.go", {}),
        ("srv.anything", {}),
        ("config.say", {}),
    ]
    for approve in (None, ["*"]):
        model = ScriptedModel([[*calls], "Done."])
        answer = box.ask("Go.", model=model, approve=approve)
        watch.check("ask", str(answer.to_dict()))
        watch.check("what the model is told", str(model.requests))
        refusals = [outcome.content["error"]["reason"] for outcome in model.requests[1].outcomes]
        assert set(refusals) <= {"untrusted", "not_approved", None}, refusals
    watch.check(
        "tool:", str(box.ask("tool:at_import.go {}", model=ScriptedModel(["No."])).to_dict())
    )
    watch.check(
        "formats",
        str([box.formats(provider) for provider in ("openai", "gemini", "anthropic", "ollama")]),
    )


def test_its_settings_do_not_count(box: Toolbox, watch: Watch) -> None:
    """No model, folder, host or state folder of it; its limits do not hold, and it cannot turn the
    call log off."""
    settings = box.config.settings
    assert dict(settings.models.named) == {}
    assert (settings.fs.roots, settings.topics, settings.state_dir) == ((".",), (), None)
    assert settings.http == Settings().http
    assert (settings.ask, settings.stats, settings.output) == (
        Settings().ask,
        Settings().stats,
        Settings().output,
    )
    assert box.config.prompts == {}
    assert box.call("time.now").ok
    assert box.ot.history()[0]["tool"] == "time.now"
    for which in ("m", "n", None):
        with pytest.raises(Untrusted):
            box.ask("Hello.", model=which)
    watch.check("settings", str(box.ot.config()))


@pytest.mark.slow
def test_rest_does_nothing(clone: Clone, watch: Watch, tmp_path: Path) -> None:
    server = Server(tmp_path, env=clone.env(), root=clone.home)
    try:
        for route in ROUTES:
            watch.check(
                f"{route.verb} {route.path}", "\n".join(_rest(server, route, clone, "clone"))
            )
    finally:
        server.close()
    watch.check("the log", server.log)


def _rest(server: Server, route: Any, clone: Clone, project: str) -> Iterator[str]:
    """Ask one route for each tool of the bundle. What writes is asked about a bundle that is not
    there."""
    body = {"isTrusted": False} if route.operation == "setTrust" else route.example
    is_write = route.verb in ("PUT", "PATCH", "DELETE")
    bundle = "0190b5a0-0000-7000-8000-000000000000" if is_write else clone.bundle
    for tool in ("get", "signed", "go"):
        path = route.path.format(bundleID=bundle, toolSlug=tool, version="1").removeprefix("/")
        if route.operation in ("putBundle", "importDocument"):
            body = {"slug": "no good"}
        query = {"project": project, "q": "go", "includeDisabled": "true"}
        known = {field.alias for field in route.query.model_fields.values()}
        params = {
            name: value for name, value in query.items() if name == "project" or name in known
        }
        options: dict[str, Any] = {"json": body} if body is not None else {}
        answer = server.client.request(route.verb, path, params=params, **options)
        assert answer.status_code < 500, answer.text
        if route.operation == "invokeTool":
            refused = (409, "unavailable") if tool == "go" else (403, "untrusted")
            assert (answer.status_code, answer.json()["error"]["reason"]) == refused
        yield answer.text


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("tools", "list"),
    ("tools", "list", "--json"),
    ("tools", "info", "at_import.go"),
    ("tools", "info", "in_requires.go"),
    ("tools", "invoke", "at_import.go"),
    ("tools", "invoke", "shop.get"),
    ("tools", "invoke", "srv.anything"),
    ("tools", "invoke", "evil.go"),
    ("health",),
    ("stubs", "--output", "{out}/typings"),
    ("export", "hostile.ipynb", "--output", "-"),
    ("ask", "hello"),
    ("ask", "tool:at_import.go {{}}", "--approve", "*"),
    ("trust", "--list"),
    ("trust", "--remove"),
    ("init", "{out}/new"),
    ("import", "openapi", "missing.json"),
    ("mcp", "--help"),
    ("search", "go"),
    ("check", "evil.go"),
    ("history",),
    ("history", "rerun", "1"),
    ("stats",),
    ("results",),
    ("install", "--help"),
    ("new", "http", "--help"),
    ("bundle", "list"),
    ("bundle", "show", "shop"),
    ("server", "list"),
    ("server", "test", "srv"),
    ("server", "logs", "srv"),
    ("lock",),
    ("lock", "check"),
    ("sql", "select count(*) from calls"),
    ("verify",),
    ("diff", "at_import.go"),
    ("mock", "missing.jsonl"),
    ("seal", "hostile.ipynb"),
    ("open", "missing.zip"),
    ("completion", "bash"),
    ("completion", "words", "onetool-ipy", "tools", "invoke", ""),
)


RUN_ALL = """
import contextlib, io, json, sys
from onetool_ipy.faces.cli import main
for words in json.loads(sys.argv[1]):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        main(words)
    print(json.dumps(text.getvalue()))
"""


@pytest.mark.slow
def test_the_command_line_does_nothing(clone: Clone, watch: Watch, tmp_path: Path) -> None:
    """All commands in one process, in the repository."""
    lines = [[word.format(out=tmp_path) for word in words] for words in COMMANDS]
    command = [sys.executable, "-c", RUN_ALL, json.dumps(lines)]
    env = {**os.environ, **clone.env()}
    done = subprocess.run(
        command, cwd=clone.folder, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stderr == ""
    texts = [json.loads(line) for line in done.stdout.splitlines()]
    for line, text in zip(lines, texts, strict=True):
        assert "Traceback" not in text
        watch.check(" ".join(line), text)


@pytest.mark.slow
def test_every_command_of_the_command_line_is_tried() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "onetool_ipy", "help", "all"],
        capture_output=True,
        text=True,
        check=True,
    )
    shown_words = set(
        re.findall(r"^([a-z]+) ", shown.stdout.partition("\n\n")[2].partition("\n\n")[2], re.M)
    )
    old = {"verify", "diff"}  # they work, and are shown nowhere
    assert shown_words == {words[0] for words in COMMANDS} - old


@pytest.mark.slow
def test_our_mcp_server_does_nothing(clone: Clone, watch: Watch) -> None:
    async def drive() -> str:
        words = ["-m", "onetool_ipy", "mcp", "--tool-allow", "*"]
        process = StdioServerParameters(
            command=sys.executable,
            args=words,
            cwd=str(clone.folder),
            env={**os.environ, **clone.env()},
        )
        mine = (*PACKS, "shop", "config", "srv", "web")
        async with Client(
            stdio_client(process), mode="auto", read_timeout_seconds=HANG_S
        ) as client:
            listed = await client.list_tools()
            wanted = [
                tool.name for tool in listed.tools if str(tool.title).partition(".")[0] in mine
            ]
            called = [str(await client.call_tool(name, {})) for name in wanted]
            prompts = await client.list_prompts()
            texts = [await client.get_prompt(prompt.name) for prompt in prompts.prompts]
            offered = [client.instructions, prompts, *texts, await client.list_resources()]
        return "\n".join([str(listed), *map(str, offered), *called])

    said = asyncio.run(drive())
    assert "at_import" in said
    watch.check("mcp", said)


HAPPENS: tuple[tuple[str, set[str]], ...] = (
    ("%tool in_annotation.go", {"annotation"}),
    ("%tool in_text.go", {"text"}),
    ("%tool in_returns.go", {"returns"}),
    ("%tool in_default.go", {"default"}),
    ("%tool in_decorator.go", {"decorator"}),
    ("%tool in_all.go", {"all"}),
    ("%tool in_class.go", {"class"}),
    ("%tool check in_docstring.go", {"docstring"}),
    ("ot.deps(tool='in_requires')", {"requires"}),
    ("$boom", {"snippet"}),
    ("$jinja", {"jinja"}),
    ("%tool srv.anything", {"server"}),
    ("%tool shop.get", {"/bundle"}),
    ("%tool shop.signed", {"/token", "/signed"}),
    ("%tool web.anything", {"/mcp"}),
    ("%ask hello", {"/model/api/chat"}),
    ("%ask --model n hello", {"/other/chat/completions"}),
)
"""What a trusted project does, and the markers and paths that show it: each this one thing, and
nothing else."""

NEVER = {
    "entry-point": "evil_module.py",
    "huge": ".onetool/tools/huge.py",
    "linked": "../outside/packs/linked.py",
}
"""What does not even happen in a trusted project, and the file that would do it."""


@pytest.fixture
def trusted(tmp_path: Path) -> Iterator[tuple[Clone, Kernel, str]]:
    """The same repository, a kernel in it, and the question that was answered with a yes."""
    listener = Listener()
    clone = Clone(tmp_path, listener)
    with Kernel(clone.folder, env=clone.env()) as kernel:
        kernel.execute("%load_ext onetool_ipy")
        running = kernel.start_execute("%tool at_import.go", allow_stdin=True)
        kernel.answer_input("yes")
        yield clone, kernel, running.wait().text
    listener.close()


@pytest.mark.slow
def test_after_the_yes_exactly_what_the_question_named_happens(
    trusted: tuple[Clone, Kernel, str],
) -> None:
    clone, kernel, question = trusted
    assert clone.fired() == {"import"}, "the call that was asked for, and nothing else"
    assert clone.listener.accepted == 0
    named = (
        "tools/at_import.py",
        "tools/in_requires.py",
        sys.executable,
        f"{clone.listener.url}/mcp",
        "HOSTILE_TOKEN",
    )
    url, token = clone.listener.url, f"${{{TOKEN_NAME}}}"
    reached = (
        *(
            "sets PRELOAD=${HOME}/x.so",
            f"sets T={token}",
            f"sends the header Authorization: Bearer {token}",
            "(sampling)",
        ),
        *(
            f"model m: ollama x at {url}/model",
            f"model n: openai y at {url}/other",
            f"sends the key {TOKEN_NAME}",
        ),
        *(
            "folder /:",
            "folder ~:",
            f"folder {clone.outside}:",
            f"host 127.0.0.1:{clone.listener.port}:",
            f"host {token}:",
        ),
        *(
            "http.allow_private",
            "file ../../outside/made.yaml:",
            "file topic_link.yaml:",
            f"state folder {clone.outside}",
        ),
    )
    for part in (*named, *reached, "2 HTTP tools to 127.0.0.1", "$boom", "$jinja"):
        assert part in question, part
    assert TOKEN not in question
    seen = {"import"}
    for line, expected in HAPPENS:
        kernel.execute(line, allow_errors=True)
        now = clone.fired() | clone.listener.paths()
        assert now - seen == expected, line
        seen = now
    for line in (
        "%tool linked.go",
        "%tool globbed.go",
        "%tool huge.go",
        "%tool evil.go",
        "%tool off.anything",
    ):
        kernel.execute(line, allow_errors=True)
    assert clone.fired() | clone.listener.paths() == seen, (
        "what is outside, too large or switched off"
    )
    assert (clone.markers / "server").read_text() == TOKEN, "it got what the question named"
    for path in (b"POST /mcp", b"POST /model", b"POST /other"):
        assert any(
            TOKEN.encode() in data for data in clone.listener.received if data.startswith(path)
        ), path
    assert (clone.outside / "state").is_dir(), "state_dir counts now"
    assert kernel.execute("%tool fs.list_dir path=../outside").ok, "and fs.roots"
    assert "ask.approve" in kernel.execute("%tool health").text, "which never counts from a project"


@pytest.mark.slow
def test_what_a_pull_adds_waits_for_a_yes_of_its_own(trusted: tuple[Clone, Kernel, str]) -> None:
    """In a trusted project: another address, key, folder, host and variable, in the notebook and
    the command line."""
    clone, kernel, _ = trusted
    config = clone.onetool / "onetool.yaml"
    text = config.read_text(encoding="utf-8").replace("/model", "/pulled").replace("/x.so", "/y.so")
    config.write_text(text.replace('"roots": [', '"roots": ["/proc", '), encoding="utf-8")
    before = clone.fired(), clone.listener.accepted
    kernel.execute("ot.reload()")
    for line in ("%ask hello", "%ask --model m hello", "%tool srv.anything"):
        assert "is new or has changed" in kernel.execute(line, allow_errors=True).text, line
    words = [sys.executable, "-m", "onetool_ipy", "ask", "hello"]
    env = {**os.environ, **clone.env()}
    done = subprocess.run(
        words, cwd=clone.folder, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert "is new or has changed" in done.stderr
    assert "onetool-ipy trust" in done.stderr
    assert (clone.fired(), clone.listener.accepted) == before
    assert "model m, folder /proc" in kernel.execute("%tool health").text
    running = kernel.start_execute("%ask hello", allow_stdin=True)
    kernel.answer_input("yes")
    question = running.wait(allow_errors=True).text
    assert "The model m of this project has changed since you trusted it" in question
    assert f"+ base_url: {clone.listener.url}/pulled" in question
    assert "y.so" not in question, "the server is asked for by itself"
    assert "/pulled/api/chat" in clone.listener.paths()


def test_what_never_happens_is_no_dud(clone: Clone) -> None:
    """The control of the markers that not even a trusted project sets off."""
    for marker, file in NEVER.items():
        code = f"import runpy; runpy.run_path({str(clone.folder / file)!r})"
        assert marker not in clone.fired()
        subprocess.run([sys.executable, "-c", code], check=True)
        assert marker in clone.fired()
        (clone.markers / marker).unlink()


@pytest.mark.slow
def test_the_end_of_trust_ends_what_runs(trusted: tuple[Clone, Kernel, str]) -> None:
    clone, kernel, _ = trusted
    assert "no longer trusted" in kernel.execute("%tool trust --remove").text
    before = clone.fired(), clone.listener.accepted
    for line in ("%tool at_import.go", "at_import.go(1)", *(line for line, _ in HAPPENS)):
        assert "%tool trust" in kernel.execute(line, allow_errors=True).text or line.startswith(
            ("ot.", "%tool check")
        )
    assert (clone.fired(), clone.listener.accepted) == before


def shown(place: Locator) -> str:
    """What a place of the page shows; there a control character does nothing."""
    return place.inner_text().replace(ESCAPE, "")


@pytest.mark.browser
def test_the_panel_in_a_browser_does_nothing(
    tmp_path: Path, installed_wheel: Installed, shared_lab: Lab, clone: Clone, watch: Watch
) -> None:
    """A notebook of the repository is opened; tools are opened from the panel and run; the sources
    are shown."""
    from playwright.sync_api import expect

    from tests.harness.lab import Lab  # Playwright is only for those who need a browser

    lab = Lab(
        installed_wheel, tmp_path, root=clone.home, env=clone.env(), browser=shared_lab.browser
    )
    try:
        notebook = lab.open_file(clone.folder / "hostile.ipynb")
        panel = notebook.show_panel()
        panel.get_by_role("button", name="Load it").click()
        expect(panel.locator(".otx-trust")).to_contain_text("tools/at_import.py")
        expect(notebook.page.locator(".onetool-Status")).to_contain_text("Untrusted")
        watch.check("the panel", shown(panel))
        for name in (
            "at_import.go",
            "in_requires.go",
            "in_default.go",
            "shop.get",
            "shop.signed",
            "shop.go",
        ):
            panel.get_by_label("Search tools").fill(name)
            panel.locator(".otx-tool", has_text=name).first.click()
            # A tool that was run keeps its tab; those of the tools before it are hidden behind it.
            tool = notebook.page.locator(".onetool-ToolTab").filter(visible=True)
            expect(tool.get_by_role("heading", name=name, exact=True)).to_be_visible()
            tool.get_by_role("button", name="Run", exact=True).click()
            expect(tool.locator(".otx-result")).to_contain_text("this project is not trusted")
            watch.check(f"Run {name}", shown(panel) + shown(tool))
        panel.get_by_role("tablist", name="Views").get_by_role("tab", name="Sources").click()
        expect(panel.locator(".onetool-Bundle", has_text="shop")).to_be_visible()
        watch.check("sources", shown(panel))
    finally:
        lab.close()
    watch.check("the log", lab.log)
