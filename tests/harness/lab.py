"""A real JupyterLab or Notebook 7, run from the installed wheel, in a real headless Chromium.

`Lab` owns the server process and the browser; `Notebook` is one open notebook with its page. Both
act through the application's own commands and wait on its promises, never on the clock.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from playwright.sync_api import Browser, Error, Locator, Page, Playwright, expect, sync_playwright

from tasks import BROWSERS
from tests.harness import surroundings
from tests.harness.ports import reserve
from tests.harness.wheel import Installed

__all__ = ["PANEL_ID", "Lab", "Notebook", "chromium"]

START_TIMEOUT_S = 180.0
PAGE_TIMEOUT_MS = 120_000
PANEL_ID = "onetool-ipy-panel"

_BROWSER_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
_SERVER_FLAGS = (
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.terminals_enabled=False",
    "--LabApp.expose_app_in_browser=True",
    "--JupyterNotebookApp.expose_app_in_browser=True",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)
_APPS = {
    "jupyterlab": "lab/workspaces/{workspace}/tree/{place}?token={token}&reset",
    "notebook": "notebooks/{place}?token={token}",
}
"""The modules of the applications, and the address of a notebook in each."""
_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+/(?:[^\s?]+/)?)(?:lab|tree)\?token=")

_IS_OPEN = """name =>
  window.jupyterapp?.shell.currentWidget?.context?.path.endsWith(name)
"""
_READY = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
}"""
# A tab of ours may stand before the notebook.
_NOTEBOOK = """(() => {
  const notebooks = [...window.jupyterapp.shell.widgets('main')].filter(widget => widget.sessionContext);
  return notebooks.find(widget => widget.isVisible) ?? notebooks[0];
})()"""
_RUN_CELL = """async index => {
  const panel = NOTEBOOK;
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  await window.jupyterapp.commands.execute('notebook:run-cell');
  return panel.content.widgets[index].model.toJSON().outputs;
}""".replace("NOTEBOOK", _NOTEBOOK)
_BEGIN_CELL = """index => {
  const panel = NOTEBOOK;
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  window.begunCell = window.jupyterapp.commands.execute('notebook:run-cell');
}""".replace("NOTEBOOK", _NOTEBOOK)
_APPEND_CELL = """source => {
  const { model } = NOTEBOOK.content;
  model.sharedModel.insertCell(model.cells.length, { cell_type: 'code', source });
  return model.cells.length - 1;
}""".replace("NOTEBOOK", _NOTEBOOK)

_LIGHT = "JupyterLab Light"
# The colours are a setting that the server keeps: left dark, each page that is loaded later would
# be dark.
_LEAVE = """async light => {
  await window.jupyterapp?.serviceManager.sessions.shutdownAll();
  if (document.body.dataset.jpThemeName !== light) {
    await window.jupyterapp?.commands.execute('apputils:change-theme', { theme: light });
  }
  localStorage.clear();
  sessionStorage.clear();
}"""
_IS_LIGHT = "light => !window.jupyterapp || document.body.dataset.jpThemeName === light"
# What a page shows beside its notebook, noted when JupyterLab has loaded. A page that its test
# loads again has no note.
_NOTE_LOOK = """async () => {
  const { restored, shell } = window.jupyterapp;
  await restored;
  const raised = '.jp-Dialog, .lm-Menu, .Toastify__toast, #modal-command-palette:not(.lm-mod-hidden)';
  const shown = area => [...shell.widgets(area)].filter(widget => widget.isVisible).map(widget => widget.id);
  window.look = () => JSON.stringify([
    document.body.dataset.jpThemeName,
    ['left', 'right', 'down'].map(shown),
    document.querySelector('#jp-left-stack').offsetWidth,
    document.querySelectorAll(raised).length
  ]);
  window.firstLook = window.look();
}"""
# Closes the notebooks without asking, brings our panel and the file browser back to where they were
# at first, and tells whether the page looks as it did then. Our panel must be the same as one that
# is made anew: it has left its notebook, and with it every kernel, search, form, question and
# report.
_RENEW = """id => {
  const { shell } = window.jupyterapp ?? {};
  if (!shell || !window.look) return false;
  const panel = [...shell.widgets('left')].find(widget => widget.id === id);
  panel.showHealth(false);
  panel.selectView('tools');
  for (const widget of [...shell.widgets('main')]) widget.dispose();
  shell.activateById('filebrowser');
  const noNotebook = { currentWidget: null, currentChanged: { connect() {} } };
  window.newPanel ??= new panel.constructor(noNotebook).node.innerHTML;
  return window.look() === window.firstLook && panel.current === null && panel.node.innerHTML === window.newPanel;
}"""
# An empty application shows its launcher, which goes, too.
_OPEN_FILE = """async path => {
  const { commands, shell } = window.jupyterapp;
  const opened = await commands.execute('docmanager:open', { path });
  for (const widget of [...shell.widgets('main')]) if (widget !== opened) widget.dispose();
}"""

_FOREIGN_ERRORS = (
    # JupyterLab draws the toolbar of a notebook once more after it was shown, and throws this where
    # it was closed meanwhile. The page is lent again at that very moment.
    "Cannot read properties of null (reading 'promise')",
    # Notebook 7 throws this while it loads.
    "Cannot read properties of undefined (reading 'schema')",
)

# The default of 5 s is for a machine that has nothing else to do.
expect.set_options(timeout=60_000)


def chromium() -> str:
    """The path of the installed Chromium."""
    for name in BROWSERS:
        if found := shutil.which(name, path=surroundings.OUTSIDE.get("PATH")):
            return found
    raise FileNotFoundError("No Chromium on PATH. `make browser` installs it, or says how.")


class Notebook:
    """One notebook, open in JupyterLab with its kernel started; its page is lent, and given back by
    `close`."""

    def __init__(self, page: Page, path: Path, give_back: Callable[[Page, bool], None]) -> None:
        self.page = page
        self.path = path
        self.page_errors: list[str] = []
        self.is_open = True
        self._give_back = give_back
        self._listeners: list[tuple[Any, Callable[[Any], object]]] = []
        self.listen("pageerror", self._note_error)

    def _note_error(self, error: Error) -> None:
        # None of our files is in the stack of a foreign error.
        is_foreign = any(each in str(error) for each in _FOREIGN_ERRORS)
        if not is_foreign or "onetool" in (error.stack or ""):
            self.page_errors.append(str(error))

    def listen(self, event: str, hear: Callable[[Any], object]) -> None:
        """Hear of the page's events of one kind until the notebook is closed."""
        self._listeners.append((event, hear))
        self.page.on(event, hear)  # type: ignore[call-overload]  # one overload for each event

    def run_cell(self, index: int) -> list[dict[str, Any]]:
        """Run a cell to its end and return its outputs, as nbformat has them."""
        outputs: list[dict[str, Any]] = self.page.evaluate(_RUN_CELL, index)
        return outputs

    def begin_cell(self, index: int) -> None:
        """Run a cell without waiting for its end; `wait_for_cell` does."""
        self.page.evaluate(_BEGIN_CELL, index)

    def begin(self, code: str) -> None:
        """Append a cell with `code` and run it without waiting for its end."""
        self.begin_cell(self.page.evaluate(_APPEND_CELL, code))

    def wait_for_cell(self) -> None:
        """Wait for the end of the cell that was begun last."""
        self.page.evaluate("async () => { await window.begunCell; }")

    def execute(self, code: str) -> list[dict[str, Any]]:
        """Append a cell with `code` and run it."""
        return self.run_cell(self.page.evaluate(_APPEND_CELL, code))

    def output(self, index: int) -> Locator:
        """What a cell shows, for `expect(...)`."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-OutputArea")

    def command(self, name: str, **arguments: Any) -> Any:
        """Run a command of the application, as its menus do."""
        return self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
            [name, arguments],
        )

    def show_panel(self) -> Locator:
        """Open our side panel and return it."""
        self.page.evaluate(f"() => window.jupyterapp.shell.activateById('{PANEL_ID}')")
        panel = self.page.locator(f"#{PANEL_ID}")
        expect(panel).to_be_visible()
        return panel

    def restart_kernel(self) -> None:
        """Restart the kernel and wait until it answers."""
        self.page.evaluate(
            """async () => {
              const { session } = NOTEBOOK.sessionContext;
              await session.kernel.restart();
              await session.kernel.info;
            }""".replace("NOTEBOOK", _NOTEBOOK)
        )

    def close(self) -> None:
        """Shut the kernel down and give the page back; may be called twice."""
        if not self.is_open:
            return
        self.is_open = False
        while self._listeners:
            self.page.remove_listener(*self._listeners.pop())
        self.page.unroute_all()
        self.page.context.clear_permissions()
        self.page.context.set_offline(False)
        self.page.evaluate(_LEAVE, _LIGHT)
        self.page.wait_for_function(_IS_LIGHT, arg=_LIGHT)
        is_as_new = self.page.evaluate(_RENEW, PANEL_ID)
        self._give_back(self.page, bool(is_as_new) and not self.page_errors)


class Lab:
    """A JupyterLab server run from a venv, and the browser that looks at it."""

    def __init__(
        self,
        installed: Installed,
        folder: Path,
        *,
        flags: Sequence[str] = (),
        browser: Browser | None = None,
        root: Path | None = None,
        env: Mapping[str, str] | None = None,
        scale: int = 1,
        app: Literal["jupyterlab", "notebook"] = "jupyterlab",
    ) -> None:
        """Start the server with every Jupyter folder below `folder`; `flags` are more of its
        options.

        A `browser` of another Lab is borrowed: one thread can have one Playwright. `root` is the
        folder that is served, by default a new one; `env` goes over the variables of the tests.
        Pictures have `scale` times the pixels.
        """
        self.root = root or folder / "root"
        self.root.mkdir(parents=True, exist_ok=root is not None)
        self.token = secrets.token_hex(16)
        self.scale = scale
        self.app = app
        self.notebooks: list[Notebook] = []
        self._free_pages: list[tuple[Page, bool]] = []
        self._log: list[str] = []
        self._address = ""
        self._held, port = reserve()
        self._announced = threading.Event()
        self._is_ready = False
        self._playwright: Playwright | None = None
        self._browser = browser
        self._is_borrowed = browser is not None
        self._process = subprocess.Popen(
            [
                *(str(installed.python), "-m", app, *_SERVER_FLAGS),
                f"--ServerApp.port={port}",
                f"--ServerApp.root_dir={self.root}",
                f"--IdentityProvider.token={self.token}",
                *flags,
            ],
            cwd=folder,
            env={**os.environ, **_private(folder / "home"), "PATH": installed.path, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    @property
    def log(self) -> str:
        """What the server has printed."""
        return "".join(self._log)

    @property
    def address(self) -> str:
        """The base URL, once the server answers."""
        if not self._is_ready:
            self._wait_for_answer(time.monotonic() + START_TIMEOUT_S)
            self._is_ready = True
        return self._address

    def open_notebook(
        self,
        cells: Sequence[str] = (),
        *,
        name: str = "notebook",
        viewport: tuple[int, int] = (1200, 800),
        is_page_new: bool = False,
    ) -> Notebook:
        """Write a notebook with these code cells, open it and wait for its kernel.

        A page that shows JupyterLab as new is used again, unless the test needs one that was loaded
        for it.
        """
        folder = self.root / f"{name}-{secrets.token_hex(4)}"
        folder.mkdir()
        path = folder / f"{name}.ipynb"
        path.write_text(_notebook(cells), encoding="utf-8")
        return self.open_file(path, viewport=viewport, is_page_new=is_page_new)

    def open_file(
        self, path: Path, *, viewport: tuple[int, int] = (1200, 800), is_page_new: bool = True
    ) -> Notebook:
        """Open a notebook file below `root` and wait for its kernel."""
        page, is_as_new = self._open_page(viewport)
        notebook = Notebook(page, path, self._take_back)
        self.notebooks.append(notebook)
        place = path.relative_to(self.root).as_posix()
        is_loaded = is_as_new and not is_page_new
        if is_loaded:
            page.evaluate(_OPEN_FILE, place)
        else:
            names = {"workspace": secrets.token_hex(4), "place": place, "token": self.token}
            page.goto(self.address + _APPS[self.app].format(**names))
        page.wait_for_function(_IS_OPEN, arg=path.name)
        page.evaluate(_READY)
        if not is_loaded and self.app == "jupyterlab":
            page.evaluate(_NOTE_LOOK)
            page.locator("#jupyterlab-splash").wait_for(state="detached")
        return notebook

    def screenshot(self, name: str, folder: Path) -> list[Path]:
        """A picture of every open page, as `name`.png in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        pictures: list[Path] = []
        for notebook in self.notebooks:
            if notebook.is_open:
                number = f"-{len(pictures) + 1}" if pictures else ""
                pictures.append(folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}{number}.png")
                notebook.page.screenshot(path=pictures[-1])
        return pictures

    def close_notebooks(self) -> None:
        """Close every notebook and shut its kernel down."""
        while self.notebooks:
            self.notebooks.pop().close()

    def close(self) -> None:
        """Close the browser and stop the server; may be called twice."""
        self.close_notebooks()
        while self._free_pages:
            self._free_pages.pop()[0].context.close()
        if self._browser is not None and not self._is_borrowed:
            self._browser.close()
        self._browser = None
        if self._playwright is not None:
            self._playwright.stop()
            self._playwright = None
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        self._held.close()

    @property
    def browser(self) -> Browser:
        """The browser, started when it is first needed."""
        if self._browser is None:
            self._playwright = sync_playwright().start()
            self._browser = self._playwright.chromium.launch(
                executable_path=chromium(), args=list(_BROWSER_FLAGS)
            )
        return self._browser

    def forget_pages(self) -> None:
        """Let the next notebook load JupyterLab anew: after a failed test nobody knows how its page
        looks."""
        self._free_pages = [(page, False) for page, _ in self._free_pages]

    def _take_back(self, page: Page, is_as_new: bool) -> None:
        """Keep the page for the next notebook; a page of Notebook 7 is that of one notebook."""
        if self.app == "notebook":
            page.context.close()
        else:
            self._free_pages.append((page, is_as_new))

    def _open_page(self, viewport: tuple[int, int]) -> tuple[Page, bool]:
        """A page, and whether it has JupyterLab as new.

        One that loaded it before does so again in a sixth of the time: its scripts are compiled.
        """
        width, height = viewport
        if self._free_pages:
            page, is_as_new = self._free_pages.pop()
            page.set_viewport_size({"width": width, "height": height})
            return page, is_as_new
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, device_scale_factor=self.scale
        )
        context.set_default_timeout(PAGE_TIMEOUT_MS)
        return context.new_page(), False

    def _wait_for_answer(self, deadline: float) -> None:
        """The server prints its address a moment before it listens, so ask until it answers."""
        self._announced.wait(START_TIMEOUT_S)
        pause = threading.Event()
        while self._address and self._process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(
                    f"{self._address}api/status?token={self.token}", timeout=60
                ):
                    return
            except OSError:
                pause.wait(0.1)
        raise AssertionError(f"JupyterLab did not start:\n{self.log}")

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._log.append(line)
            if not self._announced.is_set() and (found := _ADDRESS.search(line)):
                self._address = found[1]
                self._announced.set()
        self._announced.set()


def _private(home: Path) -> dict[str, str]:
    """The private places of a server, with JupyterLab's news and update questions off."""
    settings = home / "lab" / "settings"
    notices = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    notices.parent.mkdir(parents=True)
    notices.write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False}), encoding="utf-8"
    )
    return {
        **surroundings.private(home),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "lab" / "workspaces"),
    }


def _notebook(cells: Sequence[str]) -> str:
    """The text of a notebook file with these code cells (one empty cell where there are none)."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"cell-{number}",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": [],
                    "source": source,
                }
                for number, source in enumerate(cells or ("",))
            ],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
