"""What scripts lean on: forms, names, tables without heads, the version, completion."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from importlib.metadata import version

import pytest
import yaml

from tessera_cli.completion import script
from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera

TWO = text(node(), pod("a"), pod("b", {"cpu": 1}, namespace="team"))


def test_yaml_says_what_json_does(tessera: Tessera) -> None:
    for more in ((), ("--cards",), ("--why",)):
        whole = tessera("place", "-f", "-", *more, "-o", "json", stdin=TWO)
        same = tessera("place", "-f", "-", *more, "-o", "yaml", stdin=TWO)
        assert same.out.startswith("pods:\n- namespace: default\n  name: a\n  verdict: placed\n")
        wanted = [{**p, "annotations": 0, "inject": 0} for p in json.loads(whole.out)["pods"]]
        found = [{**p, "annotations": 0, "inject": 0} for p in yaml.safe_load(same.out)["pods"]]
        assert found == wanted


def test_names_are_one_to_a_line(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", "-o", "name", stdin=TWO)
    assert (ran.status, ran.out) == (0, "default/a\nteam/b\n")


def test_a_table_without_heads(tessera: Tessera) -> None:
    with_heads = tessera("place", "-f", "-", stdin=TWO).out.splitlines()
    without = tessera("place", "-f", "-", "--no-headers", stdin=TWO).out.splitlines()
    assert with_heads[1].split() == ["Pod", "Verdict", "Dialect", "Node", "Cards"]
    assert without[0].startswith("default/a")
    assert [line.split() for line in without[:2]] == [line.split() for line in with_heads[3:5]]
    full = bound("full", "GPU-n1-0,NVIDIA,16000,50:;")
    cards = tessera("place", "-f", "-", "--no-headers", stdin=text(node(), full)).out
    assert cards.splitlines()[0].startswith("n1")


def test_no_line_ends_in_blanks(tessera: Tessera) -> None:
    for more in ((), ("--why",), ("--cards",)):
        huge = pod("huge", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000})
        out = tessera("place", "-f", "-", *more, stdin=text(node(), huge, pod("none", {}))).out
        assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_it_knows_its_version(tessera: Tessera) -> None:
    ran = tessera("--version")
    assert (ran.status, ran.out) == (0, f"tessera {version('tessera-cli')}\n")


def test_a_verb_that_is_missing_is_named(tessera: Tessera) -> None:
    ran = tessera("plan")
    assert ran.status == 1
    assert "usage: tessera plan [-h] {list,show,approve,decline} ..." in ran.err


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("tessera pl", "place plan"),
        ("tessera plan ", "list show approve decline -h --help"),
        ("tessera plan l", "list"),
        ("tessera place --c", "--cards --config"),
        ("tessera place --why -o ", "table json yaml name"),
        ("tessera plan list -o y", "yaml"),
        ("tessera completion f", "fish"),
        ("tessera place --output t", "table"),
    ],
)
def test_bash_completes_it(tessera: Tessera, line: str, found: str) -> None:
    words = line.split(" ")
    asked = f"COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}'); COMP_CWORD={len(words) - 1}"
    read = tessera("completion", "bash").out
    done = subprocess.run(
        ["bash", "-c", f'{read}\n{asked}\n_tessera\necho "${{COMPREPLY[*]}}"'],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (found, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(tessera: Tessera, shell: str) -> None:
    ran = tessera("completion", shell)
    assert ran.status == 0
    for word in ("place", "decline", "why", "no-headers"):
        assert word in ran.out
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=ran.out, text=True, timeout=60, check=True)


def test_quotes_in_a_help_do_not_end_it() -> None:
    parser = argparse.ArgumentParser(prog="it")
    parser.add_argument("--x", help="the pod's")
    assert "-d 'the pods'" in script(parser, "fish")
