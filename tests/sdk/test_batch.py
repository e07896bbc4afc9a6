"""`batch_execute` in threads and in executors, with real threads and processes (spec 000)."""

from __future__ import annotations

import multiprocessing
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.sdk import batch_execute, normalize_items
from onetool_ipy.sdk.batch import run_items
from tests.harness.patience import HANG_S
from tests.harness.programs import python
from tests.harness.project import Project
from tests.harness.surroundings import ROOT
from tests.sdk import remote_functions

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")
SECRET = "sk-batch-9d8c7b6a5f"


@pytest.fixture(
    scope="module", params=[pytest.param("fork", marks=pytest.mark.posix("fork")), "spawn"]
)
def processes(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context(request.param)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        yield pool


@pytest.mark.spec("000/Batch Execution/Execute batch with default formatting")
def test_items_run_at_once_and_give_a_section_each(box: Toolbox) -> None:
    """All three wait for each other: it ends only if they run at the same time."""
    together = threading.Barrier(3)

    def process(item: str) -> str:
        together.wait(HANG_S)
        return f"did {item}"

    text = batch_execute(["a", "b", "c"], process)

    assert text == "=== a ===\ndid a\n\n=== b ===\ndid b\n\n=== c ===\ndid c"


@pytest.mark.spec("000/Batch Execution/Execute batch with labels")
def test_labels_are_used_and_the_order_is_kept(box: Toolbox) -> None:
    """The second one ends first."""
    second_ended = threading.Event()

    def fetch(url: str) -> str:
        if url == "url1":
            assert second_ended.wait(HANG_S)
        else:
            second_ended.set()
        return f"page of {url}"

    text = batch_execute([("url1", "Site A"), ("url2", "Site B")], fetch)

    assert text == "=== Site A ===\npage of url1\n\n=== Site B ===\npage of url2"


class Crowd:
    """Counts how many are inside at once; each waits a moment for others to come."""

    def __init__(self, expected: int) -> None:
        self.most = 0
        self._inside = 0
        self._expected = expected
        self._changed = threading.Condition()

    def __call__(self, item: int) -> int:
        with self._changed:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._expected, timeout=HANG_S)
            self._changed.wait_for(lambda: self.most > self._expected, timeout=0.02)
            self._inside -= 1
        return item


@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.spec("000/Batch Execution/Control concurrency")
def test_no_more_run_at_once_than_allowed(box: Toolbox, width: int) -> None:
    crowd = Crowd(width)

    text = batch_execute(range(24), crowd, max_workers=width)

    assert crowd.most == width
    assert text.count("===") == 48


def test_items_that_wait_run_at_once_also_after_quick_ones(box: Toolbox) -> None:
    """The last three wait for each other: one thread alone would never end."""
    together = threading.Barrier(3)

    def process(item: int) -> int:
        return item if item < 4997 else together.wait(HANG_S)

    text = batch_execute(range(5000), process, max_workers=8)

    assert text.count("===") == 10_000
    assert "Error" not in text


def test_no_items_need_no_thread() -> None:
    assert list(run_items([], str, 8)) == []


@pytest.mark.spec("000/Item Normalization/Normalize strings")
def test_strings_are_their_own_labels() -> None:
    assert normalize_items(["a", "b"]) == [("a", "a"), ("b", "b")]


@pytest.mark.spec("000/Item Normalization/Preserve tuples")
def test_pairs_stay() -> None:
    pairs = [("a", "Label A"), ("b", "Label B")]

    assert normalize_items(pairs) == pairs


def test_other_items_are_labelled_by_what_they_look_like() -> None:
    found = normalize_items(
        iter([1, None, {"k": 1}, (1, 2), (1, 2, 3), ["a", "b"], ("a", "b", "c")])
    )

    assert found == [
        (1, "1"),
        (None, "None"),
        ({"k": 1}, "{'k': 1}"),
        ((1, 2), "(1, 2)"),
        ((1, 2, 3), "(1, 2, 3)"),
        (["a", "b"], "['a', 'b']"),
        (("a", "b", "c"), "('a', 'b', 'c')"),
    ]


def test_a_label_of_an_item_that_cannot_be_shown_is_found() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    assert normalize_items([Shy()])[0][1] == "<Shy object, repr failed>"
    assert len(normalize_items(["x" * 1000])[0][1]) == 1000
    assert len(normalize_items([["x" * 1000]])[0][1]) == 80


@pytest.mark.parametrize("items", ["abc", b"abc"])
def test_one_text_is_not_a_list_of_items(items: Any) -> None:
    with pytest.raises(UsageProblem, match="one text"):
        normalize_items(items)


def test_an_item_that_fails_stops_no_other(box: Toolbox) -> None:
    def process(item: str) -> str:
        if item == "bad":
            raise ValueError("it is bad")
        if item == "mute":
            raise ValueError
        if item == "exit":
            sys.exit(3)
        if item == "stop":
            raise KeyboardInterrupt
        return "fine"

    text = batch_execute(["a", "bad", "mute", "exit", "stop", "z"], process)

    assert text == (
        "=== a ===\nfine\n\n=== bad ===\nError: it is bad\n\n=== mute ===\nError: ValueError\n\n"
        "=== exit ===\nError: 3\n\n=== stop ===\nError: KeyboardInterrupt\n\n=== z ===\nfine"
    )


def test_results_that_are_no_text_are_json(box: Toolbox) -> None:
    results: dict[str, Any] = {"a": {"k": [1, None]}, "b": None, "c": 1.5, "d": "text"}

    text = batch_execute(results, lambda key: results[key])

    assert (
        text == '=== a ===\n{\n  "k": [\n    1,\n    null\n  ]\n}\n\n=== b ===\nnull\n\n=== c'
        " ===\n1.5\n\n=== d ===\ntext"
    )


def test_nothing_gives_nothing(box: Toolbox) -> None:
    assert batch_execute([], lambda item: pytest.fail("called")) == ""


@pytest.mark.parametrize("width", [0, -1])
def test_a_width_below_one_is_refused(box: Toolbox, width: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        batch_execute(["a"], str, max_workers=width)


@pytest.mark.parametrize("engine", ["processes", None, 5, object()])
def test_an_engine_that_is_none_is_refused(box: Toolbox, engine: Any) -> None:
    with pytest.raises(UsageProblem) as caught:
        batch_execute(["a"], str, engine=engine)

    assert '"threads", "dask"' in caught.value.hint


def test_an_async_function_is_awaited(box: Toolbox) -> None:
    async def process(item: str) -> str:
        if item == "b":
            raise ValueError("not b")
        return item.upper()

    assert batch_execute(["a", "b"], process) == "=== a ===\nA\n\n=== b ===\nError: not b"


def test_each_item_sees_the_callers_context_and_none_of_anothers(box: Toolbox) -> None:
    COLOUR.set("blue")

    def process(item: int) -> str:
        seen = COLOUR.get()
        COLOUR.set(f"changed by {item}")
        return seen

    for engine in ("threads", ThreadPoolExecutor(2)):
        text = batch_execute(range(20), process, max_workers=2, engine=engine)
        assert text.count("blue") == 20


def test_progress_is_told_after_each_item(project: Project) -> None:
    project.pack(
        "many",
        """
        from onetool_ipy.sdk import batch_execute
        def work(count: int):
            "Work on many."
            heard = []
            batch_execute(range(count), str, max_workers=1, progress=lambda *said: heard.append(said))
            return heard
        """,
    )
    job = project.open().start("many.work", {"count": 3})

    assert job.result(HANG_S).unwrap() == [(1, 3, "0"), (2, 3, "1"), (3, 3, "2")]
    assert tuple(job.progress) == (3, 3, "2")


def test_inside_a_tool_the_items_see_its_settings_and_secrets(project: Project) -> None:
    project.pack(
        "many",
        """
        from onetool_ipy.sdk import batch_execute, call_tool, get_config, get_secret
        def work():
            "Work on many."
            return batch_execute(["a", "b"], _see)
        def _see(item):
            return f"{item} {get_config()['size']} {get_secret('KEY')[:2]} {call_tool('many.one')}"
        def one():
            "One."
            return "one"
        """,
    )
    project.settings(packs={"many": {"size": 7}})
    project.secrets(KEY=SECRET)

    assert (
        project.open().call("many.work").unwrap()
        == "=== a ===\na 7 sk one\n\n=== b ===\nb 7 sk one"
    )


def test_a_secret_in_an_error_is_masked_and_in_a_result_it_is_not(project: Project) -> None:
    project.secrets(KEY=SECRET)
    project.open()

    def process(item: str) -> str:
        if item == "bad":
            raise ValueError(f"the key {SECRET} is refused")
        return SECRET

    text = batch_execute(["bad", "good"], process)

    assert text == f"=== bad ===\nError: the key *** is refused\n\n=== good ===\n{SECRET}"


def test_a_listener_that_fails_ends_the_batch(box: Toolbox) -> None:
    begun: list[int] = []
    heard = threading.Event()

    def process(item: int) -> None:
        begun.append(item)
        if item:
            heard.wait(HANG_S)

    def listen(done: int, total: int, label: str) -> None:
        raise ValueError("the listener's own")

    with pytest.raises(ValueError, match="the listener's own"):
        batch_execute(range(1000), process, max_workers=1, progress=listen)

    heard.set()
    assert begun in ([0], [0, 1])


@pytest.mark.posix("SIGINT of another process")
def test_stop_ends_the_batch_and_the_items_that_run(box: Toolbox, tmp_path: Path) -> None:
    """In a process of its own: two items loop for ever, the others never begin, and no thread of
    the batch keeps a core."""
    code = (
        "import threading\nfrom onetool_ipy.sdk import batch_execute\nbegun = []\ndef spin(item):\n"
        "    begun.append(item)\n    if len(begun) == 2: print('begun', flush=True)\n    while True:"
        " item += 1\ntry:\n    batch_execute(range(10), spin, max_workers=2)\nexcept"
        " KeyboardInterrupt:\n    print('stopped', flush=True)\nfor thread in"
        " threading.enumerate():\n    if thread.daemon: thread.join(30)\nprint(len(begun), [t.name for"
        " t in threading.enumerate() if t.daemon], flush=True)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"

    running.send_signal(signal.SIGINT)
    stopped, rest = running.stdout.readline(), running.stdout.read()
    running.wait(HANG_S)

    assert stopped == "stopped\n"
    assert rest == "2 []\n"


@pytest.mark.posix("a process that sends itself SIGINT")
def test_stop_while_the_threads_start_is_a_stop() -> None:
    """In a process of its own, as in a cell: an item stops the batch before the last of 200 threads
    was started."""
    code = (
        "import os, signal, threading\nfrom onetool_ipy.base.interrupts import deferred\nfrom"
        " onetool_ipy.sdk.batch import run_items\nsignal.signal(signal.SIGINT, lambda *at:"
        " deferred.note_stop(at[1]) or signal.default_int_handler(*at))\nfirst, many = threading.Lock(),"
        " threading.Event()\ndef stop(item):\n    if threading.active_count() > 100 and"
        " first.acquire(blocking=False):\n        os.kill(os.getpid(), signal.SIGINT)\n       "
        " many.set()\n    many.wait()\ntry:\n    list(run_items(range(100_000), stop, 200,"
        " grace_s=5.0))\nexcept KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    )
    done = python(code, check=False, cwd=ROOT)

    assert (done.stdout, done.stderr) == ("stopped\n", "")


@pytest.mark.slow
def test_functions_of_a_module_run_in_processes(
    box: Toolbox, processes: ProcessPoolExecutor
) -> None:
    text = batch_execute([3, 13, 4], remote_functions.square, engine=processes)

    assert text == "=== 3 ===\n9\n\n=== 13 ===\nError: thirteen is refused\n\n=== 4 ===\n16"


def test_functions_of_a_pack_file_run_in_processes(
    project: Project, processes: ProcessPoolExecutor
) -> None:
    project.pack(
        "far",
        """
        from onetool_ipy.sdk import batch_execute
        ENGINE = []
        def work():
            "Work elsewhere."
            return batch_execute([1, 2], _twice, engine=ENGINE[0])
        def use(engine):
            "Choose the engine."
            ENGINE.append(engine)
        def _twice(value):
            return value * FACTOR
        FACTOR = 2
        """,
    )
    box = project.open()
    box.pack("far").use(processes)  # type: ignore[union-attr]

    assert box.call("far.work").unwrap() == "=== 1 ===\n2\n\n=== 2 ===\n4"


@pytest.mark.parametrize(
    "ask",
    [
        remote_functions.ask_for_a_secret,
        remote_functions.ask_for_settings,
        remote_functions.ask_for_a_tool,
    ],
)
def test_in_another_process_no_toolbox_is_at_hand_and_that_is_said(
    project: Project, processes: ProcessPoolExecutor, ask: Any
) -> None:
    project.secrets(KEY=SECRET)
    project.open()

    text = batch_execute(["KEY"], ask, engine=processes)

    assert "runs in another process, which has no toolbox, settings or secrets" in text
    assert "pass them along with each item" in text


@pytest.mark.parametrize(
    "func", [lambda value: value, remote_functions.hold_up("x")], ids=["lambda", "closure"]
)
def test_a_function_that_does_not_pickle_is_refused_in_words(
    box: Toolbox, processes: ProcessPoolExecutor, func: Any
) -> None:
    with pytest.raises(UsageProblem, match="cannot be sent to another process") as caught:
        batch_execute([1], func, engine=processes)

    assert "at the top of a module" in caught.value.hint
    assert "Secrets and open connections do not travel" in caught.value.hint


def test_items_results_and_exceptions_that_do_not_pickle_are_failures_of_their_own(
    box: Toolbox, processes: ProcessPoolExecutor
) -> None:
    odd_item = batch_execute(
        [(threading.Lock(), "lock"), (2, "two")], remote_functions.square, engine=processes
    )
    odd_result = batch_execute([1, 2, 3], remote_functions.give_a_lock, engine=processes)
    odd_error = batch_execute([1, 2], remote_functions.raise_odd, engine=processes)

    assert odd_item.endswith("=== two ===\n4")
    assert odd_item.startswith("=== lock ===\nError: cannot pickle")
    assert "=== 2 ===\nError: The result, a lock, cannot be sent back" in odd_result
    assert odd_result.endswith("=== 3 ===\n3")
    assert odd_error == "=== 1 ===\nError: odd 1 1\n\n=== 2 ===\nError: odd 2 2"


def test_processes_run_at_once_and_no_more_than_allowed(
    box: Toolbox, processes: ProcessPoolExecutor, tmp_path: Path
) -> None:
    batch_execute([1, 2], remote_functions.square, engine=processes)  # both are started
    place = tmp_path / "meeting"
    place.mkdir()
    items = [(str(place), str(i)) for i in range(8)]

    one = batch_execute(items, remote_functions.meet, engine=processes, max_workers=1)
    two = batch_execute(items, remote_functions.meet, engine=processes)

    assert set(re.findall(r"\n(\d+)", one)) == {"1"}
    assert "\n2" in two


def test_a_process_that_dies_costs_its_items_and_ends_nothing(box: Toolbox) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        text = batch_execute([1, 2, 3], remote_functions.die_on_two, engine=pool, max_workers=1)

    assert text.startswith("=== 1 ===\n1\n\n=== 2 ===\nError: The worker process died")
    assert text.count("===") == 6


def test_an_executor_that_is_shut_down_is_said(box: Toolbox) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()

    with pytest.raises(UsageProblem, match="takes no more work"):
        batch_execute([1], str, engine=pool)


class Inline(Executor):
    """Anybody's executor: it does the work at once."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_any_executor_will_do(box: Toolbox) -> None:
    assert (
        batch_execute([2, 3], remote_functions.square, engine=Inline())
        == "=== 2 ===\n4\n\n=== 3 ===\n9"
    )
