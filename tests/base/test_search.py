"""The one search engine: ranking, typos, odd queries."""

from __future__ import annotations

import random

import pytest

from onetool_ipy.base.search import Entry, Hit, Index, contains, did_you_mean, suggest
from tests.benchmarks import corpus

TOOLS = [
    Entry("brave.search", "Search the web.", ("query", "count"), ("web",)),
    Entry("brave.web_search", "Search pages.", ("query",)),
    Entry("fs.search_files", "Find files by a pattern.", ("pattern",)),
    Entry("code.outline", "List what a search would find in a module.", ("path",)),
    Entry("git.git_diff", "Show differences.", ("repo_path",)),
    Entry("git.git_diff_staged", "Show staged differences.", ("repo_path",)),
    Entry("github.create_issue", "Open an issue.", ("title", "body")),
    Entry("excel.readFile", "Load a workbook.", ("maxRows",), ("tabular",)),
    Entry("tools.search", "Look for tools.", ()),
    Entry("search.all", "Ask everything.", ()),
]
ODD = [
    "",
    " ",
    ".",
    ".*",
    "[a-z]+(",
    "\\",
    "$",
    "שלום עולם",
    "مرحبا",
    "🔧",
    "\ud800",
    "\0",
    "a\nb",
    "İ",
    "ß",
    "'" * 99,
]


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(TOOLS)


@pytest.fixture(scope="module")
def real() -> Index:
    return Index(corpus.real_tools())


def names(hits: list[Hit]) -> list[str]:
    return [hit.item.name for hit in hits]


def tiers(hits: list[Hit]) -> list[str]:
    return [hit.tier for hit in hits]


def test_exact_comes_before_prefix_before_whole_word_before_fuzzy(index: Index) -> None:
    hits = index.search("search")

    assert names(hits)[:2] == ["tools.search", "brave.search"] or names(hits)[:2] == [
        "brave.search",
        "tools.search",
    ]
    order = ["exact", "prefix", "word", "fuzzy"]
    assert tiers(hits) == sorted(tiers(hits), key=order.index)
    by_name = {hit.item.name: hit.tier for hit in hits}
    assert by_name["search.all"] == by_name["fs.search_files"] == "prefix"
    assert by_name["brave.web_search"] == by_name["code.outline"] == "word"


@pytest.mark.parametrize("typed", ["my-api.get-orders", "myapi.getorders", "getorders", "myapi"])
def test_tool_stays_found_while_its_name_is_typed_without_separators(typed: str) -> None:
    index = Index([*TOOLS, Entry("my-api.get-orders", "Orders.", ("id",))])
    for end in range(4, len(typed) + 1):
        assert index.search(typed[:end])[0].item.name == "my-api.get-orders", typed[:end]


def test_whole_name_is_exact_whatever_case_and_separators(index: Index) -> None:
    for query in ("brave.web_search", "BRAVE.Web_Search", "brave web search", "brave/web-search"):
        best = index.search(query)[0]

        assert (best.item.name, best.tier, best.score) == ("brave.web_search", "exact", 100.0)


def test_name_as_it_is_written_wins_over_the_same_name_in_another_case() -> None:
    both = Index([Entry("a.B"), Entry("a.b")])

    assert names(both.search("a.B"))[0] == "a.B"
    assert names(both.search("a.b"))[0] == "a.b"


def test_a_description_that_equals_the_words_typed_comes_first() -> None:
    index = Index(
        [
            Entry(
                "docs.send_message",
                "Send a message to a channel, a user or a thread.",
                ("message",),
            ),
            Entry("mail.send_a_message_later", "Later."),
            Entry("chat.post", "Send a message.\n\nWaits until it is there."),
        ]
    )
    assert index.search("send a message")[0].item.name == "chat.post"
    assert index.search("Send a message.")[0].tier == "exact"
    assert index.search("docs.send_message")[0].item.name == "docs.send_message"


def test_a_description_with_ligatures_equals_the_words_typed_without() -> None:
    index = Index([Entry("disk.look", "\ufb01nd \ufb01les"), Entry("find.files_later", "Later.")])

    assert (index.search("find files")[0].item.name, index.search("find files")[0].tier) == (
        "disk.look",
        "exact",
    )


def test_shorter_names_come_first_within_a_tier(index: Index) -> None:
    assert names(index.search("git.git_dif"))[:2] == ["git.git_diff", "git.git_diff_staged"]


def test_own_pack_comes_before_a_pack_that_only_begins_so() -> None:
    index = Index([Entry("gita.b"), Entry("git.git_diff_staged"), Entry("x.git_log_all")])

    assert names(index.search("git")) == ["git.git_diff_staged", "x.git_log_all", "gita.b"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        *(
            ("workbook", "excel.readFile"),
            ("maxRows", "excel.readFile"),
            ("rows", "excel.readFile"),
        ),
        *(
            ("tabular", "excel.readFile"),
            ("title", "github.create_issue"),
            ("read file", "excel.readFile"),
        ),
    ],
)
def test_descriptions_arguments_and_tags_are_searched(index: Index, query: str, found: str) -> None:
    best = index.search(query)[0]

    assert (best.item.name, best.tier) == (found, "word")


def test_word_in_a_name_counts_more_than_in_a_description(index: Index) -> None:
    found = names([hit for hit in index.search("search") if hit.tier == "word"])

    assert found.index("brave.web_search") < found.index("code.outline")


def test_all_words_of_a_query_must_be_there_for_a_whole_word_hit(index: Index) -> None:
    hits = index.search("open issue")

    assert names(hits)[0] == "github.create_issue"
    assert tiers(hits)[0] == "word"
    assert "word" not in tiers(hits)[1:]


def test_typo_in_a_description_word_is_forgiven(index: Index) -> None:
    assert names(index.search("workbok"))[0] == "excel.readFile"


def test_half_typed_words_and_typos_work_together(index: Index) -> None:
    assert names(index.search("brvae.sea"))[0] == "brave.search"


def test_scores_fall_and_lie_between_0_and_100(real: Index) -> None:
    for query in ("search", "list files", "get_isue", "fil", "web fetch"):
        scores = [hit.score for hit in real.search(query, limit=None)]

        assert scores == sorted(scores, reverse=True)
        assert all(0 < score <= 100 for score in scores)


def test_limit_cuts_and_keeps_the_best(real: Index) -> None:
    whole = names(real.search("search", limit=None))

    assert names(real.search("search", limit=3)) == whole[:3]
    assert real.search("search", limit=0) == []
    assert len(whole) == len(set(whole))


def test_nothing_near_finds_nothing(real: Index) -> None:
    assert real.search("xyznonexistent") == []


@pytest.mark.parametrize("query", ODD, ids=ascii)
def test_odd_queries_find_nothing_or_something_but_never_fail(real: Index, query: str) -> None:
    assert all(0 <= hit.score <= 100 for hit in real.search(query))


@pytest.mark.parametrize(
    "query", ["a", "e", "x", "x" * 10_000, "search " * 2_000, "a.b" * 5_000, "ש" * 10_000]
)
def test_short_and_very_long_queries_are_answered(real: Index, query: str) -> None:
    assert len(real.search(query, limit=20)) <= 20


def test_right_to_left_and_other_scripts_are_found() -> None:
    index = Index(
        [Entry("חיפוש.קובץ", "מצא קובץ"), Entry("搜索.网页", "使用网络搜索内容"), Entry("a.b", "x")]
    )

    assert names(index.search("קובץ"))[0] == "חיפוש.קובץ"
    assert names(index.search("搜索"))[0] == "搜索.网页"
    assert names(index.search("网络"))[0] == "搜索.网页"


def test_empty_index_finds_nothing() -> None:
    assert Index([]).search("search") == []
    assert len(Index([])) == 0


@pytest.mark.slow
@pytest.mark.parametrize("where", ["pack", "function"])
@pytest.mark.parametrize("edit", sorted(corpus.EDITS))
def test_one_edit_still_puts_the_tool_first(real: Index, where: str, edit: str) -> None:
    """Contract 6 asks for 95 of 100; the full table is in tests/benchmarks/typos.py."""
    chance = random.Random(11)
    known = [entry.name for entry in corpus.real_tools()]
    good = 0
    for name in known:
        pack, _, tool = name.partition(".")
        typed = corpus.mistype(pack if where == "pack" else tool, edit, chance)
        query = f"{typed}.{tool}" if where == "pack" else f"{pack}.{typed}"
        good += names(real.search(query, limit=1)) == [name]

    assert good / len(known) >= 0.99


def test_contains_is_a_substring_whatever_the_case() -> None:
    assert contains("SEARCH", "brave.web_search")
    assert contains("", "anything")
    assert not contains("a.c", "abc")  # no pattern language


def test_suggest_gives_the_nearest_names_best_first() -> None:
    known = ["brave.search", "brave.news", "web.fetch", "fs.read_file"]

    assert suggest("brav.search", known)[0] == "brave.search"
    assert suggest("search", known) == ["brave.search"]
    assert suggest("read_fil", known) == ["fs.read_file"]
    assert suggest("qqqqqq", known) == []
    assert len(suggest("brave", known, limit=1)) == 1


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        *(
            ("qury", ["query", "count"], "query"),
            ("Query", ["query"], "query"),
            ("patth", ["path"], "path"),
        ),
        ("alow_private", ["allow_private", "timeout_s"], "allow_private"),
        ("strng", ["string", "integer"], "string"),
    ],
)
def test_suggest_knows_mistyped_argument_and_setting_names(
    typed: str, known: list[str], meant: str
) -> None:
    assert suggest(typed, known)[0] == meant


def test_did_you_mean_is_a_question_or_nothing() -> None:
    assert did_you_mean("brav.search", ["brave.search"]) == "Did you mean 'brave.search'?"
    assert did_you_mean("qqqqqq", ["brave.search"]) == ""
    assert did_you_mean("x" * 10_000, ["brave.search"]) == ""
