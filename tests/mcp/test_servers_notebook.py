"""A server in a notebook: `server.<TAB>`, calls, pictures, the bar, errors of a few lines. A real
kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.kernel import Kernel, private_kernel
from tests.harness.patience import HANG_S
from tests.harness.servers import hostile, real, write_project


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    servers = {"every-thing": real("everything"), "srv": hostile(), "bad": hostile("--exit=5")}
    write_project(folder / "work", servers)
    with private_kernel(folder) as kernel:
        assert kernel.execute("%load_ext onetool_ipy").text == ""
        assert (
            kernel.evaluate(
                "[m for m in ('mcp', 'mcp_types', 'httpx2') if m in __import__('sys').modules]"
            )
            == "[]"
        )
        kernel.execute("while 'starting' in ot.health()['proxy']['states'].values(): pass", HANG_S)
        yield kernel


@pytest.mark.slow
def test_a_server_is_a_name_with_its_tools_behind_tab(notebook: Kernel) -> None:
    offers = notebook.complete("every_thing.get_").matches

    assert "every_thing.get_sum" in offers or "get_sum" in [
        offer.rpartition(".")[2] for offer in offers
    ]
    assert "every-thing.get-sum" in notebook.complete("%tool every-thing.get-s").matches
    assert set(notebook.complete("%tool every-thing.get-sum ").matches) == {"a=", "b="}
    assert "a: First number" in notebook.inspect("every_thing.get_sum")


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell", ["every_thing.get_tiny_image()", "%tool every-thing.get-tiny-image"]
)
def test_a_picture_is_shown(notebook: Kernel, cell: str) -> None:
    shown = notebook.execute(cell).result

    assert shown is not None
    assert 'src="data:image/png;base64,iVBOR' in shown["text/html"]
    assert "<image/png, 4,033 bytes>" in shown["text/plain"]
    alone = notebook.execute("every_thing.get_tiny_image()[1]").result
    assert alone is not None
    assert alone["image/png"].startswith("iVBOR")


@pytest.mark.slow
def test_what_a_tool_says_is_never_html(notebook: Kernel) -> None:
    shown = notebook.execute("%tool srv.media").result

    assert shown is not None
    assert "<script" not in shown["text/html"]
    assert 'href="javascript' not in shown["text/html"]


@pytest.mark.slow
def test_progress_is_the_bar_of_the_cell(notebook: Kernel) -> None:
    outcome = notebook.execute("%tool srv.steps n=0.2", allow_stdin=True)

    assert outcome.result_text == "done"
    assert any("step" in shown.text or "/8" in shown.text for shown in outcome.displays), (
        outcome.displays
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%tool srv.fail", "the tool says no"),
        ("srv.fail()", "the tool says no"),
        ("%tool srv.echo", "missing argument 'text'"),
        ("%tool srv.ehco", "Did you mean 'srv.echo'?"),
        ("%tool bad.anything", "No tool 'bad.anything'."),
        ("%tool srv.die", "stopped during the call"),
    ],
)
def test_an_error_is_a_few_lines(notebook: Kernel, cell: str, words: str) -> None:
    error = notebook.execute(cell, allow_errors=True).error

    assert error is not None
    assert words in error.text
    assert len(error.text.splitlines()) <= 5


@pytest.mark.slow
def test_resources_are_read_by_magic_and_from_python(notebook: Kernel) -> None:
    table = notebook.execute("%tool server resources every-thing").result
    assert table is not None
    assert "demo://resource/static/document/features.md" in table["text/html"]
    assert notebook.execute("len(every_thing.resources)").result_text == "9"

    shown = notebook.execute(
        "%tool server read every-thing demo://resource/static/document/architecture.md"
    ).result
    assert shown is not None
    assert "Everything Server" in shown["text/plain"]
    by_template = (
        "%tool server read every-thing demo://resource/dynamic/text/{resourceId} resourceId=5"
    )
    assert notebook.execute(by_template).result_text.startswith("Resource 5: This is a plaintext")
    assert (
        notebook.execute("every_thing.read('demo://resource/dynamic/text/6')[:11]").result_text
        == "'Resource 6:'"
    )
    link = notebook.execute("%tool every-thing.get-resource-links count=1").result
    assert link is not None
    assert "%tool server read every-thing demo://resource/dynamic/" in link["text/html"]
    assert notebook.execute("_.links[0].read()[:10]").result_text == "b'Resource 1'"


@pytest.mark.slow
def test_tab_completes_uris_and_prompts(notebook: Kernel) -> None:
    features = "demo://resource/static/document/features.md"
    for line in (
        "%tool server read every-thing demo://resource/static/document/f",
        "every_thing.read('demo://resource/static/document/f",
        'every_thing.watch("demo://resource/static/document/f',
    ):
        found = notebook.complete(line)
        (offer,) = [offer for offer in found.matches if offer.endswith("features.md")]
        assert (line[: found.start] + offer).endswith(features), line
    assert "every-thing.args-prompt" in notebook.complete("$every-thing.ar").matches
    assert set(notebook.complete("$every-thing.args-prompt ").matches) == {"city=", "state="}
    assert notebook.complete("$every-thing.completable-prompt department=E").matches == (
        "Engineering",
    )
    named = notebook.complete("$every-thing.completable-prompt department=Engineering name=")
    assert named.matches == ("Alice", "Bob", "Charlie")


@pytest.mark.slow
def test_a_prompt_is_used_like_a_snippet(notebook: Kernel) -> None:
    shown = notebook.execute("$every-thing.args-prompt city=Vienna").result
    assert shown is not None
    assert shown["text/plain"] == "What's weather in Vienna?"
    assert notebook.execute(
        "p = $every-thing.args-prompt city=Oslo state=X\np.data.text"
    ).result_text == ('"What\'s weather in Oslo, X?"')
    missing = notebook.execute("$every-thing.args-prompt state=X", allow_errors=True).error
    assert missing is not None
    assert "city" in missing.text
    assert (
        "$every-thing.args-prompt city=... [state=...]" in notebook.execute("%snippet").result_text
    )


@pytest.mark.slow
def test_what_goes_wrong_with_a_resource_is_said_in_a_few_lines(notebook: Kernel) -> None:
    for line, said in (
        ("%tool server read every-thing", "needs a URI"),
        ("%tool server read every-thin x:y", "Did you mean 'every-thing'?"),
        ("%tool server read srv x:y", "The server 'srv' has no resources."),
        ("%tool server read every-thing demo://nothing", "demo://nothing"),
        ("%tool server read every-thing demo://a b", "'b' is not a variable of a template."),
    ):
        error = notebook.execute(line, allow_errors=True).error
        assert error is not None
        assert said in error.text, line


@pytest.mark.slow
def test_unload_ends_the_servers(notebook: Kernel) -> None:
    from tests.harness.servers import below, wait_until_gone

    assert notebook.execute("%tool srv.echo text=x").result_text == "x"
    pids = below(notebook.pid)
    assert len(pids) >= 4

    notebook.execute("%unload_ext onetool_ipy")

    assert wait_until_gone(pids) == {}
    assert (
        notebook.execute("%load_ext onetool_ipy\n%tool srv.echo text=again").result_text == "again"
    )
