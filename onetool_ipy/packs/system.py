"""Built-in packs `time`, `tools` and `shell`: small and read-only, to try that everything works."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any

from onetool_ipy.core.decorate import mark

Clock = Callable[[], datetime.datetime]


def packs(
    clock: Clock, working: Callable[[], str] = os.getcwd
) -> list[tuple[str, Sequence[Callable[..., Any]]]]:
    """Return the packs; `clock` returns the time as an aware UTC datetime, `working` the working
    folder."""

    @mark(read_only=True, tags=("time",))
    def now() -> dict[str, Any]:
        """Tell the current time, in UTC.

        Returns:
            {timestamp: milliseconds since 1970 as an integer, iso: the same as ISO 8601 text}

        Example:
            %tool time.now
        """
        moment = clock().astimezone(datetime.UTC)
        since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        stamp = since // datetime.timedelta(milliseconds=1)
        return {
            "timestamp": stamp,
            "iso": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }

    @mark(read_only=True)
    def pwd() -> str:
        """Tell the current working directory.

        Returns:
            Its absolute path.

        Example:
            %tool shell.pwd
        """
        return working()

    return [("time", [now]), ("tools", [echo]), ("shell", [pwd])]


@mark(read_only=True)
def echo(message: Any) -> Any:
    """Give the message back unchanged. Good for trying out how values arrive.

    Args:
        message: Any JSON value.

    Returns:
        The same value.

    Example:
        %tool tools.echo message=hello
    """
    return message
