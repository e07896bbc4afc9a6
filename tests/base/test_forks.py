"""What is registered is renewed in a forked child, and kept alive by nobody."""

from __future__ import annotations

import gc
import os
import weakref

import pytest

from onetool_ipy.base import forks


class Member:
    """Has state of one process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        forks.register(self)

    def after_fork(self) -> None:
        self.owner = os.getpid()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_member_is_renewed_in_the_child_and_not_in_the_parent() -> None:
    member, parent = Member(), os.getpid()

    child = os.fork()
    if child == 0:
        os._exit(0 if member.owner == os.getpid() != parent else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert member.owner == parent


def test_the_registry_keeps_no_member_alive() -> None:
    member = weakref.ref(Member())
    gc.collect()

    assert member() is None
