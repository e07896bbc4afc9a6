"""Tools that run as tasks, on the reference server: to the end, with a question on the way, and
cancelled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.host import Host
from onetool_ipy.mcp.tasks import requires_task
from tests.harness.patience import until
from tests.harness.servers import real, write_project

TOOL = "every.simulate-research-query"


class Person(Host):
    """A person who gives the first choice of every form."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        assert question.form is not None
        fields = question.form["properties"].items()
        choices = {
            name: (field.get("enum") or [one["const"] for one in field["oneOf"]])[0]
            for name, field in fields
        }
        return Reply("accept", choices)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    folder = tmp_path_factory.mktemp("tasks")
    write_project(folder, {"every": real("everything", sampling=True)})
    with open_toolbox(folder) as opened:
        yield opened


def methods(box: Toolbox) -> list[str]:
    return [str(row["method"]) for row in box.servers.trace("every")]


@pytest.mark.slow
def test_all_tools_of_the_reference_server_are_there(box: Toolbox) -> None:
    # Its seventeenth is for clients that have roots.
    assert len(box.registry.packs()["every"]) == 16


def test_task_runs_to_its_end(box: Toolbox) -> None:
    seen: list[str] = []
    job = box.start(TOOL, {"topic": "rain"}, notify=lambda job: seen.append(str(job.progress)))

    assert "Research Report: rain" in str(job.result(100).unwrap())
    assert "tasks/get" in methods(box)
    assert seen


def test_task_asks_on_its_way(box: Toolbox) -> None:
    person = box.host = Person()

    found = box.call(TOOL, {"topic": "python", "ambiguous": True}).unwrap()

    assert "Research Report: python" in str(found)
    assert person.questions[0].asker == "server 'every'"


def test_cancelled_call_cancels_its_task(box: Toolbox) -> None:
    before = methods(box).count("tasks/cancel")
    job = box.start(TOOL, {"topic": "snow"})
    assert until(lambda: methods(box)[-1:] != [] and "tasks/get" in methods(box)[-4:])
    job.cancel()

    assert until(lambda: methods(box).count("tasks/cancel") > before)
    assert job.result(60).error is not None


@pytest.mark.parametrize(
    "tool", [None, 7, {}, {"name": 5, "execution": {"taskSupport": "required"}}, {"name": "x"}]
)
def test_odd_tools_require_no_task(tool: object) -> None:
    assert not requires_task(tool)
