"""A toolbox with the tools of the guard's benchmark, private and public, and what went out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from onetool_ipy import tool
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.core.tool import GuardFacts, ToolSpec
from onetool_ipy.host import Host
from onetool_ipy.llm.ask.answer import Answer
from onetool_ipy.llm.programs.journal import ProgramStore, new_id
from onetool_ipy.llm.programs.run import ProgramOptions, ProgramRun
from onetool_ipy.llm.programs.sandbox import World as FixedWorld
from onetool_ipy.sdk import call_tool
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.guard_cases import TOOLS, result_of

PLACE = "search.example.com"
SECRETS = (
    {"notes.txt": "Tango 7391 zulu", "owes": 84210, "owner": "Mia Brandt", "fails": 0b1011},
    {"notes.txt": "aLPHA 2648 kilo", "owes": 20993, "owner": "Ada Kernig", "fails": 0b0100},
)
_FILES = {
    "prices.csv": "name,price\nnut,12.5\nbolt,3.25\n",
    "plan.json": '{"day": "2026-12-24", "guests": [{"name": "Mia", "age": 31}]}',
    "requirements.txt": "httpx==0.28\npandas==2.2\n",
}


class Person(Host):
    """Answers each question in the same way; None means that nobody is there."""

    def __init__(self, reply: str | None) -> None:
        self.questions: list[Question] = []
        self._reply = reply

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        if question.program and self._reply is not None:
            return Reply("accept", {"run": [1]})
        if self._reply is None:
            raise NobodyToAsk("Nobody could be asked.")
        if self._reply == "no":
            return Reply("decline")
        return Reply("accept", {"run": [1], "always": self._reply == "always"})


class GuardedWorld:
    """A toolbox with the tools of the benchmark, and what went out of it."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box
        self.secret = SECRETS[0]
        self.sent: list[str] = []
        self.person = Person("no")
        for name, fake in TOOLS.items():
            if name.startswith(("web.", "weather.", "geo.", "quotes.", "pypi.", "gh.", "track.")):
                labels = fake.labels
                self._add(fake.spec(name), self._out(name), labels.reads, labels.sends)
        place = TOOLS["crm.get"].labels.sends
        self._add(TOOLS["crm.get"].spec("crm.get"), self._owner, "private", place)
        spec = TOOLS["crm.customers"].spec("crm.customers")
        self._add(spec, self._out("crm.customers"), "private", place)
        self.read("files.read", lambda path: {**_FILES, **self.secret}[path])
        self.read("db.rows", lambda: [{"owes": self.secret["owes"], "n": n} for n in range(3)])
        self.read("db.by_name", lambda: {self.secret["owner"]: 1})
        self.read("db.keep", lambda: box.results.put(self.secret["owner"], tool="db.keep"))
        self.read("db.check", lambda bit: self._check(bit))
        self.read("nb.look", lambda q: call_tool("web.search", q=q))
        odd = TOOLS["web.search"].spec("web.search").replace(name="odd.go")
        self._add(odd, self._out("odd.go"), "public", "${HOST}")

    def read(self, name: str, run: Callable[..., Any]) -> None:
        """Add a tool of this machine that reads private data."""
        self.box.adopt(tool(name=name, read_only=True)(run))

    def run(self, code: str, reply: str | None = "no", **options: Any) -> Answer:
        """Run a program; `reply` is what the person answers each time."""
        self.sent.clear()
        self.person = self.box.host = Person(reply)
        return self.box.ask.program(code, **{"source": "magic", **options})

    def run_with_seed(self, code: str, approve: Sequence[str] = ()) -> list[str]:
        """Run a program with a seed that is always the same, for a person who says no. Return what
        went out."""
        self.sent.clear()
        self.person = self.box.host = Person("no")
        options = ProgramOptions(approve=approve)
        fixed = FixedWorld(clock=self.box.now(), seed=7)
        store = ProgramStore(
            self.box.config.paths.user_state / "programs",
            project="",
            now=self.box.now,
            ttl_s=60,
            mask=self.box.mask,
        )
        ProgramRun(self.box, new_id(), code, fixed, options, store).run()
        return [*self.sent]

    def _add(self, spec: ToolSpec, run: Callable[..., Any], reads: str, sends: str) -> None:
        # The user's own cell may say where a tool sends; nothing is sent for real.
        guard = GuardFacts(reads=reads, sends=sends)
        self.box.registry.register(spec.replace(run=run, origin="cell", guard=guard))

    def _out(self, name: str) -> Callable[[dict[str, Any]], Any]:
        def run(args: dict[str, Any]) -> Any:
            self.sent.append(f"{name} {json.dumps(args)}")
            source = name if name in TOOLS else "web.search"
            return result_of(source, args)

        return run

    def _owner(self, args: dict[str, Any]) -> Any:
        self.sent.append(f"crm.get {json.dumps(args)}")
        return {"owner": self.secret["owner"]}

    def _check(self, bit: int) -> str:
        if int(str(self.secret["fails"])) >> bit & 1:
            raise ValueError("it is set")
        return "it is not set"
