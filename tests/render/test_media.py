"""Images, sound, resources and links on a page: only known types are embedded, and only web
addresses are links."""

from __future__ import annotations

import json

import pytest

from onetool_ipy.render.media import (
    Audio,
    Blocks,
    Image,
    PromptMessage,
    PromptMessages,
    Resource,
    ResourceLink,
)


def page(value: object) -> str:
    return Blocks([value])._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    ("value", "start"),
    [
        (Image("image/svg+xml", b"<svg/>"), '<img alt="&lt;image/svg+xml, 6 bytes&gt;"'),
        (Audio("audio/wav", b"x"), '<audio controls src="data:audio/wav;base64,eA=="'),
        (Image("text/html", b"<b>"), "<pre"),
        (Resource("a://b", "image/png", b"x"), "<img"),
        (Resource("a://b", "text/html", b"x"), "<pre"),
        (Resource("a://b", "text/html", "<script>"), "<pre"),
        ("<script>", "<pre"),
    ],
)
def test_only_known_types_are_embedded(value: object, start: str) -> None:
    assert page(value).startswith(start)
    assert "<script" not in page(value)


def test_a_picture_that_notebooks_know_is_sent_as_its_own_type() -> None:
    assert Image("image/png", b"x")._repr_mimebundle_()["image/png"] == "eA=="
    assert set(Image("image/svg+xml", b"x")._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "image/png" not in Image("image/png", bytes(20_000_001))._repr_mimebundle_()


@pytest.mark.parametrize("uri", ["https://a.test/x", "javascript:alert(1)", "file:///etc/passwd"])
def test_only_web_addresses_are_links(uri: str) -> None:
    link = ResourceLink(uri, "a<", "b<", server="srv")

    assert ("href" in page(link)) is uri.startswith("https")
    assert "a&lt;" in page(link)
    assert link.line == "%tool server read srv " + (json.dumps(uri) if "(" in uri else uri)
    assert repr(link) == f"<{uri}> a<: b<\n{link.line}"
    assert ResourceLink(uri).line == ""


def test_messages_of_a_prompt_show_their_roles_where_there_are_several() -> None:
    own = PromptMessages(
        [PromptMessage("user", "a"), PromptMessage("user", Resource("u", "m", "b"))]
    )
    both = PromptMessages([*own, PromptMessage("assistant", Image("image/png", b"x"))])

    assert own.text == "a\n\nb"
    assert both.text == "user: a\n\nuser: b\n\nassistant: <image/png, 1 bytes>"
    assert both.images == [Image("image/png", b"x")]
    assert ">user<" not in own._repr_mimebundle_()["text/html"]
    assert ">assistant<" in both._repr_mimebundle_()["text/html"]
