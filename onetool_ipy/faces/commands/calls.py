"""`%tool jobs`, `replay`, `check`, `program` and `sql`: calls in the background, from a cassette,
with samples, by a program, and asked about in SQL.

`check` calls a tool that is not read-only only with `--call` and after a yes; otherwise it checks
the arguments and sends nothing. `program` runs the program of a cell over the tools, in the
sandbox, without a model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.core.jobs import Job
from onetool_ipy.core.tool import ToolSpec, format_call
from onetool_ipy.faces.commands import CommandContext, Page, WrongWords, confirmed, one_word
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.faces.notebook.display import raise_result
from onetool_ipy.faces.notebook.running_cell import seconds
from onetool_ipy.llm.ask.answer import failed_text, mime_bundle
from onetool_ipy.render.views import Listing, counted
from onetool_ipy.schema.read import params
from onetool_ipy.schema.sample import samples

if TYPE_CHECKING:
    from onetool_ipy.stores.cassettes import Cassette


_CHECK_S = 10.0
"""Seconds that one call of `%tool check` may take."""
_NOT_CALLED = "not called"
_JOBS = "%tool jobs takes nothing, an id, or cancel and an id."


def sql(context: CommandContext, options: Options) -> object:
    """`%tool sql QUERY`, or `%%tool sql` above the query: SQL over calls, results and tables."""
    query = "\n".join(filter(str.strip, [" ".join(options.words), options.body])).strip()
    if not query:
        raise WrongWords(
            "%tool sql needs a query.",
            hint="For example: %tool sql select tool, count(*) from calls group by all",
        )
    # A whole query is never in quotes, but in a shell it is, and people type what they know.
    if query[0] in "\"'" and query.find(query[0], 1) == len(query) - 1:
        query = query[1:-1]
    box, in_shell = context.box, context.place == "shell"
    result = box.call(
        "ot.sql",
        {"query": query},
        source="cli" if in_shell else "magic",
        timeout=options.values.get("--timeout"),
    )
    if in_shell and result.ok:
        return Listing(values.map_text(values.to_json(result.data), box.mask))
    if not result.ok and not in_shell:
        raise_result(result, context.last)
    return result


def jobs(context: CommandContext, options: Options) -> object:
    """`%tool jobs [ID]`: the calls in the background, or one of them."""
    words = options.words
    if not words:
        mask = context.box.mask
        rows: list[Json] = []
        for task in context.box.servers.tasks():
            began = time.strftime("%Y-%m-%d %H:%M", time.localtime(task.started))
            progress = f"since {began}; get its result: %tool jobs {task.id}"
            row: Json = {
                "id": task.id,
                "tool": mask(printable_line(task.tool)[:200]),
                "status": "at its server",
            }
            rows.append(
                {
                    **row,
                    "progress": progress,
                    "elapsed": seconds(time.time() - task.started, is_over=True),
                }
            )
        for job in context.box.jobs.list():
            done, total, text = job.progress
            far = (
                ""
                if (done, total) == (0, None)
                else f"{done:g}"
                if total is None
                else f"{done:g}/{total:g}"
            )
            row = {"id": job.number, "tool": mask(job.call.name), "status": job.status}
            progress = mask(f"{far} {text}".strip())
            rows.append(
                {**row, "progress": progress, "elapsed": seconds(job.elapsed_s, is_over=True)}
            )
        listing = Listing(rows)
        listing.if_empty = "No jobs. Start one with: %tool NAME key=value ... --bg"
        return listing
    if len(words) > 1:
        raise UsageProblem(_JOBS, hint="See: %tool jobs")
    return (
        context.box.resume(words[0], source="magic")
        if words[0].startswith("t")
        else _job(context, words[0])
    )


def cancel_job(context: CommandContext, options: Options) -> Page:
    """`%tool jobs cancel ID`."""
    if len(options.words) != 1:
        raise UsageProblem(_JOBS, hint="See: %tool jobs")
    (number,) = options.words
    if number.startswith("t"):
        task = context.box.servers.cancel_task(number)
        return context.page(f"Task {task.id} ({task.tool}): cancelled.")
    job = _job(context, number)
    was_running = job.cancel()
    message = f"Job {job.number} ({job.call.name}): {job.status}."
    return context.page(message if was_running else f"{message} Nothing was cancelled.")


def _job(context: CommandContext, word: str) -> Job:
    job = (
        context.box.jobs.get(int(word))
        if word.isascii() and word.isdecimal() and len(word) < 9
        else None
    )
    if job is None:
        raise UsageProblem(f"No job '{word[:40]}'.", hint="See: %tool jobs")
    return job


def replay(context: CommandContext, options: Options) -> Page:
    """`%tool replay FILE`; without a file it says which replay is on."""
    words, values = options.words, options.values
    if len(words) > 1 or len(values) > 1 or (values and not words):
        raise UsageProblem(
            "%tool replay takes one file, and at most one of --only and --refresh.",
            hint="For example: %tool replay calls.jsonl; with blanks in its name, in quotes.",
        )
    if not words:
        on = context.box.replays.active
        return context.page(
            "No replay is on. Switch one on with: %tool replay FILE" if on is None else _text(on)
        )
    mode = "refresh" if "--refresh" in values else "replay" if "--only" in values else None
    return context.page(_text(context.box.ot.replay(words[0], mode=mode).begin_alone()))


def replay_off(context: CommandContext, _options: Options) -> Page:
    """`%tool replay off`."""
    on = context.box.replays.active
    context.box.replays.close()
    return context.page("No replay was on." if on is None else f"Off: {_text(on)}")


def check(context: CommandContext, options: Options) -> Listing:
    """Try a tool: the examples of its docstring, sample arguments, and what the docstring leaves
    out."""
    (spec,) = context.box.registry.loaded(
        [context.box.registry.require(one_word(options, "check"))]
    )
    examples = [line for line in spec.example.splitlines() if line.strip()]
    tries = list(samples(spec.parameters))
    calls = [*map(str.strip, examples), *(format_call(spec.name, args) for _, args in tries)]
    if spec.read_only or ("--call" in options.values and _is_yes(context, spec, calls)):
        rows = [_check_example(context, line) for line in examples]
        for label, args in tries:
            error = context.box.call(spec.name, args, source="magic", timeout=_CHECK_S).error
            rows.append(
                _row(label, spec, args, "ok" if error is None else f"{error.code}: {error.message}")
            )
    else:
        rows = [
            {"check": "example", "call": line.strip(), "outcome": _NOT_CALLED} for line in examples
        ]
        rows += [_row(label, spec, args, _dry(spec, args)) for label, args in tries]
        outcome = "not called, it may change something; to call it: --call"
        rows.append(
            {"check": "calls", "call": f"%tool check {spec.name} --call", "outcome": outcome}
        )
    silent = [p.name for p in params(spec.parameters) if not p.description]
    if spec.description in ("", spec.short_name):
        rows.append(
            {"check": "docstring", "call": "", "outcome": "missing: say what the tool does"}
        )
    if silent:
        rows.append(
            {"check": "docstring", "call": "", "outcome": f"not described: {', '.join(silent)}"}
        )
    return Listing({key: context.box.mask(value) for key, value in row.items()} for row in rows)


def _is_yes(context: CommandContext, spec: ToolSpec, calls: Sequence[str]) -> bool:
    """Ask whether to call a tool that may change something; refuse if nobody can answer."""
    question = (
        f"'{spec.name}' may change something. Call it {counted(len(calls), 'time')} for real?"
    )
    reply = confirmed(context.box, question, "Call it", calls)
    if reply is None:
        raise UsageProblem(
            f"'{spec.name}' may change something, and nobody can be asked here whether to call it.",
            hint="Without --call its arguments are checked and nothing is sent.",
        )
    return reply


def _dry(spec: ToolSpec, args: dict[str, Any]) -> str:
    """What a call would send; nothing is sent."""
    try:
        complete = spec.checker.check(args, spec.name)
        requests = [] if spec.http is None else spec.http.preview(complete)
    except CallFailure as exc:
        return f"{exc.code}: {exc.message}"
    sent = ", ".join(f"{request['method']} {request['url']}" for request in requests)
    return f"arguments fit; would send {sent}" if sent else "arguments fit"


def _check_example(context: CommandContext, line: str) -> dict[str, str]:
    if context.run_example is None:
        return {
            "check": "example",
            "call": line.strip(),
            "outcome": f"{_NOT_CALLED}; a notebook runs it",
        }
    try:
        context.run_example(line)
    except Exception as exc:  # noqa: BLE001 - an example may raise anything; the exception is the outcome
        return {"check": "example", "call": line.strip(), "outcome": f"{type(exc).__name__}: {exc}"}
    return {"check": "example", "call": line.strip(), "outcome": "ok"}


def _row(label: str, spec: ToolSpec, args: dict[str, Any], outcome: str) -> dict[str, str]:
    return {"check": label, "call": format_call(spec.name, args), "outcome": outcome}


def _text(cassette: Cassette) -> str:
    return repr(cassette).removeprefix("<").removesuffix(">")


def run_program(context: CommandContext, options: Options) -> object:
    """`%%tool program [@NAME ...] [-o NAME]`: the value is an Answer. Raises what ended the
    program."""
    if not options.body.strip():
        raise UsageProblem(
            "There is no program.", hint="Write %%tool program, and the program below it."
        )
    user_ns: dict[str, Any] = context.shell.user_ns
    answer = context.box.ask.program(
        options.body,
        variables=_variables(options.words, user_ns),
        plan=bool(options.values.get("--plan")),
        approve=options.values.get("--approve"),
        tool_allow=options.values.get("--allow"),
        source="magic",
    )
    if "-o" in options.values:
        user_ns[options.values["-o"]] = answer
    sys.stdout.write(failed_text(answer, context.box.mask))
    answer.unwrap()
    if "-o" not in options.values:
        return answer
    # A variable shows nothing by itself, and somebody has to know of these.
    if answer.question is not None or not answer.ok:
        context.shell.display_pub.publish(mime_bundle(answer, context.box.mask), {})
    return None


def _variables(words: list[str], user_ns: Mapping[str, Any]) -> dict[str, Any]:
    variables = {}
    for word in words:
        name = word.removeprefix("@")
        if word == name or not name.isidentifier():
            raise UsageProblem(
                f"'{word[:40]}' is not a variable. Write @name for each that the program may see."
            )
        if name not in user_ns:
            near = did_you_mean(name, [each for each in user_ns if not each.startswith("_")])
            hint = f"Write {name} = ... in a cell first."
            raise UsageProblem(f"There is no variable '{name}'. {near}".strip(), hint=hint)
        variables[name] = user_ns[name]
    return variables
