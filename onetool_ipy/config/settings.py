"""The settings as values: one class per section of onetool.yaml, with the defaults.

Owns the name, type, default and meaning of every key. `check` reads them from parsed files;
`template` documents them. No `repr` here shows a value that `${NAME}` may have filled with a
secret. These are NamedTuples, because every start makes these classes, and as dataclasses they took
a tenth of its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Provider = Literal["openai", "ollama", "gemini", "anthropic"]

_NO_ENTRIES: Mapping[str, Any] = MappingProxyType({})


class Definition(NamedTuple):
    """One entry as written (a tool, server, snippet or a pack's settings) and its `file:line`.

    `data` is plain JSON, and nobody changes it. `written` is the entry with every `${NAME}`
    unfilled. `fits` says that the parameters of a tool are known to be a JSON Schema.
    """

    data: dict[str, Any]
    where: str
    written: Mapping[str, Any] = _NO_ENTRIES
    fits: bool = False

    @property
    def name(self) -> str:
        """The value of `name` if it is text, else empty."""
        name = self.data.get("name")
        return name if isinstance(name, str) else ""

    def __hash__(self) -> int:
        return hash(self.where)

    def __repr__(self) -> str:
        return f"Definition({', '.join(self.data)} at {self.where})"


class Topic(NamedTuple):
    """Where `ot.notify` writes messages whose topic matches `pattern`; `file` is relative to
    `.onetool/`."""

    pattern: str
    file: str


class HttpSettings(NamedTuple):
    """What tools may reach over HTTP. An empty `allowed_hosts` allows nothing."""

    allowed_hosts: tuple[str, ...] = ()
    timeout_s: float = 10
    max_response_bytes: int = 5 * 1024 * 1024
    allow_private: bool = False

    def __repr__(self) -> str:
        return (
            f"HttpSettings({len(self.allowed_hosts)} allowed hosts,"
            f" allow_private={self.allow_private})"
        )


class FsSettings(NamedTuple):
    """Folders the fs tools may see, relative to the project folder."""

    roots: tuple[str, ...] = (".",)


class OutputSettings(NamedTuple):
    """How much of a result is shown or sent; how much is stored, and for how long."""

    max_inline_bytes: int = 50_000
    preview_lines: int = 10
    result_ttl_s: float = 86_400
    max_store_bytes: int = 1_073_741_824


class StatsSettings(NamedTuple):
    """Whether usage is counted, and the assumptions behind the two estimates of `ot.stats()`."""

    enabled: bool = True
    context_per_call: int = 30_000
    time_overhead_per_call_ms: int = 4_000
    chars_per_token: float = 4


class Model(NamedTuple):
    """A language model: its wire format, name and address. `key` is the NAME of a secret, never its
    value.

    `options` are sent along as the provider names them, such as temperature. `images` says whether
    it takes images; None leaves that to its provider. `price` has dollars per million tokens:
    input, output, and cached ones.
    """

    name: str
    provider: Provider
    model: str
    base_url: str | None
    key: str | None
    where: str
    options: Mapping[str, Any] = _NO_ENTRIES
    images: bool | None = None
    price: Mapping[str, float] | None = None

    def __repr__(self) -> str:
        return f"Model({self.name!r}, provider={self.provider!r})"


class Models(NamedTuple):
    """The models by name, and the one to ask by default."""

    default: str | None = None
    named: Mapping[str, Model] = _NO_ENTRIES


class AskSettings(NamedTuple):
    """Defaults of `ask`: `tool_allow` None means every tool, empty means none.

    The `max_` values limit a single ask: rounds with tools, calls, tokens read and written,
    dollars, seconds without the time a person takes to answer. `context_tokens` is how much of a
    session is sent. `stream: false` reads each reply whole, for servers that cannot stream.
    """

    with_tools: bool = True
    tool_allow: tuple[str, ...] | None = None
    max_steps: int = 5
    approve: tuple[str, ...] = ()
    max_calls: int = 50
    max_tokens: int = 200_000
    max_cost: float | None = None
    max_seconds: float = 300
    context_tokens: int = 100_000
    stream: bool = True


class GuardSettings(NamedTuple):
    """What the guard of `ask` is told: `tools` has `reads` and `sends` by pattern, `allow` pairs of
    `from` and `to`. A project's can only make it stricter."""

    tools: Mapping[str, Mapping[str, str]] = _NO_ENTRIES
    allow: tuple[tuple[str, str], ...] = ()


class TimeoutSettings(NamedTuple):
    """Seconds for local tools called by models, REST, MCP or the command line, and for MCP
    servers."""

    local_s: float = 8
    mcp_s: float = 30


class Settings(NamedTuple):
    """All of onetool.yaml and snippets.yaml, checked, with `${NAME}` filled in packs, servers,
    models and http."""

    version: int = 1
    tools_dir: tuple[str, ...] = ("tools/*.py",)
    packs: Mapping[str, Definition] = _NO_ENTRIES
    tools: tuple[Definition, ...] = ()
    recommended: tuple[str, ...] = ()
    aliases: Mapping[str, str] = _NO_ENTRIES
    snippets: Mapping[str, Definition] = _NO_ENTRIES
    servers: Mapping[str, Definition] = _NO_ENTRIES
    topics: tuple[Topic, ...] = ()
    http: HttpSettings = HttpSettings()
    fs: FsSettings = FsSettings()
    output: OutputSettings = OutputSettings()
    stats: StatsSettings = StatsSettings()
    models: Models = Models()
    ask: AskSettings = AskSettings()
    guard: GuardSettings = GuardSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    state_dir: str | None = None

    def __repr__(self) -> str:
        counts = ("packs", "tools", "aliases", "snippets", "servers")
        return f"Settings({', '.join(f'{len(getattr(self, c))} {c}' for c in counts)})"
