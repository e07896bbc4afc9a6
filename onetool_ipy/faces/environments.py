"""Environments of a bundle for people: which there are, which one the bundle uses, and what
switching changes.

`bundles.environments` keeps them. Where the user approved a project part by part, an environment
that names a secret is such a part (`config.trust`): it is shown in the trust question, and one that
is new or was changed since then counts like one of a stranger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onetool_ipy.bundles.environments import Environment
from onetool_ipy.bundles.http.address import is_doubled, is_relative, joined
from onetool_ipy.config.trust import environment_pin
from onetool_ipy.faces.creation import (
    changed_bundle,
    common_origin,
    own_host,
    store_bundle,
    unreached,
    wire_auth,
)
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle

__all__ = [
    "DEFAULT",
    "Environment",
    "active_environment",
    "environments_of",
    "in_environment",
    "is_approved",
    "needs_approval",
    "prepared",
    "present_environment",
    "save_environment",
    "switch_notes",
]

DEFAULT = "default"
"""The name of what a bundle used before its first environment."""


def environments_of(box: Toolbox, slug: str) -> dict[str, Environment]:
    """The environments of a bundle by their names, in the order in which they were made."""
    return box.bundles.environments.of(slug)


def prepared(box: Toolbox, bundle: Bundle) -> Bundle:
    """The bundle with the base URL and the auth that all its tools have in common, before its first
    environment."""
    if bundle.base_url is None:
        base_url = common_origin(box.bundles.all_tools(bundle.bundle_id))
        if not base_url:
            return bundle
        bundle = store_bundle(box, changed_bundle(bundle, base_url, None))
    return box.bundles.share_auth(bundle.bundle_id)


def active_environment(box: Toolbox, bundle: Bundle) -> str:
    """The name of the environment that the bundle uses now; empty if it uses none of them."""
    name = bundle.environment.name if bundle.environment else ""
    return (
        name if environments_of(box, bundle.slug).get(name) == present_environment(bundle) else ""
    )


def present_environment(bundle: Bundle) -> Environment:
    """What the bundle uses now, as an environment."""
    variables = bundle.environment.variables if bundle.environment else {}
    return Environment(base_url=bundle.base_url or "", auth=wire_auth(bundle), variables=variables)


def in_environment(bundle: Bundle, name: str, environment: Environment) -> Bundle:
    """The bundle as it is in an environment; raises InvalidRequest for one that no bundle can
    have."""
    active = {"name": name, "variables": environment.variables}
    return changed_bundle(bundle, environment.base_url.rstrip("/"), environment.auth, active)


def save_environment(box: Toolbox, slug: str, name: str, environment: Environment) -> None:
    """Keep an environment that the user made, or said yes to. Raises StoreError if the file cannot
    be read."""
    box.bundles.environments.save(slug, {name: environment})
    if environment_pin(environment.to_dict()) is not None and not is_approved(
        box, slug, name, environment
    ):
        with box.gate.saving(f"environment {slug}/{name}"):
            pass


def is_approved(box: Toolbox, slug: str, name: str, environment: Environment) -> bool:
    """Whether the user approved this environment, as it is, when they approved the parts of the
    project."""
    trust, pin = box.config.trust, environment_pin(environment.to_dict())
    return (
        trust.is_pinned
        and pin is not None
        and trust.pins.get("environment", {}).get(f"{slug}/{name}") == pin
    )


def needs_approval(box: Toolbox, slug: str, name: str, environment: Environment) -> bool:
    """Whether an environment of the file names secrets, and all of them are asked about before it
    is used.

    That is so where its host is new, and where the user approved the project's parts and this is
    not one of them.
    """
    is_unknown = box.config.trust.is_pinned and not is_approved(box, slug, name, environment)
    names_secret = environment_pin(environment.to_dict()) is not None
    return names_secret and (is_unknown or bool(unreached(box, own_host(environment.base_url))))


def switch_notes(box: Toolbox, bundle: Bundle) -> list[str]:
    """Lines about the tools of a bundle whose addresses are not what its environment suggests.

    Those that keep a host of their own, whatever environment the bundle uses; and those whose path
    already begins with the path of the base URL, so that it stands in the address twice.
    """
    kept, doubled = [], []
    base_url = bundle.base_url or ""
    for tool in box.bundles.all_tools(bundle.bundle_id):
        if tool.http is None:
            continue
        name = f"{bundle.slug}.{tool.slug}"
        if origins := tool.http.own_hosts():
            kept.append(f"Keeps its own host: {name} ({', '.join(origins)})")
        for url in (step.request.url_template for _, step in tool.http.plan()):
            if is_relative(url) and is_doubled(url, base_url):
                doubled.append(f"Has a part of its path twice: {name} ({joined(base_url, url)})")
                break
    if doubled:
        doubled.append("If that is not meant, leave the path out of the environment's base URL.")
    return [*kept, *doubled]
