"""`%tool jobs`: the calls in the background; `%tool jobs cancel N` gives one up."""

from __future__ import annotations

from typing import Any, ClassVar

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.jobs import Job
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.group import Bench, Command, page
from onetool_ipy.faces.ipython.progress import seconds
from onetool_ipy.render.shown import Listing

__all__ = ["JobCommands"]


class JobCommands:
    """The sub-commands about jobs."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool jobs [N]                 calls in the background (%tool NAME --bg); %tool jobs cancel N",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box

    def table(self) -> dict[str, Command]:
        return {"jobs": self._jobs}

    def _jobs(self, rest: str) -> Any:
        words = parse.read_options(rest, {}).words
        if not words:
            return Listing([self._row(job) for job in self._box.jobs.list()])
        if words[0] != "cancel" and len(words) == 1:
            return self._job(words[0])
        if words[0] != "cancel" or len(words) != 2:
            raise UsageProblem("%tool jobs wants nothing, a number, or cancel and a number.", hint="See: %tool jobs")
        job = self._job(words[1])
        was_running = job.cancel()
        said = f"Job {job.number} ({job.call.name}): {job.status}."
        return page(self._box, [said if was_running else f"{said} There was nothing to cancel."])

    def _job(self, word: str) -> Job:
        found = self._box.jobs.get(int(word)) if word.isascii() and word.isdecimal() and len(word) < 9 else None
        if found is None:
            raise UsageProblem(f"No job '{word[:40]}'.", hint="See: %tool jobs")
        return found

    def _row(self, job: Job) -> dict[str, Any]:
        done, total, text = job.progress
        far = "" if (done, total) == (0, None) else f"{done:g}" if total is None else f"{done:g}/{total:g}"
        said = self._box.mask(f"{far} {text}".strip())
        return {
            "id": job.number,
            "tool": self._box.mask(job.call.name),
            "status": job.status,
            "progress": said,
            "elapsed": seconds(job.elapsed_s, is_over=True),
        }
