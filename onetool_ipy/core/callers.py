"""Who makes a call, and what follows from it: the one home of these facts.

`CallSource` in `core.tool` names the callers. The sets below say which of them are a person at the keyboard, which are
outside this program, and which of them have a time limit. A call inside another call counts for whoever made the
outermost one: a tool that a model's tool calls is the model's.
"""

from __future__ import annotations

from onetool_ipy.core import current
from onetool_ipy.core.tool import CallSource

TYPED: frozenset[CallSource] = frozenset(("python", "magic", "shortcut"))
"""A person's own cell or program: they see its progress, may be asked, and may skip the check of arguments."""

OUTSIDE: frozenset[CallSource] = frozenset(("model", "rest", "mcp"))
"""Whoever is not the user: a model, and the clients of our REST API and of our MCP server."""

REMOTE: frozenset[CallSource] = frozenset(("rest", "mcp"))
"""Clients that wait for a response. The person at this machine, if there is one, is not asked for them."""

LIMITED: frozenset[CallSource] = OUTSIDE | {"cli"}
"""Callers that leave the kernel: their calls have a time limit, and large values in their results become handles."""


def is_from_outside() -> bool:
    """Whether a model, a REST client or an MCP client made the running call, directly or through another tool."""
    scope = current.scope()
    return scope is not None and scope.asked_by in OUTSIDE
