"""Toolbox: what a user holds. It owns everything that lives: opens, calls, reloads, closes.

It holds one snapshot of its parts and swaps it as a whole on reload, so a call under way keeps the
parts it began with. `Parts` is that snapshot; `assemble` makes it. `proxies` make the tools
callable as plain Python.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from onetool_ipy.base import forks, tables, values
from onetool_ipy.base.background import AbandonedCalls, Background, Workers, clock_stopped
from onetool_ipy.base.errors import (
    TRUST_IT,
    InvalidConfig,
    OneToolError,
    ToolCallError,
    UsageProblem,
)
from onetool_ipy.base.files import StoreError, names_in, read_object
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.config.load import Config, own_settings
from onetool_ipy.core import current
from onetool_ipy.core.current import REMOTE, TYPED
from onetool_ipy.core.executor import CallIds, Executor
from onetool_ipy.core.jobs import Job, Jobs
from onetool_ipy.core.lineage import Lineage
from onetool_ipy.core.question import (
    NobodyToAsk,
    Question,
    Reply,
    checked,
    count_question,
    form_errors,
)
from onetool_ipy.core.registry import Registry, SessionTools
from onetool_ipy.core.resolve import Allow, Arguments, ResolvedCall, Resolver
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import CallSource, Problem, ToolCall
from onetool_ipy.host import Host
from onetool_ipy.proxies import OtProxy, PackProxy
from onetool_ipy.schema.read import identifier
from onetool_ipy.stores.replays import Replays
from onetool_ipy.trust_gate import GuardedParts, TrustGate

if TYPE_CHECKING:
    import datetime

    from onetool_ipy.bundles.service import Bundles
    from onetool_ipy.llm.ask.asker import Asker
    from onetool_ipy.llm.messages import ModelClient
    from onetool_ipy.mcp.servers import Servers
    from onetool_ipy.net.client import HttpClient
    from onetool_ipy.snippets.definition import Shortcuts, Snippet
    from onetool_ipy.sources.adopted import Adoptions
    from onetool_ipy.stores.calls.log import CallLog
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

_KEPT = "The last good configuration is still in use."
_MEND = "Correct it there, then run: ot.reload()"
_T = TypeVar("_T")


class Stores(NamedTuple):
    """What a toolbox keeps on disk, and the clock it keeps it by."""

    results: Results
    log: CallLog
    topics: Topics
    clock: Callable[[], datetime.datetime]


class Parts(GuardedParts, Protocol):
    """All that a reload replaces. Each part is built when it is first needed, once."""

    @property
    def stores(self) -> Stores: ...

    @property
    def executor(self) -> Executor: ...

    @property
    def resolver(self) -> Resolver: ...

    @property
    def bundles(self) -> Bundles: ...

    @property
    def pack_names(self) -> Sequence[str]:
        """The packs of the project itself as its files are now, which a notebook gets as names."""

    def keep_pack_names(self) -> None:
        """Keep `pack_names` for the next start, if nothing is to be told then."""

    @property
    def reopen(self) -> Callable[[], Toolbox]:
        """A function, fit for pickling, that opens the same project in another process."""

    def expire(self) -> None:
        """Let the registry list its tools again. Parts that are not built yet will see the change
        anyway."""

    @property
    def make_servers(self) -> Callable[[], Servers]:
        """Makes the MCP servers, which outlive these parts. Nothing is started."""

    def adopt_servers(self, servers: Servers) -> None:
        """End the servers that these parts define differently, before they are in force. Nothing is
        started."""

    def take_over(self, older: Parts) -> None:
        """Close the parts before; take over the results that they kept in memory."""

    def close(self) -> None:
        """Close what was built. Builds nothing."""


class _Subscriber(NamedTuple):
    changed: Callable[[], None] | None
    states: Callable[[], None] | None
    closing: Callable[[], None] | None


class Toolbox:
    """Tools from every source, ready to list, look up and call. Use as a context manager, or
    `close()` it.

    `host` is the program it runs in, `gate` decides what of the project may run. `session_snippets`
    are those made in this session; they survive a reload. Whoever wants to hear of other tools, or
    of its end, subscribes.
    """

    def __init__(
        self,
        build: Callable[[Toolbox], Parts],
        *,
        session: SessionTools,
        build_http_client: Callable[[Toolbox], HttpClient],
    ) -> None:
        given_up = AbandonedCalls()
        self.session = session
        self.new_id = CallIds()
        self.background = Background(given_up)
        self.tool_loop = Background(given_up)
        self.workers = Workers(given_up)
        self.host = Host()
        self.session_snippets: dict[str, Snippet] = {}
        self.gate = TrustGate(
            lambda: self.parts,
            servers=lambda: self.servers,
            session=session,
            snippets=self.session_snippets,
            ask=lambda needed: self.host.ask_for_trust(needed),  # noqa: PLW0108 - the host may change
            is_closed=lambda: self.is_closed,
            follow=self._follow_trust,
        )
        self._jobs = Jobs(lambda call: self.host.listen_to_job(call))  # noqa: PLW0108 - the host may change
        self._adoptions: Adoptions | None = None
        self.replays = Replays()
        self.lineage = Lineage(lambda handle: self.results.call_of(handle))  # noqa: PLW0108 - a reload has other results
        self._subscribers: list[_Subscriber] = []
        self._build = build
        self._build_http_client = build_http_client
        self._http_client: HttpClient | None = None
        self._asker: Asker | None = None
        self._servers: Servers | None = None
        self.after_fork()
        forks.register(self)
        self._problem: Problem | None = None
        self._told: set[Problem] = set()
        self.is_closed = False
        self._shortcuts: tuple[Config, tuple[Snippet, ...], Shortcuts] | None = None
        self.parts = build(self)
        current.opened(self)

    def after_fork(self) -> None:
        """Take locks of this process's own."""
        self._swap = threading.RLock()
        self._making = threading.RLock()

    @property
    def config(self) -> Config:
        return self.parts.config

    @property
    def registry(self) -> Registry:
        return self.parts.registry

    @property
    def executor(self) -> Executor:
        return self.parts.executor

    @property
    def results(self) -> Results:
        """The stored results of the project."""
        return self.parts.stores.results

    @property
    def log(self) -> CallLog:
        """The call log of the project."""
        return self.parts.stores.log

    @property
    def topics(self) -> Topics:
        """Where `ot.notify` writes."""
        return self.parts.stores.topics

    @property
    def bundles(self) -> Bundles:
        """The bundles of the project: every verb of spec 002."""
        return self.parts.bundles

    @property
    def http_client(self) -> HttpClient:
        """The HTTP client, made when a request is first sent."""
        if self._http_client is None:
            with self._swap:
                if self._http_client is None:
                    self._http_client = self._build_http_client(self)
        return self._http_client

    @property
    def reopen(self) -> Callable[[], Toolbox]:
        """A function, fit for pickling, that opens the same project in another process."""
        return self.parts.reopen

    def now(self) -> datetime.datetime:
        """The time, by the toolbox's clock."""
        return self.parts.stores.clock()

    @property
    def servers(self) -> Servers:
        """The MCP servers, by name; they outlive a reload."""
        if self._servers is None:
            # Before the lock: whoever builds a part has the lock of the parts, and needs servers.
            make_servers = self.parts.make_servers
            with self._making:
                if self._servers is None:
                    self._servers = make_servers()
        return self._servers

    @property
    def shortcuts(self) -> Shortcuts:
        """Aliases and snippets: those of the files, and those of this session over them."""
        config, of_session = self.config, tuple(self.session_snippets.values())
        cached = self._shortcuts
        if cached is None or cached[0] is not config or cached[1] != of_session:
            from onetool_ipy.snippets.definition import read_shortcuts

            shortcuts = read_shortcuts(config.settings.aliases, config.settings.snippets)
            for snippet in of_session:
                shortcuts = shortcuts.with_snippet(snippet)
            cached = self._shortcuts = (config, of_session, shortcuts)
        return cached[2]

    @property
    def ot(self) -> OtProxy:
        """The pack about the toolbox itself."""
        return OtProxy(self, "ot")

    def resolve(
        self,
        tool: str | ToolCall,
        args: Arguments | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        allow: Allow | None = None,
        check: bool = True,
        call_id: str = "",
    ) -> ResolvedCall:
        """Find out whether a call may run, and make it ready. `call`, `acall` and `start` take the
        result.

        What stands in its way is its `failure`. `args` may be a function that reads them as the
        tool wants them.
        """
        if self.is_closed:
            self._require_open()
        if isinstance(tool, ToolCall):
            call_id, tool, args, source = tool
        if not check and source not in TYPED:
            hint = "check=False is for a person's own calls."
            raise UsageProblem(f"A call from '{source}' is always checked.", hint=hint)
        arguments = {} if args is None else args
        return self.parts.resolver.resolve(
            call_id or self.new_id(), tool, arguments, source, timeout, allow, check
        )

    async def aresolve(
        self, tool: str | ToolCall, args: Arguments | None = None, **options: Any
    ) -> ResolvedCall:
        """`resolve` without blocking the event loop; takes the same options."""
        resolve = partial(self.resolve, tool, args, **options)
        name = tool.name if isinstance(tool, ToolCall) else tool
        source = tool.source if isinstance(tool, ToolCall) else options.get("source", "python")
        is_quick = self.parts.resolver.is_quick(name, source)
        return resolve() if is_quick else await self._in_worker(resolve)

    def call(
        self,
        tool: str | ToolCall | ResolvedCall,
        args: Arguments | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        allow: Sequence[str] | None = None,
        check: bool = True,
    ) -> ToolResult:
        """Call a tool. Its failure is data in the result; this never raises for it.

        `check=False` sends the arguments as they are, where the tool's own schema is wrong. It is
        for a person's calls.
        """
        if type(tool) is str and check and not self.is_closed:
            arguments = {} if args is None else args
            resolved = self.parts.resolver.resolve(
                self.new_id(), tool, arguments, source, timeout, allow
            )
        elif isinstance(tool, ResolvedCall):
            resolved = tool
        else:
            resolved = self.resolve(
                tool, args, source=source, timeout=timeout, allow=allow, check=check
            )
        return self.parts.executor.call(resolved, self.host.listen)

    async def acall(
        self,
        tool: str | ToolCall | ResolvedCall,
        args: Arguments | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        allow: Allow | None = None,
        check: bool = True,
    ) -> ToolResult:
        """`call` without blocking the event loop."""
        resolved = (
            tool
            if isinstance(tool, ResolvedCall)
            else await self.aresolve(
                tool, args, source=source, timeout=timeout, allow=allow, check=check
            )
        )
        return await self.parts.executor.acall(resolved, self.host.listen)

    def run(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> ToolResult:
        """Call a tool as `%tool` does: the result is kept whole, and a failure raises
        ToolCallError."""
        result = self.call(tool, args, timeout=timeout, check=check)
        if result.error is not None:
            self.host.call_failed(result)
            raise ToolCallError(result)
        return result

    def read_resource(
        self,
        server: str,
        uri: str,
        variables: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
    ) -> ToolResult:
        """Read a resource of a server, by its uri or by a template and its variables; a call like
        any other."""
        from onetool_ipy.mcp.resources import reader_name

        self.gate.prepare(f"{server}.read", None, source)
        listing = self.servers.listing(server)
        if listing is not None and "resources" not in listing.capabilities:
            raise UsageProblem(f"The server '{server}' has no resources.")
        name = f"{server}.read" if listing is None else reader_name(server, listing)
        return self.call(name, {**(variables or {}), "uri": uri}, source=source)

    def start(
        self,
        tool: str | ToolCall | ResolvedCall,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        notify: Callable[[Job], None] | None = None,
        check: bool = True,
    ) -> Job:
        """Call a tool in the background; `notify` hears of its progress and its end."""
        resolved = (
            tool
            if isinstance(tool, ResolvedCall)
            else self.resolve(tool, args, source=source, timeout=timeout, check=check)
        )
        return self.jobs.start(self.parts.executor, resolved, notify=notify)

    def resume(self, task: str, *, source: CallSource = "python") -> Job:
        """Wait in the background for a task that another kernel left at a server, by its id in
        `servers.tasks()`."""
        saved = self.servers.task(task)
        resolved = self.parts.resolver.resolve(
            self.new_id(), saved.tool, {"task": saved.id}, source, check=False
        )
        resolved.spec = resolved.require().replace(run=lambda _args: self.servers.resume(saved))
        return self.start(resolved)

    @property
    def jobs(self) -> Jobs:
        """The calls in the background."""
        return self._jobs

    def pack(self, name: str) -> PackProxy | None:
        """The pack of that name, or of one that Python spells so, as an object with its tools as
        methods; or None."""
        if name == "ot":
            return self.ot
        specs = self.registry.pack(name)
        if specs:
            return PackProxy(self, specs[0].pack)
        server = next((each for each in self.servers if name in (each, identifier(each))), "")
        return PackProxy(self, server) if self.servers.is_unknown(server) else None

    def adopt(
        self,
        thing: object,
        pack: str = "",
        *,
        deps: object = None,
        read_only: Iterable[str] | str = (),
    ) -> list[str]:
        """Make tools of this session of what is at hand, and return their names.

        `thing` is a function, a tool or toolkit of another framework, an MCP server in this
        process, an object (its public methods), a module (its functions), a list of these, or
        "module:name"; adopted again, it replaces its tools. `pack` is by default its or the
        framework's name; `deps` go to tools that want a context; `read_only` names the tools that
        only read.
        """
        # Late: few notebooks adopt more than functions.
        from onetool_ipy.sources.adopted import Adoptions

        with self._making:
            if self._adoptions is None:
                self._adoptions = Adoptions(self.tool_loop.run)
        specs = self._adoptions.adopt(
            self.registry, thing, pack=pack, deps=deps, read_only=read_only
        )
        for spec in specs:
            self.host.adopted(spec)
        return [spec.name for spec in specs]

    def outgoing(self, result: ToolResult) -> Any:
        """The data of a result as it leaves for a model, REST, MCP or the command line.

        What is larger than `output.max_inline_bytes` is stored, and goes as {handle, total_lines,
        preview}.
        """
        import json

        settings = self.config.settings.output
        data, plain = result.portable, None
        # The names of its columns alone make a long table too large, so it is not written out
        # first.
        least = 0
        if tables.is_dataframe(data):
            least = len(data) * sum(len(str(name)) + 5 for name in data.columns)
        if least <= settings.max_inline_bytes:
            plain = values.to_json(data)
            text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
            if result.error is not None or len(text.encode()) <= settings.max_inline_bytes:
                return plain
        tool, call_id = str(result.meta.get("tool", "")), str(result.meta.get("call_id", ""))
        try:
            handle = result.handle or self.results.put(data, tool=tool, call_id=call_id)
            page = self.results.query(handle, limit=settings.preview_lines)
        except OneToolError as exc:
            result.meta["not_stored"] = self.mask(exc.message)
            return values.to_json(data) if plain is None else plain
        result.meta["handle"] = handle
        return {"handle": handle, "total_lines": page["total_lines"], "preview": page["lines"]}

    def formats(self, provider: str, allowed: Sequence[str] | None = None) -> list[Json]:
        """The tools as a model's provider wants them declared: openai, ollama, gemini or anthropic.

        In order of registration, those that `allowed` lets through; a tool that is off is not
        offered. Starts no server: the tools of one that never ran are not among them. Raises
        UnknownProvider.
        """
        from onetool_ipy.llm import formats

        specs = self.registry.known()
        chosen = self.registry.loaded(
            spec for spec in self.registry.known(allowed) if not spec.disabled
        )
        return formats.declare(
            provider, formats.offers(chosen, among=[spec.name for spec in specs])
        )

    def export(self, framework: str, allow: Sequence[str] | None = None) -> list[Any]:
        """Return the tools as objects of another framework: langchain, pydantic-ai, openai-agents
        or smolagents.

        Without `allow` these are the tools that only read; with it (names, `pack.*` or `*`) the
        tools that it names, of which those that may change something carry the framework's mark for
        a yes.
        """
        from onetool_ipy.llm.exported import ModelCalls, export

        return export(
            framework,
            allow,
            registry=self.registry,
            config=self.config,
            calls=ModelCalls(self.call, self.acall, self.outgoing, self.mask),
        )

    def model(self, which: str | ModelClient | None = None) -> ModelClient:
        """Return the client of a configured model, by name or the default one. Raises UsageProblem
        if there is none.

        Raises Untrusted for a model that the user has not approved.
        """
        if which is not None and not isinstance(which, str):
            from onetool_ipy.llm.messages import require_client

            return require_client(which)
        from onetool_ipy.llm.client import open_model

        self.gate.require_model(which)
        config = self.config
        models = config.settings.models
        # A project that names no model leaves the choice to its user's own settings.
        return open_model(
            which,
            models if models.named else own_settings(config.home).models,
            secrets=config.secrets,
            http_client=self.http_client,
            background=self.background,
        )

    async def sample(
        self, system: str, messages: Sequence[tuple[str, str]], max_tokens: int
    ) -> tuple[str, str, str]:
        """The reply of the default model to (role, text) messages, without tools: the model's name,
        text and end."""
        from onetool_ipy.llm.messages import Message, System, Turn, User

        client = self.model()
        turns: list[Message] = [
            Turn(text=text) if role == "assistant" else User(text) for role, text in messages
        ]
        turn = await client.acomplete(
            [*([System(system)] if system else []), *turns], max_tokens=max_tokens
        )
        return client.name, turn.text, turn.stop

    @property
    def ask(self) -> Asker:
        """Ask a model, which may call tools: `box.ask("...") -> Answer`. Keeps sessions, and what
        was allowed."""
        self._require_open()
        if self._asker is None:
            from onetool_ipy.llm.ask.asker import Asker

            with self._making:
                self._asker = self._asker or Asker(
                    self,
                    workers=self.workers,
                    background=self.background,
                    http_client=lambda: self.http_client,
                    unlisted=lambda: self.servers.unlisted() if self.servers.unknown else (),
                    note=lambda text: self.host.note(text),  # noqa: PLW0108 - the host may change
                )
        return self._asker

    def problems(self) -> list[Problem]:
        """Everything that is wrong now and stops nothing else, without secrets."""
        registry = self.registry
        problems = [*self.config.problems_now(), *registry.problems()]
        if self.config.trust.how == "untrusted":
            problems.append(
                Problem(str(self.config.paths.project), "This project is not trusted.", TRUST_IT)
            )
        else:
            # The state of a server says that it is not trusted; the other parts have no state to
            # see it by.
            withheld = (
                f"{kind} {name}" for kind, pins in self.config.withheld.items() for name in pins
            )
            parts = ", ".join(
                printable_line(part) for part in withheld if not part.startswith("server ")
            )
            if parts:
                message = f"New or changed, and not trusted yet: {parts}."
                problems.append(Problem(str(self.config.paths.project), message, TRUST_IT))
        if self.config.settings.aliases or self.config.settings.snippets:
            names = [spec.name for spec in registry.known()]
            wrong = self.shortcuts.problems(lambda name: registry.get(name) is not None, names)
            for problem in sorted(set(wrong) - self._told):
                logging.getLogger("onetool_ipy.config").error("%s", self.mask(str(problem)))
            self._told.update(wrong)
            problems += wrong
        if self._problem is not None:
            problems.append(self._problem)
        problems += self.servers.clashes(registry.known_packs())
        problems += self.log.problems()
        problems += _unread_files(self.config)
        mask = self.mask
        return [
            p._replace(where=mask(p.where), message=mask(p.message), hint=mask(p.hint) or _MEND)
            for p in _by_secret(problems)
        ]

    def subscribe(
        self,
        *,
        changed: Callable[[], None] | None = None,
        states: Callable[[], None] | None = None,
        closing: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Call `changed` when there may be other tools, `states` when a server has started or
        ended, in any thread.

        `closing` is called before the toolbox closes. Returns a function that ends the
        subscription; it may be called twice.
        """
        subscriber = _Subscriber(changed, states, closing)
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            self._subscribers[:] = [each for each in self._subscribers if each is not subscriber]

        return unsubscribe

    def announce(self, what: Literal["changed", "states"]) -> None:
        """Tell the subscribers that there may be other tools now, or that a server has started or
        ended."""
        for subscriber in tuple(self._subscribers):
            tell = subscriber.changed if what == "changed" else subscriber.states
            if tell is not None:
                tell()

    def mask(self, text: str) -> str:
        """The text with every secret in it replaced."""
        return self.config.secrets.mask(text)

    def put_question(self, question: Question) -> Reply:
        """Put a question to the person, or to the MCP client that made this call, and wait; see
        `Host`."""
        here, safe = current.scope(), checked(question.masked(self.mask))
        if here is not None and here.meta is not None:
            count_question(here.meta)
        with nullcontext() if here is None else here.waiting():
            if here is not None and here.ask is not None:
                reply = here.ask(safe)
            elif here is not None and here.asked_by in REMOTE:
                raise NobodyToAsk(
                    f"{safe.subject} asks a person, and the client of this call cannot ask anybody."
                )
            else:
                with clock_stopped():
                    reply = self.host.ask(safe)
        if (
            reply.action == "accept"
            and safe.form is not None
            and form_errors(safe.form, reply.content)
        ):
            return Reply("cancel", note="The values do not fit the form.")
        return reply

    async def aput_question(self, question: Question) -> Reply:
        """`put_question` without blocking the event loop; a cancellation takes the question
        back."""
        return await self._in_worker(lambda: self.put_question(question))

    def _follow_trust(self) -> None:
        """Read the project again as it is trusted now. A fault in its files is no reason to go on
        as before."""
        self._require_open()
        with self._swap:
            fresh = self._build(self)
        self._take(fresh)

    def reload(self) -> None:
        """Build everything again from the files; on a failure keep what was good, and raise
        InvalidConfig.

        The session's own tools stay. Calls under way end with the parts they began with.
        """
        self._require_open()
        with self._swap:
            try:
                fresh = self._build(self)
                fresh.config.raise_if_bad()
            except OneToolError as exc:
                self._problem = Problem("reload", exc.message, _KEPT)
                problems = exc.problems if isinstance(exc, InvalidConfig) else ()
                raise InvalidConfig(exc.message, hint=_KEPT, problems=problems) from exc
        self._take(fresh)

    def _take(self, fresh: Parts) -> None:
        """Put fresh parts in force."""
        if self._servers is not None:
            fresh.adopt_servers(self._servers)
        with self._swap, deferred:
            old, self.parts, self._problem = self.parts, fresh, None
            fresh.take_over(old)
        self.host.reloaded()
        self.announce("changed")

    def close(self) -> None:
        """Let go of threads and servers; may be called twice. A call after it is refused."""
        self.is_closed = True
        current.closed(self)
        if self._servers is not None:
            self._servers.leave_tasks()
        self._jobs.close()
        while self._subscribers:
            closing = self._subscribers.pop().closing
            if closing is not None:
                closing()
        if self._servers is not None:
            self._servers.close()
        self.lineage.clear()
        self.parts.close()
        if self._http_client is not None:
            self._http_client.close()
        self.tool_loop.close()
        self.background.close()

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Toolbox {self.config.paths.project}>"

    async def _in_worker(self, work: Callable[[], _T]) -> _T:
        import asyncio

        task = self.workers.submit(work)
        try:
            value: _T = await asyncio.wrap_future(task.future)
        except BaseException:
            self.workers.abandon(task)
            raise
        return value

    def _require_open(self) -> None:
        if self.is_closed:
            raise UsageProblem("This toolbox is closed.", hint="Open one with open_toolbox().")


def _by_secret(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, where a missing secret is one, wherever it is missing."""
    groups: dict[object, list[Problem]] = {}
    for at, problem in enumerate(problems):
        groups.setdefault(problem.secret or at, []).append(problem)
    return [
        first._replace(message=f"{first.message} {_also(others)}") if others else first
        for first, *others in groups.values()
    ]


def _also(others: list[Problem]) -> str:
    places = ", ".join(problem.where for problem in others[:3])
    return f"It is missing at {places}{f' and {len(others) - 3} more' if others[3:] else ''} too."


def _unread_files(config: Config) -> Iterator[Problem]:
    """Name the files of the user's state that cannot be read: nothing is written over them."""
    from onetool_ipy.llm.ask.session import MAX_BYTES

    sessions = config.paths.state / "sessions"
    paths = [config.paths.state / "favourites.json", config.paths.user_state / "approvals.json"]
    paths += [sessions / name for name in names_in(sessions) if name.endswith(".json")]
    for path in paths:
        try:
            read_object(path, MAX_BYTES)
        except StoreError as exc:
            yield Problem(str(path), f"cannot be read: {exc.reason}.", exc.hint)
