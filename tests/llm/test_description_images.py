"""Pictures for a model: which values are pictures, how they fit a provider, and what a model
without eyes gets."""

from __future__ import annotations

import base64
import json
import sys
from io import BytesIO
from typing import Any

import pytest
from PIL import Image as pillow  # noqa: N813 - a module

from onetool_ipy.base.errors import TooLarge
from onetool_ipy.llm import Call, Message, Outcome, Outcomes, System, Turn, User
from onetool_ipy.llm.description import fitted, picture_of, without_pictures
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.messages import ImageLimits
from onetool_ipy.llm.wire import Anthropic, Gemini, ModelRequest, Ollama, OpenAi, WireFormat
from onetool_ipy.render.media import Blocks, Image
from tests.llm import provider_types
from tests.llm.conftest import MakeClient
from tests.llm.misbehaving import Misbehaving, answered

FORMATS: dict[str, WireFormat] = {
    wire.provider: wire for wire in (OpenAi(), Ollama(), Gemini(), Anthropic())
}


def drawing(width: int = 40, height: int = 20, kind: str = "PNG") -> bytes:
    buffer = BytesIO()
    pillow.effect_noise((width, height), 100).convert("RGB").save(buffer, format=kind)
    return buffer.getvalue()


class Figure:
    def _repr_png_(self) -> str:
        return base64.b64encode(drawing()).decode()


class Wide:
    def _repr_jpeg_(self) -> tuple[bytes, dict[str, Any]]:
        return drawing(kind="JPEG"), {"width": 5}


class Failing:
    def _repr_png_(self) -> bytes:
        raise RuntimeError("cannot draw")


@pytest.mark.parametrize(
    ("value", "mime"),
    [
        (pillow.new("RGB", (3, 2)), "image/png"),
        (pillow.new("CMYK", (3, 2)).convert("L"), "image/png"),
        (drawing(), "image/png"),
        (bytearray(drawing(kind="JPEG")), "image/jpeg"),
        (drawing(kind="GIF"), "image/gif"),
        (drawing(kind="WEBP"), "image/webp"),
        (Figure(), "image/png"),
        (Wide(), "image/jpeg"),
        (Image("image/png", b"x"), "image/png"),
        (Image("image/svg+xml", b"<svg/>"), None),
        (Failing(), None),
        (b"not a picture", None),
        (Figure, None),
        ("text", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rule_13_these_values_are_pictures(value: object, mime: str | None) -> None:
    picture = picture_of(value)

    assert (None if picture is None else picture.mime) == mime


@pytest.mark.slow
def test_rule_13_a_picture_over_the_limit_is_scaled() -> None:
    large = Image("image/png", drawing(900, 300))

    by_side = fitted(large, ImageLimits(max_side=300))
    by_bytes = fitted(large, ImageLimits(max_bytes=len(large.data) // 4))

    assert pillow.open(BytesIO(by_side.data)).size == (300, 100)
    assert len(by_bytes.data) <= len(large.data) // 4
    assert fitted(large, ImageLimits()) is large
    with pytest.raises(TooLarge, match="could not be made small enough"):
        fitted(large, ImageLimits(max_bytes=10))


def test_rule_13_without_pillow_a_large_picture_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = Image("image/png", drawing(900, 300))
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(
        TooLarge,
        match=r"900 pixels wide or high is too large for the model, which takes 300 pixels",
    ):
        fitted(large, ImageLimits(max_side=300))
    with pytest.raises(TooLarge, match="bytes is too large") as caught:
        fitted(large, ImageLimits(max_bytes=1000))

    assert "pip install pillow" in caught.value.hint


def test_rule_13_a_tools_pictures_stand_beside_its_data() -> None:
    picture = Image("image/png", drawing())
    data = Blocks(["A plot:", picture, {"n": 1}])

    plain, images = without_pictures(data, ImageLimits)
    blind, none = without_pictures(data, lambda: None)
    rows = [{"a": 1}]

    assert (plain, images) == (["A plot:", "(image 1, sent along)", {"n": 1}], (picture,))
    assert none == ()
    assert "which this model does not take" in str(blind)
    assert without_pictures(rows, ImageLimits)[0] is rows
    assert without_pictures(picture.data, ImageLimits)[1] == (picture,)


@pytest.mark.parametrize("provider", FORMATS)
def test_rule_13_a_tools_picture_goes_in_its_providers_form(provider: str) -> None:
    call, other = Call("c1", "plot_draw", {}), Call("c2", "time_now", {})
    encoded = base64.b64encode(drawing()).decode()
    outcome = Outcome(call, {"data": "(image 1, sent along)"}, images=(("image/png", encoded),))
    messages: list[Message] = [
        System("Be brief."),
        User("Draw"),
        Turn(calls=(call, other)),
        Outcomes((outcome, Outcome(other, "noon"))),
    ]
    tools = (OfferedTool("plot_draw", "Draw.", {"type": "object", "properties": {}}, "plot.draw"),)
    wire = FORMATS[provider]

    body = wire.body(
        ModelRequest(wire.default_url, "m-1", messages, tools, None, is_streamed=False)
    )

    assert json.dumps(body).count(encoded) == 1
    if provider == "openai":
        provider_types.openai_request(streamed=False).validate_python(body)
        assert [line["role"] for line in body["messages"][-3:]] == ["tool", "tool", "user"]
    elif provider == "anthropic":
        provider_types.anthropic_request(streamed=False).validate_python(body)
        assert [block["type"] for block in body["messages"][-1]["content"][0]["content"]] == [
            "text",
            "image",
        ]
    elif provider == "gemini":
        for content in body["contents"]:
            provider_types.gemini().Content.model_validate(content)
        assert [*body["contents"][-1]["parts"][-1]] == ["inlineData"]
    else:
        provider_types.ollama_request().model_validate(body)
        assert body["messages"][-1]["images"] == [encoded]


@pytest.mark.parametrize(
    ("reply", "takes"),
    [
        (answered(200, {"capabilities": ["completion", "vision"]}), True),
        (answered(200, {"capabilities": ["completion", "tools"]}), False),
        (answered(200, {"details": {}}), True),
        (answered(404, {"error": "no such model"}), True),
    ],
    ids=["sees", "blind", "silent", "unknown"],
)
def test_rule_13_ollama_is_asked_whether_its_model_takes_images(
    make_client: MakeClient, reply: Any, takes: bool
) -> None:
    with Misbehaving(reply) as server:
        limits = make_client("ollama", server.url).image_limits()

    assert (limits is not None) == takes
