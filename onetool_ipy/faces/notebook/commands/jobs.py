"""`%tool install`: have `%tool` in every notebook without typing `%load_ext`. One startup file of ours, nothing else.

`--lazy` loads us at the first `%tool`, `--always` at every start; `--remove` deletes the file. A file that we did not
write is never touched. Where the package is gone, or another environment shares the profile, the file does nothing.

`%tool jobs`: the calls in the background; `%tool jobs cancel N` gives one up.

`%tool replay`: answer calls from a cassette until it is switched off, and record what is not in it.

`%tool check | install`: try a tool out, and have `%tool` in every notebook.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from onetool_ipy.base.errors import CallFailure, UsageProblem
from onetool_ipy.core.jobs import Job
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.grammar import format_call, read_options
from onetool_ipy.faces.notebook.commands.bundles import answered
from onetool_ipy.faces.notebook.commands.group import Bench, Command, page
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.progress import seconds
from onetool_ipy.render.views import Listing, counted
from onetool_ipy.schema.read import params
from onetool_ipy.schema.sample import samples

if TYPE_CHECKING:
    from onetool_ipy.stores.cassettes import Cassette

__all__ = ["Author", "JobCommands", "Mode", "Replay", "install", "remove", "startup_file"]

Mode = Literal["lazy", "always"]
_MARK = "# Written by `%tool install` of onetool_ipy; remove with `%tool install --remove`."
_BODY = """\
def _onetool_startup() -> None:
    from importlib.util import find_spec

    if find_spec("onetool_ipy") is not None:
        {}


_onetool_startup()
del _onetool_startup
"""
_DO = {
    "lazy": 'get_ipython().magics_manager.register_lazy("tool", "onetool_ipy")',
    "always": 'get_ipython().run_line_magic("load_ext", "onetool_ipy")',
}


def startup_file(profile: Path) -> Path:
    """Where the file lies in an IPython profile."""
    return profile / "startup" / "50-onetool_ipy.py"


def install(profile: Path, mode: Mode) -> str:
    """Write the startup file; tells what it wrote and how to undo it."""
    file = startup_file(profile)
    _require_ours(file)
    text = f"{_MARK}\n{_BODY.format(_DO[mode])}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise UsageProblem(f"Cannot write '{file}': {exc.strerror}.") from exc
    shown = "".join(f"  {line}\n" for line in text.splitlines())
    return f"Wrote {file}:\n{shown}Undo it with: %tool install --remove"


def remove(profile: Path) -> str:
    """Delete the startup file."""
    file = startup_file(profile)
    if not file.exists():
        return f"Nothing to remove: there is no {file}."
    _require_ours(file)
    file.unlink()
    return f"Removed {file}."


def _require_ours(file: Path) -> None:
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
        raise UsageProblem(f"'{file}' was not written by us; it is left alone.", hint="Move it away and try again.")


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
        words = read_options(rest, {}).words
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


_HOW = "Switch one on with: %tool replay FILE"


class Replay:
    """The sub-command that records and plays back."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool replay FILE              record what calls give, answer from FILE after; off, --only, --refresh",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box

    def table(self) -> dict[str, Command]:
        return {"replay": self._replay}

    def _replay(self, rest: str) -> Page:
        asked = read_options(rest, {"--refresh": "switch", "--only": "switch"})
        if len(asked.words) > 1 or len(asked.given) > 1 or (asked.given and not asked.words):
            raise UsageProblem(
                "%tool replay wants one file, and at most one of --only and --refresh.",
                hint="For example: %tool replay calls.yaml; with blanks in its name, in quotes.",
            )
        if not asked.words:
            return self._state()
        if asked.words == ["off"]:
            return self._off()
        mode = "refresh" if "--refresh" in asked.given else "replay" if "--only" in asked.given else None
        made = self._box.ot.replay(asked.words[0], mode=mode)
        return page(self._box, [_said(made.begin_alone())])

    def _state(self) -> Page:
        on = self._box.replays.active
        return page(self._box, [f"No cassette is on. {_HOW}"] if on is None else [_said(on)])

    def _off(self) -> Page:
        on = self._box.replays.active
        self._box.replays.close()
        return page(self._box, ["No cassette was on."] if on is None else [f"Off: {_said(on)}"])


def _said(cassette: Cassette) -> str:
    return repr(cassette).removeprefix("<").removesuffix(">")


_CHECK_S = 10.0
"""Seconds that one try of `%tool check` may take."""
_NOT_CALLED = "not called"


class Author:
    """The sub-commands of those who write tools."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool check NAME               try it with arguments made from its schema; --call also one that may write",
        "%tool install --lazy|--always  have %tool in every notebook; --remove undoes it",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._profile = bench.profile
        self._run_example = bench.run_example

    def table(self) -> dict[str, Command]:
        return {"check": self._check, "install": self._install}

    def _check(self, rest: str) -> Any:
        """Try a tool: its docstring's examples, arguments made from its schema, and what its docstring leaves out.

        A tool that is not read-only is called only after a yes; else its arguments are checked, and nothing is sent.
        """
        asked = read_options(rest, {"--call": "switch"})
        if len(asked.words) != 1:
            raise UsageProblem("%tool check wants one name.", hint="For example: %tool check time.now")
        spec = self._box.registry.require(asked.words[0])
        examples = [line for line in spec.example.splitlines() if line.strip()]
        tries = list(samples(spec.parameters))
        if spec.read_only or ("--call" in asked.given and self._is_yes(spec, len(examples) + len(tries))):
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
            rows.append({"check": "docstring", "call": "", "outcome": f"no words about: {', '.join(silent)}"})
        masked = [{key: self._box.mask(value) for key, value in row.items()} for row in rows]
        return Listing(masked)

    def _is_yes(self, spec: ToolSpec, count: int) -> bool:
        """Ask whether a tool that may change something is to be called; refuse where nobody can be asked."""
        reply = answered(f"'{spec.name}' may change something. Call it {counted(count, 'time')} for real? [y/N] ")
        if reply is None:
            raise UsageProblem(
                f"'{spec.name}' may change something, and nobody can be asked here whether to call it.",
                hint="Without --call its arguments are checked and nothing is sent.",
            )
        return reply

    def _called(self, spec: ToolSpec, args: dict[str, Any]) -> str:
        result = self._box.call(spec.name, args, source="magic", timeout=_CHECK_S)
        return "ok" if result.error is None else f"{result.error.code}: {result.error.message}"

    def _dry(self, spec: ToolSpec, args: dict[str, Any]) -> str:
        """What a call would send; nothing is sent."""
        try:
            checked = spec.checker.check(args, spec.name)
            requests = [] if spec.preview is None else spec.preview(checked)
        except CallFailure as exc:
            return f"{exc.code}: {exc.message}"
        sent = ", ".join(f"{request['method']} {request['url']}" for request in requests)
        return f"arguments fit; would send {sent}" if sent else "arguments fit"

    def _check_example(self, line: str) -> dict[str, str]:
        try:
            self._run_example(line)
        except Exception as exc:  # noqa: BLE001 - an example may raise anything; what it raised is the answer
            return {"check": "example", "call": line.strip(), "outcome": f"{type(exc).__name__}: {exc}"}
        return {"check": "example", "call": line.strip(), "outcome": "ok"}

    def _install(self, rest: str) -> Page:
        given = read_options(rest, {"--lazy": "switch", "--always": "switch", "--remove": "switch"})
        if given.words or len(given.given) != 1:
            raise UsageProblem(
                "%tool install wants one of --lazy, --always, --remove.",
                hint="--lazy loads us at the first %tool, --always at every start.",
            )
        if "--remove" in given.given:
            return Page(remove(self._profile))
        return Page(install(self._profile, "lazy" if "--lazy" in given.given else "always"))


def _row(label: str, spec: ToolSpec, args: dict[str, Any], outcome: str) -> dict[str, str]:
    return {"check": label, "call": format_call(spec.name, args), "outcome": outcome}
