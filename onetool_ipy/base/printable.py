"""Text from tools, servers, models and files -> text that a terminal shows but does not obey.

Control characters and those that change the direction of text are written as escapes (`\\x1b`, `\\u202e`). Newline
and tab stay, and so does the carriage return before a newline. Plain text passes through `printable` wherever it
leaves the package.
"""

from __future__ import annotations

import re

# Texts, which `re` compiles at their first use: that takes a millisecond, a tenth of %load_ext.
_UNSAFE = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0, DEL and C1 controls
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text
    r"\u2028\u2029\ufff9-\ufffb"  # line breaks other than a newline, and annotations
    r"\ud800-\udfff"  # lone surrogates, which cannot be sent
    r"\U000e0000-\U000e007f]"  # tags: characters that no one sees
)
_PIECE = r"(?s) {4,}|."


def printable(text: str) -> str:
    """Return the text with every character escaped that does something other than show itself."""
    return re.sub(_UNSAFE, _escape, text)


def printable_line(text: str) -> str:
    """Return the text on one line: newlines and tabs are escaped too."""
    return printable(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def visible(text: str, limit: int) -> str:
    """Return text on one line in which every character is visible: no line ends, colours, controls or long gaps."""
    shown: list[str] = []
    length = end = 0
    for piece in re.finditer(_PIECE, text):
        part = piece[0] if piece[0].isprintable() and len(piece[0]) == 1 else _escaped(piece[0])
        length += len(part)
        if length > limit:
            return f"{''.join(shown)}… ({len(text) - end:,} more characters)"
        shown.append(part)
        end = piece.end()
    return "".join(shown)


def json_printable(text: str) -> str:
    """Return JSON text that means the same and holds none of these characters."""
    return re.sub(_UNSAFE, _json_escape, text)


def _escaped(char: str) -> str:
    if len(char) > 1:
        return f"[{len(char)} blanks]"
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")


def _escape(found: re.Match[str]) -> str:
    if found[0] == "\r" and found.string.startswith("\n", found.end()):
        return "\r"
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
