"""Generated programs against a reference: plain Python over a fake toolbox makes the same calls,
and gives the same."""

from __future__ import annotations

import os
import random
import types
from typing import Any

import pytest

from tests.llm.programs.conftest import Shop

COUNT = 300 if os.environ.get("ONETOOL_SOAK") else 12


_FORMS = {
    "comprehension": "[shop.write(n=x) for x in range({v} % 3)]",
    "unpacked": "k = {{'n': {v}}}\nshop.fill(**k)\nk['n'] = k['n'] + 1\na = shop.fill(*[a], **{{}})['n']",
    "default": (
        "def d{c}(x, seen=[]):\n    seen.append(x)\n    shop.write(n=len(seen))\n"
        "d{c}({v})\nd{c}(1)\na = a + 1"
    ),
    "closure": (
        "def o{c}():\n    n = {v}\n    def f():\n        nonlocal n\n        n += 1\n"
        "        return shop.write(n=n)\n    f()\n    return f()['n']\na = o{c}()"
    ),
    "late": "w = [lambda: shop.write(n=i) for i in range(2)]\nfor f in w:\n    f()",
    "finally": "try:\n    a = shop.write(n={v})['n']\nfinally:\n    shop.write(n=a % 9)",
    "either": "a = shop.write(n={v})['n'] and shop.write(n=1)['n'] or shop.read(n=2)['n']",
}


class _Writer:
    """Writes one random program: reads, writes, loops, branches, functions, exceptions, sums, and
    the forms below."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._names = ["a"]
        self._count = 0

    def program(self) -> str:
        lines = ["import shop", "a = 1", *self._block(0, self._chance.randrange(3, 9))]
        return "\n".join([*lines, f"[{', '.join(self._names)}]"]) + "\n"

    def _value(self) -> str:
        name, number = self._chance.choice(self._names), self._chance.randrange(0, 9)
        forms = [
            str(number),
            name,
            f"({name} + {number})",
            f"({name} * 2 % 7)",
            f"shop.read(n={name})['n']",
        ]
        forms += [
            f"len(shop.rows(n={number % 4}))",
            f"sum(row['v'] for row in shop.rows(n={number % 4}))",
        ]
        return self._chance.choice(forms)

    def _block(self, depth: int, size: int) -> list[str]:
        return [line for _ in range(size) for line in self._statement(depth)]

    def _statement(self, depth: int) -> list[str]:
        kind = self._chance.choice(
            ["set", "set", "write", "write", "used", "if", "for", "try", "function", *_FORMS]
        )
        if depth > 1 or self._count > 12:
            kind = "set"
        self._count += 1
        if kind in _FORMS:
            return _FORMS[kind].format(v=self._value(), c=self._count).splitlines()
        if kind == "set":
            return [self._assign(depth, self._value())]
        if kind == "write":
            return [f"shop.write(n={self._value()}, text='t{self._chance.randrange(3)}')"]
        if kind == "used":
            return [self._assign(depth, f"shop.write(n={self._value()})['n']")]
        inner = [f"    {line}" for line in self._block(depth + 1, self._chance.randrange(1, 3))]
        if kind == "if":
            return [
                f"if {self._value()} > {self._chance.randrange(0, 5)}:",
                *inner,
                "else:",
                "    a = a + 1",
            ]
        if kind == "for":
            return [f"for i{depth} in range({self._chance.randrange(1, 4)}):", *inner]
        if kind == "try":
            return [
                "try:",
                *inner,
                f"    shop.fail(n={self._value()})",
                "except RuntimeError:",
                "    a = a + 2",
            ]
        name = f"f{self._count}"
        return [
            f"def {name}(x):",
            "    shop.write(n=x)",
            "    return x + 1",
            self._assign(depth, f"{name}({self._value()})"),
        ]

    def _assign(self, depth: int, value: str) -> str:
        if depth or self._chance.random() < 0.5:
            return f"{self._chance.choice(self._names)} = {value}"
        self._names.append(f"v{len(self._names)}")
        return f"{self._names[-1]} = {value}"


def _rows(n: int) -> list[dict[str, int]]:
    return [{"v": number * n} for number in range(n)]


def _reference(code: str) -> tuple[list[Any], list[Any]]:
    """Run a program as plain Python; return its writes and its value."""
    writes: list[Any] = []

    def fail(n: int) -> None:
        writes.append(("fail", n))
        raise RuntimeError("no")

    def write(n: int, text: str = "") -> dict[str, int]:
        writes.append((n, text))
        return {"n": n * 3 % 11}

    shop = types.SimpleNamespace(
        fill=write, read=lambda n: {"n": n % 5}, rows=_rows, write=write, fail=fail
    )
    *body, last = code.splitlines()
    namespace: dict[str, Any] = {"shop": shop}
    exec("\n".join(body).replace("import shop", ""), namespace)
    return writes, eval(last, namespace)


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_generated_program_does_what_python_does(shop: Shop, seed: int) -> None:
    """The same writes in the same order, and the same value, however many questions it takes."""
    code = _Writer(seed).program()
    writes: list[Any] = []

    def read(n: int) -> dict[str, int]:
        return {"n": n % 5}

    def rows(n: int) -> list[dict[str, int]]:
        return _rows(n)

    def write(n: int, text: str = "") -> dict[str, int]:
        writes.append((n, text))
        return {"n": n * 3 % 11}

    def fail(n: int) -> None:
        writes.append(("fail", n))
        raise ValueError("no")

    shop.add("shop.read", read, read_only=True)
    shop.add("shop.rows", rows, read_only=True)

    def fill(n: int) -> dict[str, int]:
        return write(n)

    shop.add("shop.write", write)
    shop.add("shop.fill", fill)
    shop.add("shop.fail", fail)
    answer = shop.run(code, *["all"] * 100)
    expected_writes, expected_value = _reference(code)
    assert answer.error is None, f"{answer.error}\n{code}"
    assert (writes, answer.value) == (expected_writes, expected_value), code
