"""NVIDIA's cards: given by the NVIDIA runtime, which reads one variable; limited by the hook.

The runtime adds device nodes and driver files for the cards that `NVIDIA_VISIBLE_DEVICES` names,
so none are given here. Cards are discovered by what their driver's management library says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tessera_core.dialect_kit import (
    HOOK_LIBRARY,
    HOOK_LIBRARY_HOST,
    PRELOAD,
    PRELOAD_HOST,
    Card,
    CardReading,
    CompetingPlugin,
    CompetingSystem,
    Injection,
    Link,
    MinimumVersion,
    MonitoringSpec,
    Mount,
    Readings,
    Share,
    Vendor,
    card_list,
)

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
NONE_VISIBLE: Final = "void"
"""The runtime then leaves the container alone: no card, no driver."""

_HOOK: Final = (
    Mount(destination=HOOK_LIBRARY, source=HOOK_LIBRARY_HOST),
    Mount(destination=PRELOAD, source=PRELOAD_HOST),
)

_PCIE: Final = {
    "CrossCPU": 10,
    "SameCPU": 20,
    "HostBridge": 30,
    "MultiSwitch": 40,
    "SingleSwitch": 50,
    "SameBoard": 60,
}
_NVLINK: Final = "NVLink"
_NVLINK_EACH: Final = 100


def pair_closeness(there: Sequence[str], back: Sequence[str]) -> int | None:
    """How close two cards are by their links as each of them sees them: `SameCPU`, `NVLink4`.

    The PCIe class plus 100 for each NVLink, on HAMi's scale. None where the two disagree on the
    number of links: a sign of a broken one, to be reported and counted as 0. Raises ValueError for
    an unknown kind of link.
    """
    if len(there) != len(back):
        return None
    return min(sum(map(_worth, there)), sum(map(_worth, back)))


def _worth(link: str) -> int:
    if link in _PCIE:
        return _PCIE[link]
    number = link.removeprefix(_NVLINK)
    if number == link or not number.isdecimal():
        raise ValueError(f"unknown kind of link {link!r}")
    return _NVLINK_EACH * int(number)


def _give(shares: Sequence[Share], _cards: Mapping[str, Card]) -> Injection:
    if not shares:
        return Injection(env={VISIBLE: NONE_VISIBLE})
    return Injection(env={VISIBLE: card_list(shares)}, mounts=_HOOK)


_GUARDED: Final = {
    VISIBLE: frozenset({NONE_VISIBLE, "none", ""}),
    "NVIDIA_MIG_CONFIG_DEVICES": frozenset({"", "void"}),
    "NVIDIA_MIG_MONITOR_DEVICES": frozenset({"", "void"}),
    "CUDA_DEVICE_MEMORY_LIMIT*": frozenset[str](),
    "CUDA_DEVICE_SM_LIMIT*": frozenset[str](),
    "CUDA_DEVICE_MEMORY_SHARED_CACHE": frozenset[str](),
    "CUDA_OVERSUBSCRIBE": frozenset({"", "false", "0"}),
    "CUDA_DISABLE_CONTROL": frozenset({"", "false", "False", "FALSE", "f", "F", "0"}),
}
"""`none` shows the driver's files and no card. The limits are for the hook where there is no limits
file: an own one would be a promise that nobody made."""

_DEVICE_MOUNTS: Final = ("/var/run/nvidia-container-devices",)
"""Source: nvidia-container-toolkit, `accept-nvidia-visible-devices-as-volume-mounts`."""

_FOREIGN: Final = {
    "nvidia.com/mig-*": "NVIDIA's device plugin (MIG, strategy mixed)",
    "nvidia.com/gpu.shared": "NVIDIA's device plugin (time slicing with renamed resources)",
    "aliyun.com/gpu-*": "Alibaba's gpushare",
    "elasticgpu.io/*": "Elastic GPU",
    "tke.cloud.tencent.com/qgpu-*": "Tencent's qGPU",
}

_LABELS: Final = {
    "nvidia-device-enable": "enable",
    "node-type": "gpu",
    "gpu": "on",
    "nvidia.com/gpu.present": "true",
}
"""GPU Manager's, Koordinator's, HAMi's and the GPU operator's."""

_AGENT_ENV: Final = {VISIBLE: "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}

VENDOR: Final = Vendor(
    name="nvidia", hooked=True, give=_give, deny={VISIBLE: NONE_VISIBLE}, guarded_env=_GUARDED,
    device_mounts=_DEVICE_MOUNTS,
    foreign=_FOREIGN, labels=_LABELS, agent_env=_AGENT_ENV, driver="/usr/local/nvidia",
)  # fmt: skip


_WORD: Final = "NVIDIA"


def model_of(name: str) -> str:
    """A card's model as HAMi spells it, which `use-gputype` lists and dashboards know."""
    return name if name.startswith(_WORD) or not name else f"{_WORD}-{name}"


def _cards(readings: Readings, slots: int) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    seen = {card.id: card for card in readings.cards}
    problems: list[str] = []
    cards = [
        Card(
            id=card.id, index=card.index, vendor="nvidia", model=model_of(card.model),
            memory_bytes=card.memory_bytes, slots=slots, minor=card.minor, numa=card.numa,
            switch=_switch(card, seen), links=_links(card, seen, problems), mode=card.mode,
        )
        for card in readings.cards
    ]  # fmt: skip
    return tuple(cards), tuple(dict.fromkeys(problems))


def _switch(card: CardReading, seen: Mapping[str, CardReading]) -> str:
    """Cards below one switch are named after the first of them; transitive, as switches are."""
    near = {Link.SAME_BOARD, Link.SINGLE_SWITCH}
    group, todo = {card.id}, [card]
    while todo:
        for other, link in todo.pop().paths.items():
            if link in near and other in seen and other not in group:
                group.add(other)
                todo.append(seen[other])
    return min(seen[member].bus or member for member in group)


def _links(
    card: CardReading, seen: Mapping[str, CardReading], problems: list[str]
) -> dict[str, int]:
    links = {}
    for other in seen.values():
        if other.id == card.id or other.id not in card.paths:
            continue
        closeness = pair_closeness(_words(card, other.id), _words(other, card.id))
        if closeness is None:
            first, second = sorted((card.index, other.index))
            problems.append(
                f"cards {first} and {second} do not agree on the NVLinks between them, which "
                "count as none: look for a broken one"
            )
        links[other.id] = closeness or 0
    return links


def _words(card: CardReading, other: str) -> tuple[str, ...]:
    path = card.paths.get(other, Link.CROSS_CPU)
    lanes = card.lanes.get(other, 0)
    return (path.value, f"{_NVLINK}{lanes}") if lanes else (path.value,)


_KEEP_OFF: Final = (
    "kubectl -n {namespace} patch daemonset {name} --type merge -p "
    '\'{{"spec":{{"template":{{"spec":{{"affinity":{{"nodeAffinity":{{'
    '"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"matchExpressions":['
    '{{"key":"tessera.dev/cards","operator":"DoesNotExist"}}]}}]}}}}}}}}}}}}}}\' && '
    "kubectl label nodes {node} tessera.dev/cards=nvidia --overwrite"
)


def _plugin(name: str, *images: str) -> CompetingSystem:
    """A plugin whose DaemonSet runs on all nodes: it keeps off those that Tessera has."""
    return CompetingSystem(
        name=name, images=images, remedy="kubectl -n {namespace} delete daemonset {name}",
        leaves=_KEEP_OFF, returns="kubectl label nodes {node} tessera.dev/cards-",
    )  # fmt: skip


_COMPETING_SYSTEMS: Final = (
    CompetingSystem(
        name="NVIDIA's device plugin, which the GPU operator runs",
        images=("k8s-device-plugin",),
        owner="ClusterPolicy",
        remedy="kubectl label nodes {nodes} nvidia.com/gpu.deploy.device-plugin=false --overwrite",
        leaves="kubectl label nodes {node} nvidia.com/gpu.deploy.device-plugin=false --overwrite",
        returns="kubectl label nodes {node} nvidia.com/gpu.deploy.device-plugin=true --overwrite",
    ),
    _plugin("NVIDIA's device plugin", "k8s-device-plugin"),
    CompetingSystem(
        name="HAMi",
        images=("projecthami/hami", "4pdosc/k8s-vdevice"),
        webhooks=("vgpu.hami.io",),
        remedy="kubectl label nodes {nodes} tessera.dev/cards=nvidia gpu- --overwrite",
        leaves="kubectl label nodes {node} tessera.dev/cards=nvidia gpu- --overwrite",
        returns="kubectl label nodes {node} gpu=on tessera.dev/cards- --overwrite",
    ),
    _plugin("Volcano's device plugin", "volcano-vgpu-device-plugin", "volcano-device-plugin"),
    _plugin("GPU Manager", "gpu-manager"),
    _plugin("Alibaba's gpushare plugin", "k8s-gpushare-plugin"),
    _plugin("NVIDIA's DRA driver", "k8s-dra-driver"),
)
"""By the images of their manifests and charts. A label of its own keeps the agent on a node that
HAMi leaves, since both understand `gpu=on`."""

MONITORING: Final = MonitoringSpec(
    vendor="nvidia",
    cards=_cards,
    application_faults=frozenset({13, 31, 43, 45, 68, 109}),
    reset_faults=frozenset({48, 64, 74, 79, 95, 119, 120, 140, 143}),
    minimums=(
        MinimumVersion(of="driver", name="the NVIDIA driver", version="440"),
        MinimumVersion(of="toolkit", name="the NVIDIA container toolkit", version="1.0.0"),
    ),
    competing_plugins=(
        CompetingPlugin(
            name="a device plugin for nvidia.com/gpu", socket="device-plugins/nvidia-gpu*.sock"
        ),
        CompetingPlugin(name="Volcano's device plugin", socket="device-plugins/volcano.sock"),
        CompetingPlugin(name="GPU Manager", socket="device-plugins/vcore.sock"),
        CompetingPlugin(
            name="Alibaba's gpushare plugin", socket="device-plugins/aliyungpushare.sock"
        ),
        CompetingPlugin(name="NVIDIA's DRA driver", socket="plugins/gpu.nvidia.com/*.sock"),
    ),
    competing_systems=_COMPETING_SYSTEMS,
    hardware_signs=(
        "feature.node.kubernetes.io/pci-10de.present",
        "feature.node.kubernetes.io/pci-0302_10de.present",
        "feature.node.kubernetes.io/pci-0300_10de.present",
        "nvidia.com/gpu.count",
        "nvidia.com/gpu",
        "hami.io/node-nvidia-register",
    ),
    handler_setup="nvidia-ctk runtime configure --runtime=containerd",
)
"""XIDs: those that device plugins ignore because a program causes them; and those (memory, bus,
NVLink, firmware) that only a reset ends. The driver's version is what HAMi asks for; the toolkit's
is the first of that name. Device plugins are known by the sockets on which kubelet calls them."""
