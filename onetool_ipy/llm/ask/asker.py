"""Asker: what `box.ask` is.

It keeps the named sessions and "always" approvals for the life of the toolbox. The prompt
`tool:NAME {json}` runs one tool without a model if a face says that a person typed it (`typed`);
the allow-list holds. From anywhere else it is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import CallFailure, InvalidOutput, NotApproved, UsageProblem
from onetool_ipy.base.files import StoreError
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.config.load import ToolLabels, needs_approval, own_settings
from onetool_ipy.config.settings import Settings
from onetool_ipy.core import current, names
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import CallSource, ToolSpec
from onetool_ipy.llm.answer_type import AnswerMismatch, AnswerType
from onetool_ipy.llm.ask import tools
from onetool_ipy.llm.ask.answer import UNMADE, Answer, AnswerCall, AnswerCalls
from onetool_ipy.llm.ask.approval import Approvals
from onetool_ipy.llm.ask.attachments import Attach, Attached, Attachments, named_values
from onetool_ipy.llm.ask.call_runner import BadJson, CallRunner
from onetool_ipy.llm.ask.context import AskBudget, AskListener, AskParts, AskToolbox, ModelPrice
from onetool_ipy.llm.ask.exchange import ExchangeListener
from onetool_ipy.llm.ask.guard import attached_source
from onetool_ipy.llm.ask.run import AskRun, instructions
from onetool_ipy.llm.ask.session import (
    IMAGE_CHARS,
    Session,
    SessionFile,
    json_text,
    saved_names,
    size,
)
from onetool_ipy.llm.ask.setup import ModelSetup
from onetool_ipy.llm.ask.tools import ToolSelection
from onetool_ipy.llm.messages import (
    ImageLimits,
    ModelClient,
    System,
    TakesImages,
    TokenUsage,
    image_limits,
)
from onetool_ipy.net.client import HttpClient
from onetool_ipy.render.views import Listing, counted
from onetool_ipy.snippets.definition import read_shortcuts
from onetool_ipy.stores.calls.record import encode_inputs, short_text

if TYPE_CHECKING:
    from onetool_ipy.llm.programs.handover import ProgramCalls
    from onetool_ipy.llm.programs.run import Decision, ProgramOptions, Programs

_DIRECT = re.compile(r"\s*tool:(?P<name>\S+?)(?:\s+(?P<args>.*)|(?P<glued>\{.*))?\s*", re.DOTALL)
_MAX_STEPS = 1000
_MAX_NOTE = 300
_MAX_SOURCES = 50


class RequestPart(NamedTuple):
    """One part of a request: what it is, its text, and about how many tokens it has."""

    name: str
    text: str
    tokens: int


class Asker:
    """Asks models on behalf of one toolbox."""

    def __init__(
        self,
        box: AskToolbox,
        *,
        workers: Workers,
        background: Background,
        http_client: Callable[[], HttpClient],
        unlisted: Callable[[], Sequence[str]],
        note: Callable[[str], None],
    ) -> None:
        """`unlisted` names the servers whose tools are not known yet; `note` shows the person a
        line."""
        self.sessions: dict[str, Session] = {}
        self.last: Answer | None = None
        self.attachments = Attachments(
            workers=workers,
            keep=lambda value, name: box.results.keep(value, tool=name),
            outgoing=box.outgoing,
            mask=box.mask,
        )
        self.setup = ModelSetup(
            config=lambda: box.config,
            http_client=http_client,
            background=background,
            put_question=box.put_question,
            note=note,
        )
        self._box = box
        self._unlisted = unlisted
        self._note = note
        self._always: dict[str, tuple[str, Json]] = {}
        self._followers: list[Callable[[str, Json], None]] = []
        self._running: dict[str, Json] = {}

    def __call__(
        self,
        prompt: str,
        *,
        model: str | ModelClient | None = None,
        with_tools: bool | None = None,
        tool_allow: Sequence[str] | str | None = None,
        max_steps: int | None = None,
        approve: Sequence[str] | str | None = None,
        session: str | Session | None = None,
        listener: AskListener | None = None,
        attach: Attach | None = None,
        as_: Any = None,
        source: CallSource = "python",
        code: bool = False,
        plan: bool = False,
    ) -> Answer:
        """Ask a model. None means the value in the settings under `ask`.

        `attach` goes with the prompt, as data: values by name, or a list of them. Results of calls
        go as results do, pictures as pictures, any other value as a short description. `as_` is the
        type of `answer.value`, else AnswerMismatch is raised. With `code` the model writes one
        program, whose writes are approved together; `plan` makes none now.
        """
        _require_prompt(prompt)
        answer_type = None if as_ is None else AnswerType(as_)
        # The model comes first: a yes to it may trust the project, whose settings then count.
        if model is None:
            self.setup.offer()
        client = self._box.model(model)
        box, conversation = self._box, self.session(session)
        named = [] if attach is None else named_values(attach)
        own = own_settings(box.config.home)
        listener = self._followed(prompt, conversation, listener or AskListener())
        selection = self._selection(prompt, conversation, with_tools, tool_allow)
        budget = self._budget(client, max_steps)
        takes_images = cache(partial(image_limits, client))
        programs: ProgramCalls | None = None
        if code or plan:
            put = partial(_ask_in_time, listener, budget, box.put_question)
            options = self._program_options(
                approve, plan=plan, source="model", allow=selection.allow, ask=put
            )
            options = replace(options, told=conversation.guard)
            selection, programs = self._with_programs(
                prompt, conversation, named, options, answer_type
            )
            # The value of the program is what is checked, and not the text of the model.
            answer_type = None
        ask = AskParts(
            box=box,
            session=conversation,
            selection=selection,
            budget=budget,
            listener=listener,
            labels=ToolLabels(box.config, own.guard),
            takes_images=takes_images,
            note=self._note,
        )
        approvals = self._approvals(approve, own)
        run = AskRun(ask, client, CallRunner(ask, approvals, programs), answer_type)
        attached = None
        if named:
            attached = self._attached(prompt, named, conversation, selection, takes_images)
        conversation.guard.begin(prompt)
        if attached is not None:
            self._tell_guard(ask, attached, named)
        try:
            self.last = run.run(prompt, attached, is_kept=session is not None)
        finally:
            self._keep_exchange(listener, conversation)
        mismatch = run.mismatch if programs is None else programs.mismatch
        self._record(self.last, source, named, mismatch)
        if mismatch is not None:
            mismatch.answer = self.last
            raise mismatch
        return self.last

    def preview(
        self,
        prompt: str,
        *,
        model: str | ModelClient | None = None,
        with_tools: bool | None = None,
        tool_allow: Sequence[str] | str | None = None,
        session: str | Session | None = None,
        attach: Attach | None = None,
        as_: Any = None,
        code: bool = False,
    ) -> list[RequestPart]:
        """Return what the first request of an ask would hold, part by part. Nothing is sent; no
        model is needed."""
        _require_prompt(prompt)
        answer_type = None if as_ is None else AnswerType(as_)
        box, conversation = self._box, self.session(session)
        named = [] if attach is None else named_values(attach)
        selection = self._selection(prompt, conversation, with_tools, tool_allow)
        if code:
            options = self._program_options((), source="model", allow=selection.allow)
            selection, _ = self._with_programs(prompt, conversation, named, options, answer_type)
            # The type is in the guide of the program, whose value is what is checked.
            answer_type = None
        has_model = model is not None or bool(box.config.settings.models.named)
        takes_images = cache(partial(image_limits, box.model(model))) if has_model else ImageLimits
        attached = self._attached(prompt, named, conversation, selection, takes_images)
        offered = selection.offer()
        system = System(instructions(selection.packs, box.config.prompts))
        tool_text = json_text([[tool.name, tool.description, tool.parameters] for tool in offered])
        earlier = conversation.messages
        texts = [
            ("instructions", system.text, size(system)),
            ("how to write a program, and its modules", selection.guide, len(selection.guide)),
            (
                counted(len(offered), "tool"),
                ", ".join(tool.tool for tool in offered),
                len(tool_text) if offered else 0,
            ),
            (f"{counted(len(earlier), 'message')} of the session", "", sum(map(size, earlier))),
            ("prompt", prompt, len(prompt)),
            *(
                []
                if answer_type is None
                else [("type", answer_type.instruction, len(answer_type.instruction))]
            ),
            *(
                (part.line, part.text, len(part.text) + IMAGE_CHARS * len(part.images))
                for part in attached.parts
            ),
        ]
        # A program may call any tool that is allowed; the model is offered it as one tool.
        reach = self._reach(
            [
                spec
                for spec in box.registry.known()
                if spec.is_offered and names.allowed(spec.name, selection.allow)
            ]
            if code
            else filter(None, (box.registry.get(tool.tool) for tool in offered))
        )
        tokens = AskBudget(
            box.config.settings.ask, box.config.settings.stats.chars_per_token
        ).tokens
        places = RequestPart("where these tools can send to (not sent itself)", reach, 0)
        parts = [
            RequestPart(name, box.mask(text), tokens(chars)) for name, text, chars in texts if chars
        ]
        return [*parts, places] if reach else parts

    def _reach(self, specs: Iterable[ToolSpec]) -> str:
        """Return the places that tools can send to, each on a line with its tools."""
        config = self._box.config
        labels = ToolLabels(config, own_settings(config.home).guard)
        places: dict[str, list[str]] = {}
        for spec in specs:
            if place := labels.of(spec).sends:
                places.setdefault(place, []).append(spec.name)
        return "\n".join(f"{place}: {', '.join(tools)}" for place, tools in sorted(places.items()))

    def typed(
        self,
        prompt: str,
        *,
        source: CallSource,
        tool_allow: Sequence[str] | str | None = None,
        listener: AskListener | None = None,
        approve: Sequence[str] | str | None = None,
    ) -> Answer | None:
        """Run the tool that a person typed as `tool:NAME {json}`. Returns None for any other
        prompt.

        Without `approve` it is the person's own call. With it, even empty, a tool that may change
        something must be approved by it or by the user's own settings.
        """
        match = _DIRECT.fullmatch(prompt)
        if match is None:
            return None
        approvals = None
        if approve is not None:
            approvals = self._approvals(approve, own_settings(self._box.config.home))
        self.last = self._direct(
            match, self._allow_list(tool_allow), approvals, listener or AskListener(), source
        )
        return self.last

    def _with_programs(
        self,
        prompt: str,
        session: Session,
        named: Sequence[tuple[str, object]],
        options: ProgramOptions,
        kind: AnswerType | None,
    ) -> tuple[ToolSelection, ProgramCalls]:
        """Return what is offered to a model that writes programs, and what runs them. Raises
        Unavailable."""
        from onetool_ipy.llm.programs.handover import (
            ProgramCalls,
            ProgramSelection,
            program_variables,
        )

        variables = program_variables(named)
        offer = ProgramSelection(
            *(self._box, session),
            allow=options.allow,
            prompt=prompt,
            variables=tuple(variables),
            answer_type=kind,
        )
        return offer, ProgramCalls(self._box, session, offer, options, variables, kind)

    def program(
        self,
        code: str,
        *,
        variables: Mapping[str, Any] | None = None,
        plan: bool = False,
        approve: Sequence[str] | str | None = None,
        tool_allow: Sequence[str] | str | None = None,
        source: CallSource = "python",
    ) -> Answer:
        """Run a program over the tools, without a model. It sees the tools as modules, and the
        `variables`.

        Its writes are shown before they are made; `approve` names tools that need no question.
        `plan` makes no write.
        """
        if not isinstance(code, str) or not code.strip():
            raise UsageProblem("There is no program.", hint="Write it below: %%tool program")
        options = self._program_options(
            approve, plan=plan, source=source, allow=self._allow_list(tool_allow)
        )
        self.last = self._programs.run(code, variables or {}, options)
        return self.last

    def resume(
        self,
        program: str,
        decision: Decision = "",
        *,
        plan: bool = False,
        approve: Sequence[str] | str | None = None,
    ) -> Answer:
        """Go on with a program that waits for a yes. The plan is shown and asked about again.

        After a kernel that ended during a write, `decision` says whether to `skip` that write or to
        make it `again`.
        """
        if decision not in ("", "skip", "again"):
            raise UsageProblem(
                "A write that is in doubt is 'skip' or 'again', not"
                f" '{values.cut(str(decision), 40)}'."
            )
        options = self._program_options(approve, plan=plan)
        self.last = self._programs.resume(program, decision, options)
        return self.last

    def waiting(self) -> Listing:
        """List the programs of this project that wait for a yes."""
        return Listing(self._programs.waiting())

    def drop(self, program: str) -> None:
        """Forget a program that waits."""
        self._programs.drop(program)

    def _program_options(
        self,
        approve: Sequence[str] | str | None,
        *,
        plan: bool = False,
        source: CallSource = "python",
        allow: Sequence[str] | None = None,
        ask: Callable[[Question], Reply] | None = None,
    ) -> ProgramOptions:
        from onetool_ipy.llm.programs.run import ProgramOptions  # late: few asks run a program

        named = tools.allow_list(_own_yes(approve), self._box.shortcuts) or ()
        return ProgramOptions(source=source, allow=allow, approve=named, is_plan=plan, ask=ask)

    @property
    def _programs(self) -> Programs:
        from onetool_ipy.llm.programs.run import Programs

        return Programs(self._box)

    def session(self, which: str | Session | None) -> Session:
        """Return a session by name, created if needed; without a name, one for a single ask."""
        if isinstance(which, Session):
            return which
        if which is None:
            return Session()
        if not isinstance(which, str) or not which.strip():
            raise UsageProblem(
                f"A session is a name or a Session, not {values.safe_repr(which, 40)}."
            )
        if printable_line(which) != which:
            raise UsageProblem(
                f"{values.safe_repr(which, 40)} is not a session's name.",
                hint="Take one without line ends and other characters that do not show.",
            )
        if which not in self.sessions:
            file = SessionFile(self._session_folder, which, self._box.mask)
            self.sessions.setdefault(which, Session(which, file))  # another thread may be first
        self.sessions[which].refresh()
        return self.sessions[which]

    def session_names(self) -> list[str]:
        """Return the names of the sessions of this project, those on disk too."""
        return sorted({*self.sessions, *saved_names(self._session_folder)})

    def follow(self, hear: Callable[[str, Json], None]) -> Callable[[], None]:
        """Call `hear` with a session's name and its present exchange while an ask runs. Returns
        what ends it."""
        self._followers.append(hear)

        def stop() -> None:
            if hear in self._followers:
                self._followers.remove(hear)

        return stop

    def exchanges(self, session: str) -> list[Json]:
        """Return what was asked and answered in a session, the oldest first, with what runs
        now."""
        running = [row for row in tuple(self._running.values()) if row["session"] == session]
        kept = self.session(session).exchanges()
        ids = {row["id"] for row in kept}
        return [*kept, *(row for row in running if row["id"] not in ids)]

    def _followed(self, prompt: str, session: Session, listener: AskListener) -> AskListener:
        """Return the listener of an ask; one that keeps its exchange too where the session has a
        name."""
        if not session.name:
            return listener
        exchange = {
            "id": self._box.new_id(),
            "session": session.name,
            "at": self._box.now().isoformat(),
            "prompt": prompt,
        }
        return ExchangeListener(listener, exchange, mask=self._box.mask, publish=self._publish)

    def _publish(self, exchange: Json) -> None:
        self._running[exchange["id"]] = exchange
        for hear in tuple(self._followers):
            hear(exchange["session"], exchange)

    def _keep_exchange(self, listener: AskListener, session: Session) -> None:
        """Put the exchange on disk. One that cannot be kept was shown all the same."""
        if isinstance(listener, ExchangeListener):
            with suppress(StoreError):
                session.add_exchange(listener.exchange)
            self._running.pop(listener.exchange["id"], None)

    @property
    def _session_folder(self) -> Path:
        return self._box.config.paths.state / "sessions"

    def _tell_guard(
        self, ask: AskParts, attached: Attached, named: Sequence[tuple[str, object]]
    ) -> None:
        """Tell the guard what of the person's variables the model gets."""
        session = ask.session
        for part, (_, value) in zip(attached.parts, named, strict=True):
            labels, source = attached_source(part.name, value, self._box.registry, ask.labels)
            whole = values.to_json(value.portable) if isinstance(value, ToolResult) else None
            session.guard.see(source, labels, whole, _json_in(part.text))
            if part.handle:
                session.guard.handles[part.handle] = labels, source

    def _record(
        self,
        answer: Answer,
        source: CallSource,
        named: Sequence[tuple[str, object]],
        mismatch: AnswerMismatch | None = None,
    ) -> None:
        """Write the ask into the call log, as a row beside those of its calls."""
        args = {"prompt": answer.prompt, "model": answer.model}
        end: dict[str, Any] = {}
        if answer.ok and mismatch is not None:
            reasons = short_text(
                "; ".join([mismatch.message, *mismatch.reasons]), self._box.mask, _MAX_NOTE
            )
            end = {"code": InvalidOutput.code, "reason": "answer_mismatch", "message": reasons}
        elif not answer.ok:
            end["reason"] = UNMADE if answer.stop_reason == "done" else answer.stop_reason
            end["code"] = end["reason"] if answer.error is None else answer.error.code
            end["message"] = short_text(answer.note, self._box.mask, _MAX_NOTE)
        # An answer came from the results that the model saw.
        sources = [(name or "attached", self._box.lineage.call_of(value)) for name, value in named]
        sources += [("", str(call.result.meta.get("call_id", ""))) for call in answer.calls]
        answer.call_id = self._box.new_id()
        self._box.log.record(
            *(answer.call_id, names.ASK, source, args, not end, answer.seconds * 1000),
            args_size=len(answer.prompt),
            size=len(answer.text),
            inputs=encode_inputs([source for source in sources if source[1]][:_MAX_SOURCES]),
            **end,
        )

    def _allow_list(self, tool_allow: Sequence[str] | str | None) -> tuple[str, ...] | None:
        """Return the allow-list of an ask, or that of the settings."""
        default = self._box.config.settings.ask.tool_allow
        return tools.allow_list(default if tool_allow is None else tool_allow, self._box.shortcuts)

    def _selection(
        self,
        prompt: str,
        session: Session,
        with_tools: bool | None,
        tool_allow: Sequence[str] | str | None,
    ) -> ToolSelection:
        """Return the tools of an ask. Says which servers have tools that are not offered."""
        allow = self._allow_list(tool_allow)
        is_on = self._box.config.settings.ask.with_tools if with_tools is None else with_tools
        if is_on:
            self._note_unknown(tool_allow)
            allow = self._narrow(prompt, allow)
            self._note_unlisted(allow)
        return ToolSelection(self._box.registry, session, allow=allow, prompt=prompt, is_on=is_on)

    def _budget(self, client: ModelClient, max_steps: object) -> AskBudget:
        """Return the limits of an ask. Says where the limit of the cost cannot be kept."""
        settings, price = self._box.config.settings, ModelPrice(client)
        steps = settings.ask.max_steps if max_steps is None else max_steps
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= _MAX_STEPS:
            text = values.safe_repr(steps, 40)
            raise UsageProblem(f"max_steps is a whole number from 1 to {_MAX_STEPS}, not {text}.")
        limits = settings.ask._replace(max_steps=steps)
        if limits.max_cost is not None and price.cost(TokenUsage(1, 1)) is None:
            self._note(
                f"ask.max_cost is ignored: the price of the model '{client.name}' is not known."
                " Write it into the model in onetool.yaml: price: {input: 1.0, output: 2.0}"
                " (dollars per million tokens)"
            )
        return AskBudget(limits, settings.stats.chars_per_token, price)

    def _attached(
        self,
        prompt: str,
        named: Sequence[tuple[str, object]],
        session: Session,
        selection: ToolSelection,
        limits: TakesImages,
    ) -> Attached:
        """Return the prompt with its attachments."""
        if named:
            # A pack that is imported with its tools may register a describer.
            selection.offer()
        return self.attachments.attach(
            prompt, named, session, limits=limits, can_page=selection.is_on
        )

    def _note_unlisted(self, allow: Sequence[str] | None) -> None:
        """Say which servers have tools that are not offered, since an offer starts none."""
        packs = None if allow is None else {entry.partition(".")[0] for entry in allow}
        for server in self._unlisted():
            if packs is None or server in packs or "*" in packs:
                self._note(
                    f"The tools of the server '{server}' are not offered: it has not been started"
                    f" yet. Start it with: %tool server start {server}"
                )

    def _note_unknown(self, listed: Sequence[str] | str | None) -> None:
        """Say which entries of a list that the caller gave name no tool."""
        entries = tools.allow_list(listed, self._box.shortcuts)
        if not entries:
            return
        registry = self._box.registry
        tool_names = [spec.name for spec in (*registry.known(), *registry.unlisted())]
        for entry in entries:
            is_known = any(names.allowed(name, (entry,)) for name in tool_names)
            if not is_known and entry.partition(".")[0] not in self._unlisted():
                near = did_you_mean(entry, tool_names)
                self._note(f"No tool is called '{values.cut(entry, 80)}'. {near}".rstrip())

    def _narrow(self, prompt: str, allow: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the allow-list, limited to the tools that the prompt names with `+`."""
        mentions = tools.mentioned(prompt, self._box.registry, self._box.shortcuts)
        if mentions is None:
            return allow
        for name in mentions:
            if not names.allowed(name, allow):
                raise UsageProblem(
                    f"The prompt names '+{name}', which is not among the tools allowed here.",
                    hint="Add it to tool_allow, or leave it out of the prompt.",
                )
        return tuple(mentions)

    def _approvals(self, approve: Sequence[str] | str | None, own: Settings) -> Approvals:
        """Return what may run without a question. `own` are the user's own settings."""
        box = self._box
        place = box.config.paths.user_state / "approvals.json"
        # Aliases come from the same file, never from a project.
        by_settings: Sequence[str] = ()
        if own.ask.approve:
            by_settings = tools.allow_list(own.ask.approve, read_shortcuts(own.aliases, {})) or ()
        self._note_unknown(approve)
        approved = tools.allow_list(_own_yes(approve), box.shortcuts)
        specs = [*box.registry.list(), *box.registry.unlisted()] if approved else []
        return Approvals(
            self._always,
            by_settings,
            place,
            [spec for spec in specs if names.allowed(spec.name, approved)],
        )

    def _direct(
        self,
        match: re.Match[str],
        allow: Sequence[str] | None,
        approvals: Approvals | None,
        listener: AskListener,
        source: CallSource,
    ) -> Answer:
        """Run one tool by name."""
        box, name = self._box, match["name"]
        (name,) = tools.allow_list([name], box.shortcuts) or (name,)
        call_id = box.new_id()
        args, failure = _arguments(match["args"] or match["glued"] or "{}", name)
        if failure is None and approvals is not None:
            failure = self._unapproved(name, args, approvals)
        listener.calling(1, name, args)
        if failure is not None:
            meta = {"tool": name, "call_id": call_id, "source": source, "duration_ms": 0.0}
            result = ToolResult(False, error=Failure.of(failure, name), meta=meta)
        else:
            result = box.executor.call(
                box.resolve(name, args, source=source, allow=allow, call_id=call_id)
            )
        name = str(result.meta.get("tool", name))
        sent = values.map_text(box.outgoing(result), box.mask) if result.ok else None
        call = AnswerCall(call_id, name, args, result, sent)
        listener.called(1, call)
        text = values.to_text(sent) if result.error is None else result.error.message
        answer = Answer(prompt=match.string, text=text, calls=AnswerCalls([call]))
        listener.ended(answer)
        return answer

    def _unapproved(self, name: str, args: Any, approvals: Approvals) -> CallFailure | None:
        """Return why a tool must not run without approval. The executor reports one that does not
        exist."""
        try:
            spec = self._box.registry.require(name)
        except CallFailure:
            return None
        is_free = not needs_approval(spec, args, self._box.config)
        if is_free or approvals.state(spec, spec.fingerprint) == "allowed":
            return None
        return NotApproved(
            f"'{spec.name}' may change something. It was not run. Allow it with --approve"
            f" {spec.name}"
        )


def _ask_in_time(
    listener: AskListener, budget: AskBudget, put: Callable[[Question], Reply], question: Question
) -> Reply:
    """Put the question of a program, without the time that the person takes."""
    with budget.waiting():
        return listener.question(question, put)


def _json_in(text: str) -> Any:
    """Return the value that a text is the JSON of, else the text."""
    try:
        return values.from_json(text)
    except (ValueError, RecursionError):
        return text


def as_call(prompt: str) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of a prompt of the form `tool:NAME {json}`; None for any other
    prompt."""
    match = _DIRECT.fullmatch(prompt)
    if match is None:
        return None
    args, failure = _arguments(match["args"] or match["glued"] or "{}", match["name"])
    return (match["name"], args) if failure is None else None


def _arguments(text: str, name: str) -> tuple[Any, CallFailure | None]:
    try:
        args = values.from_json(text)
    except (ValueError, RecursionError) as exc:
        return text, BadJson(
            f"'{name}': the arguments are not JSON ({exc}).",
            hint='Write tool:NAME {"key": "value"}',
        )
    if not isinstance(args, dict):
        return text, BadJson(
            f"'{name}': the arguments must be a JSON object, got {values.safe_repr(args, 60)}."
        )
    return args, None


def _own_yes(approve: Sequence[str] | str | None) -> Sequence[str] | str | None:
    """Return the tools that a caller approves; none where it is a tool that others may only read
    by."""
    return approve if current.may_write() else None


def _require_prompt(prompt: object) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise UsageProblem(
            "There is nothing to ask.", hint='For example: box.ask("What time is it?")'
        )
