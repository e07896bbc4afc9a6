"""Where a browser brings the answer of a sign-in: the mailbox of Jupyter Server, and a port of this
machine."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.mcp.callback import (
    CallbackAnswer,
    Mailbox,
    is_loopback,
    listening_port,
    read_answer,
    read_pasted_answer,
)

MARKUP = "<script>alert(1)</script>"


async def test_a_mailbox_takes_one_answer_for_a_state_that_is_waited_for(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path / "tokens")
    assert not mailbox.deliver(CallbackAnswer("early", "mine"))
    waiting = asyncio.create_task(mailbox.wait("mine"))
    await asyncio.sleep(0)

    assert not mailbox.deliver(CallbackAnswer("foreign", "theirs"))
    assert mailbox.deliver(CallbackAnswer("good", "mine", "https://iss.example"))
    assert not mailbox.deliver(CallbackAnswer("again", "mine"))

    assert await waiting == ("good", "mine", "https://iss.example", "")
    assert not list((tmp_path / "tokens").iterdir())
    assert not mailbox.deliver(CallbackAnswer("late", "mine"))


async def test_of_answers_that_are_brought_at_once_one_counts(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    for turn in range(3):
        waiting = asyncio.create_task(mailbox.wait(f"{turn}"))
        await asyncio.sleep(0)
        answers = [CallbackAnswer(f"code {number}", f"{turn}") for number in range(8)]

        with ThreadPoolExecutor(8) as threads:
            taken = list(threads.map(mailbox.deliver, answers))

        assert taken.count(True) == 1
        assert await waiting == answers[taken.index(True)]


async def test_a_mailbox_forgets_what_killed_kernels_left(tmp_path: Path) -> None:
    old = tmp_path / "0.answer"
    old.write_text('["code", "state", null, ""]', encoding="utf-8")
    os.utime(old, (0, 0))
    grant = tmp_path / "0.json"
    grant.write_text("{}", encoding="utf-8")
    os.utime(grant, (0, 0))

    waiting = asyncio.create_task(Mailbox(tmp_path).wait("mine"))
    await asyncio.sleep(0)

    assert not old.exists()
    assert grant.exists()
    waiting.cancel()


async def test_a_port_answers_with_no_markup_of_the_address() -> None:
    async with listening_port() as port, httpx.AsyncClient() as browser:
        waiting = asyncio.create_task(port.wait("mine"))
        await asyncio.sleep(0)
        page = await browser.get(
            port.redirect_uri, params={"state": MARKUP, "code": MARKUP, "error": MARKUP}
        )
        assert page.status_code == 400
        assert MARKUP not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (
            await browser.get(port.redirect_uri, params={"state": "mine", "error": MARKUP})
        ).status_code == 200
        assert (await waiting).error == MARKUP


async def test_a_port_survives_what_is_no_browser() -> None:
    async with listening_port() as port:
        number = httpx.URL(port.redirect_uri).port
        for sent in (
            b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"\x00" * 40_000,
            b"GET /callback HTTP/1.1\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", number)
            writer.write(sent)
            writer.write_eof()
            await reader.read()
            writer.close()
        waiting = asyncio.create_task(port.wait("mine"))
        await asyncio.sleep(0)
        async with httpx.AsyncClient() as browser:
            assert (
                await browser.get(port.redirect_uri, params={"state": "mine", "code": "x"})
            ).status_code == 200
        assert (await waiting).code == "x"


async def test_a_port_that_is_taken_is_replaced_unless_it_is_fixed() -> None:
    async with listening_port() as first:
        async with listening_port(preferred=first.redirect_uri) as second:
            assert second.redirect_uri != first.redirect_uri
        with pytest.raises(OSError, match=r"in use|10048"):
            async with listening_port(fixed=first.redirect_uri):
                pass
    async with listening_port(preferred=first.redirect_uri) as again:
        assert again.redirect_uri == first.redirect_uri


@pytest.mark.parametrize(
    "query",
    [
        "",
        "code=1",
        "state=1",
        "state=1&code=2&state=3",
        "state=1&code=2&" + "&".join(f"a{i}=1" for i in range(50)),
    ],
)
def test_what_is_no_answer(query: str) -> None:
    assert read_answer(query) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8/x", True),
        ("http://localhost/x", True),
        ("http://[::1]/x", True),
        ("http://127.0.0.1.evil.example/", False),
        ("http://localhost.evil.example/", False),
        ("http://evil.example/127.0.0.1", False),
        ("http://127.0.0.1@evil.example/", False),
    ],
)
def test_what_is_on_this_machine(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def test_an_answer_shows_no_code() -> None:
    assert "secret" not in repr(CallbackAnswer("secret-code", "secret-state"))


BACK = "http://127.0.0.1:4040/onetool/callback"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("abc", "abc"),
        (" abc\n", "abc"),
        (f"{BACK}?code=abc&state=mine", "abc"),
        ("code=abc&state=mine", "abc"),
        ("?code=abc&state=mine", "abc"),
    ],
)
def test_a_pasted_address_or_its_code_alone_is_the_answer(text: str, code: str) -> None:
    answer = read_pasted_answer(text, BACK, "mine")

    assert (answer.code, answer.state) == (code, "mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "This is not the answer of a sign-in."),
        (BACK, "This is not the answer of a sign-in."),
        ("http://127.0.0.1:4040/other?code=abc&state=mine", "This is not the answer of a sign-in."),
        ("code=abc", "This is not the answer of a sign-in."),
        (f"{BACK}?code=abc&state=theirs", "This address belongs to another sign-in."),
        ("code=abc&state=theirs", "This address belongs to another sign-in."),
    ],
)
def test_what_else_is_pasted_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        read_pasted_answer(text, BACK, "mine")
