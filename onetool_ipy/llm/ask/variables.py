"""`@name` in a prompt that a person typed: which variables of the notebook it names.

An @ names a variable at the beginning of a word only, so that an e-mail address is text; `@@` is an @. In code it is
text: between backticks, in a fenced block, and as a decorator above a function or class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.search import did_you_mean

_FENCED = re.compile(r"^[ \t]*(?P<fence>```+|~~~+).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)", re.DOTALL)
_DECORATORS = re.compile(
    r"^(?:[ \t]*@[^\W\d][\w.]*(?:\(.*\))?[ \t]*\n)+(?=[ \t]*(?:async[ \t]+def|def|class)[ \t])", re.MULTILINE
)
_MENTION = re.compile(r"(?<![^\s(\[{,;:=/\"'*])(?P<at>@@|@(?P<name>[^\W\d]\w*))")


def named_variables(prompt: str) -> list[str]:
    """Return the names after @ in a prompt, each once, in their order."""
    return list(dict.fromkeys(hit["name"] for hit in _mentions(prompt) if hit["name"]))


def as_written(prompt: str) -> str:
    """Return the prompt as it is sent: with each `@@` as an @."""
    text = prompt
    for hit in reversed(list(_mentions(prompt))):
        if not hit["name"]:
            text = f"{text[: hit.start()]}@{text[hit.end() :]}"
    return text


def variables_of(prompt: str, namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the variables that a prompt names. Raises UsageProblem for an unknown name."""
    names = named_variables(prompt)
    for name in names:
        if name not in namespace:
            near = did_you_mean(name, [other for other in namespace if not other.startswith("_")])
            raise UsageProblem(
                f"The prompt names '@{name}', and there is no variable of that name. {near}".rstrip(),
                hint=f"Nothing was sent. Write @@{name} for an @ that is text.",
            )
    return {name: namespace[name] for name in names}


def _mentions(prompt: str) -> Iterator[re.Match[str]]:
    """Yield each @ that is not in code."""
    blank = prompt
    for code in (_FENCED, _INLINE, _DECORATORS):
        blank = code.sub(lambda hit: "\0" * len(hit[0]), blank)
    yield from _MENTION.finditer(blank)
