"""Where a model is reached: the configured base_url, in any of the ways people write it. Pure.

OpenAI-compatible servers (vLLM, llama.cpp, LM Studio) are told with or without `/v1`; a whole endpoint pasted from a
manual is understood too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onetool_ipy.core.errors import InvalidConfig, OneToolError

if TYPE_CHECKING:
    from onetool_ipy.net import Rules

__all__ = ["base_of", "rules_for"]

_MAX_BYTES = 32 * 1024 * 1024


def base_of(url: str, *, version: str, endpoints: tuple[str, ...] = ()) -> str:
    """The base that endpoints are appended to, without a slash at its end.

    `version` is added where the address names no path; `endpoints` at its end are what someone pasted with it.
    """
    base = url.strip().rstrip("/")
    for endpoint in endpoints:
        base = base.removesuffix(endpoint).rstrip("/")
    _, _, rest = base.partition("://")
    return base if "/" in rest or not version else f"{base}/{version}"


def rules_for(url: str) -> Rules:
    """What holds for requests to a model: its own host and port, and no other. It may be a private one."""
    import httpx

    from onetool_ipy.net import Hosts, Rules
    from onetool_ipy.net.hosts import place_of

    try:
        place = place_of(httpx.URL(url))
    except httpx.InvalidURL as exc:
        raise InvalidConfig(f"The model's base_url is not valid: {exc}") from None
    except OneToolError as exc:
        raise InvalidConfig(f"The model's base_url cannot be used: {exc.message}", hint=exc.hint) from None
    host = f"[{place.host}]" if ":" in place.host else place.host
    return Rules(
        hosts=Hosts([f"{host}:{place.port}"]), allow_private=True, max_bytes=_MAX_BYTES, tries=1, max_redirects=0
    )
