"""The picture that opens the README: an API becomes a tool, a column goes through it, one row is
fixed.

Not a test. Three cells of a real notebook against a real server, one below the other with a line of
text each.
"""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import Any

from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Asked, Stub

TOWNS = {
    "Vienna": (48.21, 2_028_000),
    "Graz": (47.07, 303_000),
    "Linz": (48.31, 213_000),
    "Salzburg": (47.8, 157_000),
}
SHOPS = "shop,town\nRing,Vienna\nMur,Graz\nDanube,Lintz\nCastle,Salzburg\n"
SETUP = "%load_ext onetool_ipy\nimport pandas as pd"
FRAMES = (
    (
        "Paste a curl command. It is a tool: checked, logged, with its key kept apart.",
        """%%tool new http geo.town --allow-host --save-secrets
curl "{url}?name=Graz" -H "Authorization: Bearer sk-314159" """.rstrip(),
    ),
    (
        "Call it for each row. What fails is told, and loses nothing.",
        'shops = pd.read_csv("shops.csv")\nm = ot.map("geo.town", shops, name="town")\nm',
    ),
    (
        "Fix the row and run it again. Only that row is called.",
        (
            'shops = shops.replace("Lintz", "Linz")\nshops.join(ot.map("geo.town", shops,'
            ' name="town")[["lat", "people"]])'
        ),
    ),
)
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #fff; font: 15px/1.4 system-ui, "DejaVu Sans", sans-serif; color: #1f2328;
       width: max-content; }
section { margin: 0 0 14px; border: 1px solid #d1d9e0; border-radius: 8px; overflow: hidden; }
section:last-child { margin: 0; }
h2 { margin: 0; padding: 9px 14px; font-size: 15px; font-weight: 600; background: #f6f8fa;
     border-bottom: 1px solid #d1d9e0; }
b { display: inline-block; width: 22px; height: 22px; margin-right: 9px; border-radius: 50%; background: #0969da;
    color: #fff; text-align: center; line-height: 22px; font-size: 13px; }
img { display: block; margin: 4px 6px; }
</style>"""


def take(lab: Lab, path: Path) -> None:
    """Write the picture to `path`."""
    with Stub(_town) as api:
        cells = [SETUP, *(code.replace("{url}", api.url("/towns")) for _, code in FRAMES)]
        notebook = lab.open_notebook(cells, name="shops", viewport=(840, 900))
        (notebook.path.parent / "shops.csv").write_text(SHOPS, encoding="utf-8")
        notebook.command("application:toggle-left-area")
        for index in range(len(cells)):
            notebook.run_cell(index)
        notebook.run_cell(0)  # so that none of the three looks chosen
        shots = [_cell(notebook, index) for index in range(1, len(cells))]
        notebook.close()
    page = lab.browser.new_page(
        viewport={"width": 860, "height": 600}, device_scale_factor=lab.scale
    )
    frames = (
        f"<section><h2><b>{number}</b>{html.escape(text)}</h2>"
        f'<img style="zoom: {1 / lab.scale}"'
        f' src="data:image/png;base64,{base64.b64encode(shot).decode()}"></section>'
        for number, ((text, _), shot) in enumerate(zip(FRAMES, shots, strict=True), 1)
    )
    page.set_content(_PAGE + "".join(frames))
    page.locator("body").screenshot(path=path)
    page.close()


def _town(asked: Asked) -> tuple[int, Any]:
    name = dict(asked.query).get("name", "")
    if name not in TOWNS:
        return 404, {"message": f"no town called {name!r}"}
    lat, people = TOWNS[name]
    return 200, {"lat": lat, "people": people}


def _cell(notebook: Notebook, index: int) -> bytes:
    """A cell without its border, which shows what is chosen."""
    cell = notebook.page.locator(".jp-Notebook .jp-Cell").nth(index)
    cell.scroll_into_view_if_needed()
    box, editor = cell.bounding_box(), cell.locator(".jp-InputArea-editor").first.bounding_box()
    assert box is not None
    assert editor is not None
    inner = {
        "x": box["x"] + 24,
        "y": box["y"] + 3,
        "width": editor["x"] + editor["width"] + 2 - (box["x"] + 24),
        "height": box["height"] - 6,
    }
    return notebook.page.screenshot(clip=inner)  # type: ignore[arg-type]  # a FloatRect
