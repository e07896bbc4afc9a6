"""YAML text as plain values: what each scalar is, which mistakes are named, which attacks end
early."""

from __future__ import annotations

import ast
import re
import tracemalloc
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from onetool_ipy.config.yaml_text import (
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    NotYaml,
    dotted,
    parse,
    parse_plain,
)
from tests.config.conftest import Project
from tests.harness.programs import python


def value(text: str) -> Any:
    document = parse(f"x: {text}\n".encode())
    assert document.faults == []
    return document.data["x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", "abc"),
        ("'12'", "12"),
        ('"a\\tb\\u00e9"', "a\tbé"),
        ("12", 12),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("007", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-2.5E-1", -0.25),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("''", ""),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        ("-", None),
        ("=", "="),
        ("!!str 12", "12"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("[a, 1, {b: [c]}]", ["a", 1, {"b": ["c"]}]),
        (
            "{on: 1, yes: 2, 3: 4, 1.50: 5, null: 6, true: 7}",
            {"on": 1, "yes": 2, "3": 4, "1.50": 5, "null": 6, "true": 7},
        ),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">\n  a\n  b\n", "a b\n"),
        ("🎉 naïve", "🎉 naïve"),
    ],
    ids=lambda v: repr(v)[:24],
)
def test_scalars_follow_yaml_1_2_and_keys_are_the_text_as_written(text: str, expected: Any) -> None:
    """So that `on`, `no`, dates and `12:30` never surprise; everything that comes out fits JSON."""
    if text == "-":
        assert parse(b"x:\n  -\n").data == {"x": [None]}
        return
    got = value(text)
    assert got == expected
    assert type(got) is type(expected)


def test_aliases_and_merge_keys_of_an_imported_document_are_expanded() -> None:
    """Written keys win over merged ones, the first of several merged mappings over the later."""
    text = """
a: &a {x: 1, y: 2}
b: &b {y: 3, z: 4}
c: {<<: [*a, *b], x: 9}
d: *a
tools:
  - {<<: *a, name: t}
"""
    document = parse(text.encode(), imported=True)
    assert document.faults == []
    assert document.data["c"] == {"x": 9, "y": 2, "z": 4}
    assert document.data["d"] == {"x": 1, "y": 2}
    assert document.data["tools"] == [{"x": 1, "y": 2, "name": "t"}]


def test_lines_are_kept_for_every_key_but_those_inside_tools() -> None:
    """`tools` may be thousands of entries: one line each."""
    text = (
        "http:\n  timeout_s: 5\nfs:\n  roots:\n    - a\n    - b\ntools:\n  - name: x\n    deep: {k:"
        " 1}\n"
    )
    lines = parse(text.encode()).lines
    assert {dotted(path): line for path, line in lines.items()} == {
        "http": 1,
        "http.timeout_s": 2,
        "fs": 3,
        "fs.roots": 4,
        "fs.roots[0]": 5,
        "fs.roots[1]": 6,
        "tools": 7,
        "tools[0]": 8,
    }


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)

UNUSABLE = {
    "tab": (b"http:\n\ttimeout_s: 5\n", 2, "a tab indents this line"),
    "tab after key": (
        b"http:\n  timeout_s: 5\n\tallow_private: true\n",
        3,
        "a tab indents this line",
    ),
    "unclosed bracket": (b"a: 1\ntools: [1, 2\n", 3, "is not valid YAML"),
    "unclosed quote": (b'a: "x\n', 2, "is not valid YAML"),
    "bad indent": (b"a:\n   b: 1\n  c: 2\n", 3, "is not valid YAML"),
    "not UTF-8": (b"a: 1\nb: \xff\xfe\n", 2, "is not UTF-8 text"),
    "latin-1": ("a: caf\xe9\n".encode("latin-1"), 1, "is not UTF-8 text"),
    "UTF-16": ("a: 1\n".encode("utf-16"), 1, "is not UTF-8 text"),
    "NUL": (b"a: 1\nb: x\0y\n", 2, r"U\+0000"),
    "escape character": (b"a: \x1b[31m\n", 1, r"U\+001B"),
    "binary": (bytes(range(128)) * 20, 1, r"U\+0000"),
    "list at top": (b"- a\n- b\n", 1, "holds a list at its top"),
    "text at top": (b"just words\n", 1, "holds a single value at its top"),
    "number at top": (b"42\n", 1, "holds a single value at its top"),
    "two documents": (b"a: 1\n---\nb: 2\n", 2, "more than one document"),
    "tag at top": (b"!!set {a, b}\n", 1, "tag '!!set'"),
    "5,000 deep": (b"x: " + b"[" * 5000 + b"]" * 5000, 1, "levels deep"),
    "200,000 deep": (b"x: " + b"[" * 200_000, 1, "levels deep"),
    "deep mappings": (b"x: " + b"{a: " * 300 + b"}" * 300, 1, "levels deep"),
    "deep block": ("".join(" " * i + "a:\n" for i in range(300)).encode(), None, "levels deep"),
    "deep complex keys": (b"? " * 5000 + b"a", 1, "levels deep"),
    "many tagged values": (b"x: [" + b"!!str a," * (MAX_VALUES + 10), 1, "too many values"),
}


IMPORTED = {
    "unknown alias": ("a: *nothing\n", "undefined alias '\\*nothing'"),
    "alias at the top": ("*a\n", "holds a single value"),
    "alias bomb": (BOMB, "too many values"),
    "alias bomb in a tool": ("tools:\n - " + BOMB.replace("\n", "\n   "), "too many values"),
    "alias of itself": ("a: &a [*a]\n", "holds itself"),
    "alias of itself in a tool": ("tools:\n  - &a {b: *a}\n", "holds itself"),
    "alias of itself, branching": ("a: &a {b: *a, c: *a}\n", "holds itself"),
    "merge of itself": ("a: &a {<<: *a}\n", "holds itself"),
    "merge bomb": (
        "a0: &a0 {k: v}\n"
        + "".join(
            f"a{i}: &a{i} {{<<: *a{i - 1}, x{i}: [*a{i - 1}, *a{i - 1}, *a{i - 1}]}}\n"
            for i in range(1, 60)
        ),
        "too many values",
    ),
    "long text behind many aliases": (
        f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 20)}]\n",
        "too many values",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "words"), IMPORTED.values(), ids=IMPORTED.keys())
def test_aliases_of_an_imported_document_expand_to_so_much_and_no_more(
    text: str, words: str
) -> None:
    """Ten to the twelfth values are refused while they are counted, not after they were made."""
    tracemalloc.start()
    try:
        with pytest.raises(NotYaml, match=words):
            parse(text.encode(), imported=True)
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()


def test_parts_behind_an_alias_can_be_changed_one_by_one() -> None:
    data = parse(b"a: &a {x: [1]}\nb: *a\n", imported=True).data

    data["a"]["x"].append(2)

    assert data["b"] == {"x": [1]}


@pytest.mark.parametrize(
    "text", [BOMB, "a: &a [*a]\n", "b: *nothing\n", "c: &c {x: 1}\nd: {<<: *c}\n"]
)
def test_configuration_has_no_aliases(text: str) -> None:
    """Each costs the value in its place; nothing is expanded."""
    document = parse(f"{text}e: 1\n".encode())

    assert document.data["e"] == 1
    assert {fault.message.partition(" which")[0] for fault in document.faults} <= {
        *(f"'*a{i}' is an alias," for i in range(12)),
        *("'*a' is an alias,", "'*nothing' is an alias,", "a merge key,"),
    }
    assert document.faults


@pytest.mark.slow
@pytest.mark.parametrize(("data", "line", "words"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_unusable_text_is_one_clear_sentence_with_its_line(
    data: bytes, line: int | None, words: str
) -> None:
    """No traceback, no crash of the C parser, no endless expansion."""
    with pytest.raises(NotYaml) as caught:
        parse(data)
    fault = caught.value.fault
    assert re.search(words, fault.message)
    assert "\n" not in fault.message
    assert line is None or fault.line == line


def test_a_long_text_may_have_more_values_than_a_short_one() -> None:
    """An import says how many; a bomb inside a long text is refused as ever."""
    rows = "b:\n" + "- {x: 1, y: [1, 2]}\n" * 1000

    assert len(parse(rows.encode(), most=2 * len(rows)).data["b"]) == 1000
    with pytest.raises(NotYaml, match="too many values"):
        parse((BOMB + rows).encode(), imported=True, most=2 * len(rows))
    with pytest.raises(NotYaml, match="too many values"):
        parse(rows.encode(), most=5000)


def test_long_keys_do_not_pile_up_in_the_paths() -> None:
    """Ninety keys of 900 characters inside each other, then ten thousand more."""
    text = (
        "".join(f"{{{'k' * 900}: " for _ in range(90))
        + "{"
        + ", ".join(f"x{i}: 1" for i in range(10_000))
        + "}" * 91
    )
    document = parse(f"packs: {text}\n".encode())
    assert document.faults == []
    assert len({name for path in document.lines for name in path}) == 10_002


def test_depth_just_allowed() -> None:
    """The limit bites at its number, not before."""
    depth = MAX_DEPTH - 2  # the top mapping and the innermost scalar count
    assert parse(b"x: " + b"[" * depth + b"1" + b"]" * depth).faults == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"# only a comment\n", b"---\n", b"\xef\xbb\xbf", b"null\n", b"{}\n"],
    ids=["empty", "blank lines", "comment", "marker", "BOM", "null", "braces"],
)
def test_empty_text_is_an_empty_mapping(data: bytes) -> None:
    """A file in which everything is commented out means the defaults."""
    assert parse(data) == Document({}, {}, [])


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbfa: 1\n", b"a: 1\r\n", b"%YAML 1.2\n---\na: 1\n...\n"],
    ids=["BOM", "CRLF", "directive"],
)
def test_byte_order_mark_and_windows_lines_are_fine(data: bytes) -> None:
    """What editors on Windows write is read."""
    assert parse(data).data == {"a": 1}


FAULTY = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", 3, "a", "twice; line 1 counts", {"a": 1, "b": 2}),
    "duplicate inside": ("h:\n  a: 1\n  a: 2\n", 3, "h.a", "twice; line 2 counts", {"h": {"a": 1}}),
    "same key in two spellings": ("a: 1\n'a': 2\n", 2, "a", "twice", {"a": 1}),
    "python object": ("a: !!python/object/apply:os.system [id]\nb: 1\n", 1, "a", "tag", {"b": 1}),
    "python name": ("a: !!python/name:os.system ''\nb: 1\n", 1, "a", "tag", {"b": 1}),
    "binary": ("a: !!binary aGk=\nb: 1\n", 1, "a", "tag '!!binary'", {"b": 1}),
    "set": ("a: !!set {x, y}\nb: 1\n", 1, "a", "tag '!!set'", {"b": 1}),
    "omap": ("a: !!omap [x: 1]\nb: 1\n", 1, "a", "tag '!!omap'", {"b": 1}),
    "timestamp": ("a: !!timestamp 2024-01-01\nb: 1\n", 1, "a", "tag '!!timestamp'", {"b": 1}),
    "own tag": ("a: !mine x\nb: 1\n", 1, "a", "tag '!mine'", {"b": 1}),
    "tag of a number": ("a: !!int 12\nb: 1\n", 1, "a", "tag '!!int'", {"b": 1}),
    "infinity": ("a: .inf\nb: 1\n", 1, "a", "'.inf' is not a number that JSON can hold", {"b": 1}),
    "nan": ("a: .NaN\nb: 1\n", 1, "a", "not a number that JSON can hold", {"b": 1}),
    "overflow": ("a: 1e999\nb: 1\n", 1, "a", "too large", {"b": 1}),
    "endless integer": (f"a: {'9' * 5000}\nb: 1\n", 1, "a", "too long", {"b": 1}),
    "list as key": ("? [x, y]\n: 1\nb: 1\n", 1, "?", "a key must be text", {"b": 1}),
    "empty key in quotes": ("'': 1\nb: 1\n", 1, "", "an empty key", {"b": 1}),
    "empty key": ("?\n: 1\nb: 1\n", 1, "", "an empty key", {"b": 1}),
    "tagged key": ("!!binary aGk=: 1\nb: 1\n", 1, "aGk=", "tag", {"b": 1}),
    "merge key": (
        "<<: {a: 2}\nb: 1\n",
        1,
        "<<",
        "a merge key, which configuration must not have",
        {"b": 1},
    ),
    "alias": (
        "a: &a 1\nb: *a\n",
        2,
        "b",
        "'*a' is an alias, which configuration must not have",
        {"a": 1},
    ),
    "alias as a key": ("b: &b 1\n*b : 2\n", 2, "*b", "'*b' is an alias", {"b": 1}),
    "alias in a list": ("l: [&a 1, *a]\n", 1, "l[1]", "'*a' is an alias", {"l": [1, None]}),
    "in a list": ("l: [1, .nan, 3]\n", 1, "l[1]", "not a number", {"l": [1, None, 3]}),
    "in a tool": (
        "tools:\n  - {name: a}\n  - {name: b,\n     x: {y: .nan}}\n",
        4,
        "tools[1].x.y",
        "not a number",
        {"tools": [{"name": "a"}, {"name": "b", "x": {}}]},
    ),
    "twice in a tool": (
        "tools:\n  - name: a\n    name: b\n",
        3,
        "tools[0].name",
        "is written twice",
        {"tools": [{"name": "a"}]},
    ),
}


@pytest.mark.parametrize(
    ("text", "line", "key", "words", "data"), FAULTY.values(), ids=FAULTY.keys()
)
def test_fault_costs_only_its_own_value(
    text: str, line: int, key: str, words: str, data: Any
) -> None:
    """It names line and key; everything else is kept."""
    document = parse(text.encode())
    (fault,) = document.faults
    assert (fault.line, fault.key) == (line, key)
    assert words in fault.message
    assert ("Remove the tag" in fault.hint) == ("tag" in words and key != "aGk=")
    assert document.data == data


def test_numbers_can_stay_as_written() -> None:
    """A secret such as 007 is text."""
    assert parse(b"a: 007\nb: 1e5\nc: true\n", numbers=False).data == {
        "a": "007",
        "b": "1e5",
        "c": True,
    }


def test_parser_without_libyaml_gives_the_same() -> None:
    """PyYAML may have been built without its C part."""
    text = "a: {b: [1, 'x', on]}\nc: 1\nc: 2\n"
    code = (
        "import sys; sys.modules['yaml._yaml'] = None\nfrom onetool_ipy.config.yaml_text import"
        f" parse\nfound = parse({text!r}.encode())\nimport yaml\nprint([yaml.__with_libyaml__,"
        " found.data, found.lines, [(f.line, f.key, f.message) for f in found.faults]])"
    )

    out = python(code)

    found = parse(text.encode())
    assert ast.literal_eval(out.stdout) == [
        False,
        found.data,
        found.lines,
        [(fault.line, fault.key, fault.message) for fault in found.faults],
    ]


class TestFiles:
    """What is no readable file is one problem that names it; everything else goes on."""

    def test_too_large(self, project: Project) -> None:
        project.write("onetool.yaml", b"")
        with (project.onetool / "onetool.yaml").open("wb") as file:
            file.truncate(100 * 1024 * 1024)
        (said,) = project.says()
        assert said.startswith(".onetool/onetool.yaml: is too large: 104,857,600 bytes")
        assert project.load().errors

    @pytest.mark.parametrize(
        "name", ["onetool.yaml", "prompts.yaml", "snippets.yaml", "secrets.yaml"]
    )
    def test_directory(self, project: Project, name: str) -> None:
        (project.onetool / name).mkdir(parents=True)
        assert project.says() == [f".onetool/{name}: is a folder, not a file."]
        assert bool(project.load().errors) == (name == "onetool.yaml")

    @pytest.mark.posix("pipes in folders")
    @pytest.mark.parametrize("name", ["onetool.yaml", "secrets.yaml"])
    def test_pipe_is_not_waited_for(self, project: Project, name: str) -> None:
        import os

        project.onetool.mkdir()
        os.mkfifo(project.onetool / name)
        assert project.says() == [f".onetool/{name}: is not a regular file."]

    @pytest.mark.posix("devices in folders")
    def test_device(self, project: Project) -> None:
        project.onetool.mkdir()
        (project.onetool / "onetool.yaml").symlink_to("/dev/zero")
        assert project.says() == [".onetool/onetool.yaml: is not a regular file."]

    def test_dangling_link(self, project: Project) -> None:
        project.onetool.mkdir()
        (project.onetool / "onetool.yaml").symlink_to("nowhere")
        assert project.says() == [".onetool/onetool.yaml: is a link to a file that does not exist."]

    def test_link_to_itself(self, project: Project) -> None:
        project.onetool.mkdir()
        (project.onetool / "onetool.yaml").symlink_to("onetool.yaml")
        (said,) = project.says()
        assert said.startswith(".onetool/onetool.yaml: cannot be read:")

    @pytest.mark.parametrize("name", ["prompts.yaml", "snippets.yaml"])
    def test_broken_side_file_costs_only_itself(self, project: Project, name: str) -> None:
        project.write(name, "a: [1\n")
        config = project.load("aliases: {a: time.now}\n")
        assert config.settings.aliases == {"a": "time.now"}
        assert not config.errors
        assert str(config.problems[0]).startswith(f".onetool/{name}:2: is not valid YAML")


PIECES = st.sampled_from(
    [
        *"KTa1_ :#'\"\\\t\r-~é%&*!|>[{,.=/+",
        "KEY: ",
        "TOKEN: ",
        "null",
        "true",
        "0x1F",
        "---",
        ": ",
        "''",
    ]
)
ROWS = st.lists(PIECES, max_size=6).map("".join) | st.builds(
    "{}: {}{}{}".format,
    st.sampled_from(["KEY", "TOKEN", "key_2", "no", "null", "_"]),
    st.sampled_from(["", " ", "'", '"']),
    st.lists(PIECES, max_size=4).map("".join),
    st.sampled_from(["", "'", '"', " # text", '" # text', "  "]),
)


@pytest.mark.slow
@hypothesis.settings(max_examples=500, deadline=None)
@hypothesis.given(st.lists(ROWS, max_size=4).map("\n".join), st.sampled_from(["", "\n"]))
def test_lines_of_texts_are_what_the_parser_makes_of_them(text: str, end: str) -> None:
    """Whatever looks like lines of texts: the same values and lines without the parser, or none."""
    data = f"{text}{end}".encode()
    plain = parse_plain(data)

    assert plain is None or plain == parse(data, numbers=False)


def test_names_with_texts_need_no_parser() -> None:
    text = """# Keys of mine
KEY: "abc: #d"
TOKEN: 'x\\y'   # theirs

PORT: 0080
"""

    assert parse_plain(text.encode()) == Document(
        {"KEY": "abc: #d", "TOKEN": "x\\y", "PORT": "0080"},
        {("KEY",): 2, ("TOKEN",): 3, ("PORT",): 5},
        [],
    )


@pytest.mark.parametrize(
    "text",
    [
        "K: a\nK: b\n",
        'K: "a\\n"\n',
        "K: 'it''s'\n",
        "K: ~\n",
        "K: null\n",
        "K: &a b\n",
        "K: é\n",
        "K:\n",
    ],
)
def test_anything_else_is_for_the_parser(text: str) -> None:
    assert parse_plain(text.encode()) is None
