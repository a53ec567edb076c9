"""Device plugins and DRA drivers that would hand out the same cards are found and left alone."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.devices.competing_plugins import competing_plugins_on
from tessera_core.vendors.nvidia import MONITORING
from tessera_schema.kube import Node
from tests.agent.node import SETTINGS, Agent, Script, a_card, a_cluster


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """A process that answers on this socket."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        served = stack.enter_context(socket.socket(socket.AF_UNIX))
        folder = os.open(path.parent, os.O_RDONLY)  # a socket's path must be short
        stack.callback(os.close, folder)
        served.bind(f"/proc/self/fd/{folder}/{path.name}")
        served.listen()
        yield


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("device-plugins/nvidia-gpu.sock", "a device plugin for nvidia.com/gpu"),
        ("device-plugins/volcano.sock", "Volcano's device plugin"),
        ("device-plugins/vcore.sock", "GPU Manager"),
        ("device-plugins/aliyungpushare.sock", "Alibaba's gpushare plugin"),
        ("plugins/gpu.nvidia.com/dra.sock", "NVIDIA's DRA driver"),
    ],
)
def test_who_answers_is_named(tmp_path: Path, path: str, name: str) -> None:
    with listening(tmp_path / path):
        assert competing_plugins_on(str(tmp_path), MONITORING.competing_plugins) == (name,)


def test_what_a_dead_one_left_behind_is_nobody(tmp_path: Path) -> None:
    with listening(tmp_path / "device-plugins/nvidia-gpu.sock"):
        pass
    assert competing_plugins_on(str(tmp_path), MONITORING.competing_plugins) == ()
    assert competing_plugins_on(str(tmp_path / "nowhere"), MONITORING.competing_plugins) == ()


@pytest.mark.parametrize("leave", [True, False])
async def test_cards_are_closed_to_new_pods_unless_set_otherwise(
    tmp_path: Path, *, leave: bool
) -> None:
    kube = await a_cluster()
    inventory = replace(
        SETTINGS.inventory, kubelet_folder=str(tmp_path), leave_to_others=leave
    )  # fmt: skip
    agent = Agent(kube, Script(a_card()), MONITORING, replace(SETTINGS, inventory=inventory))
    agent.settings.on_list([], 0, 0)
    agent.settings.resolve(Node(), 0)
    with listening(tmp_path / "device-plugins/nvidia-gpu.sock"):
        await agent.devices.poll()
    assert [c.cordoned for c in agent.states[-1].cards] == [leave]
    assert agent.states[-1].problems[0].startswith("a device plugin for nvidia.com/gpu runs")
