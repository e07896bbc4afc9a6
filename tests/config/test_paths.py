"""Where the configuration is found, what is refused, and where the state goes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import home_at, home_of, state_base, true_path
from tests.harness import macos


def write(folder: Path, host: str) -> Path:
    """An onetool.yaml that can be told apart by its one allowed host."""
    file = folder / ".onetool" / "onetool.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"http: {{allowed_hosts: [{host}]}}\n")
    return file


def load(cwd: Path, home: Path, path: Path | str | None = None, **env: str) -> Config:
    cwd.mkdir(parents=True, exist_ok=True)
    env.setdefault("ONETOOL_STATE", str(home / "state"))
    env.setdefault("ONETOOL_TRUST", os.path.abspath(os.sep))
    return load_config(path, env=env, cwd=cwd, home=home)


def hosts(config: Config) -> tuple[str, ...]:
    return config.settings.http.allowed_hosts


def test_search_order_is_path_then_variable_then_nearest_then_home(tmp_path: Path) -> None:
    """Contract 3: explicit path, $ONETOOL_CONFIG, nearest upwards, ~/.onetool, defaults; each wins
    over the next."""
    home, cwd = tmp_path / "home", tmp_path / "home" / "a" / "b" / "c"
    explicit, named = write(tmp_path / "x", "explicit"), write(tmp_path / "y", "named")
    write(home, "home")
    write(home / "a", "far")
    near = write(home / "a" / "b", "near")
    assert hosts(load(cwd, home, explicit, ONETOOL_CONFIG=str(named))) == ("explicit",)
    assert hosts(load(cwd, home, ONETOOL_CONFIG=str(named))) == ("named",)
    assert hosts(load(cwd, home)) == ("near",)
    near.unlink()
    assert hosts(load(cwd, home)) == ("far",)
    (home / "a" / ".onetool" / "onetool.yaml").unlink()
    assert hosts(load(cwd, home)) == ("home",)
    assert hosts(load(tmp_path / "elsewhere", home)) == ("home",)
    (home / ".onetool" / "onetool.yaml").unlink()
    config = load(tmp_path / "elsewhere", home)
    assert hosts(config) == ()
    assert config.problems == ()
    assert config.paths.config_file is None


def test_folders_above_the_home_directory_are_not_searched(tmp_path: Path) -> None:
    """Neither from inside home nor from beside it."""
    write(tmp_path, "above")
    home = tmp_path / "homes" / "me"
    write(tmp_path / "homes", "above too")
    home.mkdir(parents=True)
    assert load(home / "work", home).paths.config_file is None
    assert load(tmp_path / "homes" / "other", home).paths.config_file is None
    write(tmp_path / "homes" / "other", "beside")
    assert hosts(load(tmp_path / "homes" / "other" / "deep", home)) == ("beside",)


def test_the_working_folder_counts_also_above_the_home_directory(tmp_path: Path) -> None:
    """A container may have its home inside the project; `onetool-ipy init` wrote a project there
    that was never found."""
    write(tmp_path, "above")
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)

    assert hosts(load(tmp_path, home)) == ("above",)
    assert load(home / "work", home).paths.config_file is None
    assert load(home, home).paths.config_file is None


def test_home_reached_through_a_link_still_ends_the_search(tmp_path: Path) -> None:
    """The home directory is compared by its real path."""
    write(tmp_path, "above")
    real = tmp_path / "real"
    (real / "work").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    assert load(tmp_path / "link" / "work", real).paths.config_file is None
    assert load(real / "work", tmp_path / "link").paths.config_file is None


@pytest.mark.skipif(
    os.name != "posix" or getattr(os, "geteuid", lambda: -1)() != 0,
    reason="only root can give a folder away",
)
class TestOwner:
    """A `.onetool/` that another user owns is refused."""

    def test_foreign_folder_is_refused_and_the_search_goes_on(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        write(home, "mine")
        foreign = write(home / "work", "theirs").parent
        os.chown(foreign, 12345, -1)
        config = load(home / "work", home)
        assert hosts(config) == ("mine",)
        assert not config.errors
        (problem,) = config.problems
        assert str(foreign) in str(problem)
        assert "another user" in str(problem)
        assert "ONETOOL_CONFIG" in problem.hint

    def test_foreign_link_to_a_folder_of_mine_is_refused(self, tmp_path: Path) -> None:
        home, mine = tmp_path / "home", tmp_path / "mine"
        write(mine, "mine")
        (home / "work").mkdir(parents=True)
        link = home / "work" / ".onetool"
        link.symlink_to(mine / ".onetool")
        os.lchown(link, 12345, -1)
        config = load(home / "work", home)
        assert config.paths.config_file is None
        assert len(config.problems) == 1

    def test_foreign_home_folder_is_refused(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        os.chown(write(home, "x").parent, 12345, -1)
        assert load(tmp_path / "elsewhere", home).paths.config_file is None

    def test_named_file_is_the_users_own_choice(self, tmp_path: Path) -> None:
        file = write(tmp_path / "theirs", "named")
        os.chown(file.parent, 12345, -1)
        assert hosts(load(tmp_path / "w", tmp_path / "home", file)) == ("named",)


class TestNamed:
    """A file that was named has to be there."""

    def test_missing_one_is_an_error_and_the_rest_works(self, tmp_path: Path) -> None:
        config = load(tmp_path / "w", tmp_path, tmp_path / "none.yaml")
        assert config.errors
        assert "none.yaml" in str(config.problems[0])
        assert "no such file" in str(config.problems[0])
        assert config.settings.http.timeout_s == 10

    def test_variable_that_is_empty_counts_as_unset(self, tmp_path: Path) -> None:
        assert load(tmp_path / "w", tmp_path, ONETOOL_CONFIG="").problems == ()

    def test_relative_path_and_tilde(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        write(home, "tilde")
        write(tmp_path / "w", "relative")
        assert hosts(load(tmp_path / "w", home, "~/.onetool/onetool.yaml")) == ("tilde",)
        assert hosts(load(tmp_path / "w" / "sub", home, "../.onetool/onetool.yaml")) == (
            "relative",
        )

    def test_folder_stands_for_the_file_in_it(self, tmp_path: Path) -> None:
        write(tmp_path / "p", "inside")
        assert hosts(load(tmp_path, tmp_path / "home", tmp_path / "p")) == ("inside",)
        assert hosts(load(tmp_path, tmp_path / "home", tmp_path / "p" / ".onetool")) == ("inside",)

    @pytest.mark.parametrize(
        "path", ["a\0b", "x" * 5000, "/dev/null/x"], ids=["nul", "long", "below a device"]
    )
    def test_impossible_path_is_a_problem(self, tmp_path: Path, path: str) -> None:
        assert load(tmp_path, tmp_path / "home", path).errors


class TestProject:
    """The project is the folder that holds `.onetool`, else the working directory."""

    def test_of_a_found_folder(self, tmp_path: Path) -> None:
        write(tmp_path / "p", "x")
        paths = load(tmp_path / "p" / "deep" / "er", tmp_path / "home").paths
        assert paths.project == tmp_path / "p"
        assert paths.onetool_dir == tmp_path / "p" / ".onetool"
        assert paths.cwd == tmp_path / "p" / "deep" / "er"
        assert paths.secrets_file == tmp_path / "p" / ".onetool" / "secrets.yaml"

    def test_of_nothing_found(self, tmp_path: Path) -> None:
        paths = load(tmp_path / "w", tmp_path / "home").paths
        assert paths.project == tmp_path / "w"
        assert paths.onetool_dir is None
        assert paths.secrets_file is None

    def test_of_a_named_file_elsewhere(self, tmp_path: Path) -> None:
        file = tmp_path / "etc" / "my.yaml"
        file.parent.mkdir()
        file.write_text("aliases: {a: time.now}\n")
        (file.parent / "secrets.yaml").write_text("")
        paths = load(tmp_path / "w", tmp_path / "home", file).paths
        assert paths.project == tmp_path / "w"
        assert paths.onetool_dir == tmp_path / "etc"

    def test_folder_without_onetool_yaml_counts_with_default_settings(self, tmp_path: Path) -> None:
        folder = tmp_path / "p" / ".onetool"
        folder.mkdir(parents=True)
        (folder / "prompts.yaml").write_text("packs: {excel: Be careful.}\n")
        config = load(tmp_path / "p", tmp_path / "home")
        assert config.paths.config_file is None
        assert config.paths.onetool_dir == folder
        assert config.prompts == {"excel": "Be careful."}
        assert config.problems == ()


class TestState:
    """$ONETOOL_STATE wins over `state_dir:`, which wins over the platform's directory; one folder
    per project."""

    @pytest.mark.posix("platformdirs asks the registry of Windows, whatever the environment is")
    @pytest.mark.parametrize("state", ["", "xdg"])
    def test_platform_directory_is_the_one_that_platformdirs_names_in_that_environment(
        self, tmp_path: Path, state: str
    ) -> None:
        """A home with an umlaut and a blank."""
        home = tmp_path / "Jörg M"
        env = {**home_at(home), "XDG_STATE_HOME": str(home / state) if state else ""}
        script = "import platformdirs; print(platformdirs.user_state_dir('onetool_ipy'))"
        done = subprocess.run(
            [sys.executable, "-X", "utf8", "-c", script],
            env={**os.environ, **env},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )

        assert state_base(env, home_of(env)) == Path(done.stdout.strip())

    @pytest.mark.linux("looks as macOS does")
    def test_platform_directory_is_the_one_that_platformdirs_names_on_macos(
        self, tmp_path: Path
    ) -> None:
        home = tmp_path / "Jörg M"
        said = macos.run(
            "import os, platformdirs\n"
            "from onetool_ipy.config.paths import APPLICATIONS, home_of, state_base\n"
            "print(state_base(os.environ, home_of(os.environ)))\n"
            "print(platformdirs.user_state_dir('onetool_ipy'))\n"
            "print(home_of(os.environ) / APPLICATIONS)\n"
            "print(platformdirs.user_config_dir())\n",
            env={
                "HOME": str(home),
                "ONETOOL_STATE": "",
                "XDG_STATE_HOME": "",
                "XDG_CONFIG_HOME": "",
            },
        )

        ours, theirs, applications, configs = said.splitlines()
        assert (ours, applications) == (theirs, configs)
        assert Path(ours) == home / "Library" / "Application Support" / "onetool_ipy"

    @pytest.mark.windows("the variables of Windows")
    @pytest.mark.parametrize(
        ("env", "base"),
        [
            ({"USERPROFILE": "C:\\Jörg M"}, "C:\\Jörg M\\AppData\\Local"),
            ({"HOMEDRIVE": "D:", "HOMEPATH": "\\me"}, "D:\\me\\AppData\\Local"),
            ({"USERPROFILE": "C:\\me", "LOCALAPPDATA": "E:\\lo"}, "E:\\lo"),
            ({"USERPROFILE": "C:\\me", "LOCALAPPDATA": "lo"}, "C:\\me\\AppData\\Local"),
            ({"USERPROFILE": "C:\\me", "HOME": "/c/bash"}, "C:\\me\\AppData\\Local"),
        ],
        ids=["profile", "drive", "local", "relative", "bash"],
    )
    def test_state_of_a_user_of_windows_follows_the_given_environment(
        self, env: dict[str, str], base: str
    ) -> None:
        assert state_base(env, home_of(env)) == Path(base, "onetool_ipy", "onetool_ipy")

    @pytest.mark.parametrize("name", ["proj", "Proj", "PROJ"])
    def test_a_folder_has_one_spelling_however_it_is_typed(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "Proj").mkdir()
        folder = tmp_path / name
        if not folder.exists():  # names with case: two folders
            folder.mkdir()

        assert true_path(folder) == os.path.realpath(
            tmp_path
            / next(entry for entry in os.listdir(tmp_path) if folder.samefile(tmp_path / entry))
        )

    def test_a_home_of_its_own_is_where_the_home_is(self, tmp_path: Path) -> None:
        assert home_of(home_at(tmp_path)) == tmp_path
        assert tmp_path in state_base(home_at(tmp_path), home_of(home_at(tmp_path))).parents

    def test_variable_wins_over_the_file(self, tmp_path: Path) -> None:
        write(tmp_path / "p", "x").write_text("state_dir: here\n")
        home = tmp_path / "home"
        env = {"ONETOOL_TRUST": str(tmp_path)}
        assert (
            load_config(env=env, cwd=tmp_path / "p", home=home).paths.state
            == tmp_path / "p" / "here" / "v2"
        )
        state = load(tmp_path / "p", home, ONETOOL_STATE=str(tmp_path / "there")).paths.state
        assert state.parent == tmp_path / "there"

    def test_each_project_has_its_own_and_the_same_from_any_folder_of_it(
        self, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        write(tmp_path / "one" / "app", "x")
        write(tmp_path / "two" / "app", "x")
        one, deep = (
            load(tmp_path / "one" / "app", home),
            load(tmp_path / "one" / "app" / "deep", home),
        )
        two = load(tmp_path / "two" / "app", home)
        (tmp_path / "link").symlink_to(tmp_path / "one" / "app")
        linked = load(tmp_path / "link", home)
        assert one.paths.state == deep.paths.state == linked.paths.state != two.paths.state
        assert one.paths.state.name.startswith("app-")

    def test_load_without_files_creates_nothing(self, tmp_path: Path) -> None:
        load(tmp_path / "w", tmp_path / "home")
        assert [p.name for p in tmp_path.iterdir()] == ["w"]
