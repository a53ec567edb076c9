"""What every container with a share of a vendor's cards gets next to its cards, whichever they
are: put together from the vendor's facts, the settings, and what is on the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from tessera_agent.delivery.node_files import NodeFiles
from tessera_agent.delivery.settings import DeliverySettings, DeviceListStrategy
from tessera_agent.delivery.vendor_devices import (
    EVERY,
    ChannelDevices,
    FeatureDevices,
    VendorDevices,
)
from tessera_schema.injections import Mount

NAMED_MOUNT: Final = "/dev/null"
"""What is mounted where only a mount's name matters."""
BY_NAME: Final = (DeviceListStrategy.CDI, DeviceListStrategy.CDI_ANNOTATIONS)
_ENABLED: Final = "enabled"


class SharedDevices(Struct, frozen=True, kw_only=True):
    """The part of a container's devices that does not depend on its cards."""

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[str, ...] = ()
    """Paths of device nodes."""
    cdi: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence for whatever was asked for and is not there."""
    missing: str = ""
    """Why no container can be given all that it must have; empty = it can."""


def passes_nodes(settings: DeliverySettings, strategy: DeviceListStrategy) -> bool:
    """Whether the agent gives containers their device nodes."""
    return settings.nodes or strategy is DeviceListStrategy.NODES


def wanted_files(
    facts: VendorDevices, settings: DeliverySettings, strategy: DeviceListStrategy
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns of the device nodes, and paths of the other files, that `shared_devices` asks about.
    Nothing where it asks about none."""
    nodes: list[str] = []
    others = [_license_file(settings, name) for name in facts.license_mounts.values()]
    if passes_nodes(settings, strategy):
        nodes += [facts.card_nodes, *facts.nodes]
    if passes_nodes(settings, strategy) or strategy in BY_NAME:
        for feature in (facts.features[f] for f in settings.features):
            nodes += feature.nodes
            others += feature.mounts
    if facts.channels is not None:
        nodes += [_channel_node(facts.channels, number) for number in settings.imex_channels]
    return tuple(nodes), tuple(path for path in others if path)


def shared_devices(
    facts: VendorDevices, settings: DeliverySettings, strategy: DeviceListStrategy,
    files: NodeFiles,
) -> SharedDevices:  # fmt: skip
    """The shared part. `facts` have all the features that the settings name."""
    nodes = files.matching(facts.nodes) if passes_nodes(settings, strategy) else ()
    parts = [
        SharedDevices(nodes=nodes),
        *(_feature(facts.features[f], settings, strategy, files) for f in settings.features),
        SharedDevices(mounts=tuple(_license(facts, settings, files))),
    ]
    if facts.channels is not None and settings.imex_channels:
        parts.append(_channels(facts.channels, settings, strategy, files))
    return _joined(parts)


def _feature(
    feature: FeatureDevices, settings: DeliverySettings, strategy: DeviceListStrategy,
    files: NodeFiles,
) -> SharedDevices:  # fmt: skip
    by_name, passed = strategy in BY_NAME, passes_nodes(settings, strategy)
    env = {} if by_name else {feature.variable: _ENABLED}
    if not (by_name or passed):
        return SharedDevices(env=env)  # the vendor's runtime looks for them
    nodes = files.matching(feature.nodes)
    if not nodes:
        problem = (
            f"{feature.name} is switched on and {' or '.join(feature.nodes)} is not there: load "
            "its module, show the agent the node's /dev (TESSERA_READER_ROOT), or take it out of "
            "TESSERA_DELIVERY_FEATURES; containers start without it"
        )
        return SharedDevices(problems=(problem,))
    if by_name:
        return SharedDevices(cdi=(f"{feature.kind}={EVERY}",))
    mounts = (Mount(destination=p, source=p) for p in feature.mounts if p in files.others)
    return SharedDevices(env=env, nodes=nodes, mounts=tuple(mounts))


def _channels(
    channels: ChannelDevices, settings: DeliverySettings, strategy: DeviceListStrategy,
    files: NodeFiles,
) -> SharedDevices:  # fmt: skip
    there = [n for n in settings.imex_channels if _channel_node(channels, n) in files.nodes]
    absent = [_channel_node(channels, n) for n in settings.imex_channels if n not in there]
    problems: tuple[str, ...] = ()
    missing = ""
    if absent:
        why = (
            f"IMEX channel {', '.join(absent)} is not there: have the driver create it, show the "
            "agent the node's /dev (TESSERA_READER_ROOT), or take it out of "
            "TESSERA_DELIVERY_IMEX_CHANNELS"
        )
        missing = why if settings.imex_required else ""
        problems = (f"{why}; containers {'wait' if missing else 'start without it'}",)
    found = SharedDevices(problems=problems, missing=missing)
    if not there:
        return found
    numbers = [str(number) for number in there]
    if strategy in BY_NAME:
        return _joined([found, SharedDevices(cdi=tuple(f"{channels.kind}={n}" for n in numbers))])
    given = SharedDevices(env={channels.variable: ",".join(numbers)})
    if strategy is DeviceListStrategy.VOLUME_MOUNTS:
        given = SharedDevices(mounts=tuple(named_mount(channels.mount, n) for n in numbers))
    nodes: tuple[str, ...] = ()
    if passes_nodes(settings, strategy):
        nodes = tuple(_channel_node(channels, n) for n in there)
    return _joined([found, given, SharedDevices(nodes=nodes)])


def named_mount(folder: str, name: str) -> Mount:
    """A mount that matters by its name."""
    return Mount(destination=f"{folder}/{name}", source=NAMED_MOUNT)


def _license(facts: VendorDevices, settings: DeliverySettings, files: NodeFiles) -> Iterator[Mount]:
    for destination, name in facts.license_mounts.items():
        source = _license_file(settings, name)
        if source in files.others:
            yield Mount(destination=destination, source=source)


def _license_file(settings: DeliverySettings, name: str) -> str:
    folder = settings.license_folder
    return str(PurePosixPath(folder) / name) if folder else ""


def _channel_node(channels: ChannelDevices, number: int) -> str:
    return f"{channels.node}{number}"


def _joined(parts: Sequence[SharedDevices]) -> SharedDevices:
    return SharedDevices(
        env={name: value for part in parts for name, value in part.env.items()},
        mounts=tuple(mount for part in parts for mount in part.mounts),
        nodes=tuple(dict.fromkeys(node for part in parts for node in part.nodes)),
        cdi=tuple(name for part in parts for name in part.cdi),
        problems=tuple(problem for part in parts for problem in part.problems),
        missing=next((part.missing for part in parts if part.missing), ""),
    )
