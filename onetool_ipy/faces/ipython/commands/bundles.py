"""`%tool bundle list | on | off | show | delete` and `%tool import openapi`: bundles, and tools from a document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from onetool_ipy.core import match
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces import making
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.consent import Consent
from onetool_ipy.faces.ipython.commands.group import Bench, Command, page
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.render.counted import counted
from onetool_ipy.render.shown import Listing

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = ["BundleCommands"]

_VERBS = "list, show, on, off, delete"


class BundleCommands:
    """The sub-commands about bundles."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool bundle list              bundles and their switches; %tool bundle show NAME[.tool[@version]]",
        "%tool bundle on|off NAME       switch a bundle, a tool or one version; %tool bundle delete NAME.tool@version",
        "%tool import openapi SOURCE    make a bundle of an OpenAPI file or address; --bundle SLUG, --allow-host",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._consent = Consent(bench.box)

    def table(self) -> dict[str, Command]:
        return {"bundle": self._bundle, "import": self._import}

    def _bundle(self, rest: str) -> Any:
        asked = parse.read_options(rest, {"--with-tools": "switch"})
        verb, *names = asked.words or ["list"]
        if verb == "list" and not names:
            return self._listed()
        if verb not in ("list", "show", "on", "off", "delete"):
            raise UsageProblem(f"%tool bundle does not know '{verb}'.", hint=f"It knows: {_VERBS}.")
        if len(names) != 1:
            raise UsageProblem(f"%tool bundle {verb} wants one name.", hint=f"For example: %tool bundle {verb} my-api")
        bundle, tools = self._meant(names[0])
        if verb in ("list", "show"):
            return self._shown(bundle, tools)
        if verb == "delete":
            return self._delete(bundle, tools, with_tools="--with-tools" in asked.given)
        return self._switch(bundle, tools, enabled=verb == "on")

    def _listed(self) -> Listing:
        counts: dict[str, int] = {}
        for tool in self._tools(None):
            counts[tool.bundle_id] = counts.get(tool.bundle_id, 0) + 1
        rows = [
            {
                "bundle": bundle.slug,
                "enabled": bundle.is_enabled,
                "tools": counts.get(bundle.bundle_id, 0),
                "description": self._box.mask(bundle.description or bundle.display_name),
                "built_in": bundle.is_built_in,
            }
            for bundle in self._bundles()
        ]
        return Listing(rows)

    def _shown(self, bundle: Bundle, tools: list[Tool] | None) -> Page:
        if tools is not None and len(tools) == 1:
            return page(self._box, [json.dumps(tools[0].to_dict(), ensure_ascii=False, indent=2)])
        found = self._tools(bundle.bundle_id) if tools is None else tools
        lines = [f"{bundle.slug} ({'on' if bundle.is_enabled else 'off'}): {bundle.description or bundle.display_name}"]
        for tool in found:
            state = "on" if tool.is_enabled else "off"
            reason = "" if tool.available else f"  not available: {tool.reason}"
            facts = f"{state}, {tool.type}, {counted(tool.call_count, 'call')}{reason}"
            lines.append(f"  {bundle.slug}.{tool.slug}@{tool.version}  {facts}")
        if not found:
            lines.append(f"  no tools yet: %tool new http {bundle.slug}.NAME")
        return page(self._box, lines)

    def _switch(self, bundle: Bundle, tools: list[Tool] | None, *, enabled: bool) -> Page:
        word = "on" if enabled else "off"
        if tools is None:
            self._box.bundles.patch_bundle(bundle.bundle_id, enabled=enabled)
            return page(self._box, [f"The bundle {bundle.slug} is {word}."])
        for tool in tools:
            self._box.bundles.patch_tool(bundle.bundle_id, tool.slug, tool.version, enabled=enabled)
        return page(self._box, [f"{bundle.slug}.{tool.slug}@{tool.version} is {word}." for tool in tools])

    def _delete(self, bundle: Bundle, tools: list[Tool] | None, *, with_tools: bool) -> Page:
        bundles = self._box.bundles
        if tools is not None:
            if len(tools) > 1:
                listed = ", ".join(f"{bundle.slug}.{tool.slug}@{tool.version}" for tool in tools)
                raise UsageProblem(f"'{tools[0].slug}' has {len(tools)} versions.", hint=f"Name one of: {listed}")
            bundles.delete_tool(bundle.bundle_id, tools[0].slug, tools[0].version)
            return page(self._box, [f"{bundle.slug}.{tools[0].slug}@{tools[0].version} is deleted."])
        held = self._tools(bundle.bundle_id)
        if held and not with_tools and not bundle.is_built_in:
            raise UsageProblem(
                f"The bundle '{bundle.slug}' holds {counted(len(held), 'tool')}.",
                hint=f"Delete it with all of them: %tool bundle delete {bundle.slug} --with-tools",
            )
        for tool in () if bundle.is_built_in else held:
            bundles.delete_tool(bundle.bundle_id, tool.slug, tool.version)
        bundles.delete_bundle(bundle.bundle_id)
        return page(self._box, [f"The bundle {bundle.slug} is deleted, with {counted(len(held), 'tool')}."])

    def _import(self, rest: str) -> Page:
        from onetool_ipy.bundles.importing import import_openapi

        asked = parse.read_options(
            rest, {"--bundle": "text", "--allow-host": "switch", "--server": "text", "--secret-host": "text"}
        )
        if asked.words[:1] != ["openapi"] or len(asked.words) != 2:
            raise UsageProblem(
                "%tool import wants 'openapi' and a file or an address.",
                hint="For example: %tool import openapi https://api.example.com/openapi.json --allow-host",
            )
        source, is_allowed = asked.words[1], "--allow-host" in asked.given
        data, base_url = making.read_source(self._box, source, also=making.own_host(source) if is_allowed else ())
        server = asked.given.get("--server", base_url)
        known = self._box.config.secrets.names()
        draft = import_openapi(data, slug=asked.given.get("--bundle"), base_url=server, secrets=known)
        self._consent.sending(draft.tools, made_up=None, given=asked.given.get("--secret-host", ""))
        made = making.store_draft(self._box, draft)
        said = self._consent.hosts(draft.hosts, is_given=is_allowed)
        self._consent.offer_name(made.bundle.slug)
        return page(self._box, [*making.told(made, draft, self._box), *said, *making.examples(made)])

    def _meant(self, name: str) -> tuple[Bundle, list[Tool] | None]:
        """The bundle that a name means, and the versions of its tool, where one is named."""
        slug, dot, rest = name.partition(".")
        bundle = self._box.bundles.named(slug)
        if bundle is None:
            near = match.did_you_mean(slug, [each.slug for each in self._bundles()])
            raise UsageProblem(f"No bundle '{slug}'. {near}".strip(), hint="See them with: %tool bundle list")
        if not dot:
            return bundle, None
        wanted, _, version = rest.partition("@")
        tools = self._tools(bundle.bundle_id)
        found = [tool for tool in tools if tool.slug == wanted and version in ("", tool.version)]
        if not found:
            near = match.did_you_mean(wanted, [tool.slug for tool in tools])
            raise UsageProblem(
                f"The bundle '{slug}' has no tool '{rest}'. {near}".strip(), hint=f"See: %tool bundle show {slug}"
            )
        return bundle, found

    def _bundles(self) -> list[Bundle]:
        return making.all_pages(lambda token: self._box.bundles.list_bundles(**_everything(token)))

    def _tools(self, bundle_id: str | None) -> list[Tool]:
        ids = None if bundle_id is None else [bundle_id]
        return making.all_pages(lambda token: self._box.bundles.list_tools(bundle_ids=ids, **_everything(token)))


def _everything(token: str | None) -> dict[str, Any]:
    return {"include_disabled": True, "page_size": 256, "page_token": token}
