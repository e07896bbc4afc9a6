"""Row 10: start with 1,000 tools in the configuration, cold (nothing cached) and warm. CPU time,
modules imported.

Two parts of ours: reading the configuration, and the whole way to a registry of 1,000 tools. Beside
them stand `yaml.load(text, CSafeLoader)` alone, PyYAML without C, and a plain cache: parsed JSON
under a hash of the file.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from onetool_ipy import open_toolbox
from onetool_ipy.config.load import load_config
from tests.benchmarks import projects
from tests.benchmarks.timing import Contender, Rounds, at_most, line, note, once, race

__all__ = ["ROWS", "run"]

ROWS = (10,)

_COUNT = 1000
_COLD_TIMES, _WARM_S = 1.2, (0.060, 0.020)
_CONFIG, _ALL = "config", "open_toolbox + registry"
_C_LOADER, _PURE, _HASHED = "yaml.load, CSafeLoader", "yaml.load, SafeLoader", "hash-keyed JSON"


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        folder = projects.with_definitions(Path(place) / "project", _COUNT)
        ours = _Ours(folder, Path(place))
        text = (folder / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")
        note("  cold ...")
        cold = race(
            [*ours.cold(), once(_C_LOADER, lambda: yaml.load(text, yaml.CSafeLoader))], rounds=7
        )
        # Slow, and in no target.
        pure = race([once(_PURE, lambda: yaml.load(text, yaml.SafeLoader))], rounds=1)
        note("  warm ...")
        warm = race([*ours.warm(), _hashed(folder)], rounds=31)
        return [*_cold_lines(cold, pure[_PURE]), *_warm_lines(warm)]


class _Ours:
    """Loading the project with a state directory that is empty, or one that was used before."""

    def __init__(self, folder: Path, place: Path) -> None:
        self._folder = folder
        self._cold, self._warm = place / "cold", place / "warm"
        self._open(self._warm)

    def cold(self) -> Iterator[Contender]:
        yield once(_CONFIG, lambda: self._load(self._cold), before=self._forget)
        yield once(_ALL, lambda: self._open(self._cold), before=self._forget)

    def warm(self) -> Iterator[Contender]:
        yield once(_CONFIG, lambda: self._load(self._warm))
        yield once(_ALL, lambda: self._open(self._warm))

    def _forget(self) -> None:
        shutil.rmtree(self._cold, ignore_errors=True)
        gc.collect()

    def _load(self, state: Path) -> None:
        config = load_config(self._folder, env=self._env(state), cwd=self._folder)
        assert len(config.settings.tools) == _COUNT, config.problems[:3]

    def _open(self, state: Path) -> None:
        with open_toolbox(self._folder, env=self._env(state)) as box:
            assert (
                box.registry.get(f"area{(_COUNT - 1) // 10}.find_places_{_COUNT - 1}") is not None
            )

    def _env(self, state: Path) -> dict[str, str]:
        return {**os.environ, "ONETOOL_STATE": str(state)}


def _hashed(folder: Path) -> Contender:
    file = folder / ".onetool" / "onetool.yaml"
    document = yaml.load(file.read_bytes(), yaml.CSafeLoader)
    cache = folder / hashlib.sha256(file.read_bytes()).hexdigest()
    cache.write_bytes(orjson.dumps(document))
    return once(
        _HASHED,
        lambda: orjson.loads((folder / hashlib.sha256(file.read_bytes()).hexdigest()).read_bytes()),
    )


def _cold_lines(found: Rounds, pure_s: float) -> Iterator[dict[str, Any]]:
    for part in (_CONFIG, _ALL):
        ratio = found.ratio(_C_LOADER, part)
        target = f"<= {_COLD_TIMES}x its time ({1 / _COLD_TIMES:.2g}x)"
        met = ratio >= 1 / _COLD_TIMES
        what = f"{_COUNT:,} tools, cold: {part}"
        yield line(
            10,
            what,
            found[part],
            found[_C_LOADER],
            name=_C_LOADER,
            ratio=ratio,
            reach=target,
            met=met,
        )
    yield line(10, f"{_COUNT:,} tools, cold: {_CONFIG}", found[_CONFIG], pure_s, name=_PURE)


def _warm_lines(found: Rounds) -> Iterator[dict[str, Any]]:
    for part in (_CONFIG, _ALL):
        ratio = found.ratio(_HASHED, part)
        what = f"{_COUNT:,} tools, warm: {part}"
        yield line(
            10,
            what,
            found[part],
            found[_HASHED],
            name=_HASHED,
            ratio=ratio,
            **at_most(found[part], *_WARM_S),
        )
