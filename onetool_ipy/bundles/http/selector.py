"""Selectors: what of a response is taken, by JMESPath or by an RE2 pattern; both end in time, whatever they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onetool_ipy.core.errors import InvalidOutput

if TYPE_CHECKING:
    from onetool_ipy.bundles.http.definition import Selector

__all__ = ["Select", "compile_selector"]

Select = Callable[[Any, str], Any]
"""(data, text) -> what was selected; None where there is nothing."""

_MAX_MATCHES = 100_000


def compile_selector(selector: Selector) -> Select:
    """The selector as a function; raises ValueError for an expression that is none."""
    return _by_pattern(selector) if selector.type == "regex" else _by_jmespath(selector.expr)


def _by_jmespath(expr: str) -> Select:
    import jmespath  # type: ignore[import-untyped]  # it ships no types
    from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

    try:
        compiled = jmespath.compile(expr)
    except (JMESPathError, RecursionError) as exc:
        raise ValueError(f"'{expr[:80]}' is no JMESPath expression: {str(exc).splitlines()[0][:120]}") from None

    def select(data: Any, text: str) -> Any:  # noqa: ARG001 - the shape of every selector
        try:
            return compiled.search(data)
        except (JMESPathError, RecursionError) as exc:
            raise InvalidOutput(f"The selector does not fit the response: {str(exc).splitlines()[0][:200]}") from None

    return select


def _by_pattern(selector: Selector) -> Select:
    import re2  # type: ignore[import-untyped]  # it ships no types

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(selector.expr, options)
    except re2.error as exc:
        said = exc.args[0] if exc.args else exc
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(f"'{selector.expr[:80]}' is no RE2 pattern: {said[:120]}") from None

    def select(data: Any, text: str) -> Any:  # noqa: ARG001 - the shape of every selector
        if not selector.all:
            match = compiled.search(text)
            return None if match is None else _groups(match)
        found = []
        for match in compiled.finditer(text):
            found.append(_groups(match))
            if len(found) > _MAX_MATCHES:
                raise InvalidOutput(f"The selector matches more than {_MAX_MATCHES:,} times.")
        return found

    return select


def _groups(match: Any) -> Any:
    if named := match.groupdict():
        return named
    groups = match.groups()
    if not groups:
        return match[0]
    return groups[0] if len(groups) == 1 else list(groups)
