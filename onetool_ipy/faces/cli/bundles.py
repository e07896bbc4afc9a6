"""`onetool-ipy import openapi`: make a bundle of an OpenAPI file or address. What it made is JSON on stdout."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from onetool_ipy.assemble import open_toolbox
from onetool_ipy.faces.cli.say import FAILED, OK, say, show_json

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    imported = commands.add_parser("import", help="make tools of what others wrote")
    imported.set_defaults(help_of=imported)
    kinds = imported.add_subparsers(title="commands", metavar="COMMAND")
    openapi = kinds.add_parser("openapi", help="make a bundle of an OpenAPI 3 or Swagger 2.0 document")
    openapi.add_argument("source", metavar="FILE_OR_URL")
    openapi.add_argument("--bundle", metavar="SLUG", help="the bundle's name; by default made from the title")
    openapi.add_argument("--server", metavar="URL", help="the server to call, where the document names none")
    openapi.add_argument("--allow-host", action="store_true", help="let HTTP tools reach the hosts that are named")
    openapi.add_argument(
        "--secret-host",
        metavar="NAME=HOST",
        action="append",
        default=[],
        help="send a secret that is used with another host to this one, too",
    )
    openapi.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> int:
    from onetool_ipy.bundles.importing import import_openapi
    from onetool_ipy.config.edit import allow_host
    from onetool_ipy.faces import making
    from onetool_ipy.faces.sending import new_sendings, unconfirmed

    with open_toolbox(options.config) as box:
        also = making.own_host(options.source) if options.allow_host else ()
        data, base_url = making.read_source(box, options.source, also=also)
        known = box.config.secrets.names()
        draft = import_openapi(data, slug=options.bundle, base_url=options.server or base_url, secrets=known)
        left = unconfirmed(new_sendings(box, draft.tools, made_up=None), options.secret_host)
        for one in left:
            if not _is_agreed(one.said):
                say(f"{one.said} Nothing was made.")
                say("To allow it add: " + " ".join(f"--secret-host {each.word}" for each in left))
                return FAILED
        made = making.store_draft(box, draft)
        for line in making.told(made, draft, box):
            say(box.mask(line))
        for host in making.unreached(box, draft.hosts):
            if options.allow_host:
                with box.saving():
                    say(f"allowed {host} in {allow_host(box.config.paths, host)}")
            else:
                say(f"not allowed yet: {host}; add --allow-host, or add it to http.allowed_hosts")
        names = [f"{made.bundle.slug}.{tool.slug}" for tool in made.tools]
        show_json(box, {"bundle": made.bundle.to_dict(), "tools": names, "hosts": draft.hosts, "notes": draft.notes})
        return OK


def _is_agreed(said: str) -> bool:
    """Ask whoever is at the terminal; no where nobody is."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return False
    say(f"{said} Send it there? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
