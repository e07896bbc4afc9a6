"""`%tool jobs`, `replay` and `check`: calls in the background, from a cassette, and with sample arguments.

`check` calls a tool that is not read-only only with `--call` and after a yes; otherwise it checks the arguments and
sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from onetool_ipy.base.errors import CallFailure, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.core.call_line import format_call
from onetool_ipy.core.jobs import Job
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.grammar import read_options
from onetool_ipy.faces.notebook.commands import Command, CommandGroup, confirmed
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.progress import seconds
from onetool_ipy.render.views import Listing, counted
from onetool_ipy.schema.read import params
from onetool_ipy.schema.sample import samples

if TYPE_CHECKING:
    from onetool_ipy.stores.cassettes import Cassette
    from onetool_ipy.stores.tasks import SavedTask

__all__ = ["CallCommands"]

_CHECK_S = 10.0
"""Seconds that one call of `%tool check` may take."""
_NOT_CALLED = "not called"


class CallCommands(CommandGroup):
    """The sub-commands that start, record and try calls."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool jobs [ID]                calls in the background (%tool NAME --bg); %tool jobs cancel ID",
        "%tool check NAME               try it with arguments made from its schema; --call also one that may write",
        "%tool replay FILE              record results to FILE, then answer from it; off, --only, --refresh",
    )

    def table(self) -> dict[str, Command]:
        return {"jobs": self._jobs, "replay": self._replay, "check": self._check}

    def _jobs(self, rest: str) -> Any:
        words = read_options(rest, {}).words
        if not words:
            tasks = [self._task_row(task) for task in self.box.servers.tasks()]
            return Listing([*tasks, *(self._job_row(job) for job in self.box.jobs.list())])
        if words[0] != "cancel" and len(words) == 1:
            return self.box.resume(words[0], source="magic") if words[0].startswith("t") else self._job(words[0])
        if words[0] != "cancel" or len(words) != 2:
            raise UsageProblem("%tool jobs takes nothing, an id, or cancel and an id.", hint="See: %tool jobs")
        if words[1].startswith("t"):
            task = self.box.servers.cancel_task(words[1])
            return self.page(self.box.mask(f"Task {task.id} ({task.tool}): cancelled."))
        job = self._job(words[1])
        was_running = job.cancel()
        said = f"Job {job.number} ({job.call.name}): {job.status}."
        return self.page(said if was_running else f"{said} There was nothing to cancel.")

    def _job(self, word: str) -> Job:
        found = self.box.jobs.get(int(word)) if word.isascii() and word.isdecimal() and len(word) < 9 else None
        if found is None:
            raise UsageProblem(f"No job '{word[:40]}'.", hint="See: %tool jobs")
        return found

    def _job_row(self, job: Job) -> dict[str, Any]:
        done, total, text = job.progress
        far = "" if (done, total) == (0, None) else f"{done:g}" if total is None else f"{done:g}/{total:g}"
        said = self.box.mask(f"{far} {text}".strip())
        return {
            "id": job.number,
            "tool": self.box.mask(job.call.name),
            "status": job.status,
            "progress": said,
            "elapsed": seconds(job.elapsed_s, is_over=True),
        }

    def _task_row(self, task: SavedTask) -> dict[str, Any]:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(task.started))
        return {
            "id": task.id,
            "tool": self.box.mask(printable_line(task.tool)[:200]),
            "status": "at its server",
            "progress": f"since {began}; get its result: %tool jobs {task.id}",
            "elapsed": seconds(time.time() - task.started, is_over=True),
        }

    def _replay(self, rest: str) -> Page:
        asked = read_options(rest, {"--refresh": "switch", "--only": "switch"})
        if len(asked.words) > 1 or len(asked.given) > 1 or (asked.given and not asked.words):
            raise UsageProblem(
                "%tool replay takes one file, and at most one of --only and --refresh.",
                hint="For example: %tool replay calls.jsonl; with blanks in its name, in quotes.",
            )
        if not asked.words:
            on = self.box.replays.active
            return self.page("No replay is on. Switch one on with: %tool replay FILE" if on is None else _said(on))
        if asked.words == ["off"]:
            return self._replay_off()
        mode = "refresh" if "--refresh" in asked.given else "replay" if "--only" in asked.given else None
        made = self.box.ot.replay(asked.words[0], mode=mode)
        return self.page(_said(made.begin_alone()))

    def _replay_off(self) -> Page:
        on = self.box.replays.active
        self.box.replays.close()
        return self.page("No replay was on." if on is None else f"Off: {_said(on)}")

    def _check(self, rest: str) -> Any:
        """Try a tool: the examples of its docstring, sample arguments, and what the docstring leaves out."""
        asked = read_options(rest, {"--call": "switch"})
        if len(asked.words) != 1:
            raise UsageProblem("%tool check needs one name.", hint="For example: %tool check time.now")
        (spec,) = self.box.registry.loaded([self.box.registry.require(asked.words[0])])
        examples = [line for line in spec.example.splitlines() if line.strip()]
        tries = list(samples(spec.parameters))
        calls = [*map(str.strip, examples), *(format_call(spec.name, args) for _, args in tries)]
        if spec.read_only or ("--call" in asked.given and self._is_yes(spec, calls)):
            rows = [self._check_example(line) for line in examples]
            rows += [_row(label, spec, args, self._called(spec, args)) for label, args in tries]
        else:
            rows = [{"check": "example", "call": line.strip(), "outcome": _NOT_CALLED} for line in examples]
            rows += [_row(label, spec, args, self._dry(spec, args)) for label, args in tries]
            said = "not called, it may change something; to call it: --call"
            rows.append({"check": "calls", "call": f"%tool check {spec.name} --call", "outcome": said})
        silent = [p.name for p in params(spec.parameters) if not p.description]
        if spec.description in ("", spec.short_name):
            rows.append({"check": "docstring", "call": "", "outcome": "missing: say what the tool does"})
        if silent:
            rows.append({"check": "docstring", "call": "", "outcome": f"not described: {', '.join(silent)}"})
        masked = [{key: self.box.mask(value) for key, value in row.items()} for row in rows]
        return Listing(masked)

    def _is_yes(self, spec: ToolSpec, calls: Sequence[str]) -> bool:
        """Ask whether to call a tool that may change something; refuse if nobody can answer."""
        question = f"'{spec.name}' may change something. Call it {counted(len(calls), 'time')} for real?"
        reply = confirmed(self.box, question, "Call it", calls)
        if reply is None:
            raise UsageProblem(
                f"'{spec.name}' may change something, and nobody can be asked here whether to call it.",
                hint="Without --call its arguments are checked and nothing is sent.",
            )
        return reply

    def _called(self, spec: ToolSpec, args: dict[str, Any]) -> str:
        result = self.box.call(spec.name, args, source="magic", timeout=_CHECK_S)
        return "ok" if result.error is None else f"{result.error.code}: {result.error.message}"

    def _dry(self, spec: ToolSpec, args: dict[str, Any]) -> str:
        """What a call would send; nothing is sent."""
        try:
            checked = spec.checker.check(args, spec.name)
            requests = [] if spec.http is None else spec.http.preview(checked)
        except CallFailure as exc:
            return f"{exc.code}: {exc.message}"
        sent = ", ".join(f"{request['method']} {request['url']}" for request in requests)
        return f"arguments fit; would send {sent}" if sent else "arguments fit"

    def _check_example(self, line: str) -> dict[str, str]:
        try:
            self.context.run_example(line)
        except Exception as exc:  # noqa: BLE001 - an example may raise anything; the exception is the outcome
            return {"check": "example", "call": line.strip(), "outcome": f"{type(exc).__name__}: {exc}"}
        return {"check": "example", "call": line.strip(), "outcome": "ok"}


def _row(label: str, spec: ToolSpec, args: dict[str, Any], outcome: str) -> dict[str, str]:
    return {"check": label, "call": format_call(spec.name, args), "outcome": outcome}


def _said(cassette: Cassette) -> str:
    return repr(cassette).removeprefix("<").removesuffix(">")
