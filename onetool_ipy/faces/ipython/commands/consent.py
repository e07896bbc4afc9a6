"""What is done to a user's own files only after a yes: allow a host, keep a secret. A yes is a flag, or an answer.

Where nobody can be asked nothing is changed, and the line to add is told. No value of a secret is ever shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from onetool_ipy.config.edit import allow_host, save_secret
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.core.errors import InvalidConfig, UsageProblem
from onetool_ipy.core.printable import printable
from onetool_ipy.faces import making
from onetool_ipy.toolbox import Toolbox

__all__ = ["Consent", "answered"]


class Consent:
    """Asks, and edits the project's files; what was done or is left to do comes back as lines."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    def hosts(self, hosts: Sequence[str], *, is_given: bool) -> list[str]:
        """See to it that HTTP tools may reach hosts."""
        lines = []
        for host in making.unreached(self._box, hosts):
            if is_given or _asked(f"Allow HTTP tools to reach '{host}'? [y/N] "):
                with self._box.saving():
                    file = allow_host(self._box.config.paths, host)
                lines += [f"Allowed: {host}, in {file}", *self._read_again()]
            else:
                lines.append(
                    f"Not allowed yet: {host}. Run it again with --allow-host, or add it to http.allowed_hosts."
                )
        return lines

    def sending(self, records: Iterable[Mapping[str, Any]], *, made_up: Collection[str] | None, given: str) -> None:
        """See to it that no secret goes to a new host without a yes; refuse the tools where there is none.

        `given` is what `--secret-host` says: NAME=HOST, several separated by commas.
        """
        from onetool_ipy.faces.sending import new_sendings, unconfirmed

        left = unconfirmed(new_sendings(self._box, records, made_up=made_up), given.split(","))
        for one in left:
            if not _asked(f"{one.said} Send it there? [y/N] "):
                words = ",".join(each.word for each in left)
                raise UsageProblem(f"{one.said} Nothing was made.", hint=f"To allow it add: --secret-host {words}")

    def secrets(self, secrets: Mapping[str, str], *, is_given: bool) -> list[str]:
        """See to it that the values of secrets are where tools find them."""
        lines = []
        for name, value in secrets.items():
            known = self._box.config.secrets
            if name in known.names():
                same = known.get(name) == value
                lines.append(f"Secret {name}: {'known' if same else 'secrets.yaml has another value, which is used'}.")
            elif is_given or _asked(f"Keep the value of '{name}' in {FOLDER}/secrets.yaml? [y/N] "):
                with self._box.saving():
                    file = save_secret(self._box.config.paths, name, value)
                lines.append(f"Secret {name}: kept in {file}. Delete it from this cell before you share the notebook.")
                lines += self._read_again()
            else:
                lines.append(
                    f"Secret {name}: not kept. Run it again with --save-secrets, or add to {FOLDER}/secrets.yaml:"
                )
                lines.append(f'  {name}: "..."')
        return lines

    def _read_again(self) -> list[str]:
        """Read the files that were written. A mistake elsewhere in them is no reason to lose what was made."""
        try:
            self._box.reload()
        except InvalidConfig as exc:
            return [f"Not in use yet: {exc.message}", "  Mend that, then run: %tool reload"]
        return []

    def offer_name(self, slug: str) -> None:
        """Give the cell the bundle as a name, as it gets that of a new tool."""
        specs = self._box.registry.pack(slug)
        if specs and self._box.on_adopt is not None:
            self._box.on_adopt(specs[0])


def answered(question: str) -> bool | None:
    """Whether the person at the keyboard says yes; None where nobody can answer."""
    from IPython.core.error import StdinNotImplementedError

    try:
        return input(printable(question)).strip().lower() in ("y", "yes")
    except (StdinNotImplementedError, EOFError, OSError):
        return None


def _asked(question: str) -> bool:
    """A yes of the person at the keyboard; no where nobody can answer."""
    try:
        return bool(answered(question))
    except KeyboardInterrupt:
        raise UsageProblem("Stopped; what was stored before stays.") from None
