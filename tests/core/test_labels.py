"""Labels: what a tool reads and where it sends, derived from what it is, and who may say
otherwise."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy import InvalidTool, open_toolbox, tool
from onetool_ipy.config.load import all_labels
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.labels import (
    READS,
    UNKNOWN,
    Labels,
    best_pattern,
    derived,
    place_of,
    reaches_out,
    stated,
)
from onetool_ipy.core.tool import GuardFacts, HttpHooks, ServerFacts, ToolSpec
from onetool_ipy.toolbox import Toolbox


def _spec(name: str = "a.b", **facts: Any) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={}, run=len, **facts)


def _hooks(*origins: str, has_credentials: bool) -> HttpHooks:
    return HttpHooks(len, lambda _args: [], frozenset(), origins, has_credentials)


def _urls(**urls: str) -> Any:
    return lambda server: urls.get(server)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("api.example.com", "api.example.com"),
        ("https://API.example.com:443/v1?q=1", "api.example.com"),
        ("https://api.example.com:8443", "api.example.com:8443"),
        ("http://api.example.com", "api.example.com:80"),
        ("api.example.com.", "api.example.com"),
        ("http://[::1]:9", "[::1]:9"),
        ("S3://api.example.com/x", "s3://api.example.com"),
        ("ftp://api.example.com:21", "ftp://api.example.com:21"),
        ("server 'x'", "server 'x'"),
        ("nowhere", ""),
        (" ", ""),
        ("https://${REGION}.example.com", UNKNOWN),
        ("*.example.com", UNKNOWN),
        ("https://a:notaport", UNKNOWN),
        ("https://", UNKNOWN),
    ],
)
def test_a_place_has_one_spelling(text: str, place: str) -> None:
    assert place_of(text) == place


def test_two_ports_of_a_host_are_two_places() -> None:
    assert place_of("http://api.example.com") != place_of("https://api.example.com")
    assert place_of("api.example.com:8443") != place_of("api.example.com")


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        (_spec("fs.read_file", origin="builtin"), Labels("private")),
        (_spec("time.now", origin="builtin"), Labels("nothing")),
        (_spec("nb.mine"), Labels("private")),
        (
            _spec("w.search", http=_hooks("https://s.example.com:443", has_credentials=False)),
            Labels("public", "s.example.com", "s.example.com"),
        ),
        (
            _spec("w.mine", http=_hooks("https://s.example.com:8443", has_credentials=True)),
            Labels("private", "s.example.com:8443", "s.example.com:8443"),
        ),
        (
            _spec("w.two", http=_hooks("https://a.b:443", "https://c.d:443", has_credentials=True)),
            Labels("private", "a.b and c.d", "a.b and c.d"),
        ),
        (_spec("w.none", http=_hooks(has_credentials=True)), Labels("private", UNKNOWN, UNKNOWN)),
        (
            _spec("docs.find", origin="mcp", server_facts=ServerFacts(server="docs")),
            Labels("private", "mcp.example.com", "mcp.example.com"),
        ),
        (
            _spec(
                "gh.find",
                origin="mcp",
                server_facts=ServerFacts(server="gh", hints={"open world": False}),
            ),
            Labels("private", "server 'gh'", "server 'gh'"),
        ),
        (
            _spec("net.get", origin="file", guard=GuardFacts(has_network=lambda: True)),
            Labels("private", "tool 'net.get'", "tool 'net.get'"),
        ),
        (
            _spec(
                "c.alias",
                origin="config",
                guard=GuardFacts(behind=lambda: _spec("time.now", origin="builtin")),
            ),
            Labels("nothing"),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ToolSpec) else "",
)
def test_labels_follow_from_what_a_tool_is(spec: ToolSpec, labels: Labels) -> None:
    assert derived(spec, _urls(docs="https://mcp.example.com/mcp")) == labels


def test_a_server_whose_url_has_a_placeholder_sends_to_an_unknown_place() -> None:
    spec = _spec("x.y", origin="mcp", server_facts=ServerFacts(server="x"))

    assert derived(spec, _urls(x="https://${HOST}/mcp")).sends == UNKNOWN


_WORDS = st.sampled_from(["", "a.example.com", "b.example.com:8", "nowhere", "${X}.example.com"])
_LABELS = st.builds(
    lambda reads, place: Labels(reads, place, place), st.sampled_from(READS), _WORDS.map(place_of)
)
_STATED = st.tuples(st.sampled_from(["", *READS, "other"]), _WORDS)


@given(_LABELS, st.lists(_STATED, max_size=4))
def test_what_a_project_says_never_loosens(labels: Labels, words: list[tuple[str, str]]) -> None:
    strict = labels
    for reads, sends in words:
        strict = stated(strict, reads, sends)

    assert READS.index(strict.reads) >= READS.index(labels.reads)
    assert strict.of == labels.of
    assert strict.sends == labels.sends if labels.sends else True


@given(_LABELS, _STATED)
def test_the_word_of_the_user_is_the_last(labels: Labels, words: tuple[str, str]) -> None:
    loose = stated(labels, *words, may_loosen=True)

    assert loose.reads == (words[0] if words[0] in READS else labels.reads)
    assert loose.sends == (place_of(words[1]) if words[1] else labels.sends)


def test_the_pattern_that_says_most_is_taken() -> None:
    assert best_pattern("a.b", ["a.*", "a.b", "*"]) == "a.b"
    assert best_pattern("a.b", ["*", "a.*"]) == "a.*"
    assert best_pattern("a.b", ["c.*"]) is None


def _by_module(query: str) -> str:
    return httpx.get(query).text


def _by_helper(query: str) -> str:
    return _by_module(query)


def _by_import(query: str) -> str:
    import urllib.request

    return str(urllib.request.urlopen(query))


def _local(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("fn", "is_out"),
    [
        (_by_module, True),
        (_by_helper, True),
        (_by_import, True),
        (partial(_by_helper, "x"), True),
        (socket.create_connection, True),
        (_local, False),
        (len, False),
    ],
)
def test_the_code_of_a_function_tells_whether_it_reaches_out(fn: Any, is_out: bool) -> None:
    assert reaches_out(fn) is is_out


def _open(folder: Path, settings: str, own: str = "", pack: str = "") -> Toolbox:
    for place, text in ((folder / "p", settings), (folder / "home", own)):
        (place / ".onetool" / "tools").mkdir(parents=True)
        (place / ".onetool" / "onetool.yaml").write_text(f"version: 1\n{text}\n", encoding="utf-8")
    (folder / "p/.onetool/tools/look.py").write_text(pack, encoding="utf-8")
    env = {"ONETOOL_STATE": str(folder / "state"), **home_at(folder / "home")}
    return open_toolbox(folder / "p", env=env)


_PACK = '''
"""Look things up."""
import httpx
from onetool_ipy import tool

@tool(read_only=True, reads="nothing", sends="api.example.com")
def up(word: str) -> str:
    """Look a word up."""
    return word
'''


def test_a_pack_file_does_not_loosen_its_labels_and_the_user_does(tmp_path: Path) -> None:
    project = (
        'guard: {tools: {"look.*": {reads: public}, "time.*": {reads: private, sends: x.org}}}'
    )
    with _open(tmp_path / "1", project, pack=_PACK) as box:
        look, now = all_labels(map(box.registry.require, ("look.up", "time.now")), box.config)
        assert look == Labels("private", "tool 'look.up'", "tool 'look.up'")
        assert now == Labels("private", "", "x.org")
        loaded = box.registry.loaded([box.registry.require("look.up")])
        assert all_labels(loaded, box.config) == [look]

    own = 'guard: {tools: {"look.*": {reads: public, sends: api.example.com}}}'
    with _open(tmp_path / "2", project, own, _PACK) as box:
        (look,) = all_labels([box.registry.require("look.up")], box.config)
        assert look == Labels("public", "api.example.com", "api.example.com")


def test_a_pack_without_the_network_sends_nowhere_and_may_say_where_it_does(tmp_path: Path) -> None:
    plain = _PACK.replace("import httpx\n", "")
    with _open(tmp_path, "", pack=plain) as box:
        assert (
            all_labels([box.registry.require("look.up")], box.config)[0].sends == "api.example.com"
        )
    with _open(tmp_path / "2", "", pack=plain.replace(', sends="api.example.com"', "")) as box:
        assert all_labels([box.registry.require("look.up")], box.config)[0].sends == ""


def test_a_project_may_not_allow_data_to_leave(tmp_path: Path) -> None:
    with _open(tmp_path, "guard: {allow: [{from: fs, to: x.org}]}") as box:
        assert box.config.settings.guard.allow == ()
        assert any("guard.allow" in problem.message for problem in box.problems())


def test_labels_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(InvalidTool, match="private, public, nothing"):
        tool(reads="secret")(_local)
    with pytest.raises(InvalidTool, match="nowhere"):
        tool(sends=3)(_local)  # type: ignore[call-overload]


def test_the_page_of_a_tool_says_its_labels(tmp_path: Path) -> None:
    with _open(tmp_path, "", pack=_PACK) as box:
        page = str(box.ot.help(query="look.up", info="full"))
        assert "Reads: private data of tool 'look.up'" in page
        assert "Sends to: tool 'look.up'" in page
        text = box.ot.health().to_text(100)
        assert "Tools can send to tool 'look.up' (1 tool)." in " ".join(text.split())
