"""`ot.origin`, `ot.diff` and `ot.refresh`: where a value came from, what changed, and the same call
again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidArgs, NotAllowed, UsageProblem
from onetool_ipy.base.tables import is_dataframe
from onetool_ipy.core.current import is_from_outside
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.difference import compare
from onetool_ipy.core.lineage import ATTRS
from onetool_ipy.core.names import NOT_TOOLS
from onetool_ipy.core.question import NobodyToAsk, Question
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import format_call
from onetool_ipy.render.difference import Difference
from onetool_ipy.render.origin import Origin
from onetool_ipy.stores.results import is_handle

if TYPE_CHECKING:
    from onetool_ipy.stores.calls.query import CallFamily, CallRow
    from onetool_ipy.toolbox import Toolbox

_MAX_ARGUMENT = 60
_MAX_DEPTH = 40


class LineageTools:
    """The functions about where values came from, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark(read_only=True)
    def origin(self, value: Any) -> Any:
        """Show which call gave a value, with which arguments, out of which other results.

        Args:
            value: A result, its data or frame, a list or dict inside it, a handle, or the id of a
                call.

        Returns:
            A tree of calls. It prints as text, and a notebook shows a picture.

        Example:
            ot.origin("k3f9a2b7c1d4")
        """
        call_id = self._box.lineage.call_of(value)
        if not call_id and isinstance(value, str):
            call_id = value
        if not self._box.log.enabled:
            hint = "Set `stats: {enabled: true}` in onetool.yaml."
            raise InvalidArgs(
                "The call log is off, so nothing is known of where values came from.", hint=hint
            )
        family = self._box.log.family(call_id) if call_id else None
        if family is None or call_id not in family.calls:
            excerpt = self._box.mask(values.safe_repr(value, _MAX_ARGUMENT))
            hint = (
                "Give a result, its .df or .data, a list or dict inside it, a handle or a call id."
            )
            raise InvalidArgs(f"No call is known that gave {excerpt}.", hint=hint)
        return OriginTree(self._box, family).of(call_id)

    @mark(read_only=True)
    def diff(self, a: Any, b: Any, key: Any = None) -> Any:
        """Compare two values: results, handles, tables, JSON or text.

        Rows are matched by a key. Whole numbers are compared exactly, other numbers within a
        relative difference of 1e-9, so 1 and 1.0 are equal; True is no number. None, NaN and a cell
        that is not there are equal. Text that is JSON is compared as its data.

        Args:
            a: The old value, or the handle of a stored result.
            b: The new value, or the handle of a stored result.
            key: The column that identifies a row, or a list of them; by default one that is
                obvious.

        Returns:
            A Difference, false if nothing changed, with .added, .removed, .changed, .columns and
            .df.

        Example:
            ot.diff([{"id": 1, "price": 2.0}], [{"id": 1, "price": 2.5}])
        """
        try:
            return self._difference(self._value(a), self._value(b), key)
        except UsageProblem as exc:
            raise InvalidArgs(exc.message, hint=exc.hint) from exc

    @mark()
    def refresh(self, value: Any, frame: Any = None) -> Any:
        """Make the call that gave a value again, and say what changed.

        A tool that may change something asks first. Of an ot.map only the rows are called whose
        inputs changed, or all of them if the tool changed.

        Args:
            value: A result, its frame, its handle or the id of its call; or the table that ot.map
                gave.
            frame: For a table of ot.map: the data as it is now.

        Returns:
            A Difference as ot.diff gives it; .result is the new result.

        Example:
            ot.refresh(r)
        """
        if is_from_outside():
            raise NotAllowed("'ot.refresh' is for people and programs; call the tool itself.")
        again = (
            getattr(value, "attrs", {}).get(ATTRS, {}).get("arguments")
            if is_dataframe(value)
            else None
        )
        try:
            if again is not None:
                return self._refresh_map(value, frame, again)
            row, held = self._known_call(value)
            # The tool may give the same object again, and have changed it.
            before = copied(held)
            if not may_repeat(self._box, row.tool, row.arguments, "ot.refresh"):
                raise UsageProblem(f"'{row.tool}' was not called again.")
            result = self._box.call(row.tool, row.arguments, source="tool")
            return self._difference(before, result.unwrap(), result=result)
        except UsageProblem as exc:
            raise InvalidArgs(exc.message, hint=exc.hint) from exc

    def _refresh_map(self, table: Any, frame: Any, again: dict[str, Any]) -> Difference:
        """Run `ot.map` again over the data as it is now; rows that are finished are not called."""
        if frame is None:
            raise UsageProblem(
                "ot.refresh needs the data of this ot.map.", hint="Write: ot.refresh(m, frame)"
            )
        if not may_repeat(self._box, str(again["tool"]), None, "ot.refresh"):
            raise UsageProblem(f"'{again['tool']}' was not called again.")
        result = self._box.call("ot.map", {**again, "data": frame}, source="tool")
        fresh = result.unwrap()
        sides = [
            side.drop(columns=[name for name in ("ms",) if name in side]) for side in (table, fresh)
        ]
        return self._difference(*sides, result=result)

    def _difference(
        self, old: Any, new: Any, key: Any = None, *, result: ToolResult | None = None
    ) -> Difference:
        """Compare two values, for people to look at. Raises UsageProblem."""
        return Difference(
            compare(old, new, key),
            result=result,
            mask=self._box.mask,
            # What `ot.refresh` compares is a copy, unless it is a value that never changes.
            is_one_object=result is None
            and old is new
            and isinstance(old, Mapping | Sequence)
            and type(old) not in (str, bytes),
        )

    def _known_call(self, value: Any) -> tuple[CallRow, Any]:
        """Return the call that gave a value as the log has it, and the value that it gave."""
        call_id = self._box.lineage.call_of(value) or (value if isinstance(value, str) else "")
        row = self._box.log.family(call_id).calls.get(call_id) if call_id else None
        if row is None or row.tool in NOT_TOOLS:
            raise UsageProblem(
                "No call is known that gave this value.",
                hint="Give a result, its .df or its handle.",
            )
        if row.arguments is None:
            raise UsageProblem(
                no_arguments(row), hint="Type the call again, and compare with ot.diff(old, new)."
            )
        is_id = isinstance(value, str) and not is_handle(value)
        return row, stored_result(self._box, row) if is_id else self._value(value)

    def _value(self, value: Any) -> Any:
        """Return what is compared: the data of a result or an answer, the stored result of a
        handle, or the value."""
        from onetool_ipy.llm.ask.answer import Answer  # late: it takes 13 ms, and few ask

        if isinstance(value, ToolResult):
            value.unwrap()
            return value.portable
        if isinstance(value, Answer):
            return value.text
        return (
            self._box.results.value(value) if isinstance(value, str) and is_handle(value) else value
        )


def stored_result(box: Toolbox, row: CallRow) -> Any:
    """Return what a call gave, from the stored results or from memory. Raises UsageProblem if it is
    gone."""
    if row.handle is not None:
        return box.results.value(row.handle)
    data = box.lineage.data_of(row.call_id)
    if data is None:
        message = f"The result of that call of '{row.tool}' was not stored."
        raise UsageProblem(
            message, hint="Large results are stored by themselves, others by r.store()."
        )
    return data


def no_arguments(row: CallRow) -> str:
    """Say why a call cannot be made again from the log."""
    if row.why_no_arguments == "no such tool":
        return (
            f"There was no tool '{row.tool}' then, so the log has only the words of that call:"
            f" {row.args}"
        )
    return f"The arguments of that call of '{row.tool}' are {row.why_no_arguments} in the log."


def may_repeat(box: Toolbox, tool: str, arguments: Mapping[str, Any] | None, subject: str) -> bool:
    """Ask before a call that may change something is made again. Raises UsageProblem where nobody
    can be asked."""
    spec = box.registry.find(tool)
    if spec is None or spec.read_only:
        return True
    line = box.mask(format_call(tool, arguments)) if arguments is not None else tool
    question = f"'{tool}' may change something. Call it again?"
    try:
        reply = box.put_question(Question(subject, question, details=(line,), yes="Call it again"))
    except NobodyToAsk:
        raise UsageProblem(
            f"'{tool}' may change something, and nobody can be asked here whether to repeat it.",
            hint=f"Type the call itself: {line}",
        ) from None
    except KeyboardInterrupt:
        raise UsageProblem("Stopped at this question; nothing more was done.") from None
    return reply.action == "accept"


def copied(value: Any) -> Any:
    """Return a value that stays as it is when its owner changes the original."""
    import copy

    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - a foreign class may forbid it; what is shown of it can be kept
        return values.to_json(value)


class OriginTree:
    """Makes the tree of one family of calls."""

    def __init__(self, box: Toolbox, family: CallFamily) -> None:
        self._box = box
        self._family = family
        self._shown: set[str] = set()

    def of(self, call_id: str, role: str = "", depth: int = 0) -> Origin:
        """Return the tree of a call. A call that is shown already, or is its own cause, has no
        parts again."""
        row = self._family.calls.get(call_id)
        if row is None:
            return Origin(
                call_id=call_id,
                tool="",
                call=f"call {call_id}",
                role=role,
                more="no longer in the call log",
            )
        call = self._line(row)
        if call_id in self._shown or depth > _MAX_DEPTH:
            return Origin(
                call_id=call_id, tool=row.tool, call=call, role=role, ok=row.ok, is_repeated=True
            )
        self._shown.add(call_id)
        parts = [self.of(source, name or "result", depth + 1) for name, source in row.sources]
        calls = self._family.inner.get(call_id, ())
        listed = {part.call_id for part in parts}
        parts += [
            self.of(each.call_id, "called", depth + 1)
            for each in calls
            if each.call_id not in listed
        ]
        times = self._family.inner_counts.get(call_id, {})
        rest = sum(times.values()) - len(calls)
        return Origin(
            call_id=call_id,
            tool=row.tool,
            call=call,
            role=role,
            ok=row.ok,
            when=row.ts,
            ms=row.ms,
            notebook=row.notebook,
            cell=row.cell,
            fingerprint=row.fingerprint,
            handle=row.handle or "",
            parent=row.parent or "",
            changed=self._change(row),
            more=f"and {rest:,} more calls" if rest > 0 else "",
            parts=tuple(parts),
        )

    def _change(self, row: CallRow) -> str:
        """Say whether the tool is another one by now."""
        if row.tool in NOT_TOOLS or not row.fingerprint:
            return ""
        spec = self._box.registry.get(row.tool)
        if spec is None:
            return "the tool is gone"
        return "" if spec.fingerprint == row.fingerprint else "the tool has changed since"

    def _line(self, row: CallRow) -> str:
        """Write the call on one line; an argument that came from calls has the names of their
        tools."""
        came: dict[str, list[str]] = {}
        for name, call_id in row.sources:
            source = self._family.calls.get(call_id)
            came.setdefault(name, []).append("…" if source is None else source.tool)
        try:
            arguments = json.loads(row.args)
        except ValueError:  # it is cut
            arguments = None
        if not isinstance(arguments, Mapping):
            return f"{row.tool} {values.cut(row.args, _MAX_ARGUMENT)}"
        plain = {name: value for name, value in arguments.items() if name not in came}
        line = format_call(row.tool, plain).removeprefix("%tool ")
        names = (
            f"{name}={', '.join(dict.fromkeys(came[name]))}" for name in arguments if name in came
        )
        return " ".join([values.cut(line, 2 * _MAX_ARGUMENT), *names])
