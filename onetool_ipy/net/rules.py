"""Rules: what holds for one request, as a value."""

from __future__ import annotations

from onetool_ipy.config.settings import Http
from onetool_ipy.config.value import Value
from onetool_ipy.net.hosts import Hosts, Place

__all__ = ["Rules"]


class Rules(Value):
    """What holds for one request; `hosts` None lets any host through that is not private.

    `timeout_s` is for all of it: look-up, connecting, redirects, tries and the body. `max_bytes` counts the body as it
    is after decompression. `tries` counts the first one too, and holds for idempotent methods only. With
    `max_redirects` 0 a redirect is a reply like any other.
    """

    hosts: Hosts | None = None
    allow_private: bool = False
    timeout_s: float = 10
    max_bytes: int = 5 * 1024 * 1024
    tries: int = 3
    max_redirects: int = 10

    def may_be_private(self, place: Place) -> bool:
        """Whether the address of a place may be a private one."""
        return self.allow_private or (self.hosts is not None and self.hosts.allow_private(place))

    @classmethod
    def of(cls, http: Http) -> Rules:
        """The rules that the section `http` of the settings sets."""
        return cls(
            hosts=Hosts(http.allowed_hosts),
            allow_private=http.allow_private,
            timeout_s=http.timeout_s,
            max_bytes=http.max_response_bytes,
        )
