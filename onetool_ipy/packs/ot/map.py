"""`ot.map`: call a tool for each row of a table, many at once (spec 001). The run itself is in
`map_run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import NotAllowed
from onetool_ipy.core.current import is_from_outside
from onetool_ipy.core.decorate import mark

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox


class MapTools:
    """The function about many rows, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark()
    def map(
        self,
        tool: str,
        data: Any,
        workers: int = 8,
        engine: Any = "threads",
        retries: int = 2,
        per_minute: float | None = None,
        timeout: float | None = None,
        fresh: bool = False,
        expand: bool = True,
        columns: dict[str, Any] | None = None,
        const: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> Any:
        """Call a tool for each row of a table, many at once.

        Each argument of the tool names the column it is taken from; a value that is not text is the
        same for all rows. A required argument that is not named is taken from the column of its own
        name. Finished rows are stored for seven days: run a stopped or killed run again, and it
        calls only the rows that have not succeeded. A tool whose schema or code has changed is
        called again.

        Args:
            tool: Its name.
            data: A DataFrame, a Series or list (for the one open argument), a dict of lists, or a
                list of dicts.
            workers: How many rows run at a time.
            engine: "threads", "dask", a distributed.Client, or any concurrent.futures.Executor.
            retries: How often to retry a row that failed by a time-out, a broken connection, 429 or
                5xx.
            per_minute: At most this many calls a minute.
            timeout: Seconds that one call may take.
            fresh: Call every row again, also the finished ones.
            expand: If each result is a dict, make a column of each key.
            columns: {argument: column}, for an argument whose name is one of these.
            const: {argument: value} for values that are the same in all rows, texts too.
            arguments: The tool's arguments, as argument="column".

        Returns:
            A DataFrame on the same index: the results, and the columns ok, error, ms. A list gives
            its values, too.

        Example:
            ot.map("tools.echo", ["a", "b"])
        """
        from onetool_ipy.packs.ot.map_run import run_map  # late: few notebooks map

        if is_from_outside():  # a model's allow-list names tools; ot.map would bypass it
            raise NotAllowed(f"'ot.map' is for people and programs; call '{tool}' itself.")
        options = {
            "workers": workers,
            "engine": engine,
            "retries": retries,
            "per_minute": per_minute,
        }
        named = {"columns": columns, "const": const}
        return run_map(
            self._box,
            tool,
            data,
            arguments,
            named,
            options,
            timeout_s=timeout,
            fresh=fresh,
            expand=expand,
        )
