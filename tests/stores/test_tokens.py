"""The tokens of servers on disk and in a keyring: who may read them, what is masked, what a broken
keyring costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringLocked

from onetool_ipy.base.files import stamp_of
from onetool_ipy.stores.tokens import TokenStore
from tests.harness.systems import has_mode

GRANT = {
    "tokens": {"access_token": "access-canary", "refresh_token": "refresh-canary"},
    "client": {"client_id": "public-id", "client_secret": "client-canary"},
}


class Memory(KeyringBackend):
    """A keyring as a system has one."""

    priority = 5  # type: ignore[assignment]  # keyring's own backends do the same

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class Locked(Memory):
    """A keyring whose owner did not unlock it."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("the user said no")

    set_password = delete_password = get_password  # type: ignore[assignment]


class Forgetful(Memory):
    """A keyring that takes what it does not keep: too long, for some."""

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password[:10]


@pytest.fixture(autouse=True)
def _own_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    # The surroundings' one, else the classes here would serve other tests.
    assert isinstance(before, fail.Keyring)
    yield
    keyring.set_keyring(before)


@pytest.fixture
def hidden() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, hidden: list[str]) -> TokenStore:
    return TokenStore(tmp_path / "tokens", hidden.append)


@pytest.mark.parametrize(
    "backend", [fail.Keyring, null.Keyring, Locked, Forgetful], ids=lambda each: each.__name__
)
def test_without_a_keyring_that_works_a_file_is_used(
    store: TokenStore, hidden: list[str], backend: type[KeyringBackend]
) -> None:
    keyring.set_keyring(backend())
    path = store.path("https://a.example/mcp", "")

    store.write(path, GRANT)

    assert has_mode(path, 0o600)
    assert has_mode(path.parent, 0o700)
    assert store.read(path) == GRANT
    assert set(hidden) == {"access-canary", "refresh-canary", "client-canary"}
    store.remove(path)
    assert store.read(path) is None
    store.remove(path)


def test_with_a_keyring_the_file_holds_no_token(store: TokenStore) -> None:
    backend = Memory()
    keyring.set_keyring(backend)
    path = store.path("https://a.example/mcp", "")
    store.write(path, GRANT)
    assert json.loads(path.read_bytes()) == {"in": "keyring"}
    assert store.read(path) == GRANT

    keyring.set_keyring(Locked())
    assert store.read(path) is None
    keyring.set_keyring(backend)
    stamp = stamp_of(path)
    store.write(path, {**GRANT, "more": 1})
    assert stamp_of(path) != stamp
    assert (store.read(path) or {})["more"] == 1

    store.remove(path)
    assert not backend.kept
    assert stamp_of(path) is None


@pytest.mark.posix("modes of files")
@pytest.mark.parametrize("mode", [0o666, 0o644, 0o620])
def test_a_file_that_is_open_to_others_does_not_count_and_is_replaced(
    store: TokenStore, mode: int
) -> None:
    path = store.path("https://a.example/mcp", "")
    store.write(path, GRANT)
    path.chmod(mode)
    assert store.read(path) is None
    assert str(path) in store.fault(path)

    store.write(path, GRANT)

    assert has_mode(path, 0o600)
    assert store.read(path) == GRANT


def test_a_link_and_what_is_not_a_grant_do_not_count(store: TokenStore, tmp_path: Path) -> None:
    path = store.path("https://a.example/mcp", "")
    store.write(path, GRANT)
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    assert store.read(path) is None
    path.unlink()
    for text in ("", "[1]", "{", "null"):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        assert store.read(path) is None


def test_servers_and_clients_have_their_own_grants(store: TokenStore) -> None:
    paths = {
        store.path(url, client)
        for url in ("https://a.example", "https://b.example")
        for client in ("", "x")
    }
    assert len(paths) == 4


def test_a_reload_masks_what_is_known(store: TokenStore) -> None:
    store.write(store.path("https://a.example/mcp", ""), GRANT)
    later: list[str] = []

    store.hide_with(later.append)

    assert set(later) == {"access-canary", "refresh-canary", "client-canary"}
    assert "canary" not in repr(store)


@given(
    st.binary()
    | st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000, b'{"tokens": [{}]}'])
)
def test_whatever_is_in_a_file_of_tokens_is_a_grant_or_none(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    store = TokenStore(tmp_path_factory.mktemp("tokens"), len)
    path = store.path("https://a.example/mcp", "")
    path.write_bytes(data)
    path.chmod(0o600)

    assert isinstance(store.read(path), dict | None)
    store.write(path, GRANT)
    assert store.read(path) == GRANT
