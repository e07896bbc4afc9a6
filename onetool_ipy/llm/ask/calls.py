"""The calls of one turn: checked one by one, approved in one question, run in the model's order.

A call that is not allowed, switched off, unknown, malformed or not approved does not run, and its outcome says why. The
executor gets the allow-list too and checks again. Every call has an outcome, also when Stop ends the turn.

A tool's output is sent inside a JSON object of ours. Text in JSON cannot end that object, so no output can pass for
something else; the instructions in `asker` say what the object means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallCancelled, CallFailure, Disabled, InvalidArgs, NotApproved, OneToolError
from onetool_ipy.base.printable import visible
from onetool_ipy.core import names
from onetool_ipy.core.question import NobodyToAsk, Reply
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import ToolCall, ToolSpec
from onetool_ipy.llm.ask import approval
from onetool_ipy.llm.ask.answer import AnswerCall
from onetool_ipy.llm.ask.approval import Approvals, Pending
from onetool_ipy.llm.ask.context import AskContext, AskListener, Meter, OverLimit, Repeated
from onetool_ipy.llm.ask.session import Session, cache_key, json_text, size
from onetool_ipy.llm.ask.tools import Offering
from onetool_ipy.llm.messages import Call, Outcome, Outcomes

__all__ = ["BadJson", "CallRunner", "TurnResult"]


def _content_of(tool: str, result: ToolResult, sent: Any) -> dict[str, Any]:
    """Return a result as it is sent to the model."""
    if result.error is None:
        return {"data_from": tool, "data": sent}
    error = result.error.to_dict()
    if result.error.hint and result.error.code != "tool_not_found":  # that hint is for a person who types
        error["hint"] = result.error.hint
    return {"data_from": tool, "error": error}


_MAX_SHOWN = 200


class BadJson(InvalidArgs):
    """The arguments are not a JSON object."""

    reason = "json"


class _Plan(NamedTuple):
    """A call that is refused already, or will run as `spec`."""

    call: Call
    name: str
    spec: ToolSpec | None = None
    refusal: ToolResult | None = None
    fingerprint: str = ""


class TurnResult(NamedTuple):
    """The outcomes of a turn's calls. `stopped` is why the ask should end; `interrupted` says that Stop came."""

    outcomes: Outcomes
    stopped: str = ""
    interrupted: bool = False


class CallRunner:
    """Runs the calls of one ask."""

    def __init__(
        self,
        context: AskContext,
        session: Session,
        offering: Offering,
        meter: Meter,
        *,
        approvals: Approvals,
        listener: AskListener,
    ) -> None:
        self.made: list[AnswerCall] = []
        self._outcomes: list[Outcome] = []
        self._ids: set[str] = set()
        self._context = context
        self._session = session
        self._offering = offering
        self._meter = meter
        self._approvals = approvals
        self._listener = listener

    def run(self, calls: Sequence[Call], *, limit: str | None = None) -> TurnResult:
        """Run a turn's calls. With `limit` none is run, for that reason."""
        first = len(self.made)
        plans: list[_Plan] = []
        stopped = ""
        try:
            plans, stopped = self._plans(calls, limit)
            plans = self._approved(plans)
            for plan in plans:
                self._run_one(plan)
        except KeyboardInterrupt:
            self._cancel(calls[len(self.made) - first :])
            return TurnResult(Outcomes(tuple(self._outcomes[first:])), interrupted=True)
        return TurnResult(Outcomes(tuple(self._outcomes[first:])), stopped)

    def _plans(self, calls: Sequence[Call], limit: str | None) -> tuple[list[_Plan], str]:
        named = [(call, self._name_of(call)) for call in calls]
        if limit is not None:
            return [self._refused(c, n, OverLimit(f"Not run: {limit}.")) for c, n in named], "limit"
        if self._meter.is_repeated(f"{n} {json_text(c.arguments)}" for c, n in named):
            again = Repeated("Not run: the same call was run several times already, and its result is above.")
            return [self._refused(c, n, again) for c, n in named], "repeated"
        plans: list[_Plan] = []
        stopped = ""
        for call, name in named:
            if self._meter.take_call():
                plans.append(self._checked(call, name))
            else:
                stopped = "limit"
                most = f"Not run: {self._meter.limits.max_calls} calls (ask.max_calls) is all that one ask may make."
                plans.append(self._refused(call, name, OverLimit(most)))
        return plans, stopped

    def _name_of(self, call: Call) -> str:
        """Return the tool's canonical name: the model may use its wire name, its own name or an alias."""
        known = self._session.canonical(call.wire_name)
        if known is not None:
            return known
        try:
            target = self._context.shortcuts.find(call.wire_name) if isinstance(call.wire_name, str) else None
        except OneToolError:  # a circular alias
            target = None
        name = target if isinstance(target, str) else str(call.wire_name)
        spec = self._context.registry.find(name)
        return values.cut(name, _MAX_SHOWN) if spec is None else spec.name

    def _checked(self, call: Call, name: str) -> _Plan:
        if not isinstance(call.arguments, dict):
            shown = visible(values.cut(str(call.arguments), _MAX_SHOWN), _MAX_SHOWN)
            said = f"'{name}': the arguments must be a JSON object, got '{shown}'. Nothing was run."
            return self._refused(call, name, BadJson(said))
        if self._offering.is_search(name):
            return _Plan(call, name)
        try:
            spec = self._as_written(name)
        except CallFailure as exc:  # the tool is gone, so it cannot run
            return self._refused(call, name, exc)
        if spec is None or not (self._is_allowed(name) or self._offering.may_page(name, call.arguments)):
            return _Plan(call, name, refusal=self._by_executor(name, call.arguments))
        if spec.disabled:
            return self._refused(call, name, Disabled(f"The tool '{name}' is switched off: {spec.disabled}"))
        return _Plan(call, name, spec, fingerprint=spec.fingerprint)

    def _is_allowed(self, name: str) -> bool:
        return names.allowed(name, self._offering.allow)

    def _as_written(self, name: str) -> ToolSpec | None:
        """Return the tool as its file or record has it now. Imports nothing: nobody has approved it yet."""
        spec = self._context.registry.find(name)
        return None if spec is None else spec.as_written()

    def _live(self, spec: ToolSpec) -> ToolSpec:
        """Return the tool as its code has it now. That may run foreign code, so it has a time limit."""
        if spec.live is None:
            return spec
        found: ToolSpec = self._context.executor.workers.run(spec.live, self._context.config.settings.timeouts.local_s)
        return found

    def _by_executor(self, name: str, args: dict[str, Any]) -> ToolResult:
        """Let the executor refuse a call, which logs it as failed. Its allow-list is empty, so nothing can run."""
        return self._context.executor.call(ToolCall(self._context.new_id(), name, args, "model"), allow=())

    def _approved(self, plans: list[_Plan]) -> list[_Plan]:
        """Ask one question for all calls of the turn that need approval, and refuse those that do not get it."""
        waiting: dict[int, Pending] = {}
        for number, plan in enumerate(plans):
            if plan.spec is not None and approval.needs_approval(plan.spec, plan.call.arguments, self._context.config):
                state = self._approvals.state(plan.name, plan.fingerprint)
                if state == "allowed":
                    continue
                if (error := self._argument_error(plan.spec, plan.call.arguments)) is not None:
                    plans[number] = self._refused(plan.call, plan.name, error)
                else:
                    waiting[number] = Pending(
                        plan.spec, _dict(plan.call.arguments), state == "changed", plan.fingerprint
                    )
        if not waiting:
            return plans
        pending = list(waiting.values())
        reply = self._asked(pending)
        for number, (index, one) in enumerate(waiting.items(), start=1):
            if reply is None or number not in reply.content.get("run", ()):
                why = _not_approved(one, pending, reply)
                plans[index] = self._refused(plans[index].call, plans[index].name, why)
            elif reply.content.get("always"):
                self._approvals.always(one.spec.name, one.fingerprint)
        return plans

    def _asked(self, pending: Sequence[Pending]) -> Reply | None:
        """Ask the person about these calls. Returns None if nobody can be asked."""
        asked = approval.question(pending).masked(self._context.mask)
        with self._meter.waiting():
            try:
                return self._listener.question(asked, self._context.put_question)
            except NobodyToAsk:
                return None

    def _argument_error(self, spec: ToolSpec, args: Any) -> CallFailure | None:
        """Return why these arguments do not fit the schema. Runs no converter, which is code of the tool."""
        try:
            spec.replace(converters={}).checker.check(args, spec.name, self._context.mask)
        except CallFailure as exc:
            return exc
        except OneToolError as exc:
            return InvalidArgs(exc.message, hint=exc.hint)
        return None

    def _run_one(self, plan: _Plan) -> None:
        number = len(self.made) + 1
        args = plan.call.arguments
        self._listener.calling(number, plan.name, args)
        result = plan.refusal if plan.refusal is not None else self._result(plan, _dict(args))
        self._record(number, plan.call, plan.name, result)

    def _result(self, plan: _Plan, args: dict[str, Any]) -> ToolResult:
        if plan.spec is None:
            return self._searched(plan.name, args)
        try:
            found = self._as_written(plan.name)
            spec = plan.spec if found is None else found
            if spec.fingerprint != plan.fingerprint:
                said = f"'{plan.name}' has changed while it was asked for. Nothing was run; it can be asked for anew."
                return self._failed(plan.name, NotApproved(said))
            spec = self._live(spec)
        except CallFailure as exc:
            return self._failed(plan.name, exc)
        if found is not None and (reused := self._session.reuse(spec, args)) is not None:
            return reused
        key = cache_key(spec, args)
        call = ToolCall(self._context.new_id(), plan.name, args, "model")
        result = self._context.executor.call(call, timeout_s=self._timeout(spec), allow=self._allow(plan.name, args))
        self._session.keep(spec, args, key, result)
        return result

    def _allow(self, name: str, args: dict[str, Any]) -> Sequence[str] | None:
        allow = self._offering.allow
        return (name,) if not self._is_allowed(name) and self._offering.may_page(name, args) else allow

    def _timeout(self, spec: ToolSpec) -> float | None:
        """Return the time left for the ask, if that is less than the tool's own limit."""
        usual = spec.timeout_s if spec.timeout_s is not None else self._context.config.settings.timeouts.local_s
        return max(self._meter.left_s, 0.05) if self._meter.left_s < usual else None

    def _searched(self, name: str, args: dict[str, Any]) -> ToolResult:
        query = args.get("query")
        if not isinstance(query, str) or set(args) != {"query"}:
            return self._failed(name, InvalidArgs(f"'{name}' takes one argument, query, which is text."))
        return ToolResult(True, self._offering.search(query), None, self._meta(name))

    def _record(self, number: int, call: Call, name: str, result: ToolResult) -> None:
        sent = values.map_text(self._context.outgoing(result), self._context.mask) if result.ok else None
        if result.ok and result.handle is not None:
            self._session.handles[result.handle] = None
        if result.ok:
            self._session.used[name] = None
        content = values.map_text(_content_of(name, result, sent), self._context.mask)
        outcome = Outcome(call, content, is_error=not result.ok)
        tokens = self._meter.tokens(size(Outcomes((outcome,))))
        is_tool = not self._offering.is_search(name)
        made = AnswerCall(self._unique_id(call.id), name, call.arguments, result, sent, tokens, is_tool)
        self._outcomes.append(outcome)
        self.made.append(made)
        self._listener.called(number, made)

    def _cancel(self, calls: Sequence[Call]) -> None:
        """After Stop: give the running call and those behind it an outcome, as cancelled."""
        for call in calls:
            name = self._name_of(call)
            self._record(len(self.made) + 1, call, name, self._failed(name, CallCancelled("Stopped by the person.")))

    def _unique_id(self, call_id: str) -> str:
        found, count = call_id, 2
        while found in self._ids:
            found, count = f"{call_id}-{count}", count + 1
        self._ids.add(found)
        return found

    def _refused(self, call: Call, name: str, why: CallFailure) -> _Plan:
        return _Plan(call, name, refusal=self._failed(name, why))

    def _failed(self, name: str, why: CallFailure) -> ToolResult:
        return ToolResult(False, error=Failure.of(why, name), meta=self._meta(name))

    def _meta(self, name: str) -> dict[str, Any]:
        return {"tool": name, "call_id": self._context.new_id(), "source": "model", "duration_ms": 0.0}


def _not_approved(one: Pending, pending: Sequence[Pending], reply: Reply | None) -> NotApproved:
    name = one.spec.name
    if reply is not None:
        why = reply.note or "the person did not allow it"
        return NotApproved(f"'{name}' was not run: {why}.")
    allowing = f"approve={list(dict.fromkeys(each.spec.name for each in pending))!r}"
    why = "has changed since it was approved" if one.changed else "may change something"
    return NotApproved(f"'{name}' {why}, and nobody could be asked. It was not run. Allow it with {allowing}")


def _dict(args: Any) -> dict[str, Any]:
    return args if isinstance(args, dict) else {}
