"""Tasks of a server at an address: they outlive the call, the connection and the kernel that began
them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, UsageProblem, open_toolbox
from tests.harness.kernel import private_kernel
from tests.harness.patience import HANG_S, until
from tests.harness.ports import reserved_port
from tests.harness.servers import everything_over_http, tasks_over_http, write_project

LOAD = (
    "%load_ext onetool_ipy\nfrom onetool_ipy.core import current\nservers ="
    " current.toolbox().servers"
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with tasks_over_http() as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, url: str) -> Path:
    return write_project(tmp_path, {"lab": {"type": "http", "url": url}})


def states(box: Toolbox) -> Any:
    return json.loads(box.call("lab.states").unwrap())


def leave_task(project: Path, **more: Any) -> str:
    """Start a task in a toolbox that is closed before the task ends; its id."""
    with open_toolbox(project) as box:
        job = box.start("lab.report", {"topic": "rain", **more})
        assert until(
            lambda: [row for row in box.servers.trace("lab") if row["method"] == "tasks/get"]
        )
        # This toolbox waits for it: it is a job, not a task that was left.
        assert box.servers.tasks() == []
        box.close()
        assert job.is_over
    with open_toolbox(project) as box:
        left = box.servers.tasks()
    assert [(task.server, task.tool) for task in left][-1:] == [("lab", "lab.report")]
    return left[-1].id


@pytest.mark.slow
def test_restarted_kernel_picks_the_result_up(tmp_path: Path, url: str) -> None:
    write_project(tmp_path / "work", {"lab": {"type": "http", "url": url}})
    with private_kernel(tmp_path) as kernel:
        kernel.execute(LOAD)
        kernel.execute("%tool lab.report topic=rain --bg")
        tasks = "[row for row in servers.trace('lab') if row['method'] == 'tasks/get'] != []"
        assert until(lambda: kernel.evaluate(tasks) == "True")
        kernel.restart()

        kernel.execute(LOAD)
        listed = kernel.execute("%tool jobs").result_text
        assert kernel.evaluate("servers['lab']") == "'not started'"
        assert "lab.report" in listed
        assert "at its server" in listed
        task = kernel.evaluate("servers.tasks()[-1].id").strip("'")
        assert f"%tool jobs {task}" in listed

        assert "lab.report" in kernel.execute(f"%tool jobs {task}").text
        kernel.execute("%tool lab.finish text='It rains.'")
        assert until(lambda: kernel.evaluate("current.toolbox().jobs.get(1).status") == "'done'")
        assert "It rains." in kernel.execute("%tool jobs 1").text
        assert "at its server" not in kernel.execute("%tool jobs").result_text


@pytest.mark.slow
def test_closed_toolbox_leaves_its_task_at_the_server(project: Path) -> None:
    task = leave_task(project)

    with open_toolbox(project) as box:
        assert states(box)["states"][-1] == "working"
        job = box.resume(task)
        assert box.call("lab.finish", {"text": "It rains."}).ok
        assert job.result(HANG_S).unwrap() == "It rains."
        assert box.servers.tasks() == []
        with pytest.raises(UsageProblem, match="No job"):
            box.resume(task)


@pytest.mark.slow
def test_saved_task_can_be_cancelled(project: Path) -> None:
    task = leave_task(project)

    with open_toolbox(project) as box:
        assert box.servers.cancel_task(task).id == task
        assert states(box)["states"][-1] == "cancelled"
        assert box.servers.tasks() == []


@pytest.mark.slow
def test_cancelled_wait_cancels_the_task(project: Path) -> None:
    task = leave_task(project)

    with open_toolbox(project) as box:
        job = box.resume(task)
        assert until(
            lambda: [row for row in box.servers.trace("lab") if row["method"] == "tasks/get"]
        )
        job.cancel()
        assert until(lambda: states(box)["states"][-1] == "cancelled")
        assert until(lambda: not list(project.rglob("tasks/t*.json")))
        assert box.servers.tasks() == []


@pytest.mark.slow
def test_task_past_its_time_is_not_listed(project: Path) -> None:
    with open_toolbox(project) as box:
        box.start("lab.report", {"topic": "rain", "ttl": 1})
        assert until(lambda: states(box)["made"] > 0)
        assert until(
            lambda: [row for row in box.servers.trace("lab") if row["method"] == "tasks/get"]
        )

    with open_toolbox(project) as box:
        assert box.servers.tasks() == []


@pytest.mark.slow
def test_server_that_forgot_the_task_is_named_once(tmp_path: Path) -> None:
    """The reference server keeps tasks by session, so that a new connection does not find them."""
    with everything_over_http() as url:
        write_project(tmp_path, {"every": {"type": "http", "url": url}})
        with open_toolbox(tmp_path) as box:
            box.start("every.simulate-research-query", {"topic": "rain"})
            assert until(
                lambda: [row for row in box.servers.trace("every") if row["method"] == "tasks/get"]
            )
        with open_toolbox(tmp_path) as box:
            [task] = box.servers.tasks()
            error = box.resume(task.id).result(HANG_S).error
            assert error is not None
            assert error.message == "The server 'every' no longer knows the task of this call."
            assert box.servers.tasks() == []


@pytest.mark.slow
def test_lost_server_does_not_run_the_tool_twice(tmp_path: Path) -> None:
    """The connection ends under a task: the call fails, says where its result will be, and is not
    repeated."""
    with reserved_port() as port:
        with tasks_over_http(port) as url:
            write_project(tmp_path, {"lab": {"type": "http", "url": url}})
            box = open_toolbox(tmp_path)
            job = box.start("lab.report", {"topic": "rain"})
            assert until(
                lambda: [row for row in box.servers.trace("lab") if row["method"] == "tasks/get"]
            )
        error = job.result(HANG_S).error
        assert error is not None
        [left] = box.servers.tasks()
        assert (
            error.hint
            == f"The task goes on at the server. Get its result with: %tool jobs {left.id}"
        )
        with tasks_over_http(port), box:
            assert states(box) == {"made": 0, "states": []}
            error = box.resume(left.id).result(HANG_S).error
            assert error is not None
            assert error.message == "The server 'lab' no longer knows the task of this call."
            assert box.servers.tasks() == []
