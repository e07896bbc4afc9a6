"""Pages: every row once; tokens that are not ours are refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.catalog import page_of
from tests.bundles.aids import ProjectBundles, go
from tests.harness.project import Project

COUNT = 30


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectBundles]:
    """Bundles that the tests of this file only read."""
    project_bundles = ProjectBundles(Project(tmp_path_factory.mktemp("paging") / "project"))
    fill(project_bundles)
    yield project_bundles
    project_bundles.box.close()


def fill(project_bundles: ProjectBundles) -> str:
    bundle = project_bundles.bundle("many")
    project_bundles.bundles.put_tools(
        bundle.bundle_id, [(f"t{number}", "1", go()) for number in range(COUNT)]
    )
    return bundle.bundle_id


def pages(ask: Any, **query: Any) -> list[list[str]]:
    found, token = [], None
    while True:
        page = ask(page_token=token, **query)
        found.append([tool.slug for tool in page])
        token = page.next_page_token
        if token is None:
            return found


def test_default_is_25(full: ProjectBundles) -> None:
    assert [len(page) for page in pages(full.bundles.list_tools)] == [25, COUNT + 5 - 25]
    assert [len(page) for page in pages(full.bundles.list_tools, page_size=1000)] == [COUNT + 5]


def test_most_is_256_whatever_is_asked_for() -> None:
    rows = list(range(600))

    first, token = page_of(rows, size=10**9, token=None, query=["s"], key=lambda row: [row])
    second, more = page_of(rows, size=10**9, token=token, query=["s"], key=lambda row: [row])

    assert first + second == rows[:512]
    assert more is not None


@pytest.mark.parametrize("size", [1, 7, COUNT - 1, COUNT, COUNT + 1])
def test_every_row_once(full: ProjectBundles, size: int) -> None:
    listed = [slug for page in pages(full.bundles.list_tools, page_size=size) for slug in page]
    searched = [
        s
        for page in pages(lambda **q: full.bundles.search("many", **q), page_size=size)
        for s in page
    ]

    assert len(listed) == len(set(listed)) == COUNT + 5
    assert len(searched) == len(set(searched)) == COUNT


def test_a_token_of_another_query_is_refused(full: ProjectBundles) -> None:
    own = full.bundles.named("many").bundle_id  # type: ignore[union-attr]
    token = full.bundles.list_tools(page_size=5).next_page_token
    searched = full.bundles.search("many", page_size=5).next_page_token

    for ask in (
        lambda: full.bundles.list_tools(page_token=token, bundle_ids=[own]),
        lambda: full.bundles.list_tools(page_token=token, include_disabled=True),
        lambda: full.bundles.list_tools(page_token=token, tags=["x"]),
        lambda: full.bundles.list_bundles(page_token=token),
        lambda: full.bundles.search("many", page_token=token),
        lambda: full.bundles.search("man", page_token=searched),
        lambda: full.bundles.list_tools(page_token=searched),
    ):
        with pytest.raises(InvalidRequest, match="pageToken"):
            ask()
    assert len(full.bundles.list_tools(page_token=token, page_size=7)) == 7  # the size may change


def test_a_token_of_another_project_is_refused(full: ProjectBundles, tmp_path: Any) -> None:
    other = ProjectBundles(Project(tmp_path / "other"))
    token = full.bundles.list_tools(page_size=5).next_page_token

    with pytest.raises(InvalidRequest):
        other.bundles.list_tools(page_token=token)
    other.box.close()


def test_forged_tokens_are_refused(full: ProjectBundles) -> None:
    token = full.bundles.list_tools(page_size=5).next_page_token
    assert token is not None
    old = "5.0123456789abcdef0123456789abcdef"

    for bad in (
        old,
        token[:-1],
        token + "A",
        f"0{token}",
        token.rpartition(".")[0],
        "bnVsbA==.x",
        "W10=.x",
        "",
        "x",
        "é",
        "\0",
        "x" * 100_000,
        "-1.",
        7,
        b"x",
        [],
    ):
        with pytest.raises(InvalidRequest, match="pageToken") as caught:
            full.bundles.list_tools(page_size=5, page_token=bad)  # type: ignore[arg-type]
        assert caught.value.status == 400


@pytest.mark.parametrize("change", ["delete", "switch off"])
@pytest.mark.parametrize("text", [None, "many", "man", "mny", "say"], ids=str)
def test_no_row_is_skipped_or_shown_twice_when_rows_vanish_between_pages(
    tmp_path: Path, change: str, text: str | None
) -> None:
    """After each page every shown tool but its last one goes away; the twin is the list before."""
    changing = ProjectBundles(Project(tmp_path / "changing"))
    own, bundles = fill(changing), changing.bundles
    ask = bundles.list_tools if text is None else partial(bundles.search, text)
    twin = [tool.slug for tool in ask(page_size=256)]
    shown: list[str] = []
    token = None
    while True:
        page = ask(page_size=4, page_token=token)
        shown += [tool.slug for tool in page]
        token = page.next_page_token
        if token is None:
            break
        for tool in page.items[1 - len(shown) % 2 :]:
            if tool.is_built_in:
                continue
            if change == "delete":
                bundles.delete_tool(own, tool.slug, tool.version)
            else:
                bundles.patch_tool(own, tool.slug, tool.version, enabled=False)
    changing.box.close()

    assert shown == twin


def test_no_bundle_is_skipped_when_bundles_vanish_between_pages(tmp_path: Path) -> None:
    changing = ProjectBundles(Project(tmp_path / "changing"))
    made = [changing.bundle(f"b{number}").bundle_id for number in range(9)]
    shown: list[str] = []
    token = None
    while True:
        page = changing.bundles.list_bundles(page_size=3, page_token=token)
        shown += [bundle.bundle_id for bundle in page]
        token = page.next_page_token
        if token is None:
            break
        for bundle in page:
            if not bundle.is_built_in:
                changing.bundles.delete_bundle(bundle.bundle_id)
    changing.box.close()

    assert [each for each in shown if each in made] == made
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("size", [0, -1, "5", None, 2.0, True])
def test_bad_sizes_are_refused(full: ProjectBundles, size: Any) -> None:
    for ask in (
        full.bundles.list_tools,
        full.bundles.list_bundles,
        lambda **q: full.bundles.search("x", **q),
    ):
        with pytest.raises(InvalidRequest, match="pageSize"):
            ask(page_size=size)
