"""The worker's side: run the work n times when asked, and say what CPU time it took. Standard
library only."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

__all__ = ["serve"]


async def serve(distribution: str, repeat: Callable[[int], Awaitable[None] | None]) -> None:
    """Answer requests on standard input until it ends; whatever the peer prints goes to standard
    error.

    Standard input blocks the event loop, on purpose: between two requests a worker is to do nothing
    at all.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    await _timed(repeat, 3)
    gc.collect()
    gc.freeze()
    said: dict[str, object] = {
        "ready": f"{distribution} {importlib.metadata.version(distribution)}"
    }
    print(json.dumps(said), file=answers, flush=True)
    for line in sys.stdin:
        await _timed(repeat, 2)  # others had the caches of the processor meanwhile
        said = {"seconds": await _timed(repeat, int(json.loads(line)["n"]))}
        print(json.dumps(said), file=answers, flush=True)


async def _timed(repeat: Callable[[int], Awaitable[None] | None], count: int) -> float:
    began = time.process_time()
    waiting = repeat(count)
    if waiting is not None:
        await waiting
    return time.process_time() - began
