"""Faults of a request: every one, with the JSON pointer of its place, from Python too."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.model import Switch, read
from onetool_ipy.bundles.validation import beneath, fault, together, with_others
from tests.bundles.aids import ProjectBundles

FIRST = InvalidRequest(
    "slug: it is empty.", hint="Give it one.", details=[fault("/slug", "it is empty.")]
)
SECOND = InvalidRequest("tags: no.", details=[fault("/tags/0", "no")])


def _refuse(exc: InvalidRequest) -> Any:
    raise exc


def test_fault_is_told_in_sentences() -> None:
    assert fault("/a", "it is wrong", "Do this.") == {
        "pointer": "/a",
        "message": "It is wrong. Do this.",
    }
    assert fault("", "did you mean 'b'?") == {"pointer": "", "message": "Did you mean 'b'?"}


def test_several_refusals_are_one_and_the_same_one_is_told_once() -> None:
    found = together([FIRST, SECOND, copy.copy(FIRST)])

    assert found.message == "slug: it is empty; tags: no."
    assert found.hint == "Give it one."
    assert [each["pointer"] for each in found.details] == ["/slug", "/tags/0"]
    assert together([FIRST, copy.copy(FIRST)]).message == FIRST.message


def test_one_fault_does_not_hide_the_others() -> None:
    found = with_others(FIRST, [lambda: _refuse(FIRST), lambda: _refuse(SECOND), lambda: None])

    assert [each["pointer"] for each in found.details] == ["/slug", "/tags/0"]


def test_refusal_of_a_part_has_its_place_in_the_whole() -> None:
    assert [each["pointer"] for each in beneath(SECOND, "/tool").details] == ["/tool/tags/0"]
    plain = InvalidRequest("No document.", hint="Paste one.")
    assert beneath(plain, "/openapi").details == [
        {"pointer": "/openapi", "message": "No document. Paste one."}
    ]


def test_pointers_are_escaped_and_what_is_missing_has_one() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(Switch, {"a/b~c": 1})

    assert [each["pointer"] for each in caught.value.details] == ["/isEnabled", "/a~1b~0c"]


def test_refusal_keeps_its_details_when_it_is_copied() -> None:
    assert pickle.loads(pickle.dumps(FIRST)).details == FIRST.details
    assert copy.copy(FIRST).details == FIRST.details


def test_put_from_python_tells_every_fault(project_bundles: ProjectBundles) -> None:
    own = project_bundles.bundle().bundle_id
    http = {"request": {"urlTemplate": "ftp://x", "method": "FETCH"}}

    with pytest.raises(InvalidRequest) as caught:
        project_bundles.bundles.put_tool(own, "a b", "1", {"type": "http", "http": http, "tags": 5})

    pointers = [each["pointer"] for each in caught.value.details]
    assert set(pointers) == {"/slug", "/tags", "/http/request/urlTemplate", "/http/request/method"}
    assert "slug: " in caught.value.message
    assert "'tags' must be a list" in caught.value.message
