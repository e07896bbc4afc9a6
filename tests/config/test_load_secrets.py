"""secrets.yaml: read from a file of mode 0600; nothing that is made of it shows a value."""

from __future__ import annotations

import pytest

from onetool_ipy.base.masking import Secrets
from tests.config.conftest import Project


def test_template_counts_as_asking(project: Project) -> None:
    config = project.load('packs: {p: {k: "${TOKEN}"}}\n', TOKEN="env-value")
    assert config.secrets.mask("env-value") == "***"


class TestNothingShowsAValue:
    """Neither repr, str nor format."""

    def test_repr(self, project: Project) -> None:
        project.write("secrets.yaml", "TOKEN: abcdef123\n")
        config = project.load(
            """
packs: {p: {k: "${TOKEN}"}}
servers: {s: {command: x, env: {K: "${TOKEN}"}}, h: {url: "https://x/${TOKEN}"}}
models: {m: {provider: openai, model: "${TOKEN}", base_url: "http://x/${TOKEN}"}}
http: {allowed_hosts: ["${TOKEN}"]}
"""
        )
        assert config.problems == ()
        s = config.settings
        things = [
            config,
            s,
            s.packs,
            s.servers,
            s.models,
            s.http,
            config.secrets,
            s.packs["p"],
            s.models.named["m"],
        ]
        for thing in [*things, config.paths, config.problems, vars(Secrets), dir(config.secrets)]:
            assert "abcdef123" not in f"{thing!r} {thing!s}"


class TestFile:
    """secrets.yaml: `name: value`, mode 0600."""

    @pytest.mark.posix("modes of files")
    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o400, 0o700], ids=oct)
    def test_other_mode_is_a_problem_and_the_values_still_hold(
        self, project: Project, mode: int
    ) -> None:
        project.write("secrets.yaml", "TOKEN: abcdef123\n").chmod(mode)
        config = project.load()
        (problem,) = config.problems
        assert str(problem) == (
            f".onetool/secrets.yaml: has the file mode {mode:04o}; it must be 0600, for you alone. "
            "Run: chmod 600 .onetool/secrets.yaml"
        )
        assert not config.errors
        assert config.secrets.get("TOKEN") == "abcdef123"

    def test_short_secret_is_a_problem(self, project: Project) -> None:
        project.write("secrets.yaml", "GOOD: abcdef\nPIN: 12345\n")
        assert project.says() == [
            (
                ".onetool/secrets.yaml: PIN: is shorter than 6 characters, so it is not masked. Use a"
                " longer secret."
            )
        ]

    def test_numbers_are_the_text_as_written(self, project: Project) -> None:
        project.write(
            "secrets.yaml", "A: 00123456\nB: 1e10000\nC: 0x1234567 # note\nD: 2024-01-01\n"
        )
        get = project.load().secrets.get
        assert [get(n) for n in "ABCD"] == ["00123456", "1e10000", "0x1234567", "2024-01-01"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("A: abcdef\nB: [s3cret1]\n", ":2: B: is not text. Put the value in quotes."),
            ("A: abcdef\nB: {x: s3cret1}\n", ":2: B: is not text. Put the value in quotes."),
            ("A: abcdef\nB: true\n", ":2: B: is not text. Put the value in quotes."),
            ("A: abcdef\nB:\n", ":2: B: has no value."),
            ("A: abcdef\nA: s3cret1\n", ":2: A: cannot be used as it is written."),
            ("A: abcdef\nB: !s3cret1 x\n", ":2: B: cannot be used as it is written."),
            ("A: abcdef\nB: *s3cret1\n", ":2: B: cannot be used as it is written."),
        ],
        ids=["list", "mapping", "boolean", "nothing", "twice", "tag", "alias"],
    )
    def test_bad_value_costs_itself(self, project: Project, text: str, said: str) -> None:
        project.write("secrets.yaml", text)
        config = project.load()
        (problem,) = map(str, config.problems)
        assert problem.startswith(f".onetool/secrets.yaml{said}")
        assert "s3cret1" not in problem
        assert config.secrets.get("A") == "abcdef"

    @pytest.mark.parametrize(
        "text",
        [
            "s3cret1value",
            "- s3cret1value",
            "A: *s3cret1value\n",
            "A: @s3cret1value\n",
            'A: "s3cret1value',
            "A: `s3cret1`\n",
            "A: s3cret1value: x\n",
            "A: %s3cret1value\n",
            "A=s3cret1value\n",
            "A: \x07s3cret1value\n",
            "\tA: s3cret1value\n",
        ],
        ids=repr,
    )
    def test_broken_file_is_a_problem_that_shows_nothing_of_it(
        self, project: Project, text: str
    ) -> None:
        project.write("secrets.yaml", text)
        config = project.load()
        (problem,) = map(str, config.problems)
        assert problem.startswith((".onetool/secrets.yaml:1: ", ".onetool/secrets.yaml:2: "))
        assert "s3cret1" not in problem
        assert "\n" not in problem
        assert problem.count("'") % 2 == 0, "no quote is cut in two"
        assert not config.errors

    def test_value_in_the_wrong_file_is_masked_in_its_problem(self, project: Project) -> None:
        project.write("secrets.yaml", "TOKEN: abcdef123\n")
        (problem,) = project.says("http: {timeout_s: abcdef123}\n")
        assert "abcdef123" not in problem
