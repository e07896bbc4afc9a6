"""Run a program: reads run, writes are planned, shown and then made, each at most once.

A program runs in rounds. A round starts it from the beginning and answers the calls that were made
before from memory, so that the program, whose clock and seed are fixed, comes to the same place
again. From its first write that nobody approved a round is a fork: reads still run, writes get
stand-ins and are collected. Then the person sees them. After a yes the next round makes them. What
a fork read is used by later rounds, so each read is made once.

No write runs without a yes to this very call: the tool, its fingerprint and the arguments, which
are parsed from the text that was shown. It is noted as begun, on disk, before it runs, and as done
after. A write that was not chosen is skipped: the program keeps the stand-in and goes on. Nothing
of a yes is kept: who resumes a program is asked again.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    CallFailure,
    NotApproved,
    OneToolError,
    ProgramChanged,
    ProgramError,
    ProgramFailed,
    ProgramLimit,
    ProgramUnsure,
    UsageProblem,
)
from onetool_ipy.base.files import StoreError
from onetool_ipy.base.tables import is_dataframe
from onetool_ipy.base.values import Json
from onetool_ipy.config.load import Config, needs_approval
from onetool_ipy.core import current, names
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import CallSource, ToolCall, ToolSpec
from onetool_ipy.llm.ask.answer import UNMADE, Answer, AnswerCall, AnswerCalls, PlannedCalls
from onetool_ipy.llm.ask.context import AskToolbox
from onetool_ipy.llm.ask.guard import ASKED, Guard
from onetool_ipy.llm.programs.guard import ProgramGuard
from onetool_ipy.llm.programs.journal import KeptProgram, ProgramRecord, ProgramStore, new_id
from onetool_ipy.llm.programs.plan import (
    MAX_WRITES,
    SHOWN_WRITES,
    CallKey,
    Plan,
    PlannedWrite,
    ProgramWrites,
    SourceMap,
    WriteKey,
    WriteState,
    call_key,
    stand_ins,
)
from onetool_ipy.llm.programs.sandbox import HostCall, Raised, Sandbox, StandIn, World
from onetool_ipy.llm.programs.stubs import ToolModules, tool_modules
from onetool_ipy.schema.read import identifier
from onetool_ipy.stores.calls.record import encode_inputs, measure

MAX_CALLS = 500
MAX_OPEN_WORLD = 20
MAX_ROWS = 50_000
MAX_RESULT = 8_000_000
MAX_ALL_ARGS = 64_000_000
_MAX_MESSAGE = 1_000
_MAX_KNOWN, _MAX_KNOWN_SIZE = 5_000, 1 << 20
_KINDS = {
    "schema": "TypeError",
    "json": "TypeError",
    "timeout": "TimeoutError",
    "not_allowed": "PermissionError",
    "not_approved": "PermissionError",
    "untrusted": "PermissionError",
    "disabled": "PermissionError",
    "host_not_allowed": "PermissionError",
    "too_large": "MemoryError",
}

Decision = Literal["", "skip", "again"]
Ask = Callable[[Question], Reply]
"""Put a question to the person. Raises NobodyToAsk."""

_AGAIN = object()
"""Stands for an answer that was masked when it was kept: the call is made again."""


@dataclass(slots=True)
class _Entry:
    """A call of the program with its answer: a value, a `Raised`, or `_AGAIN`."""

    key: CallKey
    answer: object


@dataclass(slots=True, kw_only=True)
class _Round:
    """One run of the program from its beginning. `printed` is what it printed before it was a fork.

    `left_out` are the writes that need the result of one that was skipped.
    """

    position: int = 0
    is_fork: bool = False
    printed: str = ""
    args_size: int = 0
    left_out: list[PlannedWrite] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    used: Counter[CallKey] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """How a program is run. `approve` are the tools that this very call names; `is_plan` makes no
    write now. `told` is the guard of the conversation in which a model wrote it."""

    source: CallSource = "magic"
    allow: Sequence[str] | None = None
    approve: Sequence[str] = ()
    is_plan: bool = False
    ask: Ask | None = None
    told: Guard | None = None


class _Unclear(NotApproved):
    """The answer to a plan names no write of it. The program is kept: it was no decision."""


class _Waiting(Exception):
    """The program waits: nobody could be asked, or only its plan was wanted."""


class Programs:
    """The programs of one toolbox: run one, and go on with those that are kept."""

    def __init__(self, box: AskToolbox) -> None:
        self._box = box

    def run(self, code: str, variables: Mapping[str, Any], options: ProgramOptions) -> Answer:
        """Run a program to its end, or to where it waits for a yes. Never raises for the program's
        own faults."""
        world = World(
            variables=_inputs(variables), clock=self._box.now(), seed=secrets.randbits(32)
        )
        return ProgramRun(self._box, new_id(), code, world, options, self._store()).run(variables)

    def resume(self, program_id: str, decision: Decision, options: ProgramOptions) -> Answer:
        """Go on with a kept program. `decision` says what to do about a write that the kernel ended
        in."""
        with self._store().open(program_id) as kept:
            record = kept.record
            if record.is_masked:
                raise ProgramChanged(
                    f"The program '{program_id}' held a secret, which was not kept. It can be read,"
                    " not resumed."
                )
            world = World(variables=record.variables, clock=record.clock, seed=record.seed)
            guard: Guard | None = None
            if record.source == "model":
                guard = Guard()
                guard.merge(record.told, has_messages=True)
            options = replace(options, source=record.source, allow=record.allow, told=guard)
            run = ProgramRun(self._box, program_id, record.code, world, options, self._store())
            run.continue_from(kept, decision)
            return run.run()

    def waiting(self) -> list[Json]:
        """Return the programs of this project that wait, as rows: id, created, expires, writes,
        program."""
        store = self._store()
        return [
            {
                "id": record.id,
                "created": record.created.isoformat(),
                "expires": record.expires.isoformat(),
                "writes": store.planned(record.id),
                "program": record.code,
            }
            for record in store.listed()
        ]

    def drop(self, program_id: str) -> None:
        """Forget a kept program."""
        self._store().drop(program_id)

    def _store(self) -> ProgramStore:
        config = self._box.config
        return ProgramStore(
            config.paths.user_state / "programs",
            project=str(config.paths.project),
            now=self._box.now,
            ttl_s=config.settings.output.result_ttl_s,
            mask=self._box.mask,
        )


class ProgramRun:
    """One program under way."""

    def __init__(
        self,
        box: AskToolbox,
        program_id: str,
        code: str,
        world: World,
        options: ProgramOptions,
        store: ProgramStore,
    ) -> None:
        self.id = program_id
        self._box = box
        self._code = code
        self._world = world
        self._options = options
        self._ask = options.ask or box.put_question
        self._waited_s = 0.0
        self._store = store
        self._stack = ExitStack()
        self._kept: KeptProgram | None = None
        self._map = SourceMap(code)
        self._tools: ToolModules | None = None
        self._guard: ProgramGuard
        self._results: Mapping[str, ToolResult] = {}
        self._entries: list[_Entry] = []
        self._pool: dict[CallKey, list[object]] = {}
        self._writes = ProgramWrites()
        self._reads: Counter[str] = Counter()
        self._calls: list[AnswerCall] = []
        self._question: Question | None = None
        self._call_count = 0
        self._open_count = 0
        self._may_reach_out = False
        self._known: dict[str, str] = {}
        self._printed = ""
        self._is_begun = False
        self._is_resumed = False

    def continue_from(self, kept: KeptProgram, decision: Decision) -> None:
        """Take over what a kept program did. Raises ProgramUnsure, ProgramChanged, UsageProblem."""
        self._kept, self._is_resumed = kept, True
        begun: Json | None = None
        for line in kept.lines:
            kind, key = line["kind"], _key_in(line)
            if line.get("fingerprint") and self._fingerprint(key.tool) != line["fingerprint"]:
                raise _changed_tool(key.tool)
            is_read = kind in ("read", "forked", "pooled")
            # A write is not made a second time for the sake of an answer that was masked: it is
            # given as kept.
            answer = _AGAIN if is_read and line.get("masked") else _answer_in(line)
            if kind == "forked":
                self._pool.setdefault(key, []).append(answer)
            elif kind in ("read", "pooled", "done", "skipped", "refused"):
                self._entries.append(_Entry(key, answer))
            if kind in ("done", "skipped"):
                self._settled(line, "skipped" if kind == "skipped" else _state_of(answer))
            if kind == "pooled" and self._pool.get(key):
                self._pool[key].pop(0)
            if kind in ("done", "skipped", "refused", "again", "begun"):
                begun = line if kind == "begun" else None
            # The limits are for all kernels together.
            self._call_count += kind in ("read", "forked", "done")
            if kind in ("read", "forked"):
                self._reads[key.tool] += 1
                spec = self._box.registry.get(key.tool)
                self._open_count += (
                    spec is not None
                    and bool(line["args"])
                    and _is_open_world(spec, self._box.config)
                )
        if begun is not None:
            self._settle(begun, decision)
        elif decision:
            raise UsageProblem(
                f"The program '{self.id}' has no write that is in doubt. Leave out '{decision}'."
            )

    def run(self, variables: Mapping[str, Any] | None = None) -> Answer:
        """Run to the end. Stop, limits and failures are endings; only misuse raises.

        `variables` are those of the program as the notebook has them, for where they came from.
        """
        sources = [
            (name, self._box.lineage.call_of(value)) for name, value in (variables or {}).items()
        ]
        for value, (_, call_id) in zip((variables or {}).values(), sources, strict=True):
            self._know(value.data if isinstance(value, ToolResult) else value, call_id)
        self._results = {
            name: value
            for name, value in (variables or {}).items()
            if isinstance(value, ToolResult)
        }
        began = time.monotonic()
        answer = Answer(prompt="", program=self._code, stop_reason="error")
        with self._stack:
            try:
                answer.value = self._rounds()
                answer.stop_reason = "done"
                self._forget()
            except KeyboardInterrupt:
                answer.stop_reason, answer.note = (
                    "interrupted",
                    self._resume_line("It was stopped."),
                )
            except _Waiting as exc:
                answer.stop_reason, answer.note = "waiting", self._resume_line(str(exc))
            except StoreError as exc:
                doing = "during" if self._is_begun else "before"
                answer.error = ProgramFailed(
                    f"The program ended {doing} a write that could not be noted. {exc.message}"
                )
                if self._is_begun:
                    answer.note = self._resume_line("")
                else:
                    self._forget()
            except CallFailure as exc:
                answer.error = exc
                if not isinstance(exc, (ProgramChanged, _Unclear)):
                    self._forget()
        answer.text, answer.calls, answer.question = (
            self._printed,
            AnswerCalls(self._calls),
            self._question,
        )
        answer.seconds = time.monotonic() - began - self._waited_s
        self._tell_writes(answer)
        if isinstance(answer.error, ProgramError):
            answer.error.answer = answer
        answer.call_id = self.id
        self._record(answer, [source for source in sources if source[1]])
        self._box.lineage.remember(self.id, answer.value, measure(answer.value))
        return answer

    def _tell_writes(self, answer: Answer) -> None:
        """Say in the answer, and in the error that the person sees, what became of the writes."""
        answer.plan = PlannedCalls(self._writes.rows())
        message = self._writes.summary() if self._writes.is_begun else ""
        if answer.stop_reason != "waiting":
            answer.unmade_count, answer.question = self._writes.unmade_count, None
        if (error := answer.error) is not None:
            # The message has lines of the program, and what it raised, which may hold a secret.
            error.message = self._box.mask(f"{error.message}\n{message}".rstrip())
            error.args = (error.message,)
            error.details = values.map_text(error.details, self._box.mask)
            answer.note = answer.note or error.message
        elif message:
            answer.note = f"{message} {answer.note}".rstrip()

    # --- rounds -----------------------------------------------------------------------------------

    def _rounds(self) -> Any:
        tools = self._tools = modules_for(self._box, self._options.allow, self._code)
        guard = self._guard = ProgramGuard(
            self._box,
            self._options.told,
            self._put,
            self._is_named,
            lambda of, step_s: Sandbox(
                self._code, tools.modules, of, is_checked=True, step_s=step_s
            ),
            tools.tools,
            self._world,
            self._results,
            self._map.texts,
        )
        with guard, Sandbox(self._code, tools.modules, self._world) as sandbox:
            while True:
                this = _Round()
                guard.begin()
                try:
                    event = sandbox.start()
                    while isinstance(event, HostCall):
                        answer = self._answer(event, this, sandbox)
                        guard.follow(event, answer)
                        event = sandbox.resume(answer)
                except ProgramError as exc:
                    # A failure behind a write whose result nobody looks at is a failure of the
                    # program itself: no write is asked for. Otherwise the stand-in may be its
                    # reason, and the real result will not fail.
                    is_real = (
                        isinstance(exc, (ProgramLimit, ProgramChanged)) or not this.plan.may_be_more
                    )
                    if not this.is_fork or is_real:
                        raise
                else:
                    if not this.is_fork:
                        return event.value
                finally:
                    # What a fork prints has not happened: none of the writes before it was made.
                    self._printed = this.printed if this.is_fork else sandbox.printed
                    self._writes.left_out = this.left_out
                self._decide(this.plan)

    def _answer(self, call: HostCall, this: _Round, sandbox: Sandbox) -> object:
        """Answer a call of the program: from before, by running it, or by a stand-in."""
        assert self._tools is not None
        spec = self._tools.tools[call.function]
        try:
            if unknown := [*stand_ins((call.args, call.kwargs))]:
                return self._leave_out(spec, call, unknown, this)
            text = json.dumps(
                values.to_json(spec.named(call.args, call.kwargs)), ensure_ascii=False
            )
            args = json.loads(text)
            key = call_key(spec.name, args)
        except UsageProblem as exc:
            return Raised("TypeError", exc.message)
        except (RecursionError, ValueError, TypeError):
            return Raised("TypeError", f"The arguments of '{spec.name}' are not plain data.")
        this.args_size += len(text)
        if this.args_size > MAX_ALL_ARGS:
            limit = MAX_ALL_ARGS // 10**6
            raise ProgramLimit(
                f"The program gave its calls more than {limit} MB of arguments. It was ended."
            )
        if not this.is_fork and this.position < len(self._entries):
            return self._repeated(call, key, args, this)
        if (answer := self._pooled(key, this)) is not _AGAIN:
            return answer
        resolved = self._resolve(spec.name, args)
        # A call that may not run changes nothing, whatever its tool is.
        if resolved.failure is not None:
            return self._read(key, resolved, this)
        if not self._is_write(resolved.require(), args):
            self._guard.require(call, resolved)
            return self._read(key, resolved, this)
        write = PlannedWrite(key=WriteKey(key, resolved.require().fingerprint), text=text)
        return self._write(call, write, resolved, this, sandbox)

    def _leave_out(
        self, spec: ToolSpec, call: HostCall, unknown: Sequence[StandIn], this: _Round
    ) -> StandIn:
        """Answer a call that needs the result of a write that has not run: it is not made."""
        is_final = all(each.is_final for each in unknown)
        args = values.to_json(spec.named(call.args, call.kwargs))
        if not is_final:
            this.plan.may_be_more = True
        elif self._is_write(spec, args):
            key = WriteKey(call_key(spec.name, args), spec.fingerprint)
            text = json.dumps(args, ensure_ascii=False)
            this.left_out.append(PlannedWrite(key=key, text=text, is_chosen=self._is_named(spec)))
        return StandIn(is_final=is_final)

    def _repeated(self, call: HostCall, key: CallKey, args: Json, this: _Round) -> object:
        """Answer a call that an earlier round, or an earlier kernel, made."""
        entry = self._entries[this.position]
        this.position += 1
        if (entry.key.tool, self._box.mask(entry.key.args)) != (key.tool, self._box.mask(key.args)):
            raise ProgramChanged(
                f"The program did not come to the same place again: it called '{key.tool}' instead"
                f" of '{entry.key.tool}'. Nothing more was run.",
                hint="Run it again from its beginning.",
            )
        if entry.answer is _AGAIN:
            resolved = self._resolve(key.tool, args)
            if resolved.failure is None and self._is_write(resolved.require(), args):
                raise _changed_tool(key.tool)
            resolved.guard = self._guard.inside(resolved, call)
            entry.answer = self._execute(resolved)
        return entry.answer

    def _pooled(self, key: CallKey, this: _Round) -> object:
        """Return what a fork read for the same call, if this round has not used it yet; otherwise
        `_AGAIN`."""
        answers = self._pool.get(key, [])
        if this.is_fork:
            place = this.used[key]
            this.used[key] += place < len(answers)
            return answers[place] if place < len(answers) else _AGAIN
        if not answers or answers[0] is _AGAIN:
            return _AGAIN
        answer = answers.pop(0)
        if self._kept is not None:
            self._note("pooled", key, answer=_line_of(answer))
        self._enter(key, answer, this)
        return answer

    def _read(self, key: CallKey, resolved: ResolvedCall, this: _Round) -> object:
        answer = self._execute(resolved)
        if this.is_fork:
            self._pool.setdefault(key, []).append(answer)
            this.used[key] += 1
        else:
            self._enter(key, answer, this)
        if self._kept is not None:
            self._note_read("forked" if this.is_fork else "read", key, answer)
        return answer

    def _enter(self, key: CallKey, answer: object, this: _Round) -> None:
        """Take the answer of a call of the real run for all later rounds."""
        self._entries.append(_Entry(key, answer))
        this.position += 1

    def _write(
        self,
        call: HostCall,
        write: PlannedWrite,
        resolved: ResolvedCall,
        this: _Round,
        sandbox: Sandbox,
    ) -> object:
        """Make a write that has a yes, skip one that was not chosen, and collect every other."""
        spec = resolved.require()
        if not this.is_fork:
            decided = self._writes.take(write.key.call)
            if decided is not None and decided.is_chosen and decided.key != write.key:
                raise _changed_tool(spec.name)
            if decided is None and self._is_named(spec):
                write.is_chosen = True
                decided = self._writes.add(write)
            if decided is not None:
                answer = self._make(decided, call) if decided.is_chosen else self._skip(decided)
                self._enter(write.key.call, answer, this)
                return answer
            this.is_fork, this.printed = True, sandbox.printed
        if len(this.plan.writes) >= MAX_WRITES:
            raise ProgramLimit(
                f"The program wants to make more than {MAX_WRITES} writes. None of them was made."
            )
        if (flow := self._guard.flow(call, resolved)) is not None:
            write.note = flow.text
        this.plan.writes.append(write)
        this.plan.tools[spec.name] = spec
        this.plan.may_be_more = (
            this.plan.may_be_more or self._map.is_used(call) or self._map.catches
        )
        return StandIn()

    def _make(self, write: PlannedWrite, call: HostCall) -> object:
        """Make a write. It is noted before and after, so that it is never made twice, whatever ends
        this process.

        Its arguments are parsed from the text that was shown.
        """
        self._keep()
        self._require_room()
        key = write.key.call
        resolved = self._resolve(key.tool, write.args)
        if resolved.failure is None and resolved.require().fingerprint != write.key.fingerprint:
            raise _changed_tool(key.tool)
        resolved.guard = self._guard.inside(resolved, call)
        if write.note and resolved.failure is None:
            self._guard.let_out(resolved, f"{ASKED} out")
        self._note("begun", key, fingerprint=write.key.fingerprint)
        self._is_begun = True
        write.state = "in doubt"
        answer = self._execute(resolved, is_approved=True)
        self._note("done", key, fingerprint=write.key.fingerprint, answer=_line_of(answer))
        self._is_begun = False
        write.state = _state_of(answer)
        return answer

    def _skip(self, write: PlannedWrite) -> object:
        """Leave out a write that was not chosen. The program goes on with its stand-in."""
        self._keep()
        self._note("skipped", write.key.call, fingerprint=write.key.fingerprint)
        write.state = "skipped"
        return StandIn(is_final=True)

    def _settled(self, line: Json, state: WriteState) -> None:
        """Take a write that is in the journal of a kept program."""
        key = WriteKey(_key_in(line), str(line.get("fingerprint")))
        text = json.dumps(line.get("args") or {}, ensure_ascii=False)
        self._writes.add(
            PlannedWrite(key=key, text=text, is_chosen=state != "skipped", state=state)
        )

    # --- the question -----------------------------------------------------------------------------

    def _decide(self, plan: Plan) -> None:
        """Ask the person about the writes of a plan. Raises _Waiting if nobody answers, NotApproved
        after a no."""
        self._keep()
        assert self._kept is not None
        self._writes.show(plan)
        rows = [{"tool": write.key.call.tool, "args": write.args} for write in plan.writes]
        self._kept.append("plan", rows=rows, more=plan.may_be_more)
        count = "a write" if len(rows) == 1 else f"{len(rows)} writes"
        handle = ""
        if len(rows) > SHOWN_WRITES:
            handle = self._box.results.put(rows, tool=names.PROGRAM, call_id=self.id)
        question = plan.question(self._code, self._reads, handle).masked(self._box.mask)
        self._question = question
        if self._options.is_plan:
            raise _Waiting(f"The program has {count} to make. Nothing was written.")
        try:
            reply = self._put(question)
        except NobodyToAsk:
            raise _Waiting(f"The program has {count} to make, and nobody could be asked.") from None
        numbers = {number for number in reply.content.get("run", ()) if type(number) is int}
        if strange := numbers.difference(range(1, len(rows) + 1)):
            message = (
                f"The writes of the program were not made: the answer named write {min(strange)},"
                f" and there {'is 1' if len(rows) == 1 else f'are {len(rows)}'}."
            )
            raise _Unclear(self._resume_line(message))
        if reply.action != "accept" or not numbers:
            raise NotApproved(
                "The writes of the program were not made:"
                f" {reply.note or 'you did not allow them'}."
            )
        self._writes.decide(numbers)

    def _put(self, question: Question) -> Reply:
        """Put a question to the person. The time until the answer is not the program's."""
        began = time.monotonic()
        try:
            return self._ask(question)
        finally:
            self._waited_s += time.monotonic() - began

    def _require_reach(self, resolved: ResolvedCall, args: Json) -> None:
        """Count a read that can carry data out, and ask the person before there are too many. One
        that the guard has judged is not counted. Raises ProgramLimit."""
        spec = resolved.require()
        is_judged = "guard" in resolved.meta or self._is_named(spec)
        if not args or is_judged or not _is_open_world(spec, self._box.config):
            return
        self._open_count += 1
        if self._open_count <= MAX_OPEN_WORLD or self._may_reach_out:
            return
        message = (
            f"The program has called tools that reach out {MAX_OPEN_WORLD} times, which is the"
            " limit without a yes."
        )
        text = f"{message} Now it calls '{spec.name}'. Each call can carry data out. Let it go on?"
        arguments = values.cut(json.dumps(args, ensure_ascii=False), 2_000)
        question = Question(
            "the program", text, details=(f"{spec.name} {arguments}",), yes="Let it go on"
        )
        try:
            reply = self._put(question.masked(self._box.mask))
        except NobodyToAsk:
            reply = Reply("decline")
        if reply.action != "accept":
            raise ProgramLimit(
                f"{message} It was ended.", hint=f"Allow it with approve=['{spec.name}']"
            )
        self._may_reach_out = True

    # --- one call ---------------------------------------------------------------------------------

    def _resolve(self, name: str, args: Json) -> ResolvedCall:
        allow = self._options.allow

        def is_allowed(spec: ToolSpec) -> bool:
            return spec.is_offered and names.allowed(spec.name, allow)

        resolved = self._box.resolve(name, args, source=self._options.source, allow=is_allowed)
        if self._known:
            resolved.inputs = tuple(dict.fromkeys(self._inputs(args)))
            resolved.is_straight = False
        return resolved

    def _know(self, data: object, call_id: str) -> None:
        """Remember the lists and dicts of a value by their content, with the call that they came
        from.

        The program gets copies: what it hands on has the same content, and is another object.
        """
        # Each part is written as text, so a large value would cost more than its origin is worth.
        is_small = isinstance(data, (list, dict)) and measure(data) <= _MAX_KNOWN_SIZE
        waiting = [data] if is_small and values.to_json(data) == data else []
        while waiting and len(self._known) < _MAX_KNOWN:
            part = waiting.pop()
            if isinstance(part, (list, dict)) and part:
                if source := call_id or self._box.lineage.call_of(part):
                    self._known[json.dumps(part)] = source
                waiting.extend(part.values() if isinstance(part, dict) else part)

    def _inputs(self, args: Json) -> Iterator[tuple[str, str]]:
        """Yield each argument with the calls that it, or what is inside it, came from."""
        for name, value in args.items():
            waiting, count = deque([value]), 0
            while waiting and count < _MAX_KNOWN:
                part = waiting.popleft()
                if not isinstance(part, (list, dict)) or not part:
                    continue
                count += 1
                if call_id := self._known.get(json.dumps(part)):
                    yield name, call_id
                else:
                    waiting.extend(part.values() if isinstance(part, dict) else part)

    def _execute(self, resolved: ResolvedCall, *, is_approved: bool = False) -> object:
        """Run a call like any other, under the id of the program, and return what the program gets
        of it."""
        self._require_room()
        args = resolved.given
        if resolved.failure is None and not self._is_write(resolved.require(), args):
            self._require_reach(resolved, args)
        self._call_count += 1
        call = ToolCall(self.id, names.PROGRAM, {}, self._options.source)
        spec = resolved.spec
        resolved.has_yes = is_approved or (spec is not None and self._is_named(spec))
        scope = current.Scope(self._box, call, asked_by=call.source, may_write=False)
        if (outer := current.scope()) is not None:
            scope.depth, scope.asked_by, scope.ask = outer.depth, outer.asked_by, outer.ask
            scope.client, scope.guard = outer.client, outer.guard
        token = current.enter(scope)
        try:
            result = self._box.executor.call(resolved)
        finally:
            current.leave(token)
        if not self._is_begun:
            self._reads[resolved.tool] += 1
        self._calls.append(AnswerCall(resolved.id, resolved.tool, args, result, None))
        answer = self._answer_of(result)
        self._guard.gave(resolved, answer)
        return answer

    def _answer_of(self, result: ToolResult) -> object:
        """Return a result as plain data for the program, or its failure as an exception."""
        mask = self._box.mask
        if (error := result.error) is not None:
            kind = _KINDS.get(
                error.reason or "", "TypeError" if error.code == "invalid_args" else "RuntimeError"
            )
            return Raised(kind, values.cut(mask(error.message), _MAX_MESSAGE))
        data, limit = result.portable, f"{MAX_RESULT // 10**6} MB or {MAX_ROWS:,} rows"
        is_large = measure(data) > 4 * MAX_RESULT or (is_dataframe(data) and len(data) > MAX_ROWS)
        plain = None if is_large else values.to_json(data)
        if (
            is_large
            or (isinstance(plain, list) and len(plain) > MAX_ROWS)
            or len(json.dumps(plain)) > MAX_RESULT
        ):
            tool, call_id = str(result.meta.get("tool", "")), str(result.meta.get("call_id", ""))
            try:
                handle = result.handle or self._box.results.keep(data, tool=tool, call_id=call_id)
                where = f"It is stored: page it with ot.result(handle='{handle}')."
            except OneToolError as exc:
                where = f"It could not be stored: {mask(exc.message)}"
            words = (
                f"The result of '{tool}' is larger than {limit}, the most that a program gets."
                f" {where}"
            )
            return Raised("MemoryError", words)
        self._know(plain, str(result.meta.get("call_id", "")))
        # A model never sees a secret in a result, so its program does not get one either: it could
        # send it elsewhere.
        return values.map_text(plain, mask) if self._options.source == "model" else plain

    def _require_room(self) -> None:
        if self._call_count >= MAX_CALLS:
            raise ProgramLimit(
                f"The program made {MAX_CALLS} calls, which is the limit. It was ended."
            )

    def _is_write(self, spec: ToolSpec, args: object) -> bool:
        return needs_approval(spec, args, self._box.config)

    def _is_named(self, spec: ToolSpec) -> bool:
        """Whether this very call of the program names a tool that needs no question."""
        is_named = bool(self._options.approve) and names.allowed(spec.name, self._options.approve)
        return is_named and not self._options.is_plan

    # --- what is kept -----------------------------------------------------------------------------

    def _keep(self) -> None:
        """Keep the program on disk from now on, with what it has read so far."""
        if self._kept is not None:
            return
        record = ProgramRecord(
            id=self.id,
            code=self._code,
            variables=dict(self._world.variables),
            clock=self._world.clock,
            seed=self._world.seed,
            source=self._options.source,
            allow=None if self._options.allow is None else list(self._options.allow),
            told=None if (told := self._options.told) is None else told.to_json(),
        )
        self._kept = self._stack.enter_context(self._store.keep(record))
        for entry in self._entries:
            self._note_read("read", entry.key, entry.answer)
        for key, answers in self._pool.items():
            for answer in answers:
                self._note_read("forked", key, answer)

    def _note_read(self, kind: str, key: CallKey, answer: object) -> None:
        self._note(kind, key, fingerprint=self._fingerprint(key.tool), answer=_line_of(answer))

    def _note(self, kind: str, key: CallKey, **fields: Any) -> None:
        assert self._kept is not None
        self._kept.append(kind, tool=key.tool, args=json.loads(key.args), **fields)

    def _fingerprint(self, tool: str) -> str:
        spec = self._box.registry.get(tool)
        return "" if spec is None else spec.fingerprint

    def _forget(self) -> None:
        if self._kept is not None:
            self._kept.delete()

    def _settle(self, begun: Json, decision: Decision) -> None:
        """Decide about the write that the kernel ended in. Raises ProgramUnsure if the person has
        not."""
        key = _key_in(begun)
        number = (
            1 + sum(line["kind"] in ("done", "skipped") for line in self._kept.lines)
            if self._kept
            else 1
        )
        if decision == "skip":
            self._note("skipped", key, fingerprint=begun.get("fingerprint"))
            self._entries.append(_Entry(key, StandIn(is_final=True)))
            self._settled(begun, "skipped")
        elif decision == "again":
            self._note("again", key)
        else:
            args = values.cut(json.dumps(begun.get("args"), ensure_ascii=False), 500)
            raise ProgramUnsure(
                f"The kernel ended during write {number}: {key.tool} {args}. Nobody knows whether"
                " it was made.",
                hint=(
                    f"If it was made: %ask --resume {self.id} skip\nTo make it now: %ask --resume"
                    f" {self.id} again"
                ),
            )

    def _resume_line(self, message: str) -> str:
        if self._kept is None:
            return message
        if self._kept.record.is_masked:
            return (
                f"{message} The program holds a secret, so it is kept for reading and cannot be"
                " resumed.".strip()
            )
        return f"{message} Go on with: %ask --resume {self.id}".strip()

    def _record(self, answer: Answer, sources: Sequence[tuple[str, str]]) -> None:
        """Write the program into the call log, as the row that its calls have as their parent."""
        end: dict[str, Any] = {"parent": self.id} if self._is_resumed else {}
        if answer.stop_reason != "done" or answer.unmade_count:
            error, reason = (
                answer.error,
                UNMADE if answer.stop_reason == "done" else answer.stop_reason,
            )
            end["code"] = reason if error is None else error.code
            end["reason"] = reason if error is None else error.reason or ""
            end["message"] = values.cut(self._box.mask(answer.note), 300)
        if sources:
            end["inputs"] = encode_inputs(sources)
        self._box.log.record(
            self._box.new_id() if self._is_resumed else self.id,
            names.PROGRAM,
            self._options.source,
            {"code": self._code},
            answer.stop_reason in ("done", "waiting") and not answer.unmade_count,
            answer.seconds * 1000,
            **end,
        )


def modules_for(box: AskToolbox, allow: Sequence[str] | None, code: str) -> ToolModules:
    """Return the tools that a program may call, as modules: those whose names are in its text.
    Imports their packs."""
    config = box.config
    packs = {spec.pack for spec in box.registry.known() if identifier(spec.pack) in code}
    specs = [
        spec
        for spec in box.registry.known()
        if spec.pack in packs and spec.is_offered and names.allowed(spec.name, allow)
    ]
    return tool_modules(box.registry.loaded(specs), lambda spec: needs_approval(spec, {}, config))


def _inputs(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables as plain data, of a result its data. Raises UsageProblem for one that is too
    large."""
    inputs = {}
    for name, variable in variables.items():
        value = variable.unwrap() if isinstance(variable, ToolResult) else variable
        plain = None if measure(value) > 4 * MAX_RESULT else values.to_json(value)
        is_long = isinstance(plain, list) and len(plain) > MAX_ROWS
        if (plain is None and value is not None) or is_long or len(json.dumps(plain)) > MAX_RESULT:
            limit = f"{MAX_RESULT // 10**6} MB or {MAX_ROWS:,} rows"
            raise UsageProblem(
                f"The variable '{name}' is larger than {limit}, the most that a program gets."
            )
        inputs[name] = plain
    return inputs


def _is_open_world(spec: ToolSpec, config: Config) -> bool:
    """Whether a call leaves this machine: an HTTP tool, or one of a server that is not trusted to
    say otherwise."""
    if not spec.server:
        return spec.http is not None
    server = config.settings.servers.get(spec.server)
    is_trusted = server is not None and server.data.get("trusted") is True
    return not (is_trusted and spec.server_facts.hints.get("open world") is False)


def _changed_tool(name: str) -> ProgramChanged:
    return ProgramChanged(
        f"The tool '{name}' has changed since the program called it or you allowed it. Nothing more"
        " was run.",
        hint="Run the program again from its beginning.",
    )


def _state_of(answer: object) -> WriteState:
    return "failed" if isinstance(answer, Raised) else "made"


def _key_in(line: Json) -> CallKey:
    args = line.get("args")
    return call_key(str(line.get("tool")), dict(args) if isinstance(args, Mapping) else {})


def _line_of(answer: object) -> Json:
    """Return an answer as the journal has it."""
    return {"raised": list(answer)} if isinstance(answer, Raised) else {"value": answer}


def _answer_in(line: Json) -> object:
    """Return the answer in a line of the journal."""
    data = line.get("answer")
    if line["kind"] == "skipped":
        return StandIn(is_final=True)
    if not isinstance(data, Mapping):
        return None
    raised = data.get("raised")
    return Raised(str(raised[0]), str(raised[1])) if isinstance(raised, list) else data.get("value")
