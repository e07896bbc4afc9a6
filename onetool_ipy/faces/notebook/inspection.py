"""Shift-Tab on a `%tool` line or after `$`: the page of the tool on that line, wherever the cursor
is.

IPython answers first: it looks up the word at the cursor as a Python name. Most tools are not
Python names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from onetool_ipy.base.printable import printable

Find = Callable[[str, bool], str]
"""Returns the page of a name, or an empty text; the flag says that the name follows `$`."""

ASSIGNED = r"^\s*+(?:[^=!%$#\n]++%?=\s*+)?"
"""What may be before a magic or a `$` on its line: nothing, or the left side of an assignment."""
_COLOUR = r"(?:\x1b\[[0-9;]*m)*"
_PROXY = rf"(?m)^{_COLOUR}Type:{_COLOUR}\s+{_COLOUR}(?:ToolProxy|UnlistedTool|OtTool)"
_NOISE = rf"(?m)^{_COLOUR}(?:Call signature|Type|String form|File):.*\n"


class Inspector:
    """Our addition to the kernel's answer to Shift-Tab."""

    def __init__(self, shell: Any) -> None:
        self._kernel = getattr(shell, "kernel", None)

    def install(self, names: Callable[[], Collection[str]], find: Find) -> None:
        """Wrap the kernel's own `do_inspect`."""
        kernel = self._kernel
        if kernel is None:
            return
        original = type(kernel).do_inspect

        def do_inspect(code: str, cursor_pos: int, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = original(kernel, code, cursor_pos, *args, **kwargs)
            if not isinstance(answer, Mapping) or answer.get("found"):
                # The answer about one of our tools keeps its signature and text, and loses the
                # words about the proxy.
                data = answer.get("data") if isinstance(answer, Mapping) else None
                text = data.get("text/plain") if isinstance(data, Mapping) else None
                if not isinstance(text, str) or not re.search(_PROXY, text):
                    return answer
                return {**answer, "data": {**data, "text/plain": re.sub(_NOISE, "", text)}}  # type: ignore[dict-item]  # data is a mapping
            try:
                name, is_shortcut = named(code, cursor_pos, names())
                page = find(name, is_shortcut) if name else ""
            except Exception:  # noqa: BLE001 - a broken cell or pack must never break Shift-Tab
                page = ""
            return (
                {**answer, "found": True, "data": {"text/plain": printable(page)}}
                if page
                else answer
            )

        kernel.do_inspect = do_inspect

    def remove(self) -> None:
        """Undo `install`."""
        if self._kernel is not None:
            vars(self._kernel).pop("do_inspect", None)


def named(code: str, cursor: int, magics: Collection[str]) -> tuple[str, bool]:
    """The tool named on the cursor's line, and whether it follows `$`; empty if the line is not
    ours."""
    from onetool_ipy.faces.commands.table import rows
    from onetool_ipy.faces.line.grammar import plain_words

    start = code.rfind("\n", 0, cursor) + 1
    line = code[start:].partition("\n")[0]
    names = "|".join(re.escape(name) for name in magics)
    match = re.match(ASSIGNED + rf"%{{1,2}}(?:{names})\s+(?P<rest>.*)$", line)
    if match is None:
        shortcut = re.match(ASSIGNED + r"\$(?P<name>[^\s$({=]+)", line)
        return (shortcut["name"], True) if shortcut else ("", False)
    plain = [word.text for word in plain_words(match["rest"])]
    command = rows("notebook").get(plain[0]) if plain else None
    if plain and (plain[0] == "help" or (command is not None and command.takes == ("tool",))):
        plain = plain[1:]
    return (plain[0].partition("(")[0].rstrip("?"), False) if plain else ("", False)
