"""The body of a `%%tool` cell -> arguments.

Owns where a body goes, and how `--args` reads it as JSON or YAML. Values are read by their schema
as on a line, so `zip: 00501` stays text where text is wanted and `no` never turns into false.
Nothing in a body is evaluated.

- The body is the one required text argument that is still missing, or the argument of `--body`.
  The line break that ends the cell is no part of it. A body of blanks is none.
- `--args`: a mapping. YAML may have 1 MiB and 64 levels; aliases, tags and a key twice are refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython.expected import Expected
from onetool_ipy.faces.ipython.values import MISSING, read_json, read_plain
from onetool_ipy.faces.ipython.words import show

if TYPE_CHECKING:
    from yaml.events import Event

__all__ = ["read_body"]

_MAX_YAML = 1 << 20
_MAX_LEVELS = 64


def read_body(
    body: str,
    args: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    body_arg: str | None = None,
    as_args: bool = False,
) -> dict[str, Any]:
    """Give the arguments of the line and of the body together; none may be given twice."""
    if body_arg is not None and as_args:
        raise UsageProblem("--body and --args cannot go together.", hint="Keep one of them.")
    text = body.removesuffix("\n")
    expected = Expected.of(schema)
    if as_args:
        more = _read_mapping(text, expected)
    elif body_arg is not None:
        more = {_require_argument(body_arg, expected): _read_text(text, expected.at(body_arg))}
    elif not text.strip():
        return dict(args)
    else:
        more = {_missing_text(args, expected): text}
    for name in more:
        if name in args:
            raise UsageProblem(
                f"{show(name)} is given twice: in the line and in the body.",
                hint="Keep one of them.",
            )
    return {**args, **more}


def _require_argument(name: str, expected: Expected) -> str:
    if name in expected.names or not expected.names:
        return name
    near = difflib.get_close_matches(name[:40], expected.names, n=1)
    raise UsageProblem(
        f"--body: no argument {show(name)}." + (f" Did you mean {show(near[0])}?" if near else ""),
        hint=f"There are: {', '.join(expected.names[:8])}.",
    )


def _read_text(text: str, expected: Expected) -> Any:
    return text if expected.takes_text else read_plain(text.strip(), expected)


def _missing_text(args: Mapping[str, Any], expected: Expected) -> str:
    missing = [name for name in expected.required if name not in args]
    texts = [name for name in missing if expected.at(name).takes_text]
    if len(texts) == 1:
        return texts[0]
    if texts:
        message = f"The body may be {' or '.join(map(show, texts[:4]))}."
        raise UsageProblem(message, hint=f"Say which: --body {texts[0]}. Or give all arguments as YAML: --args.")
    message = "No required text argument is missing that the body could be."
    other = next((name for name in (*missing, *expected.names) if name not in args), "NAME")
    raise UsageProblem(message, hint=f"Say which one it is: --body {other}. Or give all as YAML: --args.")


def _read_mapping(text: str, expected: Expected) -> dict[str, Any]:
    if not text.strip():
        return {}
    value = read_json(text) if text.lstrip().startswith("{") else MISSING
    if value is MISSING:
        value = _read_yaml(text, expected)
    if isinstance(value, dict):
        return value
    raise UsageProblem(
        f"--args: the body is no mapping: {show(text.strip())}.",
        hint="Write lines like  key: value",
    )


def _read_yaml(text: str, expected: Expected) -> Any:
    import yaml

    if len(text) > _MAX_YAML:
        raise UsageProblem(
            f"--args: {len(text):,} characters are too many for YAML (at most {_MAX_YAML:,}).",
            hint="Write it as JSON, or hand over a variable: key={name}.",
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events: Iterator[Event] = iter(yaml.parse(text, Loader=loader))
        next(events)  # the stream starts
        if isinstance(next(events), yaml.StreamEndEvent):
            return {}
        value = _read_node(next(events), events, expected, 0)
        next(events)  # the document ends
        if not isinstance(last := next(events), yaml.StreamEndEvent):
            _refuse("a second document", last)
    except yaml.MarkedYAMLError as exc:
        where = f" in line {exc.problem_mark.line + 1}" if exc.problem_mark else ""
        told = exc.problem or exc.context or "it cannot be read"
        raise UsageProblem(f"--args: the body is no YAML{where}: {told}.", hint="Mend that line.") from exc
    except (yaml.YAMLError, UnicodeError) as exc:
        raise UsageProblem(
            "--args: the body holds a character that YAML does not take.",
            hint="Take it out, or write JSON.",
        ) from exc
    return value


def _read_node(event: Event, events: Iterator[Event], expected: Expected, depth: int) -> Any:
    import yaml

    if isinstance(event, yaml.AliasEvent):
        _refuse(f"the alias {show('*' + str(event.anchor))}; write the value again", event)
    if tag := getattr(event, "tag", None):
        _refuse(f"the tag {show(str(tag))}", event)
    if depth > _MAX_LEVELS:
        _refuse(f"more than {_MAX_LEVELS} levels", event)
    if isinstance(event, yaml.ScalarEvent):
        return event.value if event.style else _read_scalar(event.value, expected)
    if isinstance(event, yaml.SequenceStartEvent):
        place = expected.items()
        items = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_read_node(event, events, place, depth + 1))
        return items
    found: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            _refuse("a key that is no text", event)
        if event.value in found:
            _refuse(f"{show(event.value)} a second time", event)
        found[event.value] = _read_node(next(events), events, expected.at(event.value), depth + 1)
    return found


def _read_scalar(text: str, expected: Expected) -> Any:
    if text in ("", "~") and expected.kinds != {"string"}:
        return None
    return read_plain(text, expected)


def _refuse(what: str, event: Event) -> NoReturn:
    where = f"line {event.start_mark.line + 1}" if event.start_mark else "the body"
    raise UsageProblem(
        f"--args: {where} has {what}, which is not taken here.",
        hint="Write plain keys and values, or JSON.",
    )
