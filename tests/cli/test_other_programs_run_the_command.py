"""kubectl runs the command as a plugin, and k9s by keys."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tessera_cli.__main__ import KUBECTL_PLUGIN, command_parser
from tests.deploy.manifests import kubectl

PLUGIN = Path(sys.executable).with_name(KUBECTL_PLUGIN)
K9S: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "deploy/k9s/plugins.yaml").read_text(encoding="utf-8")
)["plugins"]


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={"PATH": f"{PLUGIN.parent}:/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_plugin_names_itself_as_it_was_called() -> None:
    help_text = ran(str(PLUGIN), "pods", "--help")
    assert help_text.returncode == 0
    assert help_text.stdout.startswith("usage: kubectl tessera pods ")
    wrong = ran(str(PLUGIN), "pods", "--nonsense")
    assert wrong.returncode == 2
    assert "kubectl tessera pods: error: unrecognized arguments: --nonsense" in wrong.stderr


def test_kubectl_finds_it() -> None:
    version = ran(kubectl(), "tessera", "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert re.fullmatch(r"tessera \d+\.\d+\.\d+\n", version.stdout)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["po"], ["pods", ":4"]),
        (["plan", "a"], ["approve", ":4"]),
        (["pods", "-A", "--no-h"], ["--no-headers", ":4"]),
        (["pods", "-o", "j"], ["json", ":4"]),
        (["place", "-f", ""], [":0"]),
        (["completion", ""], ["bash", "zsh", "fish", "-h", "--help", ":4"]),
    ],
)
def test_kubectl_completes_it(words: list[str], found: list[str]) -> None:
    program = PLUGIN.with_name("kubectl_complete-tessera")
    assert ran(str(program), *words).stdout.splitlines() == found


def test_the_script_of_a_shell_completes_the_command_itself() -> None:
    script = ran(str(PLUGIN), "completion", "bash").stdout
    assert script.endswith("complete -o filenames -F _tessera tessera\n")


@pytest.mark.parametrize("name", K9S)
def test_keys_of_k9s_call_what_there_is(name: str) -> None:
    key = K9S[name]
    words = [key["command"], *key["args"]]
    if key["command"] == "sh":
        assert words[1] == "-c"
        words = shlex.split(words[2].partition(" 2>&1 |")[0])
    assert words[0] == "tessera"
    command_parser().parse_args(words[1:])


def test_no_two_keys_are_one() -> None:
    keys = [key["shortCut"] for key in K9S.values()]
    assert len(keys) == len(set(keys))
