"""Where strings and comments begin and end: the scanner against Python's own tokenizer, over the standard library."""

from __future__ import annotations

import io
import os
import sys
import sysconfig
import tokenize
from pathlib import Path

import pytest

from onetool_ipy.snippets.scanner import CodeContext, contexts_at

_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_NESTS = sys.version_info >= (3, 12)


def context_at(text: str) -> CodeContext:
    """The context of the character `¤`."""
    return contexts_at(text, [text.index("¤")])[0]


@pytest.mark.parametrize(
    ("text", "kind", "prefix", "quote"),
    [
        ("x = ¤", "code", "", ""),
        ("x = 'a' + ¤", "code", "", ""),
        ("x = '¤'", "string", "", "'"),
        ('x = "it\'s ¤"', "string", "", '"'),
        ('x = "a\\"¤"', "string", "", '"'),
        ('x = """a "quoted" ¤"""', "string", "", '"""'),
        ("x = r'\\¤'", "string", "r", "'"),
        ("x = RB'¤'", "string", "rb", "'"),
        ("x = f'{a} ¤'", "string", "f", "'"),
        ("x = f'{a[¤]}'", "field", "f", "'"),
        ("x = f'{a:>¤}'", "spec", "f", "'"),
        ("x = f'{{¤}}'", "string", "f", "'"),
        ("x = f'{a!r} ¤'", "string", "f", "'"),
        ("x = f'{d[\"k\"]} ¤'", "string", "f", "'"),
        ("x = f'''{\n¤}'''", "field", "f", "'''"),
        ("x = f'\\N{BULLET} ¤'", "string", "f", "'"),
        ("x = 1 # it's ¤", "comment", "", ""),
        ("x = '# no ' # ¤", "comment", "", ""),
        ("x = f'# {a}' + ¤", "code", "", ""),
        ("%tool a.b q=¤", "magic", "", ""),
        ("x = %tool a.b q=¤", "magic", "", ""),
        ("if a:\n    !ls ¤", "magic", "", ""),
        ("$ws q=¤", "magic", "", ""),
        ("%%bash\necho 'a\n¤", "magic", "", ""),
        ("!ls \\\n  ¤", "magic", "", ""),
        ("x = (a\n% ¤)", "code", "", ""),
        ("x = a \\\n% ¤", "code", "", ""),
        ("x['k=%s'] = '¤'", "string", "", "'"),
        ("x != y; z = '¤'", "string", "", "'"),
        ("x = 'never closed\ny = ¤", "code", "", ""),
        ("abcf'¤'", "string", "", "'"),
        ("x = '\\¤'", "inside_token", "", "'"),
    ],
)
def test_context_is_known(text: str, kind: str, prefix: str, quote: str) -> None:
    found = context_at(text)

    assert (found.kind, found.prefix, found.quote) == (kind, prefix, quote)


def test_quotes_inside_a_field_follow_this_python() -> None:
    """Since 3.12 a field may use the quotes of its string; before, they end it."""
    found = context_at("x = f'{d['k']} ¤'")

    assert found.kind == "string" if _NESTS else "code"


def test_position_in_the_middle_of_a_quote_is_inside_a_token() -> None:
    assert [p.kind for p in contexts_at('x = """a"""', [4, 5, 6, 7, 8, 9, 11])] == [
        *("code", "inside_token", "inside_token", "string", "string", "inside_token", "code")
    ]


def test_position_at_the_end_of_a_comment_is_in_it() -> None:
    assert [p.kind for p in contexts_at("# a\nb", [3, 4])] == ["comment", "code"]


def test_any_text_is_scanned() -> None:
    for text in ("", "'", '"""', "f'{", "f'{a:{", "\\", "}{)(", "f'{\n", "\r\n", "%", "= %", "\0", "\ud800", "f'{#'"):
        assert len(contexts_at(text, [0, len(text)])) == 2


@pytest.mark.timeout(1800)
def test_strings_and_comments_of_the_standard_library_are_where_python_has_them() -> None:
    """Some files by default; all of them with ONETOOL_SOAK=1."""
    files = sorted(p for p in _LIBRARY.rglob("*.py") if "site-packages" not in p.parts and "lib2to3" not in p.parts)
    step = 1 if os.environ.get("ONETOOL_SOAK") else 37
    checked = 0
    for path in files[::step]:
        text = _source(path)
        if text is None:
            continue
        checked += 1
        wanted = _by_tokenizer(text)
        assert _by_contexts(text, sorted(wanted)) == [wanted[i] for i in sorted(wanted)], path

    assert checked > len(files) // step // 2


def _source(path: Path) -> str | None:
    """The text of a file that this Python takes; 3.12.0 to 3.12.3 misplace tokens behind other letters than ASCII."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
        compile(text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, UnicodeDecodeError):
        return None
    return text if text.isascii() else None


def _by_tokenizer(text: str) -> dict[int, str]:
    """A position inside each string and comment, and one before it."""
    starts = [0]
    for line in io.StringIO(text):
        starts.append(starts[-1] + len(line))
    found: dict[int, str] = {}
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        if name in ("FSTRING_START", "TSTRING_START"):
            found.setdefault(start, "code") if depth == 0 else None
            depth += 1
        elif name in ("FSTRING_END", "TSTRING_END"):
            depth -= 1
            found[end] = "code" if depth == 0 else found.get(end, "code")
            if depth:
                found.pop(end)
        elif depth == 0 and name == "STRING":
            found[start], found[end] = "code", "code"
        elif depth == 0 and name == "COMMENT" and end > start + 1:
            found[start], found[start + 1] = "code", "comment"
    return found


def _by_contexts(text: str, positions: list[int]) -> list[str]:
    return [context.kind for context in contexts_at(text, positions)]
