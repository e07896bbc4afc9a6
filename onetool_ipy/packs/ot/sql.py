"""`ot.sql`: a person's SQL over the calls, stored results, and the tables of their own code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import tables
from onetool_ipy.base.errors import CallFailure, InvalidArgs, NotAllowed, OneToolError
from onetool_ipy.core.current import is_from_outside
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.result import ToolResult, to_frame
from onetool_ipy.render.views import Listing, Record

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.toolbox import Toolbox


class SqlTools:
    """The function that answers SQL, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._columns: dict[str, str] = {}

    @mark(read_only=True)
    def sql(self, query: str) -> Any:
        """Answer one SELECT over the calls, stored results and your own tables.

        Tables are `calls` (every call of the log), `r_HANDLE` (a stored result) and DataFrames and
        results of your code by their names; `show tables` lists them. Large results are read from
        the disk, not into memory. A query only reads, and reaches no files and no network.

        Args:
            query: The SQL, as DuckDB has it.

        Returns:
            A DataFrame.

        Example:
            ot.sql(query="select tool, count(*) as n from calls group by all order by n desc")
        """
        from onetool_ipy.stores.sql import Sql, Tables

        if is_from_outside():
            raise NotAllowed("'ot.sql' is for people.")
        variables = self._box.host.variables()
        mine = variables.get("calls")
        is_taken = tables.is_frame(mine) or tables.is_foreign(mine)
        if is_taken and re.search(r"\bcalls\b", query, re.IGNORECASE):
            self._box.host.note("'calls' is the call log here, and not your table of that name.")
        try:
            return Sql(self._box.log, self._box.results, self._columns).ask(
                query,
                Tables(
                    find=lambda name: find(variables, name), names=lambda: table_names(variables)
                ),
            )
        except CallFailure:
            raise
        except OneToolError as exc:
            raise InvalidArgs(exc.message, hint=exc.hint) from exc


def find(variables: Mapping[str, object], name: str) -> pd.DataFrame | None:
    """Return the table that a name means in a person's code; also one that differs in case alone,
    as SQL has it."""
    if name not in variables:
        near = [each for each in table_names(variables) if each.lower() == name.lower()]
        if len(near) != 1:
            return None
        name = near[0]
    value = variables[name]
    if not _is_table(value):
        return None
    if isinstance(value, ToolResult | Listing | Record):
        frame: pd.DataFrame = value.df
        return frame
    return to_frame(value)


def table_names(variables: Mapping[str, object]) -> list[str]:
    """Return the names of a person's tables. `calls` is the call log in SQL, in any case."""
    return [
        name
        for name, value in list(variables.items())
        if not name.startswith("_") and name.lower() != "calls" and _is_table(value)
    ]


def _is_table(value: object) -> bool:
    """Whether a value is a table, as far as its type says; a list of records is one too."""
    if isinstance(value, ToolResult):
        return value.ok
    if isinstance(value, Listing | Record) or tables.is_frame(value) or tables.is_foreign(value):
        return True
    return type(value) is list and bool(value) and set(map(type, value[:20])) == {dict}
