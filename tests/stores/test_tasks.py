"""Tasks on disk: one file each, for this user alone; what is damaged, foreign or too old is not
listed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onetool_ipy.stores.tasks import SavedTask, TaskStore
from tests.harness.systems import has_mode

ABOUT = {"server": "lab", "definition": "abc", "tool": "lab.report", "wire": "report"}


@pytest.fixture
def store(tmp_path: Path) -> TaskStore:
    return TaskStore(tmp_path / "tasks", str)


def add(store: TaskStore, task_id: str = "secret-id", ttl_ms: int | None = 60_000) -> SavedTask:
    task = store.new(task_id, ttl_ms, **ABOUT)
    store.write(task)
    return task


def test_task_is_found_by_another_store(store: TaskStore, tmp_path: Path) -> None:
    first, second = add(store), add(store, "other", None)

    assert TaskStore(tmp_path / "tasks", str).list() == [first, second]
    store.remove(first)
    store.remove(first)
    assert store.list() == [second]
    assert second.expires - second.started == pytest.approx(7 * 24 * 3600)


def test_file_is_for_its_user_alone(store: TaskStore, tmp_path: Path) -> None:
    task = add(store)

    path = tmp_path / "tasks" / f"{task.id}.json"
    assert has_mode(path, 0o600)
    assert "secret-id" not in task.id


def test_task_that_is_waited_for_is_not_listed(store: TaskStore) -> None:
    task = add(store)

    store.held.add(task.id)
    assert store.list() == []
    store.held.discard(task.id)
    assert store.list() == [task]


def test_task_past_its_time_is_removed(store: TaskStore, tmp_path: Path) -> None:
    add(store, ttl_ms=0)
    add(store, "negative", ttl_ms=-5)

    assert store.list() == []
    assert list((tmp_path / "tasks").glob("*.json")) == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"id": "tabc"}',
        json.dumps({**ABOUT, "id": "tabc", "task_id": 5, "started": 1, "expires": 9e9}).encode(),
        json.dumps({**ABOUT, "id": "tabc", "task_id": "x", "started": 1, "expires": 9e99}).encode(),
        json.dumps(
            {**ABOUT, "id": "tabc", "task_id": "x", "started": "1", "expires": 9e9}
        ).encode(),
        json.dumps(
            {**ABOUT, "id": "../../x", "task_id": "x", "started": 9e9, "expires": 9e9}
        ).encode(),
        json.dumps(
            {**ABOUT, "id": "tother", "task_id": "x", "started": 9e9, "expires": 9e9}
        ).encode(),
        b"x" * 30_000,
    ],
)
def test_damaged_or_foreign_file_is_not_listed(
    store: TaskStore, tmp_path: Path, text: bytes
) -> None:
    task = add(store)
    (tmp_path / "tasks" / "tabc.json").write_bytes(text)

    assert store.list() == [task]


def test_disk_that_fails_costs_only_durability(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = TaskStore(tmp_path / "file" / "tasks", str)

    assert add(store).tool == "lab.report"
    assert store.list() == []


def test_tasks_that_threads_save_and_remove_at_once_are_the_ones_listed(tmp_path: Path) -> None:
    """Others list them meanwhile, as each kernel of the project does."""

    def work(first: int) -> None:
        mine = TaskStore(tmp_path / "tasks", str)
        tasks = [add(mine, f"{first}-{number}") for number in range(10)]
        assert {*tasks} <= {*mine.list()}
        for task in tasks[:5]:
            mine.remove(task)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))

    left = {task.task_id for task in TaskStore(tmp_path / "tasks", str).list()}
    assert left == {f"{first}-{number}" for first in range(8) for number in range(5, 10)}
