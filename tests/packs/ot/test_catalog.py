"""`ot.tools`, `packs`, `aliases`, `snippets`, `config`, `version` (spec 001)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from onetool_ipy import Toolbox, ToolSpec, __version__
from onetool_ipy.core.result import ToolCallError
from onetool_ipy.render.views import ErrorText
from onetool_ipy.snippets.definition import read_snippet
from tests.harness.project import Project
from tests.packs.ot.filled import RESEARCH, filled

LISTINGS = ["tools", "packs", "aliases", "snippets"]


@pytest.fixture
def box(project: Project) -> Toolbox:
    return filled(project)


def column(rows: list[dict[str, Any]], name: str = "name") -> list[Any]:
    return [row[name] for row in rows]


# Tools


@pytest.mark.spec("001/List Tools/List all tools")
def test_all_tools_are_listed_by_name(box: Toolbox) -> None:
    found = box.ot.tools()

    assert isinstance(found, list)
    assert column(found) == sorted(spec.name for spec in box.registry.list())
    assert found == box.ot.tools(info="min")


@pytest.mark.spec("001/List Tools/Filter by pattern")
def test_pattern_is_part_of_the_name_whatever_the_case(box: Toolbox) -> None:
    found = column(box.ot.tools(pattern="search"))

    assert found == ["brave.search", "brave.web_search", "github.search"]
    assert column(box.ot.tools(pattern="SEARCH")) == found
    assert column(box.ot.tools(pattern="rave.se")) == ["brave.search"]
    assert box.ot.tools(pattern="bra.*") == []


@pytest.mark.spec("001/List Tools/Info level list")
def test_tools_at_list_are_names(box: Toolbox) -> None:
    found = box.ot.tools(info="list")

    assert all(type(name) is str for name in found)
    assert found == column(box.ot.tools())


@pytest.mark.spec("001/List Tools/Info level min")
def test_tools_at_min_have_name_and_description(box: Toolbox) -> None:
    for found in (box.ot.tools(), box.ot.tools(info="min")):
        assert all(list(row) == ["name", "description"] for row in found)
    assert {"name": "brave.search", "description": "Search the web."} in box.ot.tools()


@pytest.mark.spec("001/List Tools/Info level full")
def test_tools_at_full_have_every_field_that_there_is(box: Toolbox) -> None:
    rows = {row["name"]: row for row in box.ot.tools(info="full")}

    assert all({"name", "signature", "description", "source"} <= set(row) for row in rows.values())
    assert rows["brave.search"] == {
        "name": "brave.search",
        "signature": "brave.search(query: str, count: int = 5)",
        "description": "Search the web.\n\nLooks at news and pages alike.",
        "source": "local",
        "args": ["query: What to look for.", "count: How many results."],
        "returns": "Rows with title and url.",
        "example": 'brave.search(query="coffee")',
    }
    assert not {"args", "example"} & set(rows["time.now"]) - {"example"}
    assert {row["source"] for row in rows.values()} == {"local", "proxy:git", "proxy:github"}
    assert rows["github.search"]["source"] == "proxy:github"


@pytest.mark.spec("001/List Tools/Proxy tool signature from schema")
def test_signature_of_a_proxy_tool_comes_from_its_schema(box: Toolbox) -> None:
    (row,) = box.ot.tools(pattern="github.search", info="full")

    assert row["signature"] == "github.search(query: str, repo: str = '...', limit: int = 10)"
    signatures = column(box.ot.tools(pattern="git.", info="full"), "signature")
    assert "git.git_diff_unstaged(repo_path: str, context_lines: int = 3)" in signatures


def test_an_optional_argument_cannot_be_read_as_one_with_a_default_text(box: Toolbox) -> None:
    """Only where 001 fixes it does `'...'` stand for a default that is not known."""
    spec = box.registry.require("github.search")

    assert spec.signature == "github.search(query: str, repo: str = ..., limit: int = 10)"
    assert (
        str(inspect.signature(box.pack("github").search))
        == "(query: str, repo: str = ..., limit: int = 10)"
    )
    assert (
        "'...'" not in str(box.ot.help("github.search")) + box.call("github.search", {}).error.hint
    )


@pytest.mark.spec("001/List Tools/Proxy tool arguments from schema")
def test_arguments_of_a_proxy_tool_come_from_its_schema(box: Toolbox) -> None:
    (row,) = box.ot.tools(pattern="github.search", info="full")

    assert row["args"][:2] == ["query: What to search for", "repo: Repository to search in"]
    assert all(isinstance(line, str) for line in row["args"])


# Packs


@pytest.mark.spec("001/Pack Discovery/List all packs")
def test_all_packs_are_listed_by_name(box: Toolbox) -> None:
    found = box.ot.packs()

    assert isinstance(found, list)
    assert column(found) == sorted(box.registry.packs())
    assert {"brave", "github", "ot"} <= set(column(found))
    assert found == box.ot.packs(info="min")


@pytest.mark.spec("001/Pack Discovery/Filter by pattern")
def test_packs_by_part_of_their_name(box: Toolbox) -> None:
    assert column(box.ot.packs(pattern="brav")) == column(box.ot.packs(pattern="BRAV")) == ["brave"]


@pytest.mark.spec("001/Pack Discovery/Info level list")
def test_packs_at_list_are_names(box: Toolbox) -> None:
    assert box.ot.packs(pattern="git", info="list") == ["git", "github"]


@pytest.mark.spec("001/Pack Discovery/Info level min")
def test_packs_at_min_have_source_and_count(box: Toolbox) -> None:
    rows = {row["name"]: row for row in box.ot.packs(info="min")}

    assert all(list(row) == ["name", "source", "tool_count"] for row in rows.values())
    assert rows["brave"] == {"name": "brave", "source": "local", "tool_count": 2}
    assert rows["git"] == {"name": "git", "source": "proxy", "tool_count": 12}
    assert {row["source"] for row in rows.values()} == {"local", "proxy"}
    assert list(rows.values()) == box.ot.packs()


@pytest.mark.spec("001/Pack Discovery/Info level full")
def test_packs_at_full_are_text_with_their_tools(box: Toolbox) -> None:
    text = box.ot.packs(pattern="brave", info="full")

    assert isinstance(text, str)
    assert text.splitlines()[0] == "## brave"
    assert "local" in text
    assert "- brave.search: Search the web." in text
    assert "- brave.web_search: Fetch pages of the web that answer a query." in text
    assert repr(text) == str(text)


@pytest.mark.spec("001/Pack Discovery/Info level full")
@pytest.mark.spec("001/Pack Discovery/Pack with configured instructions")
def test_instructions_of_a_pack_are_in_its_text(box: Toolbox) -> None:
    assert "Close the workbook\nwhen you are done." in box.ot.packs(pattern="excel", info="full")
    assert "Close the workbook" not in box.ot.packs(pattern="brave", info="full")


@pytest.mark.spec("001/Pack Discovery/Proxy pack")
def test_pack_of_a_server_shows_its_tools_and_proxy(box: Toolbox) -> None:
    text = box.ot.packs(pattern="github", info="full")

    assert "- github.search: Search code." in text
    assert re.search(r"(?m)^source: proxy$", text)


# Aliases


@pytest.mark.spec("001/Alias Introspection/List all aliases")
def test_all_aliases_are_listed(box: Toolbox) -> None:
    found = box.ot.aliases()

    assert len(found) == 3
    assert found == box.ot.aliases(info="min")


@pytest.mark.spec("001/Alias Introspection/Filter by pattern")
def test_aliases_by_name_or_target(box: Toolbox) -> None:
    assert box.ot.aliases(pattern="SEARCH", info="list") == ["alias_f", "ws"]
    assert box.ot.aliases(pattern="CHA", info="list") == ["chain"]
    assert box.ot.aliases(pattern="nothing") == []


@pytest.mark.spec("001/Alias Introspection/Info level list")
def test_aliases_at_list_are_names(box: Toolbox) -> None:
    assert box.ot.aliases(info="list") == ["alias_f", "chain", "ws"]


@pytest.mark.spec("001/Alias Introspection/Info level min")
def test_aliases_at_min_are_arrows(box: Toolbox) -> None:
    arrows = ["alias_f -> brave.search", "chain -> ws", "ws -> brave.web_search"]

    assert box.ot.aliases() == box.ot.aliases(info="min") == arrows
    assert str(box.ot.aliases()) == "\n".join(f"- {arrow}" for arrow in arrows)


@pytest.mark.spec("001/Alias Introspection/Info level full")
def test_aliases_at_full_are_rows(box: Toolbox) -> None:
    assert box.ot.aliases(pattern="ws", info="full") == [
        {"name": "chain", "target": "ws"},
        {"name": "ws", "target": "brave.web_search"},
    ]


# Snippets


@pytest.mark.spec("001/Snippet Introspection/List all snippets")
def test_all_snippets_are_listed_with_descriptions(box: Toolbox) -> None:
    found = box.ot.snippets()

    assert [line.partition(":")[0] for line in found] == ["b_q", "brv_research", "pkg_versions"]
    assert found == box.ot.snippets(info="min")


@pytest.mark.spec("001/Snippet Introspection/Filter snippets by pattern")
def test_snippets_by_name_or_description(box: Toolbox) -> None:
    assert box.ot.snippets(pattern="PKG", info="list") == ["pkg_versions"]
    assert box.ot.snippets(pattern="QUESTION", info="list") == ["b_q"]
    assert box.ot.snippets(pattern="nothing") == []


@pytest.mark.spec("001/Snippet Introspection/Info level list")
def test_snippets_at_list_are_names(box: Toolbox) -> None:
    assert box.ot.snippets(info="list") == ["b_q", "brv_research", "pkg_versions"]


@pytest.mark.spec("001/Snippet Introspection/Info level min")
def test_snippets_at_min_are_name_and_description(box: Toolbox) -> None:
    assert (
        box.ot.snippets(pattern="b_q")
        == box.ot.snippets(pattern="b_q", info="min")
        == ["b_q: Quick question"]
    )


@pytest.mark.spec("001/Snippet Introspection/Info level full")
@pytest.mark.spec("001/Snippet Introspection/Snippet output format")
def test_snippet_at_full_is_to_the_letter_of_the_spec(box: Toolbox) -> None:
    text = box.ot.snippets(pattern="brv_research", info="full")

    assert text == RESEARCH
    assert repr(text) == RESEARCH


def test_several_snippets_at_full_are_separated_by_a_blank_line(box: Toolbox) -> None:
    text = box.ot.snippets(pattern="r", info="full")

    assert text.startswith(RESEARCH + "\n\nname: pkg_versions\n")


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        (
            "params: {n: {type: int, default: -1}}, body: 'f({{ n }})'",
            "  n: {type: int, default: -1}",
        ),
        ("params: {n: {default: [a b, c]}}, body: 'f({{ n }})'", '  n: {default: ["a b", c]}'),
        ("params: {n: {default: null}}, body: 'f({{ n }})'", "  n: {default: null}"),
        ("params: {n: {default: x}}, body: 'f({{ n }})'", '  n: {default: "x"}'),
        ("body: 'f()'", "params: {}"),
        ("params: {n: {type: int}}, body: 'f({{ n }})'", "# $x n=1"),
        ("params: {n: {}}, body: 'f({{ n }})'", "# $x n=n"),
        ("params: {n: {example: two words}}, body: 'f({{ n }})'", '# $x n="two words"'),
        ("params: {n: {}}, body: 'f({{ m }})'", "# No example"),
    ],
)
def test_snippet_at_full_shows_types_defaults_and_a_call_that_works(
    project: Project, definition: str, line: str
) -> None:
    box = project.open(f"version: 1\nsnippets: {{x: {{{definition}}}}}\n")

    text = box.ot.snippets(info="full")

    assert any(shown.startswith(line) for shown in text.splitlines()), text


# Config and version


@pytest.mark.spec("001/Configuration Summary/Show config")
def test_config_is_to_the_letter_of_the_spec(project: Project) -> None:
    box = project.open(
        """
        version: 1
        aliases: {ws: brave.web_search, alias_f: demo.foo}
        snippets:
          foon: {description: Get foo() for n items, body: foo()}
          barn: {description: Get bar() for n items, body: bar()}
        servers: {proxy_package_version: {type: stdio, command: nothing}}
        """
    )

    found = box.ot.config()

    assert (
        str(found)
        == 'aliases: {ws: brave.web_search, alias_f: demo.foo}\nsnippets: {foon: {description: "Get'
        ' foo() for n items"}, barn: {description: "Get bar() for n items"}}\nservers:'
        " [proxy_package_version]"
    )
    assert isinstance(found, dict)
    assert yaml.safe_load(str(found)) == found


@pytest.mark.spec("001/Configuration Summary/Empty config")
def test_empty_config_has_empty_values(project: Project) -> None:
    found = project.open().ot.config()

    assert found == {"aliases": {}, "snippets": {}, "servers": []}
    assert str(found) == "{aliases: {}, snippets: {}, servers: []}"


@pytest.mark.spec("001/Version/Get version")
def test_version_is_the_version_of_the_package(box: Toolbox) -> None:
    assert box.ot.version() == __version__
    assert isinstance(box.ot.version(), str)
    assert repr(box.ot.version()) == __version__


# All of them


@pytest.mark.spec("001/YAML Flow Style Output/Flow style formatting")
@pytest.mark.parametrize("info", ["list", "min", "full"])
@pytest.mark.parametrize("function", LISTINGS)
def test_text_of_a_list_loads_back_as_the_list(box: Toolbox, function: str, info: str) -> None:
    found = getattr(box.ot, function)(info=info)

    if isinstance(found, str):
        assert str(found) == repr(found) == found
        return
    assert repr(found) == str(found)
    assert yaml.safe_load(str(found)) == found
    if isinstance(found[0], dict):
        assert all(re.match(r"- \{name: .*\}$", line) for line in str(found).splitlines())


@pytest.mark.parametrize("info", ["List", "", "everything", "min "])
@pytest.mark.parametrize("function", [*LISTINGS, "help"])
def test_bad_info_is_an_error_that_lists_the_valid_ones(
    box: Toolbox, function: str, info: str
) -> None:
    said = getattr(box.ot, function)(info=info)

    assert isinstance(said, ErrorText)
    assert said.startswith(f"Error: Invalid info '{info}'. Valid: list, min, full.")
    assert repr(said) == said


def test_same_error_is_a_failed_call_through_the_executor(box: Toolbox) -> None:
    result = box.call("ot.tools", {"info": "nope"})

    assert not result.ok
    assert result.error is not None
    assert result.error.message == box.ot.tools(info="nope")
    with pytest.raises(ToolCallError, match="Error: Invalid info"):
        result.unwrap()


def test_other_failures_of_ot_are_raised_in_python(box: Toolbox) -> None:
    with pytest.raises(ToolCallError, match="pattern"):
        box.ot.tools(pattern=5)


def test_functions_describe_themselves(box: Toolbox) -> None:
    """Their own pages, completion and schemas come from what they say."""
    for name in (*LISTINGS, "help", "config", "version"):
        spec = box.registry.get(f"ot.{name}")
        assert spec is not None
        assert spec.read_only
        assert spec.returns
        assert spec.example
        assert all(": " in line for line in spec.args)
    info = box.registry.get("ot.tools").parameters["properties"]["info"]  # type: ignore[union-attr]  # it is there
    assert {"enum": ["list", "min", "full"], "type": "string"} in info["anyOf"]


@pytest.mark.parametrize(
    ("ask", "columns"),
    [
        (lambda ot: ot.tools(), ["name", "description"]),
        (lambda ot: ot.packs(), ["name", "source", "tool_count"]),
        (lambda ot: ot.aliases(info="full"), ["name", "target"]),
        (lambda ot: ot.snippets(info="list"), ["name"]),
    ],
)
def test_lists_are_tables_for_pandas_and_in_a_notebook(
    box: Toolbox, ask: Callable[[Any], Any], columns: list[str]
) -> None:
    found = ask(box.ot)

    assert list(found.df.columns) == columns
    assert len(found.df) == len(found)
    html = found._repr_html_()
    assert html.count("<tr>") == len(found) + 1
    assert "<script" not in html


def test_new_tool_and_session_snippet_are_listed_at_once(box: Toolbox) -> None:
    mine = ToolSpec(
        name="nb.mine", description="Mine.", parameters={"type": "object"}, run=lambda args: 1
    )
    box.registry.register(mine)
    box.session_snippets["mine"] = read_snippet(
        "mine", {"body": "1", "description": "Of this session"}
    )

    assert "nb.mine" in box.ot.tools(info="list")
    assert "mine: Of this session" in box.ot.snippets()
