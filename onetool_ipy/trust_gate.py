"""TrustGate: what of a project may run, by what the user trusts. A toolbox asks it before anything
of a project starts.

`config.trust` knows the user's list. `Inventory` lists what a yes covers, for the trust question;
it is read from the text of the files, nothing is run, and control characters are shown as escapes.
The gate decides about one tool, server, model or snippet, lets the host ask the person if one is at
the keyboard, and follows what the user said meanwhile in another process. What may not run is
refused with Untrusted. `state` and the lines below it report all this to a person.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import TRUST_IT, Untrusted, UsageProblem
from onetool_ipy.base.printable import visible
from onetool_ipy.base.processes import command_line
from onetool_ipy.base.values import Json
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.config.trust import Pin, Pins, as_text, difference, referenced_names
from onetool_ipy.core.current import TYPED
from onetool_ipy.core.tool import PROJECT_ORIGINS, CallSource, ToolSpec

if TYPE_CHECKING:
    from onetool_ipy.config.load import Config
    from onetool_ipy.core.registry import Registry, SessionTools
    from onetool_ipy.mcp.servers import Servers
    from onetool_ipy.snippets.definition import Snippet

_ALLOWS = {
    "folder": "the fs tools may read it",
    "host": "HTTP tools may reach it",
    "setting": "HTTP tools may reach this machine and its network",
    "file": "ot.notify writes to it",
    "state folder": "the log and the results of calls are kept there",
}
_WHY = {
    "home": "It is your own, in your home directory.",
    "named": "It was named outright, so it is trusted in this process.",
    "environment": "$ONETOOL_TRUST names it.",
}
"""Why a project needs no yes, by `config.trust.how`."""


class Part(NamedTuple):
    """One thing that runs a program or reaches out of the project, and that a yes pins: a server, a
    model, a host ...

    `kind` and `name` are those of `config.trust.Pins`. `text` says what it runs or reaches;
    `details` are lines with all else that it would get. Every `${NAME}` is shown as written.
    """

    kind: str
    name: str
    text: str
    details: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """How the definition differs from the one that the user approved."""

    @property
    def key(self) -> str:
        """What a yes to this part alone names: `server github`."""
        return f"{self.kind} {self.name}"

    def lines(self) -> list[str]:
        """Return the part as the question shows it."""
        below = (f"  {line}" for line in (*self.details, *self.changes))
        return [visible(line) for line in (f"{self.key}: {self.text}", *below)]


class Inventory(NamedTuple):
    """Everything that a yes to a project covers. `hosts` are those that its HTTP tools name."""

    folder: str
    pack_files: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    http_tools: int = 0
    hosts: tuple[str, ...] = ()
    snippets: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return lines that name each thing that would run or be reached. None is left out."""
        lines = [f"pack file {visible(file)}" for file in self.pack_files]
        lines += [line for part in self.parts for line in part.lines()]
        if self.http_tools:
            hosts = ", ".join(map(visible, self.hosts)) or "no host"
            lines.append(f"{self.http_tools} HTTP tool{'s' * (self.http_tools > 1)} to {hosts}")
        if self.snippets:
            lines.append(f"snippets {', '.join(visible(f'${name}') for name in self.snippets)}")
        return lines or ["nothing that runs by itself or reaches out of the folder"]

    def to_dict(self) -> Json:
        """Return the same as plain JSON, for a form."""
        covered = {
            "folder": self.folder,
            "packFiles": self.pack_files,
            "parts": [{**part._asdict(), "key": part.key} for part in self.parts],
            "httpTools": self.http_tools,
            "hosts": self.hosts,
            "snippets": self.snippets,
        }
        plain: Json = values.map_text(values.to_json(covered), visible)
        return plain


def parts_of(withheld: Pins, approved: Pins, secret_names: Iterable[str]) -> tuple[Part, ...]:
    """Return what needs a yes, as written; what was approved before also says how it changed."""
    secrets = set(secret_names)
    parts = []
    for kind, pins in withheld.items():
        for name, pin in pins.items():
            if kind in _PARTS:
                text, details = _PARTS[kind](pin)
            else:
                text = _ALLOWS[kind]
                details = [f"is {value}" for _, value in _pairs(pin) if value not in (name, "true")]
            inherited = [as_text(variable) for variable in _listed(pin.get("inherit"))]
            drawn = dict.fromkeys([*referenced_names([name, pin]), *inherited])
            details += [f"gets the secret {each}" for each in drawn if each in secrets]
            details += [f"gets the variable {each}" for each in drawn if each not in secrets]
            before = approved.get(kind, {}).get(name)
            changes = () if before is None else tuple(difference(before, pin))
            parts.append(
                Part(kind=kind, name=name, text=text, details=tuple(details), changes=changes)
            )
    return tuple(parts)


def server_part(pin: Pin) -> tuple[str, list[str]]:
    """Return the whole command line or the address of a server, and lines with the rest of its
    definition."""
    words = [as_text(word) for word in (pin.get("command") or "", *_listed(pin.get("args")))]
    details = [f"runs in {as_text(pin['cwd'])}"] if "cwd" in pin else []
    details += [f"sets {key}={value}" for key, value in _pairs(pin.get("env"))]
    details += [f"sends the header {key}: {value}" for key, value in _pairs(pin.get("headers"))]
    details += [f"signs in with {key} {value}" for key, value in _pairs(pin.get("auth"))]
    details += ["may ask your models (sampling)"] if pin.get("sampling") else []
    details += [
        f"is told of the folder {as_text(root)} (roots)" for root in _listed(pin.get("roots"))
    ]
    details += (
        ["is believed when it says that a tool only reads (trusted)"] if pin.get("trusted") else []
    )
    return as_text(pin["url"]) if pin.get("url") else command_line(words), details


def _model_part(pin: Pin) -> tuple[str, list[str]]:
    """Return the address of a model, and lines with its key and options."""
    address = as_text(pin.get("base_url") or "its provider's own address")
    details = [f"sends the key {as_text(pin['key'])}"] if pin.get("key") else []
    details += [f"with {key} {value}" for key, value in _pairs(pin.get("options"))]
    return f"{as_text(pin.get('provider'))} {as_text(pin.get('model'))} at {address}", details


def _environment_part(pin: Pin) -> tuple[str, list[str]]:
    """Return where the tools of a bundle send to in an environment, and lines with what they send
    there."""
    details = [f"signs in with {key} {value}" for key, value in _pairs(pin.get("auth"))]
    details += [f"sets {key}={value}" for key, value in _pairs(pin.get("variables"))]
    return f"its tools send to {as_text(pin.get('base_url') or 'no address')}", details


_PARTS: dict[str, Callable[[Pin], tuple[str, list[str]]]] = {
    "server": server_part,
    "model": _model_part,
    "environment": _environment_part,
}


def _listed(value: object) -> list[object]:
    """Return a list as it is, and a value that should have been one as its only item. The file is
    not checked yet."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _pairs(value: object) -> list[tuple[str, str]]:
    """Return names and values as text, of a mapping or of whatever stands in its place."""
    pairs = value if isinstance(value, Mapping) else {} if value is None else {"": value}
    return [(name, as_text(each)) for name, each in pairs.items()]


class GuardedParts(Protocol):
    """What the gate needs of the parts of a toolbox that a reload replaces."""

    @property
    def config(self) -> Config: ...

    @property
    def registry(self) -> Registry: ...

    def inventory(self) -> Inventory:
        """Return what of the project a yes would cover, as far as it needs one."""

    def record_trust(self, part: str) -> None:
        """Put the project on the user's list, with all that reaches out as it is now; or add one
        part alone."""

    def forget_trust(self) -> bool:
        """Take the project off the user's list; False where it was not on it."""


class TrustGate:
    """Decides what of a toolbox's project may run. `follow` reads the project again as it is
    trusted now."""

    def __init__(
        self,
        parts: Callable[[], GuardedParts],
        *,
        servers: Callable[[], Servers],
        session: SessionTools,
        snippets: Mapping[str, Snippet],
        ask: Callable[[Untrusted], None],
        is_closed: Callable[[], bool],
        follow: Callable[[], None],
    ) -> None:
        """`parts` returns those in force, which a reload replaces; `session` and `snippets` are a
        person's own, which need no yes; `ask` lets the person say yes."""
        self._parts = parts
        self._servers = servers
        self._session = session
        self._snippets = snippets
        self._ask = ask
        self._is_closed = is_closed
        self.follow = follow

    def inventory(self) -> Inventory:
        """Return what of the project a yes would cover, as far as it needs one."""
        return self._parts().inventory()

    def prepare(self, tool: str, spec: ToolSpec | None, source: CallSource) -> bool:
        """Before a call: let the person say yes where the tool needs one, and start the server of
        an unknown tool.

        Refuses nothing: the call itself is refused. Returns whether there may be other tools now.
        What a model names starts no server: those that it may use were started when it was told of
        them.
        """
        parts = self._parts()
        if parts.config.trust.record is not None:
            self._ask_for(partial(self.admit, tool), source)
        if spec is None and source != "model" and self._servers().unknown:
            self._servers().seek(tool)
            return True
        return self._parts() is not parts

    def admit(self, tool: str, spec: ToolSpec | None = None) -> None:
        """Raise Untrusted for a tool of a project, or of a server in it, that the user does not
        trust."""
        parts = self._parts()
        if parts.config.trust.record is None:
            return
        spec = spec or parts.registry.get(tool)
        server = tool.partition(".")[0] if spec is None else spec.server
        if spec is not None and (
            spec.origin not in PROJECT_ORIGINS or self._session.specs.get(spec.name) is spec
        ):
            return
        if server and (spec is not None or server in self._servers()):
            if not self._servers().is_allowed(server):
                raise self._untrusted(
                    f"The tool '{spec.name if spec else tool}' was not run", server
                )
        elif spec is not None and not parts.config.trust.is_given:
            raise self._untrusted(f"The tool '{spec.name}' was not run")

    def is_admitted(self, tool: str) -> bool:
        """Whether `admit` lets a tool run."""
        try:
            self.admit(tool)
        except Untrusted:
            return False
        return True

    def require(self) -> None:
        """Raise Untrusted where the project is not trusted, and the person does not say yes."""
        self._ask_for(self._admit_project, "magic")
        self._admit_project()

    def require_snippet(self, name: str) -> None:
        """Raise Untrusted for a snippet of a project that the user does not trust, and does not say
        yes to."""
        if name not in self._snippets:
            self.require()

    def may_expand(self, snippet: str) -> bool:
        """Whether the template of a snippet may be filled without asking."""
        self.refresh()
        return snippet in self._snippets or self._is_free()

    def require_server(self, name: str) -> None:
        """Raise Untrusted for a server that a person wants to start, and does not say yes to."""
        self._ask_for(partial(self._admit_server, name), "magic")
        self._admit_server(name)

    def require_model(self, name: str | None) -> None:
        """Raise Untrusted for a model that the user has not approved, and does not say yes to; None
        is the default."""
        self._ask_for(partial(self._admit_model, name), "magic")
        self._admit_model(name)

    def grant(self, part: str = "", *, shown: Inventory | None = None) -> None:
        """Trust the project from now on, with all that reaches out as it is defined now; or one
        `part` of it alone.

        `shown` is what the person saw. Raises UsageProblem where the files hold something else by
        now, and where there is nothing to trust.
        """
        self.follow()
        parts = self._parts()
        if shown is not None and parts.inventory() != shown:
            raise UsageProblem(
                "The project has changed since you were shown what it holds; nothing was trusted.",
                hint="Run it again to see what it holds now.",
            )
        config = parts.config
        if config.trust.how == "no project":
            raise UsageProblem(
                f"There is no project in '{config.paths.project}'.",
                hint="Make one: onetool-ipy init",
            )
        if config.trust.record is None:
            return
        if part and not config.trust.is_pinned:
            raise UsageProblem(
                "This project is not trusted, so no part of it can be.", hint=TRUST_IT
            )
        parts.record_trust(part)
        self.follow()

    def revoke(self) -> bool:
        """Trust the project no longer; False where it was not on the user's list."""
        was_listed = self._parts().forget_trust()
        self.follow()
        return was_listed

    @contextmanager
    def saving(self, part: str = "") -> Iterator[None]:
        """Around what a person saves into the project: a `.onetool` folder that this creates is
        trusted.

        So is the part that they add, such as `host api.example.com`, if the project is.
        """
        is_new = not os.path.lexists(self._parts().config.paths.project / FOLDER)
        yield
        if is_new and self._parts().config.trust.how == "no project":
            self._parts().record_trust("")
        if part:
            self.follow()
            if self._parts().config.trust.is_pinned:
                self.grant(part)

    def refresh(self) -> None:
        """Before something of the project may start: follow what the user said since, in whatever
        process."""
        if self._parts().config.trust.has_changed() and not self._is_closed():
            self.follow()

    def state(self) -> Json:
        """Whether the project is trusted, why, and what a yes would let run."""
        config = self._parts().config
        return {
            "folder": str(config.paths.project),
            "isTrusted": config.trust.is_given,
            "how": config.trust.how,
            "wouldRun": self.inventory().to_dict(),
        }

    def settled_line(self) -> str:
        """Say why there is nothing to say yes to; empty where there is."""
        trust, inventory = self._parts().config.trust, self.inventory()
        if trust.how not in _WHY and not (trust.how == "listed" and not inventory.parts):
            return ""
        return f"{visible(inventory.folder)} is trusted already. {_WHY.get(trust.how, '')}".rstrip()

    def question_lines(self, part: str = "") -> list[str]:
        """The question as lines: what a yes to the project covers, or what one new or changed part
        of it does."""
        config, inventory = self._parts().config, self.inventory()
        folder, body = visible(inventory.folder), inventory.lines()
        if part:
            parts = [each for each in inventory.parts if each.key == part]
            how = (
                "has changed since you trusted it"
                if any(each.changes for each in parts)
                else "is new"
            )
            head = [f"The {visible(part)} of this project {how}:"]
            body = [line for each in parts for line in each.lines()]
        elif config.trust.is_given:
            head = [f"This project has changed since you trusted it: {folder}", "A yes covers:"]
        else:
            head = [f"This project is not trusted yet: {folder}", "A yes covers:"]
        return [config.secrets.mask(line) for line in (*head, *(f"  {line}" for line in body))]

    def covered_lines(self) -> list[str]:
        """Lines that say what the yes that the person typed covers, or why there is nothing to say
        yes to."""
        if settled := self.settled_line():
            return [settled]
        inventory = self.inventory()
        head = f"{visible(inventory.folder)} is trusted from now on. This covers:"
        return [
            head,
            *(f"  {line}" for line in inventory.lines()),
            "To take it back, run: %tool trust --remove",
        ]

    def removal_lines(self, *, was_listed: bool) -> list[str]:
        """Lines that say what `--remove` did."""
        config = self._parts().config
        folder = visible(str(config.paths.project))
        if config.trust.how in _WHY:
            return [f"{folder} is still trusted. {_WHY[config.trust.how]}"]
        return [f"{folder} is no longer trusted." if was_listed else f"{folder} was not trusted."]

    def _is_free(self) -> bool:
        trust = self._parts().config.trust
        return trust.is_given or trust.how == "no project"

    def _admit_project(self) -> None:
        if not self._is_free():
            raise self._untrusted("It was not run")

    def _admit_server(self, name: str) -> None:
        if not self._servers().is_allowed(name):
            raise self._untrusted(f"The server '{name}' was not started", name)

    def _admit_model(self, name: str | None) -> None:
        config = self._parts().config
        withheld = config.withheld.get("model", {})
        name = name or config.settings.models.default or next(iter(withheld), None)
        if name is None or name not in withheld:
            return
        if not config.trust.is_given:
            raise self._untrusted(f"The model '{name}' was not asked")
        raise Untrusted.of(
            f"The model '{name}' was not asked: it is new or has changed.", model=name
        )

    def _untrusted(self, what: str, server: str = "") -> Untrusted:
        if server and self._parts().config.trust.is_given:
            return Untrusted.of(
                f"{what}: the server '{server}' is new or has changed.", server=server
            )
        return Untrusted.of(f"{what}: this project is not trusted.")

    def _ask_for(self, admit: Callable[[], None], source: CallSource) -> None:
        """Let the host ask for the trust that is missing, where a person made the call."""
        self.refresh()
        if source not in TYPED:
            return
        try:
            admit()
        except Untrusted as exc:
            self._ask(exc)
