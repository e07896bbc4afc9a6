"""How much longer than promised a test lets things take, since a shared machine stands still now and then.

`make soak`, which runs alone, holds every promise to the letter.
"""

from __future__ import annotations

import os

__all__ = ["STALL_S"]

STALL_S = 0.0 if os.environ.get("ONETOOL_SOAK") else 15.0
