"""What a pasted text is, and the next step: the one *Add* box of the screens.

`read` looks at a text and does nothing with it: nothing is fetched, started or stored. A text is a
curl command, an address, the description of an API, the JSON of servers, the path of a file, or a
command line; what is none of these is refused in words. `servers_of` reads the same text again when
its servers are added; the digest of what was shown says whether its file is still the same.

A value that a README leaves open (`<your key>`), and a `${NAME}` that nothing has, is a field to
fill in. What is typed there goes into `secrets.yaml`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import Unreadable
from onetool_ipy.base.files import read as read_file
from onetool_ipy.base.foreign_json import NotJson
from onetool_ipy.base.printable import printable_line, visible
from onetool_ipy.config.check import check_server
from onetool_ipy.faces.client_files import FoundServer, parse_json, without_secrets
from onetool_ipy.faces.creation import is_url
from onetool_ipy.faces.server_setup import (
    CardInput,
    ServerSetup,
    card_name,
    is_card,
    read_pasted,
    require_server,
    server_of,
)
from onetool_ipy.toolbox import Toolbox
from onetool_ipy.trust_gate import server_part

Kind = Literal["http", "import", "server"]
"""The next step: the editor of an HTTP tool, the import of a description, or adding servers."""

_PROMPT = re.compile(r"\A(?:\$\s+|[!%>]\s*)(?=\w)")
_FENCED = re.compile(r"```\w*[ \t]*\r?\n(.*?)\n[ \t]*```", re.DOTALL)
_COMMENTS = re.compile(r"\A(?:(?://[^\n]*\n|/\*.*?\*/)\s*)+(?=[{\"])", re.DOTALL)
_CURL = re.compile(r"curl(?:\.exe)?(?!\S)")
_PYTHON = re.compile(r"@tool\b|(?:async )?def \w+\(|from [\w.]+ import |import \w+")
_ENTRY = re.compile(r'"[^"]+"\s*:\s*\{')
_DESCRIPTION = re.compile(r"^(?:openapi|swagger)\s*:", re.MULTILINE)
_DESCRIBES = re.compile(r"openapi|swagger|api-docs|\.(?:json|ya?ml)$", re.IGNORECASE)
_SERVES = re.compile(r"(?:^|[/.])(?:mcp|sse)(?:$|[/.])", re.IGNORECASE)
_DOCUMENTS = (".json", ".yaml", ".yml", ".toml", ".har")
# What stands for a value in an example: <key>, YOUR_KEY, xxxx, ...
_OPEN = re.compile(
    r"<[^<>]*>|\[your[^\[\]]*\]|\{your[^{}]*\}|(?<![a-z])your[-_ ]\w|x{4,}|\.{3}|…"
    r"|(?:change|replace)[-_ ]?me",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+")
_NAMED = re.compile(r"(?<!\$)\$\{([A-Za-z_]\w*)\}")
_NO_SERVERS = re.compile(
    r"apt|brew|cat|cd|chmod|chown|cp|dd|echo|export|git|kill|ls|mkdir|mv|rm|rmdir|source|su|sudo"
    r"|tar|touch|unzip|wget"
)
"""A pasted server starts once it is added: no command that changes files becomes one."""
_OTHER_SCHEME = re.compile(r"(?!https?:)[A-Za-z][\w+.-]*://")
_REQUEST = re.compile(r"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s+(https?://\S+)")
_MAX_BYTES = 64 * 1024 * 1024
_SHOWN = 300
_WANTED = (
    "Paste a curl command, an address, the description of an API, or the command line or JSON of"
    " an MCP server."
)


class Choice(NamedTuple):
    """A next step, as its button names it."""

    kind: Kind
    label: str


class Field(NamedTuple):
    """A value that is missing: the name under which `secrets.yaml` keeps it, and what it is for."""

    name: str
    description: str = ""


class Pasted(NamedTuple):
    """What a text is, in words, and what can be done with it: the likeliest first."""

    says: str
    choices: tuple[Choice, ...]
    document: str = ""
    """What is in the file that the text names, if that is the description of an API."""
    runs: tuple[str, ...] = ()
    """What will run, or which address is connected to, whole: lines for each server."""
    digest: str = ""
    """Of what was read: the text, or the content of the file that it names."""
    name: str = ""
    """The name of the server, if it is one alone."""
    fields: tuple[Field, ...] = ()


def read(box: Toolbox, text: str, *, name: str = "") -> Pasted:
    """Say what a text is. Raises a OneToolError, in words, for what nothing can be made of."""
    bare = _bare(text)
    if not bare:
        raise UsageProblem("Nothing was pasted.", hint=_WANTED)
    path = _path(box, bare)
    if path is None:
        return _described(box, bare, name)._replace(digest=_digest(bare))
    text = _content(path)
    pasted = _described(box, text, name, file=path.name)
    return pasted._replace(
        digest=_digest(text),
        says=f"The file {printable_line(path.name)}: {pasted.says}",
        document=text if pasted.choices[0].kind == "import" else "",
    )


def servers_of(
    box: Toolbox, text: str, name: str = "", *, digest: str = ""
) -> tuple[list[FoundServer], list[Field], list[str]]:
    """The servers of a text under free names, the values they lack, and a line for each new name.

    Raises UsageProblem, also if the text is not the one that a `digest` is of.
    """
    fields: dict[str, Field] = {}
    bare = _bare(text)
    path = _path(box, bare)
    content = bare if path is None else _content(path)
    if digest and digest != _digest(content):
        raise UsageProblem(
            "The file has changed since it was shown.", hint="Clear the box, and paste it again."
        )
    servers = _servers_in(content, name, fields)
    notes: list[str] = []
    if not name:
        servers, notes = ServerSetup(box).proposed(servers)
    servers = [_with_fields(server, fields) for server in servers]
    for server in servers:
        for each in _NAMED.findall(repr(without_secrets(server)[0])):
            fields.setdefault(each, Field(each))
    plain = {each for server in servers for each in without_secrets(server)[1]}
    secrets = box.config.secrets
    lacking = [
        each
        for each in fields.values()
        if each.name not in plain and secrets.get(each.name) is None
    ]
    return servers, lacking, notes


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _bare(text: str) -> str:
    """A text without the prompt of a shell, or of a cell, in front of its command, and without the
    fence and the comments around its JSON."""
    text = text.strip().removeprefix("\ufeff") if text else ""
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1].strip()
    return _PROMPT.sub("", _COMMENTS.sub("", text, count=1), count=1)


def _path(box: Toolbox, text: str) -> Path | None:
    """The file that a text names; None if it names none. Raises UsageProblem for one that is not
    there."""
    line = text.strip("\"'")
    if "\n" in line or len(line) > _SHOWN or is_url(line) or line[:1] in "{[<":
        return None
    path = Path(line.removeprefix("file://")).expanduser()
    path = path if path.is_absolute() else box.config.paths.project / path
    if path.is_file():
        if path.suffix == ".py":
            raise UsageProblem(
                f"'{line}' is a Python file.",
                hint=f"For an MCP server, paste how it is started: python {line}",
            )
        if path.suffix.lower() in _DOCUMENTS:
            return path
        if shutil.which(path) is None:
            raise UsageProblem(f"'{line}' is a file, but not one that can be added.", hint=_WANTED)
        return None
    if path.suffix.lower() in _DOCUMENTS and " " not in line:
        raise UsageProblem(
            f"There is no file '{line}' in {box.config.paths.project}.",
            hint="Choose the file, or paste its whole path.",
        )
    return None


def _content(path: Path) -> str:
    """The text of a file. Raises UsageProblem."""
    try:
        content = read_file(path)
        data = b"" if content is None else content.data
    except Unreadable as exc:
        raise UsageProblem(f"'{path.name}' {exc}.") from exc
    if len(data) > _MAX_BYTES:
        raise UsageProblem(f"'{path.name}' has {len(data):,} bytes; at most {_MAX_BYTES:,}.")
    text = data.decode("utf-8", "backslashreplace").removeprefix("\ufeff").strip()
    return _COMMENTS.sub("", text, count=1)


def _described(box: Toolbox, text: str, name: str, *, file: str = "") -> Pasted:
    if _CURL.match(text):
        return _curl(box, text)
    if is_url(text):
        return _address(box, text, name)
    if text[:1] == "<":
        raise UsageProblem(
            "This is a web page or XML, and not the description of an API.",
            hint="Look on the page for a link to openapi.json or openapi.yaml, and paste that.",
        )
    if text[:1] in ("{", "[") or _ENTRY.match(text):
        return _json(box, text, name)
    if "\n" in text and _DESCRIPTION.search(text):
        return _description("An OpenAPI document")
    if file:
        raise UsageProblem(
            f"'{file}' has neither the description of an API nor MCP servers.", hint=_WANTED
        )
    if _PYTHON.match(text):
        raise UsageProblem(
            "This is Python.", hint="Put it into a cell that begins with: %%tool save PACK"
        )
    return _command(box, text, name)


def _curl(box: Toolbox, text: str) -> Pasted:
    from onetool_ipy.bundles.importing.curl import import_curl

    draft = import_curl(text)
    request = draft.tool["http"]["request"]
    target = _request(request["method"], request["urlTemplate"])
    says = f"A curl command: makes an HTTP tool {target}."
    if draft.secrets:
        says += f" Its credentials become secrets of the project: {', '.join(draft.secrets)}."
    missing = [name for name in draft.missing if box.config.secrets.get(name) is None]
    if missing:
        says += f" It needs {', '.join(missing)}."
    return Pasted(says, (Choice("http", "Make the tool"),))


def _request(method: str, template: str) -> str:
    """`GET /orders/{id} of api.example.com`."""
    parts = urlsplit(template.replace("${", "{"))
    path = parts.path or "/"
    return printable_line(values.cut(f"{method} {path} of {parts.netloc}", _SHOWN))


def _address(box: Toolbox, text: str, name: str) -> Pasted:
    """An address says little of what is there: the likeliest step is the first, and each is
    offered."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host:
        raise UsageProblem(f"'{text[:200]}' is not an address.", hint="Write https://host/path.")
    steps = {
        "http": Choice("http", "Make an HTTP tool"),
        "import": Choice("import", "Import its operations"),
        "server": Choice("server", "Add as MCP server"),
    }
    if _SERVES.search(parts.path) or host.startswith("mcp."):
        first, says = "server", f"The address of an MCP server, by its look: {host}."
    elif _DESCRIBES.search(parts.path):
        first, says = "import", f"The description of an API, by its look: {host}{parts.path}."
    else:
        first, says = "http", f"An address: makes an HTTP tool {_request('GET', text)}."
    choices = (steps.pop(first), *steps.values())
    servers, fields, notes = servers_of(box, text, name)
    says = " ".join([says, *notes])
    return Pasted(says, choices, name=servers[0].name, fields=tuple(fields))


def _json(box: Toolbox, text: str, name: str) -> Pasted:
    from onetool_ipy.bundles.importing.postman import is_postman

    try:
        document = parse_json(text if text[:1] in "{[" else f"{{{text.rstrip(',')}}}")
    except NotJson as exc:
        if _DESCRIPTION.search(text):
            return _description("An OpenAPI document")
        raise UsageProblem(f"This text {exc}.", hint="Paste the whole of it, from { to }.") from exc
    if not isinstance(document, dict):
        raise UsageProblem("This JSON is neither the description of an API nor of MCP servers.")
    info = document.get("info")
    title = info.get("title") or info.get("name") if isinstance(info, dict) else ""
    if is_postman(document):
        return _description("A Postman collection", title)
    if "openapi" in document or "swagger" in document:
        what = "An OpenAPI" if "openapi" in document else "A Swagger"
        return _description(f"{what} document", title)
    if isinstance(document.get("log"), dict) and "entries" in document["log"]:
        raise UsageProblem(
            "A HAR file is not imported.",
            hint='In the browser, choose "copy as cURL" for one request, and paste that.',
        )
    return _server(box, text, name, "The JSON of")


def _description(what: str, title: object = "") -> Pasted:
    name = printable_line(values.cut(title, 80)) if isinstance(title, str) else ""
    about = f", '{name}'" if name else ""
    says = f"{what}{about}: you choose which of its operations become tools."
    return Pasted(says, (Choice("import", "Choose operations"),))


def _command(box: Toolbox, text: str, name: str) -> Pasted:
    first = text.split()[0]
    is_word = len(text.split()) == 1
    if request := _REQUEST.match(text):
        raise UsageProblem(
            f"'{request[1]} {request[2][:80]}' is a request, not the command line of a program.",
            hint=f"Paste it as: curl -X {request[1]} '{request[2][:200]}'",
        )
    if _OTHER_SCHEME.match(first):
        raise UsageProblem(
            f"'{first[:200]}' is not an address that can be used.",
            hint="Write http:// or https://.",
        )
    if _NO_SERVERS.fullmatch(Path(first).name):
        raise UsageProblem(f"'{first}' does not run an MCP server.", hint=_WANTED)
    servers, _, _ = servers_of(box, text, name)
    command = servers[0].data.get("command")
    if is_word and isinstance(command, str) and shutil.which(command) is None:
        raise UsageProblem(
            f"'{first[:80]}' is neither an address, nor a file, nor a program on your PATH.",
            hint=_WANTED,
        )
    return _server(box, text, name, "A command line:")


def _server(box: Toolbox, text: str, name: str, what: str) -> Pasted:
    servers, fields, notes = servers_of(box, text, name)
    servers, problems = usable(box, servers)
    is_one = len(servers) == 1
    verb = "connects to" if servers[0].data.get("url") else "runs"
    says = [f"{what} {'an MCP server' if is_one else f'{len(servers)} MCP servers'}.", *notes]
    if secrets := [each for server in servers for each in without_secrets(server)[1]]:
        says.append(f"What is secret goes into secrets.yaml: {', '.join(secrets)}.")
    says += [*problems, f"It {verb} this:" if is_one else "They run this:"]
    runs: list[str] = []
    for server in servers:
        # What runs, or the address that it connects to, then the rest of the definition.
        text, details = server_part(without_secrets(server)[0])
        runs += map(visible, (f"{server.name}: {text}", *details))
    return Pasted(
        " ".join(says),
        (Choice("server", "Add server" if is_one else f"Add {len(servers)} servers"),),
        runs=tuple(runs),
        name=servers[0].name if is_one else "",
        fields=tuple(fields),
    )


def usable(box: Toolbox, servers: list[FoundServer]) -> tuple[list[FoundServer], list[str]]:
    """The servers that can run here, and why others cannot. Raises UsageProblem if none can."""
    good, problems = list[FoundServer](), list[UsageProblem]()
    for server in servers:
        try:
            # What is missing is typed later.
            check_server(
                server.name, server.data, lambda name: box.config.secrets.get(name) or name
            )
            require_server(server.data, box.config.paths.project)
            good.append(server)
        except UsageProblem as exc:
            problems.append(exc)
    if problems and not good:
        raise problems[0]
    return good, [f"Without {len(problems)}: {each.message}" for each in problems[:1]]


def _servers_in(text: str, name: str, fields: dict[str, Field]) -> list[FoundServer]:
    """The servers of a text as it is written; those of a card with its inputs as fields."""
    try:
        card = parse_json(text) if text[:1] == "{" else None
    except NotJson:
        card = None
    if not isinstance(card, dict) or not is_card(card):
        return read_pasted(text, name)
    label = name or card_name(card)

    def answer(wanted: CardInput) -> str:
        key = _secret_name(wanted.name)
        fields[key] = Field(key, wanted.description)
        return f"${{{key}}}"

    return [server_of(card, label, answer)]


def _with_fields(server: FoundServer, fields: dict[str, Field]) -> FoundServer:
    """A server with `${NAME}` in place of the values that its README leaves open."""
    data: dict[str, Any] = dict(server.data)

    def filled(key: str, label: str, value: object) -> object:
        if not isinstance(value, str) or "${" in value:
            return value
        if not _OPEN.search(value) and (value or not is_secret_name(key)):
            return value
        name = _secret_name(label)
        hit = _SCHEME.match(value)
        scheme = hit[0] if hit else ""
        fields[name] = Field(name, value[len(scheme) :][:80])
        return f"{scheme}${{{name}}}"

    for section, lead in (("env", ""), ("headers", f"{server.name}_")):
        if isinstance(data.get(section), dict):
            data[section] = {
                key: filled(key, f"{lead}{key}", value) for key, value in data[section].items()
            }
    if isinstance(data.get("args"), list):
        words: list[Any] = []
        for argument in data["args"]:
            is_number = isinstance(argument, (int, float)) and not isinstance(argument, bool)
            word = str(argument) if is_number else argument
            if isinstance(word, str) and word:
                before = words[-1] if words and str(words[-1]).startswith("-") else ""
                # `--to=<place>`, and `KEY=<your key>` behind `-e`: the name of a value stays.
                flag, equals, value = word.partition("=")
                label = f"{server.name}_{(flag if equals else before or word).lstrip('-')}"
                if equals:
                    word = f"{flag}={filled(flag, label, value)}"
                else:
                    word = filled(before, label, word)
            words.append(word)
        data["args"] = words
    return server._replace(data=data)


def _secret_name(label: str) -> str:
    return re.sub(r"\W+", "_", label).strip("_").upper()[:60] or "VALUE"
