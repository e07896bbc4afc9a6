"""The rows and columns that a table shows, as code of pandas: its filters, its order, its columns.

The code gives the same rows as the screen does. It names a column by its place where its name is not the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onetool_ipy.base.values import is_missing
from onetool_ipy.faces.widgets.table import ORDERED, ResultTable, TableQuery, number_of, parse_condition


def pandas_code(table: ResultTable, query: TableQuery, columns: Sequence[int], name: str) -> str:
    """Write the code that makes the shown table from the DataFrame `name`."""
    names = table.names()

    def column(at: int) -> str:
        return f"{name}[{names[at]!r}]" if names.count(names[at]) == 1 else f"{name}.iloc[:, {at}]"

    lines = [f"{name} = {name}.reset_index()"] if table.has_index_columns else []
    conditions = [_condition_code(column(at), table.kinds[at], text) for at, text in query.conditions]
    conditions += [_choice_code(column(at), table.chosen(at, numbers)) for at, numbers in query.choices]
    if query.text:
        part = repr(query.text)
        lines.append(
            f"texts = {name}.astype(str).apply(lambda cells: cells.str.contains({part}, case=False, regex=False))"
        )
        conditions.append("texts.any(axis=1)")
    rows = f"{name}[{' & '.join(conditions)}]" if conditions else name
    if query.sort is not None:
        at, is_down = query.sort
        order = ", ascending=False" if is_down else ""
        rows += f".sort_values({names[at]!r}{order}, kind='stable')"
    if list(columns) != list(range(len(names))):
        rows += (
            f".iloc[:, {list(columns)!r}]" if len(set(names)) < len(names) else f"[{[names[at] for at in columns]!r}]"
        )
    return "\n".join([*lines, rows])


def _condition_code(column: str, kind: str, text: str) -> str:
    """One condition. Dates compare as text, since a part of a date stands for all that begin with it."""
    sign, operand, end = parse_condition(text, kind)
    if sign in ("=", "!=") and not operand:
        return f"{column}.{'isna' if sign == '=' else 'notna'}()"
    if end and kind != "date":
        ends = ", inclusive='left'" if sign == "..<" else ""
        return f"{column}.between({_number_code(operand)}, {_number_code(end)}{ends})"
    if kind == "date":
        column = f"{column}.astype(str).str.replace('T', ' ')"
    if end:
        low, high, last = operand.replace("T", " "), end.replace("T", " "), "<" if sign == "..<" else "<="
        return f"({column}.str[:{len(low)}] >= {low!r}) & ({column}.str[:{len(high)}] {last} {high!r})"
    if sign in ("=", "!=", ">", ">=", "<", "<=") and kind in ORDERED:
        compare = "==" if sign == "=" else sign
        if kind == "date":
            part = operand.replace("T", " ")
            return f"({column}.str[:{len(part)}] {compare} {part!r})"
        return f"({column} {compare} {_number_code(operand)})"
    texts = column if kind in ("text", "date") else f"{column}.astype(str)"
    if sign in ("=", "!="):
        return f"({texts}.str.casefold() {'==' if sign == '=' else '!='} {operand.casefold()!r})"
    contains = f"{texts}.str.contains({operand!r}, case=False, regex=False, na=False)"
    return f"~{contains}" if sign == "!" else contains


def _choice_code(column: str, cells: Sequence[Any]) -> str:
    """Some values of a column; a missing one is found by `isna`."""
    present = [cell for cell in cells if not is_missing(cell)]
    plain = [cell.item() if hasattr(cell, "item") else cell for cell in present]
    is_times = any(hasattr(cell, "isoformat") for cell in plain)
    listing = f"pd.to_datetime({[str(cell) for cell in plain]!r})" if is_times else repr(plain)
    parts = [f"{column}.isin({listing})"] if plain else []
    parts += [f"{column}.isna()"] if len(present) < len(cells) else []
    return f"({' | '.join(parts)})" if len(parts) > 1 else "".join(parts) or f"{column}.isin([])"


def _number_code(text: str) -> str:
    """A number as Python has it, whole numbers without a fraction."""
    number = number_of(text)
    return str(int(number)) if number.is_integer() else repr(number)
