"""`tessera` with the packages that it declares and none of its extras: what it does, and what it
says where an extra is missing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.cli.alone import COMMAND_ALONE, needed, packages_alone
from tests.cli.card_cluster import a100, card_node, holding_pod, part
from tests.cli.conftest import Ran
from tests.cli.real_cluster import command_cluster

LARGE: Final = frozenset({"numpy", "nats-py", "opentelemetry-sdk", "uvloop", "grpcio", "protobuf"})

Alone = Callable[..., Ran]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """Runs the command in a new process, without extras."""
    site = packages_alone(tmp_path_factory.mktemp("site"))

    def call(*arguments: str) -> Ran:
        done = subprocess.run(
            [*COMMAND_ALONE, *arguments], capture_output=True, text=True, timeout=60,
            env={"PYTHONPATH": str(site), "PATH": os.defpath},
        )  # fmt: skip
        return Ran(status=done.returncode, out=done.stdout, err=done.stderr)

    return call


def test_it_is_small() -> None:
    packages = needed("tessera-cli")
    assert packages & LARGE == set()
    assert {"msgspec", "aiohttp", "rich"} <= packages
    assert "numpy" in needed("tessera-cli", frozenset({"place"}))
    assert "nats-py" in needed("tessera-cli", frozenset({"bus"}))


def test_help_is_there(alone: Alone) -> None:
    assert "explain" in alone("--help").out
    assert alone("--version").status == 0


async def test_clusters_are_read(alone: Alone, tmp_path: Path) -> None:
    node = card_node("gpu-1", [a100("gpu-1", i) for i in range(2)])
    async with command_cluster(tmp_path, alone) as cluster:
        await cluster.put(node, holding_pod("ml", "train", part("gpu-1", 0, 24, 30)))
        nodes = await cluster.run("nodes")
        assert (nodes.status, nodes.err) == (0, "")
        assert nodes.out.splitlines()[1].split()[:3] == ["gpu-1", "Ready", "2/2"]
        assert "gpu-1" in (await cluster.run("cards")).out
        assert "gpu-1" in (await cluster.run("pods", "-A")).out
        assert "24.0/80.0" in (await cluster.run("top", "--once")).out
        explained = await cluster.run("explain", "-A")
        assert "the cluster has no API" in explained.err, "asked, and answered"
        assert (await cluster.run("check", "-o", "json")).out.startswith("{")
        for command in (["queue"], ["plan", "list"], ["quota"]):
            ran = await cluster.run(*command)
            assert "this needs the package" not in ran.err
            assert "internal error" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (("place", "-f", "none"), "numpy", "place"),
        (("events",), "nats", "bus"),
        (("top", "--nats", "nats://127.0.0.1:1"), "nats", "bus"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    alone: Alone, arguments: tuple[str, ...], package: str, extra: str
) -> None:
    ran = alone(*arguments)
    assert ran.status == 2, ran.err
    assert f"this needs the package {package}" in ran.err
    assert f"install tessera-cli[{extra}]" in ran.err


def test_the_daemon_of_one_machine_is_an_extra(alone: Alone, tmp_path: Path) -> None:
    ran = alone("run", "--folder", str(tmp_path), "--", "true")
    assert ran.status == 125
    assert "install tessera-cli[run]" in ran.err
