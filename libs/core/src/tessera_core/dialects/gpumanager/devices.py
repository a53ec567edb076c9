"""Device nodes, and what the node agent gives a container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import (
    Card,
    Container,
    Injection,
    InvalidField,
    Mount,
    Placed,
    Pod,
    card_list,
)
from tessera_core.dialects.gpumanager.amounts import GpuManagerContainerRequest, given
from tessera_core.dialects.gpumanager.core_ceiling import ceiling
from tessera_core.dialects.gpumanager.names import BLOCK, PrefixNames
from tessera_core.dialects.gpumanager.options import GpuManagerOptions

DRIVER_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
DRIVER: Final = "/usr/local/nvidia"
VCUDA: Final = "/etc/vcuda"


def path_of(card: Card) -> str:
    """The card's device node."""
    return f"/dev/nvidia{card.device_minor}"


def inject(
    placed: Placed,
    container: Container,
    options: GpuManagerOptions,
    all_names: Sequence[PrefixNames],
) -> Injection:
    """What gpu-manager's Allocate answers for the container.

    The ceiling is added to its annotations, for lack of the file in which gpu-manager writes it.
    """
    shares = placed.of(container.name)
    ask = next(
        (a for a in given(placed.pod, all_names) if a.container.name == container.name), None
    )
    if not shares or ask is None:
        return Injection()
    paths = tuple(path_of(placed.cards[s.card]) for s in shares if s.card in placed.cards)
    driver = f"{options.driver_directory}/{'origin' if ask.whole else 'nvidia'}"
    return Injection(
        env={
            "LD_LIBRARY_PATH": f"{DRIVER}/{'lib' if _is_32_bit(container) else 'lib64'}",
            _VISIBLE: card_list(shares),
        },
        mounts=(
            Mount(destination=DRIVER, source=driver),
            Mount(destination=VCUDA, source=f"{options.pod_directory}/{placed.pod.metadata.uid}"),
        ),
        devices=(*paths, *DRIVER_NODES),
        annotations=_annotations(placed.pod, ask, paths),
    )


def _is_32_bit(container: Container) -> bool:
    return any(e.name == "compat32" and e.value.lower() == "true" for e in container.env)


def _annotations(pod: Pod, ask: GpuManagerContainerRequest, paths: Sequence[str]) -> dict[str, str]:
    """Core units, bytes of memory as asked, device nodes; the ceiling of a part of a card."""
    names = ask.names
    notes = {
        names.core: str(ask.core),
        names.memory: str((ask.blocks or 0) * BLOCK),
        names.device: ",".join(paths),
    }
    highest = None if ask.whole else _ceiling(pod, names)
    return notes if highest is None else {**notes, names.core_limit: str(highest)}


def _ceiling(pod: Pod, names: PrefixNames) -> int | None:
    """None also for a malformed one: such a pod was not admitted here, and gets no more than it
    asked for."""
    try:
        return ceiling(pod, names)
    except InvalidField:
        return None
