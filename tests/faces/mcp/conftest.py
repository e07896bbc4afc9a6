"""A project to serve: tools that give media, tables and files, ask, tell how far they are, and can
be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.faces.mcp.server import ToolboxServer
from tests.harness.patience import HANG_S

PACK = '''
"""Tools for the tests of what clients see."""
pack = "shop"
import base64, threading, time
from pathlib import Path
from typing import Literal
from onetool_ipy import tool
from onetool_ipy.core import current
from onetool_ipy.core.question import Question
from onetool_ipy.sdk import Blocks, Image, ResourceLink, ask_user, ask_model, client_can, get_secret, log, progress

__all__ = [
    "picture", "sound", "table", "lines", "file", "parts", "huge", "order", "order_twice", "secret_form", "nested",
    "guess", "advise", "about", "card", "stock", "label", "leaking", "counted", "drawn", "hasty",
]
PNG = b"\\x89PNG\\r\\n\\x1a\\n" + b"0" * 20
SIZE = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}, "required": ["size"]}
began = []


def picture() -> bytes:
    """Give an image as bytes."""
    return PNG


class _Drawn:
    def _repr_png_(self):
        return PNG


def drawn():
    """Give an object that draws itself, as Pillow's images do."""
    return _Drawn()


def sound() -> bytes:
    """Give sound as bytes."""
    return b"RIFF\\x00\\x00\\x00\\x00WAVEfmt "


def table():
    """Give a frame."""
    import pandas as pd
    return pd.DataFrame({"id": [1, 2], "name": ["apple", "pear"]})


def lines(n: int) -> list[str]:
    """Give many lines."""
    return [f"line {i}" for i in range(1, n + 1)]


def file() -> bytes:
    """Give bytes of no known kind."""
    return b"\\x00\\x01\\x02"


def parts() -> Blocks:
    """Give several parts, one with a secret."""
    link = ResourceLink("https://example.com/", "a link", "to " + get_secret("TOKEN_OF_TESTS"))
    return Blocks(["text with " + get_secret("TOKEN_OF_TESTS"), Image("image/png", PNG), {"a": 1}, link])


def huge() -> bytes:
    """Give more than is sent."""
    return PNG + bytes(30_000_000)


def order(item: str) -> str:
    """Ask how large, before it is ordered.

    Args:
        item: What.
    """
    began.append(item)
    found = ask_user(SIZE, f"Which size of {item}?")
    return f"{item} {found['size']}, asked {len(began)} times" if found else f"no {item}"


@tool(timeout=5)
def hasty() -> str:
    """Ask within a limit."""
    return str(ask_user(SIZE, "Which size?"))


def order_twice() -> str:
    """Ask two things by the same name."""
    return f"{ask_user(SIZE, 'First?')} {ask_user(SIZE, 'Second?')}"


def secret_form(is_own: bool = False) -> str:
    """Ask for what must not be asked.

    Args:
        is_own: As our own commands ask the person at the kernel.
    """
    form = {"type": "object", "properties": {"password": {"type": "string"}}}
    if is_own:
        question = Question("%tool", "Who are you?", form=form, yes="Go on", takes_secret=True)
        return current.require().put_question(question).action
    return str(ask_user(form, "Who are you?"))


def nested() -> str:
    """Call a tool that asks."""
    from onetool_ipy.sdk import call_tool
    return call_tool("shop.order", item="pears")


def guess(marker: str) -> str:
    """Ask and, when the question is taken back, say so in a file.

    Args:
        marker: The file.
    """
    try:
        return str(ask_user(SIZE, "Which number?"))
    except BaseException as exc:
        Path(marker).write_text(type(exc).__name__)
        raise


def advise() -> str:
    """Ask the client's model."""
    return ask_model("Which one?", system="You sell fruit.") + " " + ",".join(sorted(client_can()))


def counted() -> str:
    """Tell how far it is, and log."""
    log("a detail", "debug")
    log("it begins")
    progress(1, 2, "half")
    return "done"


@tool(prompt=True)
def about(item: Literal["apple", "apricot", "pear"], loud: bool = False, count: int = 1) -> str:
    """Write about an item.

    Args:
        item: Which.
        loud: Whether to shout.
        count: How many words.
    """
    text = f"Write {count + 1} words about the {item}."
    return text.upper() if loud else text


@tool(resource="shop://card")
def card() -> dict:
    """The card."""
    return {"apples": 3}


@tool(resource="shop://stock/{item}")
def stock(item: str) -> str:
    """How many there are.

    Args:
        item: Of what.
    """
    return f"stock of {item}"


@tool(resource="shop://label")
def label() -> bytes:
    """An image."""
    return PNG


@tool(resource="shop://all")
def leaking() -> list[str]:
    """Much, with a secret in it."""
    return [get_secret("TOKEN_OF_TESTS")] * 5000
'''
SECRET = "s3cr3t-of-the-tests"
SNIPPETS = """
snippets:
  greet:
    description: Greet somebody
    params:
      who: {description: whom, default: you}
      times: {type: int, example: 2}
    body: "hello(${{ who }}, {{ times }})"
"""
PROMPTS = "packs:\n  shop: Ask for the size first.\n  nowhere: There is no such pack.\n"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Toolbox]:
    onetool = tmp_path / "project" / ".onetool"
    (onetool / "tools").mkdir(parents=True)
    (onetool / "tools" / "shop.py").write_text(PACK)
    (onetool / "onetool.yaml").write_text(
        'version: 1\ntools_dir: ["tools/*.py"]\noutput: {max_inline_bytes: 2000}\n'
    )
    (onetool / "snippets.yaml").write_text(SNIPPETS.replace("${{", "{{"))
    (onetool / "prompts.yaml").write_text(PROMPTS)
    secrets = onetool / "secrets.yaml"
    secrets.write_text(f"TOKEN_OF_TESTS: {SECRET}\n")
    secrets.chmod(0o600)
    with open_toolbox(onetool.parent, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        yield box


Connect = Callable[..., Any]


@pytest.fixture
def connect(shop: Toolbox) -> Iterator[Connect]:
    """Connect the SDK's client to the toolbox: `connect(mode="legacy", allow=[...],
    elicitation_callback=...)`."""
    made: list[ToolboxServer] = []

    def client(
        *, mode: str = "2026-07-28", allow: list[str] | None = None, **callbacks: Any
    ) -> Client:
        server = ToolboxServer(shop, allow=["*"] if allow is None else allow)
        made.append(server)
        return Client(server.server, mode=mode, read_timeout_seconds=HANG_S, **callbacks)

    yield client
    for server in made:
        server.close()
