"""The built-ins `time.now`, `tools.echo`, `shell.pwd`, through a real toolbox."""

from __future__ import annotations

import datetime
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.config.paths import home_at
from tests.core.support import short
from tests.harness.project import Project


@pytest.mark.spec("004/Built-ins/time.now")
def test_time_now_gives_timestamp_and_iso_by_the_clock(project: Project) -> None:
    moment = datetime.datetime(2026, 3, 4, 5, 6, 7, 891_999, tzinfo=datetime.UTC)
    box = project.open(clock=lambda: moment)

    found = box.call("time.now").unwrap()

    assert found == {"timestamp": 1_772_600_767_891, "iso": "2026-03-04T05:06:07.891Z"}
    assert type(found["timestamp"]) is int
    assert datetime.datetime.fromisoformat(found["iso"]).timestamp() * 1000 == found["timestamp"]


@pytest.mark.spec("004/Built-ins/time.now")
@pytest.mark.parametrize(
    ("moment", "timestamp"),
    [
        (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), 0),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC), -1),
        (
            datetime.datetime(1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            0,
        ),
        (datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC), 253_402_214_400_000),
    ],
    ids=short,
)
def test_time_now_is_exact_at_the_edges(
    project: Project, moment: datetime.datetime, timestamp: int
) -> None:
    assert project.open(clock=lambda: moment).call("time.now").data["timestamp"] == timestamp


def test_time_now_without_a_clock_is_now(project: Project) -> None:
    before = datetime.datetime.now(datetime.UTC).timestamp() * 1000

    found = project.open(clock=None).call("time.now").data["timestamp"]

    assert before - 1 <= found <= datetime.datetime.now(datetime.UTC).timestamp() * 1000


@pytest.mark.spec("004/Built-ins/tools.echo")
@pytest.mark.parametrize(
    "message",
    [
        "",
        "text",
        " ä\n\ud800",
        0,
        -1,
        10**5000,
        1.5,
        math.inf,
        True,
        False,
        None,
        [],
        {},
        {"a": [1, {"b": None}]},
        (1,),
    ],
    ids=short,
)
def test_echo_gives_any_value_back_unchanged(project: Project, message: Any) -> None:
    found = project.open().call("tools.echo", {"message": message}).unwrap()

    assert found == message
    assert type(found) is type(message)


@pytest.mark.slow
@pytest.mark.spec("004/Built-ins/tools.echo")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_echo_gives_any_json_back_unchanged(project: Project, message: Any) -> None:
    box = project.boxes[0] if project.boxes else project.open()

    result = box.call("tools.echo", {"message": message})

    assert result.unwrap() == message
    assert result.to_dict()["data"] == message


@pytest.mark.spec("004/Built-ins/shell.pwd")
def test_pwd_is_the_working_directory_of_the_moment(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = project.open()

    assert box.call("shell.pwd").data == os.getcwd()
    monkeypatch.chdir(tmp_path)
    assert box.call("shell.pwd").data == str(tmp_path.resolve())


@pytest.mark.posix("Windows removes no folder that is in use")
def test_pwd_in_a_directory_that_is_gone_is_a_failure(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = project.open()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert box.call("shell.pwd").error.code == "execution_error"


BUILTINS = ["time.now", "tools.echo", "shell.pwd", "fs.list_dir", "fs.read_file"]


@pytest.mark.parametrize("name", BUILTINS)
def test_the_five_are_read_only_and_take_no_extra_arguments(project: Project, name: str) -> None:
    box = project.open()

    spec = box.registry.get(name)
    error = box.call(
        name, {"message": 1, "path": ".", "extra": 1} if name != "time.now" else {"extra": 1}
    ).error

    assert spec.read_only
    assert spec.origin == "builtin"
    assert spec.returns
    assert spec.example
    assert spec.parameters["additionalProperties"] is False
    assert error.code == "invalid_args"
    assert "unknown argument 'extra'" in str(error.details)


def test_the_five_are_there_without_any_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onetool_ipy import open_toolbox

    monkeypatch.chdir(tmp_path)
    with open_toolbox(env={**home_at(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}) as box:
        assert [spec.name for spec in box.registry.list()][:5] == BUILTINS
        assert all(p.name in (".", "state") for p in tmp_path.iterdir())
