"""Text from tools, servers, models and files -> text that a terminal shows but does not obey.

Control characters and those that change the direction of text are written as escapes (`\\x1b`,
`\\u202e`). Newline and tab stay, and so does the carriage return before a newline. Plain text
passes through `printable` wherever it leaves the package.

What a person says yes to shows every character: `revealed` and `visible` also escape those that
leave no ink (zero width, soft hyphen, fillers, blanks that are no space, variation selectors),
which could make two texts look the same.
"""

from __future__ import annotations

import re
import sys

# Texts, which `re` compiles at their first use: that takes a millisecond, a tenth of %load_ext.
_UNSAFE = (
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0, DEL and C1 controls
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text
    r"\u2028\u2029\ufff9-\ufffb"  # line breaks other than a newline, and annotations
    r"\ud800-\udfff"  # lone surrogates, which cannot be sent
    r"\U000e0000-\U000e007f]"  # tags: characters that no one sees
)
# Characters that are drawn as nothing, although Unicode calls them letters, marks or symbols.
# `str.isprintable` does not let the others through.
_NO_INK = (
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    r"\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_PIECE = r"(?s) {4,}|."
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """Return the text with every character escaped that does something other than show itself."""
    return re.sub(_UNSAFE, lambda match: _escaped(match[0]), text)


def printable_line(text: str) -> str:
    """Return the text on one line: newlines and tabs are escaped too."""
    return printable(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def revealed(text: str) -> str:
    """Return the text, on its own lines, with every character escaped that cannot be seen."""
    return "".join(char if char in "\n\t" else _shown(char) for char in text.replace("\r\n", "\n"))


def visible(text: str, limit: int | None = None) -> str:
    """Return text on one line in which every character is visible: no line ends, colours, controls
    or long gaps."""
    most = sys.maxsize if limit is None else limit
    parts: list[str] = []
    length = end = 0
    for match in re.finditer(_PIECE, text):
        part = match[0]
        part = f"[{len(part)} blanks]" if len(part) > 1 else _SHORT.get(part) or _shown(part)
        length += len(part)
        if length > most:
            return f"{''.join(parts)}… ({len(text) - end:,} more characters)"
        parts.append(part)
        end = match.end()
    return "".join(parts)


def json_printable(text: str) -> str:
    """Return JSON text that means the same and holds none of these characters."""

    def escaped(match: re.Match[str]) -> str:
        # JSON writes a character beyond the first 65,536 as the two halves that UTF-16 has.
        units = match[0].encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return re.sub(_UNSAFE, escaped, text)


def _shown(char: str) -> str:
    """Return a character as it is, or escaped if it leaves no ink."""
    has_ink = char.isprintable() and (char.isascii() or re.fullmatch(_NO_INK, char) is None)
    return char if has_ink else _escaped(char)


def _escaped(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
