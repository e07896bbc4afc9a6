"""`project=`: which folder is meant, that projects stay apart, and that server, kernels and files
agree at once."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uuid_utils

from onetool_ipy.base.errors import Forbidden
from onetool_ipy.base.files import is_young, stamp_from
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.rest.extension import Projects
from tests.conftest import FreshKernel
from tests.faces.rest.conftest import Api, write_config
from tests.faces.rest.serving import Server, Upstream, http_tool
from tests.harness.patience import HANG_S, until

_BUNDLES = "onetool/tools/bundles"


def _slugs(api: Api) -> list[str]:
    items = api.call("GET", "tools/bundles").json()["items"]
    return [each["slug"] for each in items if not each["isBuiltIn"]]


def test_two_projects_do_not_see_each_other(new_api: Callable[..., Api]) -> None:
    one, two = new_api(), new_api()

    one.bundle("mine")

    assert _slugs(one) == ["mine"]
    assert _slugs(two) == []
    two.bundle("mine")
    assert (two.folder / ".onetool" / "bundles").is_dir()


def test_without_project_the_root_is_meant(server: Server) -> None:
    own = uuid_utils.uuid7()
    server.client.put(
        f"onetool/tools/bundles/{own}", json={"slug": "of-the-root", "displayName": "x"}
    )

    assert (server.root / ".onetool" / "bundles" / "of-the-root" / "bundle.json").is_file()
    for same in ("", ".", "./", str(server.root)):
        listed = server.client.get("onetool/tools/bundles", params={"project": same}).json()[
            "items"
        ]
        assert "of-the-root" in [each["slug"] for each in listed]
    server.client.delete(f"onetool/tools/bundles/{own}")


@pytest.mark.parametrize(
    ("project", "status"),
    [
        ("..", 403),
        ("../..", 403),
        ("/", 403),
        ("/etc", 403),
        ("a/../../..", 403),
        ("leads-out", 403),
        ("leads-out/deeper", 403),
        ("circle", 400),
        ("nothing-here", 404),
        ("a-file", 400),
        ("a-file/below", 404),
        ("x" * 300, 400),
        ("y/" * 3000, 400),
        ("nul\0", 400),
    ],
)
def test_a_folder_outside_is_refused_and_nothing_is_made(
    server: Server, project: str, status: int
) -> None:
    outside = server.root.parent / "outside"
    (outside / "deeper").mkdir(parents=True, exist_ok=True)
    for name, target in (("leads-out", outside), ("circle", server.root / "circle")):
        if not (server.root / name).is_symlink():
            (server.root / name).symlink_to(target)
    (server.root / "a-file").touch()

    body = {"slug": "not-made", "displayName": "x"}
    answer = server.client.put(
        f"onetool/tools/bundles/{uuid_utils.uuid7()}", params={"project": project}, json=body
    )

    assert answer.status_code == status, answer.text
    assert answer.json()["ok"] is False
    message = answer.json()["error"]["message"]
    assert ("start Jupyter in a folder above" in message) is (status == 403), message
    assert list(outside.rglob(".onetool")) == []


def test_a_link_inside_the_root_is_the_folder_it_leads_to(server: Server, api: Api) -> None:
    link = server.root / f"{api.project}-link"
    link.symlink_to(api.folder)
    api.bundle("mine")

    assert _slugs(Api(api.client, link, link.name, api.upstream)) == ["mine"]


@pytest.mark.slow
def test_a_changed_configuration_holds_from_the_next_request_on(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")
    config = api.folder / ".onetool" / "onetool.yaml"
    good = config.read_text(encoding="utf-8")

    statuses = [api.invoke(place, {"id": 1}).status_code]
    config.write_text("version: 1\n", encoding="utf-8")
    statuses.append(api.invoke(place, {"id": 1}).status_code)
    config.write_text(good, encoding="utf-8")
    statuses.append(api.invoke(place, {"id": 1}).status_code)
    config.write_text("http: [nonsense\n", encoding="utf-8")
    statuses.append(api.invoke(place, {"id": 1}).status_code)

    assert statuses == [200, 403, 200, 200]  # what is broken leaves what was good


def test_a_secret_that_is_added_is_there_at_once(api: Api) -> None:
    auth = {"type": "bearer", "value": "${LATER_KEY}"}
    http = http_tool(f"http://{api.upstream.host}/echo", auth=auth)["http"]
    place = api.tool(api.bundle(), "echo", "/echo", http=http)

    before = api.invoke(place)
    with (api.folder / ".onetool" / "secrets.yaml").open("a", encoding="utf-8") as file:
        file.write("LATER_KEY: a-later-secret\n")
    after = api.invoke(place)

    assert (before.status_code, after.status_code) == (409, 200)
    assert api.upstream.seen[-1][2]["Authorization"] == "Bearer a-later-secret"
    assert "a-later-secret" not in after.text


@pytest.mark.posix("Windows tells when a file was made, not when it changed")
def test_a_secret_that_is_changed_behind_the_same_size_and_time_is_the_new_one(api: Api) -> None:
    """The stamp of the file is old enough to be trusted, and its time is set back after the
    change."""
    file = api.folder / ".onetool" / "secrets.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}LATER_KEY: key-1\n", encoding="utf-8")
    auth = {"type": "bearer", "value": "${LATER_KEY}"}
    http = http_tool(f"http://{api.upstream.host}/echo", auth=auth)["http"]
    place = api.tool(api.bundle(), "echo", "/echo", http=http)
    before = file.stat()
    until(lambda: not is_young(stamp_from(file.stat())))
    api.invoke(place)
    api.invoke(place)

    file.write_text(f"{text}LATER_KEY: key-2\n", encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    api.invoke(place)

    sent = [headers["Authorization"] for _, _, headers, *_ in api.upstream.seen[-3:]]
    assert sent == ["Bearer key-1", "Bearer key-1", "Bearer key-2"]


@pytest.mark.slow
def test_kernel_and_server_see_each_others_changes(
    api: Api, fresh_kernel: FreshKernel, server: Server
) -> None:
    kernel = fresh_kernel(
        cwd=api.folder, env={"ONETOOL_STATE": str(server.root.parent / "home" / "state")}
    )
    kernel.execute(
        "%load_ext onetool_ipy\nfrom onetool_ipy.core import current\nbox = current.require()"
    )
    place = api.tool(api.bundle("shared"), "get-user", "/users/${id}")

    called = kernel.execute("%tool shared.get-user id=5").text
    api.call("PATCH", place, json={"isEnabled": False})
    refused = kernel.execute("%tool shared.get-user id=5", allow_errors=True).text
    kernel.execute(
        "b = box.bundles.put_bundle(box.bundles.new_id(), slug='from-kernel', display_name='x')"
    )
    counted = api.call("GET", place).json()["callCount"]

    assert "Ada" in called
    assert "switched off" in refused
    assert sorted(_slugs(api)) == ["from-kernel", "shared"]
    assert counted >= 1
    kernel.execute("box.bundles.patch_bundle(b.bundle_id, enabled=False)")
    assert _slugs(api) == ["shared"]


def test_a_damaged_file_costs_only_itself(api: Api) -> None:
    own = api.bundle()
    good = api.tool(own, "good", "/users/1")
    bad = api.tool(own, "bad", "/users/1")
    file = api.folder / ".onetool" / "bundles" / "my-api" / "bad@1.json"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    assert api.invoke(good).status_code == 200
    assert api.call("GET", bad).status_code == 404
    listed = api.call("GET", "tools/tools", params={"bundleIDs": own}).json()["items"]
    assert [each["slug"] for each in listed] == ["good"]


@pytest.mark.slow
def test_the_same_put_from_many_clients_makes_one_tool(server: Server, api: Api) -> None:
    own = api.bundle()
    statuses: list[int] = []

    def put() -> None:
        with server.anyone(headers={"Authorization": f"token {server.token}"}) as client:
            mine = Api(client, api.folder, api.project, api.upstream)
            record = http_tool("https://example.com/")
            statuses.append(
                mine.call("PUT", f"tools/bundles/{own}/tools/x/version/1", json=record).status_code
            )

    threads = [threading.Thread(target=put) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [201] + [409] * 15


async def test_few_toolboxes_stay_open_and_none_that_is_used_is_closed(
    tmp_path: Path, upstream: Upstream
) -> None:
    projects = Projects(
        tmp_path, env={**home_at(tmp_path / "home"), "ONETOOL_STATE": str(tmp_path)}, max_open=2
    )
    for name in "abcd":
        write_config(tmp_path / name, upstream)

    async with projects.use("a") as opened:
        used = opened.current()
        for name in "bcdb":
            async with projects.use(name) as project:
                assert project.current().call("tools.echo", {"message": name}).data == name
        assert used.call("tools.echo", {"message": "still"}).data == "still"
    async with projects.use("a") as again, projects.use("a") as same:
        assert again is same
        assert again.current() is used
    assert len(projects.boxes()) == 2
    with pytest.raises(Forbidden):
        async with projects.use(os.fspath(tmp_path.parent)):
            pass
    many = await asyncio.gather(*(_opened(projects, name) for name in "abcdabcd"))
    assert many == [str(tmp_path / name) for name in "abcdabcd"]
    projects.close()
    projects.close()
    assert projects.boxes() == []


async def test_project_stays_open_until_the_worker_of_a_client_that_left_is_done(
    tmp_path: Path, upstream: Upstream
) -> None:
    projects = Projects(
        tmp_path, env={**home_at(tmp_path / "home"), "ONETOOL_STATE": str(tmp_path)}, max_open=1
    )
    for name in "ab":
        write_config(tmp_path / name, upstream)
    has_begun, may_end = threading.Event(), threading.Event()
    calls: list[ToolResult] = []

    async def request() -> None:
        async with projects.use("a") as project:

            def work() -> None:
                box = project.current()
                has_begun.set()
                may_end.wait(HANG_S)
                calls.append(box.call("tools.echo", {"message": "still"}))

            await projects.work(project, work)

    client = asyncio.ensure_future(request())
    assert await asyncio.to_thread(has_begun.wait, HANG_S)
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    assert await _opened(projects, "b") == str(tmp_path / "b")
    is_open = {box.config.paths.project.name for box in projects.boxes()}
    may_end.set()
    # The worker's end is told to the loop; then "a" is the one that is used least.
    while [box.config.paths.project.name for box in projects.boxes()] != ["b"]:
        assert await _opened(projects, "b") == str(tmp_path / "b")

    assert is_open == {"a"}
    assert [call.data for call in calls] == ["still"]
    projects.close()


async def _opened(projects: Projects, name: str) -> str:
    async with projects.use(name) as project:
        return str((await projects.work(project, project.current)).config.paths.project)


@pytest.mark.slow
def test_many_folders_asked_for_at_once_are_all_answered(
    server: Server, upstream: Upstream
) -> None:
    names = [f"one-of-many-{number}" for number in range(24)]
    for name in names:
        write_config(server.root / name, upstream)

    with ThreadPoolExecutor(40) as threads:
        asked = [
            threads.submit(server.client.get, _BUNDLES, params={"project": name})
            for name in names * 3
        ]
        answers = [each.result() for each in asked]

    assert [answer.text for answer in answers if answer.status_code != 200] == []
    assert all(answer.json()["items"] for answer in answers)
