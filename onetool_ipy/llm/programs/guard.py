"""The guard of one program: whether a call of it may go out, and the question where it may not.

What a program reads itself is judged by its shadows. A program that a model wrote after it saw
private data has that data in its constants: then each argument must be explained, too, as in a
call of the model (`told` is the guard of the conversation). A no, and nobody there to ask, ends the
program, so that no exception tells it what was judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from onetool_ipy.config.load import ToolLabels, own_settings
from onetool_ipy.core.current import NestedGuard
from onetool_ipy.core.labels import UNKNOWN, Labels
from onetool_ipy.core.names import PAGER
from onetool_ipy.core.question import NobodyToAsk, ProposedCall, Question, Reply
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.ask.context import AskToolbox
from onetool_ipy.llm.ask.guard import (
    ALLOWED,
    ASKED,
    NAMED,
    Flow,
    Guard,
    Outgoing,
    PrivateSource,
    Verdict,
    attached_source,
    guard_inside,
    not_sent,
    source_of,
)
from onetool_ipy.llm.programs.sandbox import HostCall, Raised, Sandbox, World
from onetool_ipy.llm.programs.shadows import ProgramVariable, Shadows, ShadowStep


class ProgramGuard:
    """What a program may send elsewhere. Use it as a context manager, which ends its shadows.

    `results` are those of its variables that tools gave, and `names` the texts that stand in it.
    """

    def __init__(
        self,
        box: AskToolbox,
        told: Guard | None,
        put: Callable[[Question], Reply],
        is_named: Callable[[ToolSpec], bool],
        sandbox: Callable[[World, float], Sandbox],
        tools: Mapping[str, ToolSpec],
        world: World,
        results: Mapping[str, ToolResult],
        names: frozenset[str],
    ) -> None:
        self._box = box
        self._told = told
        self._put = put
        self._is_named = is_named
        self._labels = ToolLabels(box.config, own_settings(box.config.home).guard)
        self._allowed: set[str] = set()
        self._tools = tools
        self._counts: Counter[str] | None = None
        variables = {
            name: ProgramVariable(
                value,
                *attached_source(f"@{name}", results.get(name), box.registry, self._labels),
            )
            for name, value in world.variables.items()
        }
        self._shadows = Shadows(sandbox, world, variables, names, self._labels.allow)

    def __enter__(self) -> ProgramGuard:
        return self

    def __exit__(self, *exc: object) -> None:
        self._shadows.__exit__(*exc)

    def begin(self) -> None:
        """The program starts from its beginning."""
        self._shadows.begin()

    def follow(self, call: HostCall, answer: object) -> None:
        """Take a call of the program with its answer."""
        labels, source = self._origin(self._tools[call.function], call)
        self._shadows.follow(ShadowStep(call, answer, labels, source))

    def gave(self, resolved: ResolvedCall, answer: object) -> None:
        """Remember what a tool gave a program of the model: it explains later arguments, or the
        model may be shown it."""
        spec, args = resolved.spec, resolved.given
        if self._told is None or spec is None:
            return
        labels = self._told.labels_after(args, self._labels.of_call(spec, args))
        if labels.reads == "private":
            self._told.read[source_of(spec, args, labels)] = None
        if not isinstance(answer, Raised):
            self._told.give(labels, answer)

    def require(self, call: HostCall, resolved: ResolvedCall) -> None:
        """Let a call go out if it is free, or if the person says so. Raises NotApproved."""
        spec = resolved.require()
        resolved.guard = self.inside(resolved, call)
        if (flow := self.flow(call, resolved)) is None:
            return
        proposed = ProposedCall.of(spec, resolved.given, flow.text, flow.place)
        reply: Reply | None
        try:
            question = Question(
                "the program", "", calls=(proposed,), each_time=flow.place == UNKNOWN
            )
            reply = self._put(question.masked(self._box.mask))
        except NobodyToAsk:
            reply = None
        if reply is None or 1 not in reply.content.get("run", ()):
            raise not_sent(spec.name, flow, reply)
        if reply.content.get("always"):
            self._allowed.add(flow.place)
        self.let_out(resolved, f"{ASKED} to {flow.place}")

    def flow(self, call: HostCall, resolved: ResolvedCall) -> Flow | None:
        """Return what a call would carry elsewhere, if the person must be asked about it. One that
        is free says why in its `meta`."""
        spec, args = resolved.require(), resolved.given
        place = self._labels.of_call(spec, args).sends
        if not place:
            return None
        if place in self._allowed:
            self.let_out(resolved, f"{ALLOWED} {place} for this program")
            return None
        verdict = self._judge(call, Outgoing(spec, args, place))
        if verdict.why:
            resolved.meta["guard"] = verdict.why
        if verdict.flow is not None and self._is_named(spec):
            self.let_out(resolved, NAMED)
            return None
        return verdict.flow

    def let_out(self, resolved: ResolvedCall, why: str) -> None:
        """Remember a call that goes out by a yes."""
        resolved.meta["guard"] = why
        spec = resolved.require()
        if self._told is not None:
            place = self._labels.of_call(spec, resolved.given).sends
            self._told.sent(Outgoing(spec, resolved.given, place))

    def inside(self, outer: ResolvedCall, call: HostCall) -> NestedGuard:
        """Let a tool call another one that sends elsewhere only if the program's own call is free
        for that place."""
        return guard_inside(outer, self._labels, partial(self._judge, call), self._is_named)

    def _judge(self, call: HostCall | None, out: Outgoing) -> Verdict:
        if out.place in self._allowed:
            return Verdict("")
        verdict = self._shadows.judge(call, out)
        if verdict.flow is not None or self._told is None or not self._told.foreign(out.place):
            return verdict
        out = out.among(self._tool_counts())
        return self._told.check(out, lambda: self._box.now().date(), self._labels.allow)

    def _origin(self, spec: ToolSpec, call: HostCall) -> tuple[Labels, PrivateSource]:
        """Return the labels of a call, and the source that it is. A page of a result is of the tool
        that gave it, where that is known."""
        args = [*call.args, *call.kwargs.values()]
        labels = self._labels.of_call(spec, dict(enumerate(args)))
        if spec.name == PAGER and self._told is not None and args:
            handle = str(call.kwargs.get("handle", args[0]))
            if (own := self._told.handles.get(handle)) is not None:
                return own
        return labels, source_of(spec, args, labels)

    def _tool_counts(self) -> Counter[str]:
        """Return how many tools that a program may call send to each place."""
        if self._counts is None:
            offered = [spec for spec in self._box.registry.known() if spec.is_offered]
            self._counts = Counter(self._labels.of(spec).sends for spec in offered)
        return self._counts
