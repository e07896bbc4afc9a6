"""A toolbox with tools that leave a trace when they run, and models that say what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.core.tool import FunctionFacts, ServerFacts, ToolSpec
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.terminal import approval_reply, approval_text
from onetool_ipy.toolbox import Toolbox

MakeBox = Callable[..., Toolbox]
Own = Callable[[str], None]


@pytest.fixture
def make_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBox]:
    """`make_box("ask: {max_calls: 3}")`: the toolbox of a project with these settings, whose folder
    we stand in."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:

        def make(
            settings: str = "", *, secrets: str = "", env: dict[str, str] | None = None
        ) -> Toolbox:
            folder = tmp_path / ".onetool"
            folder.mkdir(exist_ok=True)
            (folder / "onetool.yaml").write_text(f"version: 1\n{settings}\n", encoding="utf-8")
            if secrets:
                (folder / "secrets.yaml").write_text(secrets, encoding="utf-8")
                (folder / "secrets.yaml").chmod(0o600)
            known = {
                "ONETOOL_STATE": str(tmp_path / "state"),
                **home_at(tmp_path / "home"),
                **(env or {}),
            }
            return stack.enter_context(open_toolbox(tmp_path, env=known))

        yield make


@pytest.fixture
def own(tmp_path: Path) -> Own:
    """`own("ask: {approve: [a.b]}")`: the user's own settings, in the home directory."""

    def write(settings: str) -> None:
        folder = tmp_path / "home" / ".onetool"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "onetool.yaml").write_text(f"version: 1\n{settings}\n", encoding="utf-8")

    return write


@pytest.fixture
def box(make_box: MakeBox) -> Toolbox:
    return make_box()


class TypingPerson(AskListener):
    """A person who types replies, as in a terminal; nobody is there where a reply is None."""

    def typed(self, text: str) -> str | None:
        """Return what is typed as the reply to this text."""
        raise NotImplementedError

    def question(self, question: Question, put: Callable[[Question], Reply]) -> Reply:
        typed = self.typed(approval_text(question.calls))
        if typed is None:
            raise NobodyToAsk("Nobody could be asked.")
        return approval_reply(typed, len(question.calls))


class Traces:
    """Tools that write a file when they run: `traces.add(box, "evil.wipe")`, then
    `traces.left()`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, box: Toolbox, name: str, *, gives: Any = "done", **facts: Any) -> ToolSpec:
        """Register a tool that leaves a file of its name; not read-only unless that is said."""

        def run(args: dict[str, Any]) -> Any:
            with (self.folder / name.replace("/", "_")).open("a", encoding="utf-8") as file:
                file.write(f"{sorted(args.items())}\n")
            return gives(args) if callable(gives) else gives

        function = FunctionFacts(cache_key=facts.pop("cache_key", None))
        server = ServerFacts(server=facts.pop("server", ""))
        fields = {
            "description": f"Do {name}.",
            "parameters": _ANY,
            "function": function,
            "server_facts": server,
        }
        return box.registry.register(ToolSpec(name=name, run=run, **{**fields, **facts}))

    def left(self) -> dict[str, int]:
        """Which tools ran, and how often."""
        return {
            f.name: len(f.read_text(encoding="utf-8").splitlines())
            for f in sorted(self.folder.iterdir())
        }


_ANY = {"type": "object", "properties": {"x": {"type": "string"}, "n": {"type": "integer"}}}


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    return Traces(tmp_path / "traces")
