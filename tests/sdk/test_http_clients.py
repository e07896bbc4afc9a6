"""Headers from secrets, and clients made when first needed (spec 000)."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.sdk import api_headers, lazy_client
from tests.harness.patience import until
from tests.harness.project import Project

KEY = "sk-0123456789abcdef"


@pytest.mark.spec("000/API Headers/Bearer token header")
def test_a_secret_becomes_a_bearer_token(project: Project) -> None:
    project.secrets(MY_API_KEY=KEY)
    project.open()

    assert api_headers("MY_API_KEY") == {"Authorization": f"Bearer {KEY}"}


@pytest.mark.spec("000/API Headers/Custom header name")
def test_the_header_may_have_another_name_and_no_prefix(project: Project) -> None:
    project.secrets(BRAVE_API_KEY=KEY)
    project.open()

    found = api_headers("BRAVE_API_KEY", header_name="X-Subscription-Token", prefix="")

    assert found == {"X-Subscription-Token": KEY}


@pytest.mark.spec("000/API Headers/Missing secret")
def test_without_the_secret_there_are_no_headers(box: Toolbox) -> None:
    assert api_headers("MISSING_KEY") == {}


class Client:
    """Something that is expensive to make."""


@pytest.mark.spec("000/Lazy Client Factory/Create lazy getter")
def test_the_client_is_made_at_the_first_call_only(box: Toolbox) -> None:
    made: list[Client] = []

    def factory() -> Client:
        made.append(Client())
        return made[-1]

    get = lazy_client(factory)

    assert callable(get)
    assert made == []
    assert get() is get()
    assert len(made) == 1


@pytest.mark.spec("000/Lazy Client Factory/Thread-safe initialization")
def test_many_threads_get_one_and_the_same_client(box: Toolbox) -> None:
    """64 threads at once; the factory ends only when all others stand in the getter and wait."""
    count = 64
    calls: list[int] = []

    def factory() -> Client:
        calls.append(1)
        until(lambda: _waiting_in("get") >= count - 1 or len(calls) > 1)
        return Client()

    get = lazy_client(factory)

    with ThreadPoolExecutor(count) as threads:
        clients = {id(client) for client in threads.map(lambda _: get(), range(count))}

    assert len(calls) == 1
    assert len(clients) == 1


def _waiting_in(function: str) -> int:
    """How many threads stand in a function of this name."""
    return sum(frame.f_code.co_name == function for frame in sys._current_frames().values())


@pytest.mark.spec("000/Lazy Client Factory/Conditional initialization with secret")
def test_without_the_secret_nothing_is_made(box: Toolbox) -> None:
    get = lazy_client(lambda: pytest.fail("the factory was called"), secret_name="API_KEY")

    assert get() is None


def test_a_secret_that_comes_changes_and_goes_is_followed(project: Project) -> None:
    made: list[int] = []
    get = lazy_client(lambda: made.append(1) or len(made), secret_name="API_KEY")
    box = project.open()
    found = [get()]
    for value in (KEY, KEY, KEY + "-new"):
        project.secrets(API_KEY=value)
        box.reload()
        found.append(get())
    project.secrets()
    box.reload()

    assert [*found, get()] == [None, 1, 1, 2, None]


def test_a_factory_that_gives_none_is_called_once(box: Toolbox) -> None:
    calls: list[int] = []
    get = lazy_client(lambda: calls.append(1))

    assert (get(), get(), calls) == (None, None, [1])


def test_a_factory_that_asks_for_its_own_client_fails_and_does_not_hang(box: Toolbox) -> None:
    get = lazy_client(lambda: get())

    with pytest.raises(RecursionError):
        get()
