"""OpenAPI documents that others wrote: imported whole, in time, and called against a server that
knows the document."""

from __future__ import annotations

import datetime
import json
import lzma
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import pytest
import yaml

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import CallFailure, InvalidArgs, InvalidOutput
from onetool_ipy.bundles.http.definition import HttpDefinition
from onetool_ipy.bundles.http.runner import HttpRunner
from onetool_ipy.bundles.importing.draft import BundleDraft
from onetool_ipy.bundles.importing.formats import import_document
from onetool_ipy.bundles.model import ToolBody, read
from onetool_ipy.config.yaml_text import MAX_VALUES
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.hosts import Hosts
from onetool_ipy.schema.sample import samples
from tests.bundles.importing.judge import Judge
from tests.harness.stub import Asked, Stub
from tests.harness.surroundings import ROOT

DATA = ROOT / "tests" / "data" / "openapi"
OPERATIONS = {"github.json": 1223, "star-trek.json": 120, "readme.json": 54, "galaxy.yaml": 9}

FIVE: dict[str, dict[str, dict[str, Any]]] = {
    "github.json": {
        "repos-get": {"owner": "octo/cat", "repo": "hello world"},
        "issues-list-for-repo": {
            "owner": "a",
            "repo": "b",
            "labels": "bug,ui",
            "state": "all",
            "per_page": 5,
        },
        "issues-create": {
            "owner": "a",
            "repo": "b",
            "title": "Tïtle",
            "labels": ["x", {"name": "y"}],
        },
        "repos-create-or-update-file-contents": {
            "owner": "a",
            "repo": "b",
            "path": "docs/x.md",
            "message": "m",
            "content": "eA==",
            "committer": {"name": "n", "email": "e@x.test"},
        },
        "pulls-merge": {"owner": "a", "repo": "b", "pull_number": 7, "merge_method": "squash"},
    },
    "star-trek.json": {
        "get-animal": {"uid": "ANMA0000264633"},
        "get-book-search": {"pageNumber": 0, "pageSize": 50},
        "post-animal-search": {
            "pageNumber": 1,
            "sort": "name,ASC",
            "name": "Größe & Co",
            "earthAnimal": True,
        },
        "post-book-search": {"title": "a=b&c", "publishedYearFrom": 1990},
        "get-movie": {"uid": "MOMA0000001"},
    },
    "readme.json": {
        "createAPIKey": {"subdomain": "acme", "label": "ci key"},
        "getCategories": {"branch": "v1.0/beta", "section": "guides"},
        "createChangelog": {"title": "News", "type": "added", "content": {"body": "text"}},
        "updateCategory": {
            "branch": "stable",
            "section": "guides",
            "title": "a b",
            "body": {"title": "c"},
        },
        "search": {"query": "how to?", "section": "guides"},
    },
    "galaxy.yaml": {
        "getAllData": {"limit": 5, "offset": 10},
        "getPlanet": {"planetId": 3},
        "deletePlanet": {"planetId": 3},
        "createUser": {
            "body": {"name": "Marc", "email": "marc@scalar.com", "password": "i-love-scalar"}
        },
        "getMe": {},
    },
}


def text_of(name: str) -> bytes:
    return lzma.decompress((DATA / f"{name}.xz").read_bytes())


@pytest.fixture(scope="module")
def drafts() -> dict[str, BundleDraft]:
    return {name: import_document(text_of(name)) for name in OPERATIONS}


@pytest.fixture(scope="module")
def client() -> Iterator[HttpClient]:
    background, workers = Background(), Workers()
    client = HttpClient(background, workers)
    yield client
    for part in (background, client):
        part.close()


@pytest.fixture(scope="module")
def judges() -> dict[str, Judge]:
    def read(name: str) -> Any:
        text = text_of(name)
        return yaml.load(text, yaml.CSafeLoader) if name.endswith("yaml") else json.loads(text)

    return {name: Judge(read(name)) for name in OPERATIONS}


class Desk:
    """A stub server that judges, and the tools of a document pointed at it."""

    def __init__(self, judge: Judge, draft: BundleDraft, client: HttpClient) -> None:
        self._judge = judge
        self._tools = {tool["slug"]: tool for tool in draft.tools}
        self._client = client
        self._value: Any = None
        self.faults: list[str] = []
        self.stub = Stub(self._answer)

    def runner(self, slug: str) -> HttpRunner:
        tool = self._tools[slug]
        written = json.loads(json.dumps(tool["http"]))
        place = urlsplit(written["request"]["urlTemplate"])
        written["request"]["urlTemplate"] = (
            self.stub.url() + written["request"]["urlTemplate"].split(place.netloc, 1)[1][1:]
        )
        output = tool.get("outputSchema")
        self._value = _sample(output) if output is not None else {}
        if output is not None and not jsonschema_rs.is_valid(output, self._value):
            output = None  # a sample that does not fit; what is checked here is the request
        return HttpRunner(
            HttpDefinition.model_validate(written),
            arg_schema=tool["argSchema"],
            output_schema=output,
            name=slug,
            client=self._client,
            rules=Rules(hosts=Hosts(["127.0.0.1"]), allow_private=True, timeout_s=10),
            secret=lambda name: f"secret-{name}",
            clock=lambda: datetime.datetime.now(datetime.UTC),
        )

    def _answer(self, asked: Asked) -> tuple[int, Any]:
        faults = self._judge.faults(asked)
        self.faults += faults
        return (400, faults) if faults else (200, self._value)


def _sample(schema: dict[str, Any]) -> Any:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    whole = {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "$defs": schema.get("$defs", {}),
    }
    return next(args for _, args in samples(whole))["value"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_becomes_a_tool_that_can_be_kept(
    drafts: dict[str, BundleDraft], name: str
) -> None:
    draft = drafts[name]

    assert len(draft.tools) == OPERATIONS[name]
    assert len({tool["slug"] for tool in draft.tools}) == len(draft.tools)
    for tool in draft.tools:
        kept = read(ToolBody, tool, own=(tool["slug"], tool["version"]))
        assert kept.description
        assert '"$ref": "#/components' not in json.dumps(tool)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["readme.json", pytest.param("github.json", marks=pytest.mark.soak)]
)
def test_a_large_document_in_yaml_is_the_same_as_in_json(
    drafts: dict[str, BundleDraft], name: str
) -> None:
    """More values than a configuration may have: a text without aliases has as many as its length
    allows."""
    text = yaml.dump(
        json.loads(text_of(name)), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True
    )

    draft = import_document(f"{text}x-many: [{'1,' * MAX_VALUES}]\n")

    for tool, expected in zip(draft.tools, drafts[name].tools, strict=True):
        assert all(
            tool[key] == expected[key] for key in ("slug", "description", "argSchema", "http")
        )
    assert draft.notes == drafts[name].notes


@pytest.mark.slow
def test_what_the_documents_have_beyond_tools_is_noted(drafts: dict[str, BundleDraft]) -> None:
    assert (
        "'webhooks' are calls that a server makes, and are left out" in drafts["galaxy.yaml"].notes
    )
    assert drafts["github.json"].hosts == ["api.github.com", "uploads.github.com"]
    assert [secret["name"] for secret in drafts["readme.json"].secrets] == ["README_API_BEARER"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "slug"), [(name, slug) for name, five in FIVE.items() for slug in five]
)
def test_five_tools_send_what_the_document_asks_for(
    drafts: dict[str, BundleDraft],
    judges: dict[str, Judge],
    client: HttpClient,
    name: str,
    slug: str,
) -> None:
    desk = Desk(judges[name], drafts[name], client)

    with desk.stub:
        desk.runner(slug).run(FIVE[name][slug])

    assert desk.faults == []
    assert len(desk.stub.asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nth"),
    [("github.json", 12), ("star-trek.json", 8), ("readme.json", 1), ("galaxy.yaml", 1)],
)
def test_tools_with_every_argument_send_what_the_document_asks_for(
    drafts: dict[str, BundleDraft],
    judges: dict[str, Judge],
    client: HttpClient,
    name: str,
    nth: int,
) -> None:
    """A sample that does not fit its own schema (a pattern, a choice) is passed over; most do."""
    desk = Desk(judges[name], drafts[name], client)
    sent = tried = 0

    with desk.stub:
        for tool in drafts[name].tools[::nth]:
            runner = desk.runner(tool["slug"])
            for _, args in samples(tool["argSchema"]):
                tried += 1
                try:
                    runner.run(args)
                except (InvalidArgs, InvalidOutput) as exc:
                    sent += isinstance(exc, InvalidOutput)
                except CallFailure as exc:
                    raise AssertionError((tool["slug"], args, exc.message, desk.faults)) from None
                else:
                    sent += 1

    assert desk.faults == []
    assert sent > tried / 4, (sent, tried)


@pytest.mark.slow
def test_a_wrong_request_is_noticed(judges: dict[str, Judge]) -> None:
    """The judge can say no."""

    def asked(method: str, target: str, body: bytes = b"") -> list[str]:
        return judges["github.json"].faults(
            Asked(method, target, {"content-type": "application/json"}, body)
        )

    assert asked("GET", "/repos/a/b") == []
    assert asked("GET", "/repos/a/b?x=1") == ["query parameter 'x' is not in the document"]
    assert asked("GET", "/nowhere/a")[0].startswith("no operation")
    assert asked("POST", "/repos/a/b/issues") == ["the body is missing"]
    assert "title" in asked("POST", "/repos/a/b/issues", b"{}")[0]
    assert asked("GET", "/repos/a/b/issues?state=odd")[0].startswith("query parameter 'state'")
    assert asked("GET", "/repos/a/b/pulls/x")[0].startswith("path parameter 'pull_number'")
