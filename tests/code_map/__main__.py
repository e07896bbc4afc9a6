"""Print the figures of the source tree: `make map`, or `make map ARGS=-v` to name what is counted.

`--package` and `--tests` look at another tree, whose calls are not run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from tests.code_map import call_paths, source
from tests.harness.surroundings import ROOT


def main() -> None:
    """Read the arguments, then count and print."""
    parser = argparse.ArgumentParser(prog="make map", description="Figures of the source tree.")
    parser.add_argument("-v", "--verbose", action="store_true", help="also name what is counted")
    parser.add_argument("--package", type=Path, default=ROOT / "onetool_ipy")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    options = parser.parse_args()
    package = options.package.resolve()
    modules = source.read_package(package)
    _show("modules", len(modules))
    lines = sum(module.lines for module in modules)
    _show("lines", lines)
    _show("lines of code proper", sum(map(source.code_lines, modules)))
    _show(
        "own-line comments per 1,000 lines",
        round(1000 * sum(map(source.comments, modules)) / lines),
    )
    signatures = sum(module.signatures for module in modules)
    with_any = sum(len(module.signatures_with_any) for module in modules)
    _show("signatures with Any, percent", round(100 * with_any / max(signatures, 1)))
    _show(
        "lines of tests",
        sum(len(path.read_bytes().splitlines()) for path in options.tests.rglob("*.py")),
    )
    if package == ROOT / "onetool_ipy":
        for name, files in call_paths.measure(package).items():
            _show(f"modules run by {name}", len(files), files if options.verbose else ())
    for title, found in _listings(modules, package, options.tests.resolve()).items():
        _show(title, len(found), found if options.verbose else ())


def _listings(modules: list[source.Module], package: Path, tests: Path) -> dict[str, list[str]]:
    twice = source.class_names_defined_twice(modules)
    single = source.modules_with_one_importer(modules)
    found = {
        "class names defined twice": [
            f"{name}: {', '.join(places)}" for name, places in twice.items()
        ],
        "late imports of own modules": source.late_imports(modules),
        "modules with one importer": [f"{name} <- {importer}" for name, importer in single.items()],
        "private functions with one use": source.helpers_with_one_use(modules),
        "variables named by a participle": source.variables_named_by_a_participle(modules),
        "modules in the largest circle of imports": source.largest_circle(modules),
        f"functions over {source.MAX_FUNCTION_LINES} lines": source.long_functions(modules),
        "modules without tests of their name": source.modules_without_tests(
            modules, package, tests
        ),
    }
    return {
        title: [line.replace(f"{package.parent}/", "") for line in lines]
        for title, lines in found.items()
    }


def _show(title: str, count: int, names: Iterable[str] = ()) -> None:
    print(f"{title:<40} {count:>7,}")
    for name in names:
        print(f"    {name}")


if __name__ == "__main__":
    main()
