"""The names of a project's packs hold for the next start as long as nothing that they came from has
changed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onetool_ipy import __version__
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.files import is_young, stamp_of
from onetool_ipy.config.kept_names import read_names
from onetool_ipy.config.paths import find_config, home_at, home_of
from onetool_ipy.config.trust import TrustList
from tests.harness.project import Project

PACK = '''
def price(a: int) -> int:
    """Say a price."""
    return a
'''


def load(project: Project) -> list[str]:
    """Open the project as a notebook does, and keep its names."""
    box = open_leniently(env=project.env, cwd=project.root)
    project.boxes.append(box)
    box.parts.keep_pack_names()
    return list(box.parts.pack_names)


def known(project: Project) -> dict[str, str] | None:
    """Return what the next start knows."""
    env, cwd, home = project.env, project.root, home_of(project.env)
    location = find_config(None, env=env, cwd=cwd, home=home)
    names = read_names(location, env=env, cwd=cwd, home=home)
    return None if names is None else dict(names.packs)


def kept_file(project: Project) -> Path:
    (file,) = (project.root / "state").glob("*/cache/names.json")
    return file


def let_age(*folders: Path) -> None:
    """Wait until no file in the folders is so young that it could change unseen."""
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    while any((stamp := stamp_of(path)) and is_young(stamp) for path in paths):
        pass


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Project]:
    """A trusted project with a pack file, a server, a bundle, a snippet and a secret."""
    project = Project(tmp_path / "project")
    project.env.update(home_at(tmp_path / "home"), ONETOOL_TRUST=str(project.root))
    project.settings(servers={"geo-now": {"command": "geo"}})
    project.pack("shop", PACK)
    project.write("snippets.yaml", "hello: {body: time.now}\n")
    project.secrets(TOKEN="abcdef123")
    bundle = {"isEnabled": True, "slug": "crm"}
    project.write("bundles/crm/bundle.json", json.dumps(bundle))
    let_age(project.root)
    with project:
        yield project


def test_the_names_of_a_load_are_known_at_the_next(shop: Project) -> None:
    assert load(shop) == ["shop", "geo-now", "crm"]

    assert known(shop) == {"shop": "shop", "geo_now": "geo-now", "crm": "crm"}


def _remove(path: Path) -> None:
    path.unlink()


CHANGES: dict[str, Callable[[Project], object]] = {
    "settings": lambda p: p.settings(servers={"geo-then": {"command": "geo"}}),
    "prompts": lambda p: p.write("prompts.yaml", "a: {text: b}"),
    "snippets": lambda p: _remove(p.home / "snippets.yaml"),
    "secrets": lambda p: (p.home / "secrets.yaml").chmod(0o644),
    "environments": lambda p: p.write("environments.json", "{}"),
    "edited": lambda p: p.write("tools/shop.py", 'pack = "other"\n' + PACK),
    "added": lambda p: p.pack("new", PACK),
    "removed": lambda p: _remove(p.home / "tools" / "shop.py"),
    "replaced": lambda p: os.replace(p.pack("aa", PACK), p.home / "tools" / "shop.py"),
    "switched": lambda p: p.write("bundles/crm/bundle.json", '{"isEnabled": false}'),
    "bundle": lambda p: p.write("bundles/two/bundle.json", '{"isEnabled": true, "slug": "two"}'),
    "distrusted": lambda p: p.env.pop("ONETOOL_TRUST"),
    "state": lambda p: p.env.update(ONETOOL_STATE=str(p.root / "other")),
}


MODES = pytest.mark.posix("modes of files")


@pytest.mark.parametrize(
    "change",
    [pytest.param(name, marks=[MODES] if name == "secrets" else []) for name in CHANGES],
)
def test_nothing_is_known_once_something_has_changed(shop: Project, change: str) -> None:
    load(shop)

    CHANGES[change](shop)

    assert known(shop) is None


def test_nothing_is_known_from_another_folder_or_version(shop: Project) -> None:
    load(shop)
    inner = shop.root / "inner"
    inner.mkdir()
    env, home = shop.env, home_of(shop.env)
    location = find_config(None, env=env, cwd=inner, home=home)

    assert read_names(location, env=env, cwd=inner, home=home) is None
    file = kept_file(shop)
    file.write_text(file.read_text().replace(f'"{__version__}"', '"0"'))
    assert known(shop) is None


def test_trust_that_is_taken_back_is_seen(shop: Project) -> None:
    del shop.env["ONETOOL_TRUST"]
    trusted = TrustList.of(shop.env, home_of(shop.env))
    trusted.add(shop.root, {"server": {"geo-now": {"command": "geo"}}})
    let_age(shop.root)
    load(shop)
    assert known(shop) is not None

    trusted.remove(shop.root)

    assert known(shop) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.env.pop("ONETOOL_TRUST"),
        lambda p: p.settings(nonsense=1),
        lambda p: (p.settings(state_dir="here"), p.env.pop("ONETOOL_STATE")),
    ],
    ids=["not trusted", "a problem to tell", "a state folder that the settings choose"],
)
def test_nothing_is_kept_of_a_project_that_has_to_be_looked_at(
    shop: Project, spoil: Callable[[Project], object]
) -> None:
    spoil(shop)
    let_age(shop.root)

    load(shop)

    assert known(shop) is None


def test_what_changes_while_a_project_is_read_is_not_kept(shop: Project) -> None:
    """A file that is as young as the load may have been read before or after its change."""
    shop.pack("late", PACK)

    load(shop)

    assert known(shop) is None


def test_a_damaged_file_is_as_good_as_none(shop: Project) -> None:
    names = load(shop)
    file = kept_file(shop)
    whole, pick = file.read_bytes(), random.Random(7)

    for _ in range(300):
        cut = bytearray(whole[: pick.randrange(1, len(whole) + 1)])
        cut[pick.randrange(len(cut))] = pick.randrange(256)
        file.write_bytes(cut)
        packs = known(shop)
        # A byte within a name changes that name alone.
        assert packs is None or len(packs) == len(names)
