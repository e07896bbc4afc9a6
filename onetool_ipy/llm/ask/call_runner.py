"""CallRunner: run the calls of one turn: resolved one by one, approved in one question, run in the
model's order.

A call that is not allowed, switched off, unknown, malformed or not approved does not run, and its
outcome says why. Every call has an outcome, also when Stop ends the turn.

A tool's output is sent inside a JSON object of ours. Text in JSON cannot end that object, so no
output can pass for something else; the instructions say what the object means.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    CallCancelled,
    CallFailure,
    InvalidArgs,
    NotAllowed,
    NotApproved,
    OneToolError,
)
from onetool_ipy.base.printable import visible
from onetool_ipy.config.load import needs_approval
from onetool_ipy.core import names
from onetool_ipy.core.names import PAGER
from onetool_ipy.core.question import NobodyToAsk, Reply
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.ask import approval
from onetool_ipy.llm.ask.answer import Answer, AnswerCall
from onetool_ipy.llm.ask.approval import Approvals, PendingCall
from onetool_ipy.llm.ask.context import AskParts, OverLimit, Repeated
from onetool_ipy.llm.ask.guard import (
    ASKED,
    NAMED,
    Flow,
    Outgoing,
    Verdict,
    guard_inside,
    not_sent,
    source_of,
)
from onetool_ipy.llm.ask.session import cache_key, json_text, size
from onetool_ipy.llm.description import without_pictures
from onetool_ipy.llm.messages import Call, Outcome, Outcomes, encoded

if TYPE_CHECKING:
    from onetool_ipy.llm.programs.handover import ProgramCalls

_MAX_TEXT = 200


class BadJson(InvalidArgs):
    """The arguments are not a JSON object."""

    reason = "json"


class _Plan(NamedTuple):
    """A call as it will run, or with the refusal that is its result; neither for a search among the
    tools."""

    call: Call
    name: str
    resolved: ResolvedCall | None = None
    refusal: ToolResult | None = None
    fingerprint: str = ""

    @property
    def runs(self) -> ToolSpec | None:
        """The tool that is called, if nothing of ours refuses the call."""
        if self.resolved is None or self.resolved.failure is not None:
            return None
        return self.resolved.spec


class TurnResult(NamedTuple):
    """The outcomes of a turn's calls. `stopped` is why the ask should end; `interrupted` says that
    Stop came."""

    outcomes: Outcomes
    stopped: str = ""
    interrupted: bool = False


class CallRunner:
    """Runs the calls of one ask."""

    def __init__(self, ask: AskParts, approvals: Approvals, programs: ProgramCalls | None) -> None:
        self.calls: list[AnswerCall] = []
        self._programs = programs
        self._outcomes: list[Outcome] = []
        self._ids: set[str] = set()
        self._box, self._session, self._selection = ask.box, ask.session, ask.selection
        self._budget, self._listener, self._takes_images = (
            ask.budget,
            ask.listener,
            ask.takes_images,
        )
        self._approvals = approvals
        self._labels = ask.labels

    @property
    def program(self) -> Answer | None:
        """What became of the last program, if the model writes programs."""
        return None if self._programs is None else self._programs.outcome

    @property
    def all_calls(self) -> list[AnswerCall]:
        """The calls of the model, and those of its programs."""
        return self.calls if self._programs is None else [*self.calls, *self._programs.calls]

    def run(self, calls: Sequence[Call], *, limit: str | None = None) -> TurnResult:
        """Run a turn's calls. If a `limit` is reached, run none of them and give it as the
        reason."""
        first = len(self.calls)
        stopped = ""
        try:
            plans, stopped = self._plans(calls, limit)
            was_asked = self._approve(plans)
            # A question takes time, and a call may change the tool of the next one: then the tool
            # is looked at again.
            for number, checked in enumerate(plans, start=first + 1):
                self._listener.calling(number, checked.name, checked.call.arguments)
                plan = self._fresh(checked) if was_asked or number > first + 1 else checked
                result = self._result(plan) if plan.refusal is None else plan.refusal
                self._record(number, plan.call, plan.name, result, plan.runs)
        except KeyboardInterrupt:
            self._cancel(calls[len(self.calls) - first :])
            return TurnResult(Outcomes(tuple(self._outcomes[first:])), interrupted=True)
        return TurnResult(Outcomes(tuple(self._outcomes[first:])), stopped)

    def _plans(self, calls: Sequence[Call], limit: str | None) -> tuple[list[_Plan], str]:
        names_of = [(call, self._name_of(call)) for call in calls]
        if limit is not None:
            return [
                self._refused(call, name, OverLimit(f"Not run: {limit}."))
                for call, name in names_of
            ], "limit"
        if self._budget.is_repeated(
            f"{name} {json_text(call.arguments)}" for call, name in names_of
        ):
            repeated = Repeated(
                "Not run: the same call was run several times already, and its result is above."
            )
            return [self._refused(call, name, repeated) for call, name in names_of], "repeated"
        plans: list[_Plan] = []
        stopped = ""
        for call, name in names_of:
            if self._budget.take_call():
                plans.append(self._check(call, name))
            else:
                stopped = "limit"
                limits = self._budget.limits
                message = (
                    f"Not run: {limits.max_calls} calls (ask.max_calls) is all that one ask may"
                    " make."
                )
                plans.append(self._refused(call, name, OverLimit(message)))
        return plans, stopped

    def _name_of(self, call: Call) -> str:
        """Return the tool's canonical name: the model may use its wire name, its own name or an
        alias."""
        offered = self._session.canonical(call.wire_name)
        if offered is not None:
            return offered
        try:
            target = (
                self._box.shortcuts.find(call.wire_name)
                if isinstance(call.wire_name, str)
                else None
            )
        except OneToolError:  # a circular alias
            target = None
        name = target if isinstance(target, str) else str(call.wire_name)
        spec = self._box.registry.find(name)
        return values.cut(name, _MAX_TEXT) if spec is None else spec.name

    def _check(self, call: Call, name: str) -> _Plan:
        if not isinstance(call.arguments, dict):
            text = visible(values.cut(str(call.arguments), _MAX_TEXT), _MAX_TEXT)
            message = (
                f"'{name}': the arguments must be a JSON object, got '{text}'. Nothing was run."
            )
            return self._refused(call, name, BadJson(message))
        is_program = self._programs is not None and name == names.PROGRAM
        if is_program or self._selection.is_search(name):
            return _Plan(call, name)
        if not self._selection.is_direct(name):
            message = (
                f"'{name}' cannot be called directly here. Call it in a program, with the tool"
                " 'program'."
            )
            return self._refused(call, name, NotAllowed(message))
        resolved = self._resolve(name, call.arguments)
        # The executor refuses a call that may not run, and logs it as failed.
        fingerprint = resolved.require().fingerprint if resolved.failure is None else ""
        return _Plan(call, name, resolved, fingerprint=fingerprint)

    def _resolve(self, name: str, args: dict[str, Any]) -> ResolvedCall:
        def is_allowed(spec: ToolSpec) -> bool:
            return names.allowed(spec.name, self._selection.allow) or self._selection.may_page(
                spec.name, args
            )

        return self._box.resolve(name, args, source="model", allow=is_allowed)

    def _approve(self, plans: list[_Plan]) -> bool:
        """Ask one question for all calls of the turn that need approval, and refuse those that do
        not get it.

        Returns whether there was a question.
        """
        waiting: dict[int, PendingCall] = {}
        for number, plan in enumerate(plans):
            if plan.resolved is None or plan.resolved.failure is not None:
                continue
            flow = self._guarded(plan.resolved)
            spec, args = plan.resolved.require(), plan.resolved.given
            state = self._approvals.state(spec, plan.fingerprint)
            # A tool that only reads needs no yes. With one it may write through other tools.
            plan.resolved.has_yes = state == "allowed"
            is_write = state != "allowed" and needs_approval(spec, args, self._box.config)
            if is_write or flow is not None:
                is_changed = is_write and state == "changed"
                words = self._approvals.changes(spec) if is_changed else ()
                waiting[number] = PendingCall(
                    spec, args, is_changed, plan.fingerprint, words, flow, is_write
                )
        if not waiting:
            return False
        pending = list(waiting.values())
        question = approval.question(pending).masked(self._box.mask)
        reply: Reply | None = None
        with self._budget.waiting(), suppress(NobodyToAsk):
            reply = self._listener.question(question, self._box.put_question)
        for number, (index, call) in enumerate(waiting.items(), start=1):
            if reply is None or number not in reply.content.get("run", ()):
                plan = plans[index]
                refusal = self._failed(plan.name, _not_approved(call, pending, reply))
                if reply is not None:
                    refusal.meta["skipped"] = True
                plans[index] = _Plan(plan.call, plan.name, refusal=refusal)
                continue
            if (approved := plans[index].resolved) is not None:
                approved.has_yes = approved.has_yes or call.is_write
                if call.flow is not None:
                    self._let_out(approved, call.flow.place)
            if reply.content.get("always") and call.is_write:
                self._approvals.always(call.spec, call.fingerprint)
            elif reply.content.get("always") and call.flow is not None:
                self._session.guard.allowed.add(call.flow.place)
        return True

    def _guarded(self, resolved: ResolvedCall) -> Flow | None:
        """Return what a call would carry elsewhere, if the person must be asked about it."""
        spec, guard = resolved.require(), self._session.guard
        place = self._labels.of_call(spec, resolved.given).sends
        resolved.guard = guard_inside(resolved, self._labels, self._judge, self._approvals.names)
        if self._approvals.names(spec):
            if place and guard.foreign(place):
                guard.sent(Outgoing(spec, resolved.given, place))
                resolved.meta["guard"] = NAMED
            return None
        verdict = self._judge(Outgoing(spec, resolved.given, place))
        if verdict.why:
            resolved.meta["guard"] = verdict.why
        return verdict.flow

    def _judge(self, call: Outgoing) -> Verdict:
        """Say whether a call is free."""
        guard = self._session.guard
        if call.place and guard.foreign(call.place):
            specs = map(self._box.registry.get, self._session.offered)
            call = call.among(Counter(self._labels.of(spec).sends for spec in specs if spec))
        return guard.check(call, self._today, self._labels.allow)

    def _let_out(self, resolved: ResolvedCall, place: str) -> None:
        """Remember a call that the person said yes to."""
        resolved.meta["guard"] = f"{ASKED} to {place}"
        self._session.guard.sent(Outgoing(resolved.require(), resolved.given, place))

    def _today(self) -> datetime.date:
        return self._box.now().date()

    def _fresh(self, plan: _Plan) -> _Plan:
        """Look at the tool of a call again. One that changed meanwhile is not called."""
        if (before := plan.resolved) is None or before.failure is not None:
            return plan
        resolved = self._resolve(plan.name, before.given)
        resolved.has_yes, resolved.guard = before.has_yes, before.guard
        resolved.meta.update(before.meta)
        if resolved.failure is None and resolved.require().fingerprint != plan.fingerprint:
            message = (
                f"'{plan.name}' changed since it was checked. Nothing was run; it can be called"
                " again."
            )
            return self._refused(plan.call, plan.name, NotApproved(message))
        return plan._replace(resolved=resolved)

    def _result(self, plan: _Plan) -> ToolResult:
        resolved, args = (
            plan.resolved,
            plan.call.arguments if isinstance(plan.call.arguments, dict) else {},
        )
        if resolved is None and self._programs is not None and plan.name == names.PROGRAM:
            return self._programs.run(args, self._meta(plan.name))
        if resolved is None:
            return self._search(plan.name, args)
        if resolved.failure is not None:
            return self._box.executor.call(resolved)
        spec = resolved.require()
        if (reused := self._session.reuse(spec, args)) is not None:
            return reused
        key = cache_key(spec, args)
        # The tool has no more time than the ask has left.
        limit_s = (
            spec.timeout_s
            if spec.timeout_s is not None
            else self._box.config.settings.timeouts.local_s
        )
        if self._budget.left_s < limit_s:
            resolved.limit_s = max(self._budget.left_s, 0.05)
        result = self._box.executor.call(resolved)
        self._session.keep(spec, args, key, result)
        return result

    def _search(self, name: str, args: dict[str, Any]) -> ToolResult:
        query = args.get("query")
        if not isinstance(query, str) or set(args) != {"query"}:
            return self._failed(
                name, InvalidArgs(f"'{name}' takes one argument, query, which is text.")
            )
        return ToolResult(True, self._selection.search(query), None, self._meta(name))

    def _record(
        self,
        number: int,
        call: Call,
        name: str,
        result: ToolResult,
        spec: ToolSpec | None = None,
    ) -> None:
        """Give a call its outcome. `spec` is the tool as it ran: by now it may be another one, or
        gone."""
        # Most results are of a kind that is no picture and holds none that is looked for.
        is_plain = not result.ok or isinstance(result.data, (str, int, float, dict))
        data, images = (
            (result.data, ()) if is_plain else without_pictures(result.data, self._takes_images)
        )
        # The result keeps its pictures for Python; the model gets them beside its data.
        plain = (
            result
            if not result.ok or data is result.data
            else ToolResult(True, data, None, result.meta)
        )
        sent = values.map_text(self._box.outgoing(plain), self._box.mask) if result.ok else None
        if result.ok and plain.handle is not None:
            self._session.handles[plain.handle] = None
        answer = sent if result.error is None else result.error.to_dict()
        if name == names.PROGRAM and self._programs is not None:
            self._session.guard.show_read(answer)
        # The words of a refusal are the model's own, and no tool gave them.
        elif spec is not None:
            self._see(spec, call.arguments, plain, sent)
        if result.ok:
            self._session.used[name] = None
        content: dict[str, Any] = {"data_from": name, "data": sent}
        if result.error is not None:
            # The hint about an unknown tool is a line for a person to type.
            has_hint = result.error.hint and result.error.code != "tool_not_found"
            hint = {"hint": result.error.hint} if has_hint else {}
            content = {"data_from": name, "error": {**result.error.to_dict(), **hint}}
        content = values.map_text(content, self._box.mask)
        outcome = Outcome(call, content, is_error=not result.ok, images=encoded(images))
        tokens = self._budget.tokens(size(Outcomes((outcome,))))
        is_tool = name != names.PROGRAM and not self._selection.is_search(name)
        answer_call = AnswerCall(
            self._unique_id(call.id), name, call.arguments, result, sent, tokens, is_tool
        )
        self._outcomes.append(outcome)
        self.calls.append(answer_call)
        self._listener.called(number, answer_call)

    def _see(self, spec: ToolSpec, args: object, result: ToolResult, sent: object) -> None:
        """Remember what the model was shown: whose data it is, and whose handle."""
        guard, error = self._session.guard, result.error
        excerpt = whole = sent if error is None else error.message
        labels = guard.labels_after(args, self._labels.of_call(spec, args))
        source = source_of(spec, args, labels)
        handle = args.get("handle") if spec.name == PAGER and isinstance(args, dict) else None
        if result.handle is not None:
            whole = values.to_json(result.portable)
        if own := guard.handles.get(str(handle)):
            # A page explains nothing: it was chosen of all that the tool gave.
            (labels, source), whole = own, None
        if result.handle is not None:
            guard.handles[result.handle] = labels, source
        guard.see(source, labels, whole, excerpt)

    def _cancel(self, calls: Sequence[Call]) -> None:
        """After Stop: give the running call and those behind it an outcome, as cancelled."""
        for call in calls:
            name = self._name_of(call)
            self._record(
                len(self.calls) + 1,
                call,
                name,
                self._failed(name, CallCancelled("Stopped by the person.")),
            )

    def _unique_id(self, call_id: str) -> str:
        unique, count = call_id, 2
        while unique in self._ids:
            unique, count = f"{call_id}-{count}", count + 1
        self._ids.add(unique)
        return unique

    def _refused(self, call: Call, name: str, failure: CallFailure) -> _Plan:
        return _Plan(call, name, refusal=self._failed(name, failure))

    def _failed(self, name: str, failure: CallFailure) -> ToolResult:
        return ToolResult(False, error=Failure.of(failure, name), meta=self._meta(name))

    def _meta(self, name: str) -> dict[str, Any]:
        return {"tool": name, "call_id": self._box.new_id(), "source": "model", "duration_ms": 0.0}


def _not_approved(
    call: PendingCall, pending: Sequence[PendingCall], reply: Reply | None
) -> NotApproved:
    name = call.spec.name
    if call.flow is not None and not call.is_write:
        return not_sent(name, call.flow, reply)
    if reply is not None:
        return NotApproved(f"'{name}' was not run: {reply.note or 'the person did not allow it'}.")
    tools_named = list(dict.fromkeys(each.spec.name for each in pending))
    reason = "has changed since it was approved" if call.changed else "may change something"
    return NotApproved(
        f"'{name}' {reason}, and nobody could be asked. It was not run. Allow it with"
        f" approve={tools_named!r}"
    )
