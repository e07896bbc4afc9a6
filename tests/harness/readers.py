"""What reads text of other people, as functions of one text, and the texts that make a bad one
slow.

`python -m tests.harness.readers` prints each expression and each reader as it begins, and a line
`slow: ...` for each bad one.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

from onetool_ipy.base import printable, values
from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.masking import Secrets
from onetool_ipy.bundles.http.definition import RequestTemplate
from onetool_ipy.bundles.http.template import placeholders_in
from onetool_ipy.bundles.importing import labels
from onetool_ipy.bundles.importing.curl import import_curl
from onetool_ipy.bundles.importing.formats import import_document
from onetool_ipy.config import yaml_text
from onetool_ipy.core import describe
from onetool_ipy.faces.client_files import parse_json
from onetool_ipy.faces.line import grammar
from onetool_ipy.faces.line.tokenizer import words
from onetool_ipy.faces.notebook.completion import complete
from onetool_ipy.faces.notebook.inspection import named
from onetool_ipy.faces.server_setup import read_pasted
from onetool_ipy.llm.ask.asker import _DIRECT
from onetool_ipy.render import html, markdown, prose, yaml_flow
from onetool_ipy.snippets import expansion
from tests.harness import expressions
from tests.harness.expressions import cost

PARTS = (
    *" \n\0a0.\"'\\([{}$`<-/,=:#&*\u200b\ud800",
    *(
        "${a}",
        "${",
        "{{a}}",
        "/{a}",
        "<a>",
        "</",
        "a.b",
        "a=b ",
        "-a ",
        "-s ",
        "\n-s ",
        "-H a:b ",
        "a\n",
        "- a\n",
    ),
    *(
        "a: b\n",
        "a:\n ",
        "**a",
        "![](",
        "](",
        "`a",
        "``a",
        "$$a",
        "~~~\n",
        "http://",
        '"\\',
        "'\\",
        "//",
        "/*",
        "\\\n",
    ),
    *("%2", ", ", '{"a":', "[1,", "ot.a(", "a ("),
)


def _api(**parts: Any) -> dict[str, Any]:
    operation = {"operationId": "a", **parts.pop("operation", {})}
    path = parts.pop("path", "/a")
    servers = [{"url": parts.pop("server", "https://a.test")}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "x", **parts},
        "servers": servers,
        "paths": {path: {"get": operation}},
    }


def _parameter(**parts: Any) -> dict[str, Any]:
    return _api(operation={"parameters": [{"name": "a", "in": "query", **parts}]})


def _collection(url: str, **parts: Any) -> dict[str, Any]:
    request = {"method": "POST", "url": url, **parts}
    return {"info": {"name": "x"}, "item": [{"name": parts.get("name", "x"), "request": request}]}


def _many(count: int, kind: str) -> dict[str, Any]:
    """A document with very many of one thing."""
    names = [f"a{number}" for number in range(count)]
    if kind == "path":
        return _api(path="".join(f"/{{{name}}}" for name in names))
    if kind == "operations":
        return {**_api(), "paths": {f"/{name}": {"get": {"operationId": "same"}} for name in names}}
    if kind in ("query", "header"):
        return _api(operation={"parameters": [{"name": name, "in": kind} for name in names]})
    if kind == "headers of Postman":
        return _collection("https://a.test", header=[{"key": name, "value": "x"} for name in names])
    return _collection(
        "https://a.test?" + "&".join(f"token_{name}=secret-{name}" for name in names)
    )


SECRETS = Secrets({"A": 'secret"value/1 2', "B": "another\nsecret\nin several lines\n"}, {})
NO_CONTEXT: Any = None

READERS: dict[str, Callable[[str], object]] = {
    "printable": lambda text: [
        printable.printable(text),
        printable.printable_line(text),
        printable.visible(text, 99_999),
    ],
    "masking": SECRETS.mask,
    "settled": SECRETS.settled,
    "credentials": is_secret_name,
    "slug": lambda text: [
        labels.slug(text, ""),
        labels.secret(text, text),
        labels.argument(text),
        labels.version(text),
    ],
    "curl": lambda text: import_curl(f"curl http://a.test {text}"),
    "curl url": lambda text: import_curl(f"curl 'http://a.test/{text}'"),
    "curl body": lambda text: import_curl(f"curl http://a.test --json '{text}'"),
    "curl form": lambda text: import_curl(f"curl http://a.test -d '{text}' -H 'a: {text}'"),
    "document": import_document,
    "JSON document": lambda text: import_document("{" + text),
    "OpenAPI path": lambda text: import_document(_api(path=f"/{text}")),
    "OpenAPI words": lambda text: import_document(_api(title=text, description=text, version=text)),
    "OpenAPI operation": lambda text: import_document(
        _api(operation={"operationId": text, "summary": text, "tags": [text]})
    ),
    "OpenAPI server": lambda text: import_document(_api(server=f"https://a.test/{text}")),
    "OpenAPI parameter": lambda text: import_document(_parameter(name=text, description=text)),
    "OpenAPI header": lambda text: import_document(
        _api(operation={"parameters": [{"name": text, "in": "header"}]})
    ),
    "OpenAPI schema": lambda text: import_document(
        _parameter(schema={"type": text, "enum": [text], "pattern": text})
    ),
    "OpenAPI reference": lambda text: import_document(_parameter(schema={"$ref": f"#/{text}"})),
    "OpenAPI answer": lambda text: import_document(
        _api(operation={"responses": {"200": {"content": {f"application/{text}": {}}}}})
    ),
    "Postman URL": lambda text: import_document(_collection(f"https://a.test/{text}")),
    "Postman body": lambda text: import_document(
        _collection("https://a.test", body={"mode": "raw", "raw": text}, name=text)
    ),
    "Postman header": lambda text: import_document(
        _collection("https://a.test", header=[{"key": text, "value": text}])
    ),
    "request": lambda text: RequestTemplate.model_validate(
        {"method": "GET", "urlTemplate": f"https://a.test/{text}", "body": text}
    ),
    "many in the path": lambda text: import_document(_many(len(text) // 20, "path")),
    "many operations": lambda text: import_document(_many(len(text) // 20, "operations")),
    "many in the query": lambda text: import_document(_many(len(text) // 20, "query")),
    "many headers": lambda text: import_document(_many(len(text) // 20, "header")),
    "many headers of Postman": lambda text: import_document(
        _many(len(text) // 20, "headers of Postman")
    ),
    "many secrets of Postman": lambda text: import_document(
        _many(len(text) // 20, "secrets of Postman")
    ),
    "placeholders": lambda text: list(placeholders_in([text])),
    "YAML": lambda text: yaml_text.parse(text.encode("utf-8", "replace")),
    "docstring": lambda text: describe.read(f"A tool.\n\nArgs:\n    a{text}\n"),
    "client file": parse_json,
    "pasted server": read_pasted,
    "line": lambda text: [
        words(text),
        grammar.split_line(text, ("list",)),
        grammar.plain_words(text),
    ],
    "options": lambda text: grammar.read_options(text, {}),
    "prompt": lambda text: [grammar.read_prompt(text, {}), _DIRECT.fullmatch(text)],
    "completion": lambda text: complete(text, NO_CONTEXT) if "$" not in text else None,
    "inspection": lambda text: named(text, 0, ("tool",)),
    "snippet": lambda text: expansion.render(text, {}),
    "Markdown": markdown.safe,
    "description": prose.to_html,
    "HTML": lambda text: [html.pre(text), html.cell_text(text)],
    "YAML flow": lambda text: [yaml_flow.flow({text: text}), yaml_flow.inline(text)],
    "JSON text": lambda text: [
        values.to_text(text),
        values.safe_repr(text, 1000),
        values.from_json(json.dumps(text)),
    ],
}


def is_slow(reader: Callable[[str], object], part: str) -> bool:
    """Whether a reader takes far longer for ten times the text. Only CPU time counts, and only
    whole seconds of it."""

    def work(text: str) -> None:
        with contextlib.suppress(
            OneToolError, ValueError, yaml_text.NotYaml, RecursionError, AttributeError
        ):
            reader(text)

    least = cost(work, "", part, "", 400)
    if least > 0.4:
        return True
    short = cost(work, "", part, "", 4_000)
    if short < max(0.003, 12 * least):
        return False
    # Linear work takes 10 times as long, n log n 12 times, quadratic work 100 times.
    return cost(work, "", part, "", 40_000) > max(0.25, 40 * short)


def main() -> None:
    """Print every expression and reader, and what it is slow on."""
    expressions.main()
    for name, reader in READERS.items():
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        # One that reads very many of a thing only looks at how long the text is.
        parts = PARTS[:1] if name.startswith("many ") else PARTS
        slow = next((part for part in parts if is_slow(reader, part)), None)
        if slow is not None:
            sys.stdout.write(f"slow: {name} on {slow!r} * n\n")


if __name__ == "__main__":
    main()
