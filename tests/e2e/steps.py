"""A person at the page whose clicks and keys are counted, and what the same task takes in the tool
people know.

Not a test. A paste is one step, as is a click; a typed text takes a step for each character.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Locator, Page

from tests.harness.surroundings import ROOT

__all__ = ["ANCHORS", "CLICKS", "Anchor", "Steps", "check", "check_clicks"]

PAGE = ROOT / "docs" / "screens.md"


@dataclass(frozen=True)
class Anchor:
    """The steps of a task in another program, as its documentation has them: clicks and pastes, and
    what is typed."""

    name: str
    clicks: tuple[str, ...]
    typed: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.clicks) + sum(map(len, self.typed))


ANCHORS = {
    "filter and export rows": Anchor(
        "itables 2",
        ("run the cell", "search field", "CSV"),
        ('show(sales, buttons=["csvHtml5"])', "wien"),
    ),
    "call an API with a token": Anchor(
        "Postman",
        (
            *(
                "new tab",
                "address field",
                "paste the address",
                "Authorization",
                "type",
                "Bearer Token",
            ),
            *("token field", "paste the token", "Send"),
        ),
    ),
    "add and call an MCP server": Anchor(
        "MCP Inspector 2.12",
        (
            "paste the README's command",
            "run it",
            "connect",
            "Tools",
            "the tool",
            "field a",
            "field b",
            "Execute Tool",
        ),
        ("npx @modelcontextprotocol/inspector ", "2", "3"),
    ),
    "approve one of three calls": Anchor("jupyter-ai 3", ("approve the first", "reject", "reject")),
}

CLICKS = {
    "100,000 rows: sort, filter, columns, CSV": 6,
    "HTTP tool with a token, from the panel's icon to Save": 8,
    "one of three calls approved": 2,
    "3 of 20 operations imported": 5,
    "server added and called": 4,
    "what failed since yesterday, run again": 3,
}
"""How many clicks a task may take at most. What is typed and pasted is not counted."""


@dataclass
class Steps:
    """`person.click(button)`, `person.paste(field, text)`, `person.type(text)`; `count` is what it
    took."""

    page: Page
    clicks: int = 0
    keys: int = field(default=0)

    @property
    def count(self) -> int:
        return self.clicks + self.keys

    def click(self, target: Locator, **how: Any) -> None:
        target.click(**how)
        self.clicks += 1

    def paste(self, target: Locator, text: str) -> None:
        """Click into a field and paste into it."""
        self.click(target)
        self.page.keyboard.insert_text(text)
        self.keys += 1

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.keys += len(text)

    def press(self, keys: str) -> None:
        self.page.keyboard.press(keys)
        self.keys += 1


def check(task: str, person: Steps) -> None:
    """No more steps than in the anchor, and the table in docs/screens.md says how many."""
    anchor = ANCHORS[task]
    row = f"| {task} | {person.clicks} + {person.keys} | {anchor.name}: {anchor.count} |"
    sys.stdout.write(f"{row}\n")
    assert person.count <= anchor.count
    assert row in PAGE.read_text(encoding="utf-8"), f"docs/screens.md does not have: {row}"


def check_clicks(task: str, person: Steps) -> None:
    """No more clicks than `CLICKS` has, and the table in docs/screens.md says how many."""
    row = f"| {task} | {person.clicks} | {CLICKS[task]} |"
    sys.stdout.write(f"{row}\n")
    assert person.clicks <= CLICKS[task], row
    assert row in PAGE.read_text(encoding="utf-8"), f"docs/screens.md does not have: {row}"
