"""Projects to measure with: folders with a `.onetool/` of so many pack files or so many definitions
of spec 003."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

from tests.benchmarks import trivial

__all__ = ["definitions", "with_definitions", "with_packs"]

_PACK = '''"""Tools about number {pack}."""

from __future__ import annotations

pack = "pack{pack}"
__all__ = [{names}]
'''


def with_packs(folder: Path, packs: int, tools_each: int) -> Path:
    """A project with pack files, `pack0` and on, each with `add` of `trivial` and more such
    tools."""
    place = folder / ".onetool" / "tools"
    place.mkdir(parents=True)
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    source = inspect.getsource(trivial.add)
    names = ["add", *(f"add{i}" for i in range(1, tools_each))]
    for pack in range(packs):
        head = _PACK.format(pack=pack, names=", ".join(f'"{name}"' for name in names))
        body = "\n\n".join(source.replace("def add(", f"def {name}(") for name in names)
        (place / f"pack{pack}.py").write_text(f"{head}\n\n{body}", encoding="utf-8")
    return folder


def with_definitions(folder: Path, count: int) -> Path:
    """A project with so many mock tools in its onetool.yaml, ten to a pack."""
    (folder / ".onetool").mkdir(parents=True)
    (folder / ".onetool" / "onetool.yaml").write_text(definitions(count), encoding="utf-8")
    return folder


def definitions(count: int) -> str:
    """The text of that onetool.yaml, in block style, as people write it."""
    return "version: 1\ntools:\n" + "".join(_definition(i) for i in range(count))


def _definition(number: int) -> str:
    answer = json.dumps(
        {"items": [{"id": number, "title": f"Place {number}", "score": 0.5}], "total": 1}
    )
    return f"""\
  - name: area{number // 10}.find_places_{number}
    description: Find places of kind {number} near an address and rank them by distance.
    type: function
    handler: find_places_{number}
    tags: [geo, search, area{number // 10}]
    parameters:
      type: object
      properties:
        query:
          type: string
          description: What to look for, in the words of the person who asks.
          minLength: 1
        address:
          type: string
          description: Where to look; a street and a town.
        count:
          type: integer
          description: How many places to give.
          minimum: 1
          maximum: 50
          default: 5
        order:
          type: string
          enum: [distance, rating, name]
          default: distance
      required: [query]
      additionalProperties: false
    implementation:
      type: mock
      mock_response: {answer}
"""
