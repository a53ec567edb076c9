"""What a container's process is started with. Pure, but for looking at what lies on the node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tessera_core.hook.paths import PRELOAD
from tessera_embedded.node.pods import ContainerSpec, NodePod
from tessera_embedded.node.settings import NodeDescription
from tessera_schema.injections import Mount

PRELOADED: Final = "LD_PRELOAD"
HOOK_FILES: Final = {
    "/usr/local/tessera/limits": "TESSERA_LIMITS",
    "/usr/local/tessera/usage": "TESSERA_USAGE",
}
"""Where the hook looks for its files in a container -> the variable that names another place."""
Env = dict[str, str]
_SEPARATORS: Final = re.compile(r"[\s:]+")


class NoProgram(Exception):
    """No program is known for an image."""


def program(description: NodeDescription, image: str) -> tuple[str, ...]:
    """What runs in the place of an image. Raises NoProgram."""
    for pattern, argv in description.programs.items():
        exact = pattern.removesuffix("*")
        if image == pattern or (exact != pattern and image.startswith(exact)):
            return argv
    raise NoProgram(f"image {image!r}: name a program for it in the node's description")


def wanted(description: NodeDescription, pod: NodePod, container: ContainerSpec) -> dict[str, str]:
    """The variables that the image and the pod ask for; the pod's replace the image's."""
    env = dict(description.environment)
    for variable in container.env:
        source = variable.value_from
        ref = source.field_ref if source is not None else None
        env[variable.name] = pod.field(ref.field_path) if ref is not None else variable.value
    return env


def translated(
    env: Mapping[str, str], mounts: Sequence[Mount], lookup: Callable[[str], str]
) -> dict[str, str]:
    """The variables by which mounts have their effect without being made.

    `lookup` says where a path of the node lies.
    """
    made = dict(env)
    sources = {m.destination: lookup(m.source) for m in mounts}
    for destination, name in HOOK_FILES.items():
        if destination in sources:
            made[name] = sources[destination]
    preloaded = _names(env.get(PRELOADED, ""))
    if PRELOAD in sources:
        preloaded = [*_names(_text(sources[PRELOAD])), *preloaded]
    found = dict.fromkeys(sources.get(name, name) for name in preloaded)
    if found:
        made[PRELOADED] = ":".join(found)
    return made


def on_node(host_root: str) -> Callable[[str], str]:
    """Where a path of the node lies, for `translated`."""

    def lookup(path: str) -> str:
        rooted = Path(host_root) / path.lstrip("/")
        return str(rooted) if host_root and rooted.exists() else path

    return lookup


def _names(text: str) -> list[str]:
    return [name for name in _SEPARATORS.split(text) if name]


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def with_driver(env: Mapping[str, str], folder: str, machine: Path, cards: Iterable[str]) -> Env:
    """As a vendor's toolkit mounts its driver's libraries and device nodes: here the simulated
    machine, and of its cards only these."""
    libraries = ":".join(part for part in (folder, env.get("LD_LIBRARY_PATH", "")) if part)
    return {
        **env, "LD_LIBRARY_PATH": libraries, "TESSERA_SIM_STATE": str(machine),
        "TESSERA_SIM_DEVICES": ",".join(cards),
    }  # fmt: skip


def with_limiter(
    env: Mapping[str, str], library: str, place: Path, memory_mib: int, cores_percent: int
) -> Env:
    """As a vendor's own program limits a container. Its limiter is played by the hook library,
    which follows HAMi-core's variables where Tessera's agent has not written a limits file."""
    if not library or not (memory_mib or cores_percent):
        return dict(env)
    return {
        **env, PRELOADED: library, "TESSERA_USAGE": str(place / "vendors-usage"),
        "CUDA_DEVICE_MEMORY_LIMIT": f"{memory_mib}m", "CUDA_DEVICE_SM_LIMIT": str(cores_percent),
    }  # fmt: skip
