"""At the end of a process the message on its way goes out first, and none begins after it."""

from __future__ import annotations

from tests.harness.patience import HANG_S
from tests.harness.programs import python

_ORDER = """
import atexit, threading
from onetool_ipy.base.exits import before_exit

has_begun, is_ending, is_closed = threading.Event(), threading.Event(), threading.Event()

def close_sockets():
    is_closed.set()
    print("closed", flush=True)
    before_exit.send(lambda: print("too late", flush=True))

def slow_message():
    has_begun.set()
    is_ending.wait()
    is_closed.wait(0.5)  # as long as the end does not wait for this message, it closes the sockets now
    print("sent", flush=True)

atexit.register(close_sockets)
before_exit.send(lambda: print("first", flush=True))
threading.Thread(target=before_exit.send, args=(slow_message,), daemon=True).start()
has_begun.wait()
atexit.register(is_ending.set)
"""

_HANG = """
import threading
from onetool_ipy.base.exits import before_exit

has_begun = threading.Event()

def hang():
    has_begun.set()
    threading.Event().wait()

threading.Thread(target=before_exit.send, args=(hang,), daemon=True).start()
has_begun.wait()
"""


def run(script: str) -> list[str]:
    done = python(script, timeout=HANG_S)
    return done.stdout.split()


def test_the_end_waits_for_the_message_on_its_way_and_drops_later_ones() -> None:
    assert run(_ORDER) == ["first", "sent", "closed"]


def test_a_message_that_hangs_does_not_keep_the_process() -> None:
    assert run(_HANG) == []
