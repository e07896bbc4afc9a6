"""What the JupyterLab side panel asks of a kernel: a few counts, as a vendor MIME bundle.

The panel evaluates `state()` through a silent execute request, and only in a kernel that has
loaded our extension. The answer is made from what is already in memory; with no toolbox open
it is all zeros. It never raises, since nobody would see the error.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict, dataclass

from onetool_ipy._version import __version__
from onetool_ipy.core.current import toolbox

__all__ = ["MIME", "PanelState", "state"]

MIME = "application/vnd.onetool.state+json"


@dataclass(frozen=True, slots=True)
class PanelState:
    """The counts the panel shows."""

    version: str
    tools: int
    packs: int

    def _repr_mimebundle_(
        self,
        include: Container[str] | None = None,  # noqa: ARG002 - IPython's protocol
        exclude: Container[str] | None = None,  # noqa: ARG002
    ) -> dict[str, object]:
        return {"text/plain": repr(self), MIME: asdict(self)}


def state() -> PanelState:
    """Count the tools and packs of this kernel's toolbox."""
    box = toolbox()
    if box is None:
        return PanelState(__version__, tools=0, packs=0)
    return PanelState(__version__, tools=len(box.registry.list()), packs=len(box.registry.packs()))
