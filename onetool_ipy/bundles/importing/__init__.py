"""Tools made from what others wrote: an OpenAPI document, or a pasted curl command. Pure; nothing is ever fetched.

    draft = import_openapi(data, slug="pets", base_url=None)    # bytes, text or a dict; else InvalidRequest
    draft.bundle    {slug, displayName, description, isEnabled}: the body of PUT /bundles/{id}
    draft.tools     [{slug, version, displayName, description, tags, type, argSchema, outputSchema?, http}]: each is the
                    body of PUT .../tools/{slug}/version/{version}
    draft.secrets   [{name, description}]: the secrets that the tools take; there is never a value
    draft.hosts     ["api.example.com"]: what http.allowed_hosts needs, for `--allow-host`
    draft.notes     ["GET /x: the cookie parameter 'y' is left out", ...]: everything that was not taken over

    made = import_curl(text, slug=None, secret_prefix=None)      # one tool
    made.tool       as above; with slug and version
    made.secrets    {NAME: value}: what the command held; for secrets.yaml, never for the record
    made.hosts, made.notes

`base_url` is where the document came from, or the server to use; it is needed where the document names no whole URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.bundles.importing.curl import CurlDraft, import_curl
    from onetool_ipy.bundles.importing.openapi import Draft, import_openapi

__all__ = ["CurlDraft", "Draft", "import_curl", "import_openapi"]

_HOMES = {"CurlDraft": "curl", "import_curl": "curl", "Draft": "openapi", "import_openapi": "openapi"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
