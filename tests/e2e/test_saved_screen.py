"""What is left of a screen without its kernel, and what never gets into it: secrets, and the markup
of tools."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Dialog, Locator, expect

from tests.e2e.screens import Screens, choose, field, find, press_run, tools
from tests.harness.lab import Lab
from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser

SECRET = "s3cr3t-in-screens"
WIDGET = "application/vnd.jupyter.widget-view+json"
PROJECT = """
from pathlib import Path
from onetool_ipy import tool
value = "s3cr3t" + "-in-screens"
Path(".onetool").mkdir(exist_ok=True)
Path(".onetool/onetool.yaml").write_text("version: 1\\n")
Path(".onetool/secrets.yaml").write_text(f"KEY: {value}\\n")
Path(".onetool/secrets.yaml").chmod(0o600)
get_ipython().run_line_magic("load_ext", "onetool_ipy")

@tool
def tell(text: str = "") -> list[dict]:
    "Say it."
    return [{"said": text, "key": value}]
"""

_PAYLOADS = (
    "<img src=x onerror=HIT>",
    "<img/src=x/onerror=HIT>",
    "<script>HIT</script>",
    "</script><script>HIT</script>",
    "</style><script>HIT</script>",
    "</textarea><script>HIT</script>",
    "</title><script>HIT</script>",
    "</option></select><img src=x onerror=HIT>",
    '"><img src=x onerror=HIT>',
    "'><img src=x onerror=HIT>",
    '" onmouseover="HIT" autofocus onfocus="HIT" x="',
    "' onmouseover='HIT' autofocus onfocus='HIT' x='",
    "<svg onload=HIT>",
    "<svg/onload=HIT//",
    "<svg><script>HIT</script></svg>",
    "<svg><animate onbegin=HIT attributeName=x dur=1s>",
    "<svg><style><img src=x onerror=HIT></style></svg>",
    "<math><mtext><img src=x onerror=HIT></mtext></math>",
    "<iframe srcdoc='<script>parent.HIT</script>'></iframe>",
    "<iframe src=javascript:HIT></iframe>",
    "<object data=javascript:HIT></object>",
    "<embed src=javascript:HIT>",
    "<body onload=HIT>",
    "<details open ontoggle=HIT>",
    "<video><source onerror=HIT></video>",
    "<audio src=x onerror=HIT>",
    "<input autofocus onfocus=HIT>",
    "<select autofocus onfocus=HIT>",
    "<textarea autofocus onfocus=HIT>",
    "<marquee onstart=HIT>x</marquee>",
    "<a href=javascript:HIT>click</a>",
    "<a href='data:text/html,<script>HIT</script>'>click</a>",
    "<form action=javascript:HIT><input type=submit>",
    "<button formaction=javascript:HIT>x</button>",
    "<base href=javascript:HIT//>",
    "<link rel=stylesheet href=javascript:HIT>",
    "<style>@import 'javascript:HIT';</style>",
    "<meta http-equiv=refresh content='0;url=javascript:HIT'>",
    "<template><img src=x onerror=HIT></template>",
    "<noscript><p title='</noscript><img src=x onerror=HIT>'></noscript>",
    "<!--><img src=x onerror=HIT>-->",
    "<![CDATA[<img src=x onerror=HIT>]]>",
    "<xss id=x tabindex=1 onfocus=HIT></xss>",
    "javascript:HIT",
    "data:text/html,<script>HIT</script>",
    "${HIT}",
    "`${HIT}`",
    "{{constructor.constructor('HIT')()}}",
    "{{ HIT }}",
    "<%= HIT %>",
    "$$\\href{javascript:HIT}{x}$$",
    "[x](javascript:HIT)",
    "![x](x onerror=HIT)",
    "&lt;img src=x onerror=HIT&gt;",
    "&#60;script&#62;HIT&#60;/script&#62;",
    "\\u003cimg src=x onerror=HIT\\u003e",
    "%3Cscript%3EHIT%3C/script%3E",
    "\u202e<img src=x onerror=HIT>\u202c",
    "__proto__",
    "constructor",
)
HOSTILE = tuple(
    text.replace("HIT", f"window.hit={number}") for number, text in enumerate(_PAYLOADS, 1)
)
SETUP = f"""
from onetool_ipy import tool
hostile = {list(HOSTILE)!r}
for number, text in enumerate(hostile):
    name = "".join(c for c in text if c.isprintable() and not c.isspace())[:100]
    def made(text: str = text, other: dict | None = None) -> list[dict]:
        return [{{key: key for key in hostile}}, {{"__proto__": [text]}}]
    made.__doc__ = f"{{text}}\\n\\nArgs:\\n    text: {{text}}\\n    other: {{text}}"
    tool(f"z{{number:02}}.{{name}}", tags=[text], description=text)(made)
@tool("z99.fail")
def fail(n: int = 0) -> str:
    "Fail in a bad way."
    raise ValueError(" ".join(hostile))
"""


@pytest.fixture(scope="module")
def hostile(shared_lab: Lab) -> Iterator[tuple[Screens, Locator]]:
    opened = Screens(shared_lab, setup=SETUP)
    opened.notebook.listen("dialog", _refuse)
    yield opened, opened.open()
    opened.notebook.close()


def _refuse(dialog: Dialog) -> None:
    dialog.dismiss()
    raise AssertionError(f"a tool's text opened a dialog: {dialog.message}")


def hits(screens: Screens) -> Any:
    """What a script of a tool left behind, and every element that none of our screens makes."""
    return screens.page.evaluate("""() => [window.hit ?? null, [...document.querySelectorAll(
          '.otx :is(script, iframe, object, embed, base, link, meta, style, form[action], a[href], marquee, video),'
          + '.otx :is(audio, img), .otx-picture :is(script, img, iframe)'
        )].map(each => each.outerHTML.slice(0, 100))]""")


def test_sixty_hostile_names_and_descriptions_are_text(hostile: tuple[Screens, Locator]) -> None:
    screens, browser = hostile
    assert len(HOSTILE) == 60
    search = browser.get_by_role("combobox", name="Search tools")
    for number in range(60):
        search.fill(f"z{number:02}")
        expect(tools(browser).first).to_contain_text(f"z{number:02}.")
        search.press("Enter")
        heading = browser.get_by_role("heading", level=3)
        expect(heading).to_contain_text(f"z{number:02}.")
    assert HOSTILE[59] in str(browser.locator(".otx-tool-docs").text_content())
    assert hits(screens) == [None, []]


def test_hostile_results_columns_and_errors_are_text(hostile: tuple[Screens, Locator]) -> None:
    screens, browser = hostile
    first = find(browser, "z00")
    expect(first).to_contain_text("z00.")
    first.click()
    expect(browser.get_by_role("heading", level=3)).to_contain_text("z00.")
    press_run(browser)
    viewer = browser.locator(".otx-viewer")
    for tab in ("Table", "Tree", "Raw"):
        viewer.get_by_role("tab", name=tab).click()
        expect(viewer).to_contain_text(
            HOSTILE[0] if tab == "Table" else "onerror" if tab == "Raw" else "0: {60}"
        )
        if tab == "Tree":
            viewer.get_by_role("button", name="0: {60}").click()
            expect(viewer).to_contain_text(HOSTILE[20])
    choose(browser, "z99.fail")
    press_run(browser)
    expect(browser.locator(".otx-failure")).to_contain_text(HOSTILE[3])
    browser.get_by_role("tab", name="History").click()
    expect(browser.locator(".otx-history-row").first).to_contain_text("z99.fail")
    usage = screens.open("ot.usage('day')")
    expect(usage.get_by_role("group", name="Per tool")).to_contain_text("z00.")

    assert hits(screens) == [None, []]
    assert screens.notebook.page_errors == []


@pytest.fixture(scope="module")
def saved(shared_lab: Lab) -> Path:
    """A notebook that was used, and saved with the state of its widgets; beside it, the same
    without that state."""
    screens = Screens(shared_lab, setup=PROJECT, viewport=(1280, 1000), load="1 + 1")
    browser = screens.open("ot.browser('nb.tell', args={'text': value})")
    expect(field(browser, "text")).to_have_value("***")
    field(browser, "text").fill("=value")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("1 row")
    expect(screens.page.locator(".otx-picture")).to_be_hidden()
    screens.open("r = %tool nb.tell text=hello\nr.view()")
    screens.open("ot.usage('day')")
    assert "widgets" not in screens.save()["metadata"]
    path = screens.notebook.path
    shutil.copy(path, path.with_name("stateless.ipynb"))
    screens.notebook.command("@jupyter-widgets/jupyterlab-manager:saveWidgetState")
    assert screens.save()["metadata"]["widgets"], "the state of the widgets was not saved"
    screens.notebook.close()
    return path


def test_a_saved_notebook_holds_pictures_and_no_secret(saved: Path) -> None:
    text = saved.read_text(encoding="utf-8")
    notebook = json.loads(text)
    outputs = [
        output["data"]
        for cell in notebook["cells"]
        for output in cell["outputs"]
        if "data" in output
    ]
    pictures = [
        "".join(data["text/html"])
        for data in outputs
        if "otx-picture" in "".join(data.get("text/html", ""))
    ]

    assert len(pictures) == 3
    assert "nb.tell" in pictures[0]
    assert "hello" in pictures[1]
    assert sum(WIDGET in data for data in outputs) == 3
    assert SECRET not in text
    state = notebook["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    own = [each["state"] for each in state.values() if each["model_module"] == "anywidget"]
    assert own
    assert all(
        {key for key in each if not key.startswith("_")} <= {"layout", "tabbable", "tooltip"}
        for each in own
    )


@pytest.mark.parametrize("name", ["screens.ipynb", "stateless.ipynb"])
def test_a_reopened_notebook_shows_the_pictures(saved: Path, shared_lab: Lab, name: str) -> None:
    """Without the kernel that drew them, screens are pictures, and no error stands beside them."""
    opened = shared_lab.open_file(saved.with_name(name), viewport=(1280, 1400))

    pictures = opened.page.locator(".otx-picture")
    expect(pictures).to_have_count(3)
    expect(pictures.first).to_be_visible()
    expect(pictures.first).to_contain_text("nb.tell")
    expect(opened.page.locator(".jp-OutputArea-child:visible")).to_have_count(4)
    assert opened.page.locator(".otx:visible").count() == 0
    opened.close()


def test_a_notebook_that_is_not_trusted_shows_the_pictures(saved: Path, shared_lab: Lab) -> None:
    notebook = json.loads(saved.read_text(encoding="utf-8"))
    notebook["cells"][0]["source"] = "2 + 2"
    copy = saved.with_name("untrusted.ipynb")
    copy.write_text(json.dumps(notebook), encoding="utf-8")

    opened = shared_lab.open_file(copy, viewport=(1280, 1400))

    expect(opened.page.locator(".jp-OutputArea-output table").first).to_contain_text("nb.tell")
    opened.close()


def test_nbconvert_shows_the_pictures(
    saved: Path, shared_lab: Lab, installed_wheel: Installed, tmp_path: Path
) -> None:
    """The reader of the page is not told to install anything."""
    installed_wheel.run(
        "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path), str(saved), cwd=tmp_path
    )

    page = (tmp_path / f"{saved.stem}.html").read_text(encoding="utf-8")
    assert page.count('class="otx-picture ') == 3
    assert SECRET not in page
    exported = shared_lab.browser.new_page()
    try:
        exported.goto((tmp_path / f"{saved.stem}.html").as_uri(), wait_until="domcontentloaded")
        expect(exported.locator(".otx-picture").first).to_be_visible()
        notes = exported.locator(".otx-missing-widgets")
        assert [note.is_visible() for note in notes.all()] == [False] * notes.count()
    finally:
        exported.close()
