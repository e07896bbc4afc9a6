"""`ot.help`: pages for exact names, a search that forgives typos (spec 001)."""

from __future__ import annotations

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.packs.ot.catalog import documentation_url


@pytest.mark.spec("001/Unified Help/General help (no query)")
def test_help_alone_gives_an_overview(shop: Toolbox) -> None:
    page = shop.ot.help()
    for text in ("ot.tools()", "ot.packs()", "list", "min", "full", "## Examples", "## Tips"):
        assert text in page


@pytest.mark.spec("001/Unified Help/Exact tool lookup")
def test_an_exact_tool_gives_its_page(shop: Toolbox) -> None:
    page = shop.ot.help(query="brave.search")
    assert page.startswith("# brave.search\n")
    for text in (
        "Search the web.",
        "brave.search(query: str, count: int = 5)",
        "query (str): What to look for.",
        "count (int, optional): How many results.",
        "Returns: The findings as text.",
        'brave.search(query="x")',
        "https://onetool.beycom.online/reference/tools/brave-search/",
    ):
        assert text in page


@pytest.mark.spec("001/Unified Help/Exact pack lookup")
def test_an_exact_pack_gives_its_page(shop: Toolbox) -> None:
    page = shop.ot.help(query="excel")
    assert page.startswith("# excel\n")
    assert "Always name the sheet." in page
    assert "- excel.read_sheet: Read a sheet." in page
    assert "https://onetool.beycom.online/reference/tools/excel/" in page


@pytest.mark.spec("001/Unified Help/Snippet lookup")
def test_a_snippet_gives_its_page(shop: Toolbox) -> None:
    page = shop.ot.help(query="$brv_research")
    for text in (
        "brv_research",
        "Search web and extract",
        "count: {default: 5",
        "body: |",
        "# $brv_research topic=",
    ):
        assert text in page


@pytest.mark.spec("001/Unified Help/Alias lookup")
def test_an_alias_gives_its_page(shop: Toolbox) -> None:
    page = shop.ot.help(query="ws")
    assert page.startswith("# ws\n")
    assert "brave.web_search" in page
    assert "$ws" in page


@pytest.mark.spec("001/Unified Help/Fuzzy search")
def test_words_find_things_grouped_by_what_they_are(shop: Toolbox) -> None:
    page = shop.ot.help(query="web fetch")
    assert "## Tools\n- brave.web_search: Fetch results of a web search." in page
    everything = shop.ot.help(query="search")
    found = [line for line in everything.splitlines() if line.startswith("## ")]
    assert found == [
        title for title in ("## Tools", "## Packs", "## Snippets", "## Aliases") if title in found
    ]
    assert "## Snippets" in everything


@pytest.mark.spec("001/Unified Help/Fuzzy matching with typos")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("serach", "brave.search"),
        ("brave.serch", "brave.search"),
        ("read_shet", "excel.read_sheet"),
        ("git_comit", "github.git_commit"),
    ],
)
def test_typos_are_forgiven_and_the_best_comes_first(shop: Toolbox, typed: str, meant: str) -> None:
    lines = shop.ot.help(query=typed).splitlines()
    tools = lines[lines.index("## Tools") + 1 :]
    assert tools[0].startswith(f"- {meant}:")


@pytest.mark.spec("001/Unified Help/Info level list")
def test_list_gives_names_only(shop: Toolbox) -> None:
    names = shop.ot.help(query="web", info="list").splitlines()
    assert "brave.web_search" in names
    assert all(" " not in name for name in names)
    assert shop.ot.help(query="brave.search", info="list") == "brave.search"


@pytest.mark.spec("001/Unified Help/Info level min (default)")
def test_min_gives_names_with_descriptions(shop: Toolbox) -> None:
    assert shop.ot.help(query="brave") == shop.ot.help(query="brave", info="min")
    assert "- brave.search: Search the web." in shop.ot.help(query="brave")


@pytest.mark.spec("001/Unified Help/Info level full")
def test_full_gives_every_field(shop: Toolbox) -> None:
    page = shop.ot.help(query="brave.search", info="full")
    for text in (
        "Signature:",
        "Args:",
        "Returns:",
        "Example:",
        "Source: local",
        "Read-only: no",
        "brave.py:3",
    ):
        assert text in page


@pytest.mark.spec("001/Unified Help/Documentation URL generation")
@pytest.mark.parametrize(
    ("pack", "slug"),
    [
        ("brave", "brave-search"), ("code", "code-search"), ("db", "database"), ("ground", "grounding-search"),
        ("llm", "transform"), ("web", "web-fetch"), ("excel", "excel"), ("firecrawl", "firecrawl"),
    ],
)  # fmt: skip
def test_the_documentation_url_of_a_pack(pack: str, slug: str) -> None:
    assert documentation_url(pack) == f"https://onetool.beycom.online/reference/tools/{slug}/"


@pytest.mark.spec("001/Unified Help/No matches")
def test_no_match_says_so_and_what_to_do(shop: Toolbox) -> None:
    said = shop.ot.help(query="xyznonexistent")
    assert "No matches found" in said
    assert "ot.tools()" in said
    assert "ot.packs()" in said


@pytest.mark.parametrize(
    "query", ["a", "x" * 10_000, "(.*", "\\d+[", "שלום", "  ", "$", "$nope", "\0"]
)
def test_odd_queries_give_an_answer(shop: Toolbox, query: str) -> None:
    assert isinstance(shop.ot.help(query=query), str)
