"""What a command imports: its arguments and its help need no large package, nor do commands that
only print an answer of the API server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

HEAVY: Final = frozenset({
    "numpy", "cryptography", "nats", "grpc", "kubernetes_asyncio", "opentelemetry", "aiohttp",
    "prometheus_client", "rich", "yaml",
})  # fmt: skip
OF_A_CLUSTER: Final = frozenset({"kubernetes_asyncio", "aiohttp", "rich", "yaml"})
PROGRAM: Final = """\
import json, sys
from tessera_cli.__main__ import run
try:
    status = run(sys.argv[1:])
except SystemExit as e:
    status = e.code
print(json.dumps([status, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def loaded(*arguments: str) -> tuple[int, frozenset[str]]:
    """The exit status, and which large packages are loaded at the end."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=True,
    )  # fmt: skip
    status, names = json.loads(ran.stdout.splitlines()[-1])
    assert "tessera_cli" in names
    return status, HEAVY & frozenset(names)


@pytest.mark.parametrize(
    "arguments",
    ["--version", "--help", "completion bash", *(
        f"{command} --help"
        for command in (
            "place", "demo", "run", "ps", "share", "explain", "top", "nodes", "cards", "pods",
            "events", "quota", "queue", "plan", "check", "migrate", "report",
        )
    )],
)  # fmt: skip
def test_help_loads_no_large_package(arguments: str) -> None:
    assert loaded(*arguments.split()) == (0, frozenset())


@pytest.mark.parametrize("command", ["explain", "queue", "plan list", "check"])
def test_answers_of_the_api_server_need_no_arithmetic(command: str, tmp_path: Path) -> None:
    """The kubeconfig is not there: by then all is imported that reads a cluster."""
    status, packages = loaded(*command.split(), "--kubeconfig", str(tmp_path / "none"))
    assert status == 1
    assert "kubernetes_asyncio" in packages
    assert packages <= OF_A_CLUSTER


@pytest.mark.parametrize("command", ["nodes", "cards", "pods", "top", "quota"])
def test_cards_are_read_without_arithmetic_or_a_bus(command: str, tmp_path: Path) -> None:
    status, packages = loaded(command, "--kubeconfig", str(tmp_path / "none"))
    assert status == 1
    assert packages & {"numpy", "nats", "grpc", "opentelemetry"} == set()


def test_shares_of_one_machine_need_no_cluster(tmp_path: Path) -> None:
    assert loaded("ps", "--folder", str(tmp_path)) == (0, frozenset({"rich"}))
    assert loaded("run", "--folder", str(tmp_path / "none"), "--", "true") == (125, frozenset())
