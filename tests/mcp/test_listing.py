"""What a server says of its tools is kept and shown: hints, titles, icons. It counts only for a
trusted server."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.mcp.definition import read_server
from onetool_ipy.mcp.listing import ListingCache, ServerListing, read_icon, read_tools, to_specs
from tests.harness.patience import until
from tests.harness.servers import write_project

PIXEL = "data:image/png;base64,iVBORw0KGgo="
OTHER = "data:image/png;base64,AAAA"


async def nothing(_tool: str, _args: dict[str, Any]) -> None:
    return None


def spec_of(tool: dict[str, Any], *, trusted: bool = False) -> ToolSpec:
    definition = read_server(
        "shop", {"type": "stdio", "trusted": trusted}, "", folder=Path(), timeout_s=9
    )
    tools, faults = read_tools([tool])
    assert faults == ()
    (spec,) = to_specs(definition, ServerListing(tools), nothing)
    return spec


@pytest.mark.parametrize(
    ("said", "trusted", "shown"),
    [
        ({"readOnlyHint": True, "openWorldHint": True}, True, ("read-only", "open world")),
        ({"readOnlyHint": True, "destructiveHint": True}, True, ("read-only",)),
        ({"readOnlyHint": True, "idempotentHint": True}, False, ()),
        (
            {"readOnlyHint": True, "destructiveHint": True, "openWorldHint": True},
            False,
            ("destructive", "open world"),
        ),
        ({"destructiveHint": True, "idempotentHint": True}, True, ("destructive", "idempotent")),
        ({"destructiveHint": "yes", "openWorldHint": 1}, True, ()),
    ],
)
def test_hints_of_a_server_are_badges(
    said: dict[str, Any], trusted: bool, shown: tuple[str, ...]
) -> None:
    spec = spec_of(
        {"name": "x", "inputSchema": {"type": "object"}, "annotations": said}, trusted=trusted
    )

    assert spec.badges == shown


def test_no_of_a_trusted_server_is_kept() -> None:
    spec = spec_of({"name": "x", "annotations": {"destructiveHint": False}}, trusted=True)

    assert (spec.badges, dict(spec.server_facts.hints)) == ((), {"destructive": False})


def test_title_and_icons_are_kept_and_nothing_is_fetched() -> None:
    icons = [
        {"src": "https://shop.example/x.png"},
        {"src": PIXEL},
        {"src": "data:text/html;base64,AAAA"},
        {"src": 1},
        "x",
    ]
    spec = spec_of({"name": "x", "title": "Order \n things", "icons": icons})

    assert (spec.server_facts.title, spec.server_facts.icon) == ("Order things", PIXEL)
    assert spec_of({"name": "x", "annotations": {"title": "Older"}}).server_facts.title == "Older"
    assert (
        spec_of(
            {"name": "x", "icons": [{"src": "data:image/png;base64," + "A" * 33_000}]}
        ).server_facts.icon
        == ""
    )


@pytest.mark.parametrize(
    ("src", "is_kept"),
    [
        ("data:image/webp;base64,AAAA", True),
        ("data:image/svg+xml;charset=utf-8,%3Csvg/%3E", True),
        ("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>", True),
        ("data:image/gif;base64,AAAA", False),
        ("data:text/html,<script>alert(1)</script>", False),
        ("data:image/png;base64,AA\nAA", False),
        ("http://shop.example/x.png", False),
        ("javascript:alert(1)", False),
        ("file:///x.png", False),
    ],
)
def test_only_pictures_that_come_as_data_are_icons(src: str, is_kept: bool) -> None:
    assert read_icon([{"src": src}]) == (src if is_kept else "")


def test_a_tool_without_an_icon_has_that_of_its_server() -> None:
    definition = read_server("shop", {"type": "stdio"}, "", folder=Path(), timeout_s=9)
    tools, _ = read_tools([{"name": "x"}, {"name": "y", "icons": [{"src": OTHER}]}])

    specs = to_specs(definition, ServerListing(tools, icon=PIXEL), nothing)

    assert [spec.server_facts.icon for spec in specs] == [PIXEL, OTHER]


def test_meta_is_kept_shown_and_bounded() -> None:
    spec = spec_of({"name": "x", "_meta": {"shop.example/color": "green"}})

    assert dict(spec.server_facts.meta) == {"shop.example/color": "green"}
    assert spec.meta_text == '{"shop.example/color": "green"}'
    assert len(spec_of({"name": "x", "_meta": {"long": "x" * 3_000}}).meta_text) <= 1_000
    for odd in ({"long": "x" * 5_000}, {}, [1], "x", None):
        assert spec_of({"name": "x", "_meta": odd}).server_facts.meta == {}


def test_meta_does_not_make_it_another_tool() -> None:
    one, other = (spec_of({"name": "x", **more}) for more in ({}, {"_meta": {"at": 5}}))

    assert one.fingerprint == other.fingerprint


@pytest.mark.slow
def test_list_that_no_longer_counts_is_asked_for_again(tmp_path: Path) -> None:
    """The server says that its list counts for a millisecond, and tells of no change."""
    fresh = {
        "type": "stdio",
        "command": sys.executable,
        "args": [str(Path(__file__).with_name("fresh_server.py"))],
    }
    write_project(tmp_path, {"fresh": fresh})

    with open_toolbox(tmp_path) as box:
        assert "fresh.tool0" in [
            tool["name"] for tool in box.ot.tools(pattern="fresh.", info="min")
        ]
        assert until(lambda: "fresh.tool1" in str(box.ot.tools(pattern="fresh.", info="min")))
        shown = box.ot.help(query="fresh.tool1", info="full")
        assert 'Meta: {"shop.example/color": "green"}' in shown


def test_icons_do_not_make_it_another_tool() -> None:
    one, other = (spec_of({"name": "x", **more}) for more in ({}, {"icons": [{"src": PIXEL}]}))

    assert one.fingerprint == other.fingerprint
    assert (
        one.fingerprint
        != spec_of({"name": "x", "annotations": {"destructiveHint": True}}).fingerprint
    )


def test_what_is_kept_survives_the_cache(tmp_path: Path) -> None:
    definition = read_server("shop", {"type": "stdio"}, "", folder=Path(), timeout_s=9)
    listing = ServerListing(
        read_tools([{"name": "x", "title": "Order", "icons": [{"src": OTHER}]}])[0], icon=PIXEL
    )
    cache = ListingCache(tmp_path, str)

    cache.put(definition, listing)

    assert cache.get(definition) == listing


def test_a_damaged_list_is_a_list_or_none(tmp_path: Path) -> None:
    definition = read_server("shop", {"type": "stdio"}, "", folder=Path(), timeout_s=9)
    listing = ServerListing(read_tools([{"name": "x", "title": "Order"}])[0], icon=PIXEL)
    cache = ListingCache(tmp_path, str)
    cache.put(definition, listing)
    (file,) = tmp_path.iterdir()
    whole, pick = file.read_bytes(), random.Random(7)

    for _ in range(300):
        damaged = bytearray(whole[: pick.randrange(1, len(whole) + 1)])
        damaged[pick.randrange(len(damaged))] = pick.randrange(256)
        file.write_bytes(damaged)
        assert isinstance(cache.get(definition), ServerListing | None)
    cache.put(definition, listing)
    assert cache.get(definition) == listing
