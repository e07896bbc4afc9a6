"""`ot.sql`: a person's SELECT over calls, stored results and their own tables, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.result import ToolCallError, ToolResult
from tests.harness.patience import until
from tests.harness.programs import python

RECORDS = [{"id": number, "name": f"n{number}", "more": {"k": number % 7}} for number in range(300)]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    """Some calls, one of them failed, in closed and in open journals."""
    with open_toolbox(
        tmp_path, env={**home_at(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    ) as made:
        for number in range(5):
            made.call("tools.echo", {"message": f"m{number}"})
        made.log.close()
        made.log._close_calls = 1
        made.log.tidy()
        made.call("tools.echo", {"message": "last"})
        made.call("no.such", {})
        yield made


def records_of(result: ToolResult) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.df.to_dict("records")
    return found


def rows(box: Toolbox, query: str) -> list[dict[str, Any]]:
    """The answer to a query that names no variable of the test."""
    return records_of(box.ot.sql(query))


def refused(box: Toolbox, query: str) -> str:
    with pytest.raises(ToolCallError) as caught:
        box.ot.sql(query)
    return f"{caught.value.message}\n{caught.value.hint}"


def test_calls_are_all_that_is_on_disk(box: Toolbox) -> None:
    query = "select tool, count(*) as n, sum(bytes) as size from calls group by all order by n desc"

    assert rows(box, query)[:1] == [{"tool": "tools.echo", "n": 6, "size": 14}]
    assert rows(box, "select code from calls where not ok") == [{"code": "tool_not_found"}]


@pytest.mark.posix("a process that changes its time zone")
def test_times_of_calls_are_compared_with_now_in_any_zone(box: Toolbox) -> None:
    for zone in ("UTC", "Asia/Tokyo", "America/Lima"):
        os.environ["TZ"] = zone
        time.tzset()
        try:
            query = (
                "select count(*) n from calls where ts > now() - interval 1 hour and ts <= now()"
            )
            assert rows(box, f"{query} and tool = 'tools.echo'") == [{"n": 6}]
        finally:
            del os.environ["TZ"]
            time.tzset()


def test_a_stored_result_is_a_table_by_its_handle(box: Toolbox) -> None:
    handle = box.results.put([*RECORDS, {"id": "odd", "late": 1}])

    query = (
        f"select count(*) n, max(late) l, max(name) m from r_{handle} where more.k = 3 or late = 1"
    )
    assert rows(box, query) == [{"n": 44, "l": 1, "m": "n94"}]
    assert rows(box, f"select id from R_{handle.upper()} where late = 1") == [{"id": '"odd"'}]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        pytest.param("a\nb\n\n 'd", [{"line": text} for text in ("a", "b", "", " 'd")], id="text"),
        pytest.param("a\r\nb\rc", [{"line": "a"}, {"line": "b\rc"}], id="returns"),
        pytest.param('[{"q": 1}, {"q": 2}]', [{"q": 1}, {"q": 2}], id="json-text"),
        pytest.param([1, 2], [{"value": 1}, {"value": 2}], id="numbers"),
        pytest.param({"items": [{"x": 1}, {"x": 2}]}, [{"x": 1}, {"x": 2}], id="inside"),
        pytest.param([(1, 2), (3, 4)], [{"0": 1, "1": 2}, {"0": 3, "1": 4}], id="tuples"),
        pytest.param([{"a": 1, "A": 2}], [{"a": 1, "A_1": 2}], id="case"),
        pytest.param(
            [{"": 1, "select": 2, 'x"y': 3}], [{"column": 1, "select": 2, 'x"y': 3}], id="odd-names"
        ),
        pytest.param([{"a": "x\x01\x01\x02\x00"}], None, id="control"),
    ],
)
def test_every_form_of_a_stored_result_is_the_table_that_its_df_is(
    box: Toolbox, value: Any, wanted: list[dict[str, Any]] | None
) -> None:
    handle = box.results.put(value)

    assert rows(box, f"from r_{handle}") == (wanted or value)


def test_a_held_table_and_the_same_table_on_disk_give_one_answer(box: Toolbox) -> None:
    frame = pd.DataFrame({"n": [1, 2], "t": pd.to_datetime(["2026-01-01", None]), "s": ["x", None]})
    handle = box.results.keep(frame)
    query = f"select sum(n) n, min(t) t, min(s) s from r_{handle}"

    held = rows(box, query)
    box.results.store(handle)
    box.results._held.drop(handle)

    assert rows(box, query) == held


@pytest.mark.slow
def test_without_duckdb_it_says_so_in_words(tmp_path: Path) -> None:
    program = """
        import sys
        sys.modules["duckdb"] = None
        from onetool_ipy import open_toolbox
        box = open_toolbox(sys.argv[1], env={"HOME": sys.argv[1], "ONETOOL_STATE": sys.argv[1]})
        result = box.call("ot.sql", {"query": "select 1"})
        print(result.error.reason, result.error.message, result.error.hint)
        """
    done = python(program, tmp_path, check=False)
    assert done.stdout.startswith("unavailable Questions about calls need DuckDB")
    assert (done.stdout.rstrip()[-21:], done.stderr) == ("are recorded all the same."[-21:], "")


@pytest.mark.slow
def test_queries_leave_nothing_of_duckdb_at_the_end_of_a_program(tmp_path: Path) -> None:
    program = """
        import sys
        from onetool_ipy import open_toolbox
        box = open_toolbox(sys.argv[1], env={"HOME": sys.argv[1], "ONETOOL_STATE": sys.argv[1]})
        kept = []
        for query in ("from nope", "selec", "select nope from calls", "select cast('x' as int)"):
            try:
                box.ot.sql(query)
            except Exception as exc:
                kept.append(exc)
        kept.append(box.ot.sql("select sum(ms) from calls"))
        import ctypes
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        print(len(kept))
        """
    done = python(program, tmp_path, check=False)
    assert (done.stdout, done.stderr) == ("5\n", "")


@pytest.mark.slow
def test_a_large_result_is_not_read_into_memory(tmp_path: Path) -> None:
    program = """
        import resource, sys
        from onetool_ipy import open_toolbox
        import pandas, duckdb
        box = open_toolbox(sys.argv[1], env={"HOME": sys.argv[1], "ONETOOL_STATE": sys.argv[1]})
        line = {"id": 1, "text": "x" * 1000}
        handle = box.results.put([line] * 700_000)
        box.ot.sql("select 1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = box.ot.sql(f"select count(*) n, sum(id) s from r_{handle} where text like 'x%'").df
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(found.n[0], found.s[0], (after - before) // 1024)
        """
    done = python(program, tmp_path)
    count, total, grown = done.stdout.split()
    assert (count, total) == ("700000", "700000")
    assert int(grown) < 600, "the file has 714 MB, DuckDB may have 512"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        pytest.param({"a": [1, "z", {"k": [2]}, None]}, ["1", "z", '{"k": [2]}', None], id="mixed"),
        pytest.param({"a": [1] * 3_000 + ["x"]}, ["1"] * 3_000 + ["x"], id="late"),
        pytest.param(
            {"a": pd.period_range("2026", periods=1, freq="Y")},
            ["\"Period('2026', 'Y-DEC')\""],
            id="period",
        ),
        pytest.param({"a": [2**53 + 1, None]}, [2**53 + 1, None], id="large"),
    ],
)
def test_cells_that_sql_has_no_type_for_are_text(
    box: Toolbox, frame: Any, wanted: list[Any]
) -> None:
    odd = pd.DataFrame({"a": pd.Series(frame["a"], dtype=getattr(frame["a"], "dtype", object))})

    cells = box.ot.sql("from odd").df["a"]
    assert [None if pd.isna(cell) else cell for cell in cells] == wanted
    del odd


def test_names_of_columns_may_be_anything(box: Toolbox) -> None:
    odd = pd.DataFrame([[1, 2, 3, 4, 5]], columns=["a", "A", "a", 0, ""])

    assert list(box.ot.sql("from odd").df.columns) == ["a", "A_1", "a_2", "0", "column"]
    assert list(odd.columns) == ["a", "A", "a", 0, ""]


def test_a_name_in_sql_that_is_a_word_of_sql_is_written_in_quotes(box: Toolbox) -> None:
    select = pd.DataFrame({"group": [1]})

    assert records_of(box.ot.sql('select "group" from "select"')) == [{"group": 1}]
    del select


def test_whole_numbers_stay_exact(box: Toolbox) -> None:
    large = "170141183460469231731687303715884105727"
    query = f"select 9007199254740993::hugeint a, {large}::hugeint b, null::hugeint c, sum(1) d"
    found = box.ot.sql(query).df

    assert found["a"].tolist() == [9007199254740993]
    assert found["b"].tolist() == [int(large)]
    assert found["c"].isna().all()
    assert str(found["d"].dtype) == "int64"


@pytest.mark.parametrize("end", ["; -- all", " -- all", ";;", "; /* all */ ;"])
def test_a_query_with_large_numbers_may_end_as_any_other(box: Toolbox, end: str) -> None:
    found = box.ot.sql(f'select sum(range) as "a""b", 1 as x from range(4) group by 2{end}').df

    assert found.to_dict("records") == [{'a"b': 6, "x": 1}]


@pytest.mark.slow
def test_large_rows_are_counted_before_many_of_them_are_in_memory(tmp_path: Path) -> None:
    program = """
        import resource, sys
        from onetool_ipy import open_toolbox
        box = open_toolbox(sys.argv[1], env={"HOME": sys.argv[1], "ONETOOL_STATE": sys.argv[1]})
        box.ot.sql("select 1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            box.ot.sql("select repeat('x', 50000) from range(60000)")
        except Exception as exc:
            print(exc.message)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """
    done = python(program, tmp_path)
    message, grown = done.stdout.splitlines()
    assert message == "The answer has over 512 MB."
    assert int(grown) < 2_000, "all of it has 3,000 MB, once in DuckDB and once here"


def test_a_secret_in_a_query_is_in_no_record_and_no_message(tmp_path: Path) -> None:
    folder = tmp_path / ".onetool"
    folder.mkdir()
    (folder / "secrets.yaml").write_text("KEY: hunter2hunter2\n", encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    with open_toolbox(
        tmp_path, env={**home_at(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        told = refused(box, "select 'hunter2hunter2' frm x y")
        assert "hunter2" not in told
        assert "hunter2" not in box.log.history(limit=1)[0].args


TREES = {
    "unknown": ("select * from cals", "No table 'cals'. Did you mean 'calls'?\nThere are: calls"),
    "column": ("select tol from calls", "No column 'tol'. Did you mean 'tool'?"),
    "function": ("select lenght('a')", "No function 'lenght'. Did you mean 'length'?"),
    "arrow": ("select list_transform([1], x -> x)", "'->' makes no function.\nWrite: lambda x: x"),
    "syntax": (
        "select *\nfrom calls were ok = = 1",
        "The SQL is wrong at line 2, character",
    ),
    "unclosed": ("select 'a", "The SQL is wrong at line 1, character 8: unterminated string"),
    "empty": ("", "There is no query."),
    "comment": ("-- nothing", "There is no query."),
    "several": ("select 1; select 2", "One query at a time."),
    "parameter": ("select $1", "A query has no parameters."),
    "cast": ("select cast('x' as int)", "The query failed: Could not convert string 'x'"),
    "surrogate": ("select '\ud800'", "The query cannot be read"),
    "deep": ("select " + "(" * 2_000 + "1" + ")" * 2_000, "The query is too deep."),
    "handle": ("from r_abcdefghjkmn", "Handle not found: 'abcdefghjkmn'."),
    "memory": ("select list(i) from range(90000000) t(i)", "more than 512 MB of memory"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TREES)
def test_a_wrong_query_is_refused_in_few_words(box: Toolbox, case: str) -> None:
    query, words = TREES[case]

    said = refused(box, query)
    assert words in said
    assert len(said) < 500
    assert not {"duckdb", "set"} & set(said.lower().split())


@pytest.mark.slow
def test_an_answer_that_is_too_large_is_refused(box: Toolbox) -> None:
    said = refused(box, "select repeat('x', 1000) from range(3000000)")
    assert "The answer has over 512 MB." in said


ESCAPES = [
    "from read_csv('{file}')",
    "from read_text('{file}')",
    "from '{file}'",
    'from "{file}"',
    "from read_json('{part}')",
    "from read_parquet('{part}')",
    "from parquet_metadata('{part}')",
    "from glob('/*')",
    "from sniff_csv('{file}')",
    "from query('select 1')",
    "from query_table('calls')",
    "from duckdb_settings()",
    "from 'http://127.0.0.1:1/x.csv'",
    "select * from calls where exists (from read_text('{file}'))",
    "select (select content from read_text('{file}'))",
    "with x as materialized (from read_text('{file}')) from x",
    "select * from calls, lateral (from read_text('{file}'))",
    "from (describe (from read_text('{file}')))",
    "from (summarize (from read_text('{file}')))",
    "copy (select 1) to '{out}'",
    "with x as (copy (select 1) to '{out}') select 1",
    "with x as (copy (select 1 as a) to '{part}' (format parquet, use_tmp_file false)) select 1",
    "from query('with x as (copy (select 1) to ''{out}'') select 1')",
    "with x as (insert into log.fresh(tool) values ('x') returning *) from x",
    "with x as (delete from log.fresh returning *) from x",
    "create table x as select 1",
    "attach '{out}'",
    "install httpfs",
    "load httpfs",
    "pragma database_list",
    "call pragma_version()",
    "set threads = 1",
    "reset memory_limit",
    "set variable x = 1",
    "export database '{out}'",
    "explain analyze select 1",
    "begin; select 1",
    "select 1; copy (select 1) to '{out}'",
    "use log",
    "checkpoint",
    "prepare x as select 1",
    "from json_execute_serialized_sql('x')",
    "from pandas_scan()",
]


@pytest.mark.parametrize("attack", ESCAPES)
def test_a_query_reaches_no_file_and_writes_nothing(
    box: Toolbox, tmp_path: Path, attack: str
) -> None:
    file, out = tmp_path / "private.csv", tmp_path / "out"
    file.write_text("a\nsecret-text\n", encoding="utf-8")
    (part,) = box.log.folder.glob("*.parquet")
    before = {path: path.read_bytes() for path in (file, part)}

    said = refused(box, attack.format(file=file, out=out, part=part))

    assert "secret-text" not in said
    assert not out.exists()
    assert {path: path.read_bytes() for path in before} == before
    assert rows(box, "select count(*) n from calls where tool = 'tools.echo'") == [{"n": 6}]


@pytest.mark.parametrize("attack", ["from read_text('{file}')", "from glob('/*')"])
def test_files_are_closed_to_a_function_that_the_tree_does_not_show(
    box: Toolbox, tmp_path: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall: DuckDB itself has no access, whatever is read from the tree."""
    from onetool_ipy.stores import sql

    file = tmp_path / "private.csv"
    file.write_text("secret-text", encoding="utf-8")
    monkeypatch.setattr(sql, "_FUNCTIONS", frozenset(("read_text", "glob")))

    assert "no files" in refused(box, attack.format(file=file))


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "select sum(a.i * b.i) from range(10000000) a(i), range(10000000) b(i)",
        "select count(*) from (select * from range(300000000) t(i) order by hash(i))",
    ],
)
def test_stop_ends_a_long_query_within_a_second(box: Toolbox, query: str) -> None:
    began: list[float] = []

    def stop() -> None:
        began.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(1.0, stop)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        box.ot.sql(query)
    # The query computes on all cores, so its CPU is the clock that a busy machine does not disturb.
    assert time.process_time() - began[0] < 1.5 * (os.cpu_count() or 1)
    # The next query has the machine for itself.
    assert until(lambda: all(thread.name != "onetool-steps" for thread in threading.enumerate())), (
        "the stopped query goes on"
    )
    assert rows(box, "select 1 as one") == [{"one": 1}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "library", "question"),
    [("numpy.random", "pandas", 'sql("select 1 as one")'), ("_duckdb", "duckdb", "stats()")],
)
def test_a_stop_in_the_first_query_leaves_no_half_library(
    tmp_path: Path, module: str, library: str, question: str
) -> None:
    """The next query waited for ever, in a library whose import the Stop had cut off."""
    program = f"""
        import signal, sys
        from onetool_ipy import open_toolbox
        from onetool_ipy.faces.notebook.running_cell import Interrupts

        class Stopping:
            def find_spec(self, name, path=None, target=None):
                if name == "{module}":
                    sys.meta_path.remove(self)
                    signal.raise_signal(signal.SIGINT)

        box = open_toolbox(sys.argv[1], env={{"HOME": sys.argv[1], "ONETOOL_STATE": sys.argv[1]}})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupts = Interrupts()
        interrupts.begin(object)
        sys.meta_path.insert(0, Stopping())
        try:
            box.ot.{question}
        except KeyboardInterrupt:
            print("stopped", "{library}" in sys.modules)
        print(box.ot.sql("select 1 as one").df.one[0])
        """
    done = python(program, tmp_path, check=False, timeout=120)
    assert done.stdout == "stopped True\n1\n"


@pytest.mark.slow
def test_a_query_past_its_limit_is_ended(box: Toolbox) -> None:
    query = "select sum(a.i * b.i) from range(10000000) a(i), range(10000000) b(i)"
    result = box.call(box.resolve("ot.sql", {"query": query}, timeout=0.5))

    assert result.error is not None
    assert result.error.reason == "timeout"
    deadline = time.monotonic() + 5
    while any(thread.name == "onetool-steps" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "the query goes on"
        time.sleep(0.01)


@pytest.mark.slow
def test_a_process_that_ends_during_a_query_ends_the_query(tmp_path: Path) -> None:
    """As `onetool-ipy sql` does after its time limit. DuckDB would abort the process."""
    query = "select count(*) from range(10000000) a, range(10000000) b where a.range < b.range"
    done = subprocess.run(
        [sys.executable, "-m", "onetool_ipy", "sql", "--timeout", "0.3", query],
        cwd=tmp_path,
        env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )

    last = "'ot.sql' did not finish within 0.3 s.\nRaise the limit: --timeout 30\n"
    assert (done.returncode, done.stderr) == (1, last)


@pytest.mark.parametrize("damage", ["cut", "gone", "schema"])
def test_a_damaged_part_costs_itself(box: Toolbox, damage: str) -> None:
    from tests.stores.calls.test_database import DAMAGES

    (part,) = box.log.folder.glob("*.parquet")
    assert box.log.usage().total_calls == 6 + 1
    if damage == "gone":
        part.unlink()
    else:
        DAMAGES[damage](part)

    assert rows(box, "select count(*) n from calls where tool = 'tools.echo'") == [{"n": 1}]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "g": st.sampled_from("abc"),
                "n": st.one_of(st.none(), st.integers(-(2**40), 2**40)),
                "t": st.one_of(st.none(), st.text(max_size=5)),
            }
        ),
        min_size=1,
        max_size=20,
    )
)
@pytest.mark.slow
def test_sums_are_those_of_a_plain_computation(box: Toolbox, records: list[dict[str, Any]]) -> None:
    handle = box.results.put(records)
    wanted = {
        group: (
            sum(r["n"] or 0 for r in records if r["g"] == group),
            len({r["t"] for r in records if r["g"] == group and r["t"] is not None}),
        )
        for group in {r["g"] for r in records}
    }
    for table in ("records", f"r_{handle}"):
        query = f"select g, coalesce(sum(n), 0) s, count(distinct t) c from {table} group by g"
        found = records_of(box.ot.sql(query))
        assert {row["g"]: (int(row["s"]), row["c"]) for row in found} == wanted
