"""Extended resources that look like accelerators and that no dialect owns: mistyped names, names
of other systems. A pod that asks by such a name alone gets no share here, and should be warned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tessera_core.admission.misspellings import nearest
from tessera_core.kube.containers import field_of, roles
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod, Quantity

MOST_NAMES: Final = 8
"""Different names that are looked at in one pod: pods ask by two or three, and each is compared
with all that are known, which takes a millisecond or two."""
_NOT_ACCELERATORS: Final = "kubernetes.io"
"""Names below this domain are Kubernetes' own, but for the few that a dialect owns."""
_OTHER_MAKES: Final = {
    "alibabacloud.com/ppu": "T-Head's device plugin",
    "amd.com/gpu*": "AMD's device plugin",
    "aws.amazon.com/neuron*": "AWS Neuron's device plugin",
    "birentech.com/*": "Biren's device plugin",
    "cambricon.com/*": "Cambricon's device plugin",
    "enflame.com/*": "Enflame's device plugin",
    "google.com/tpu": "Google's TPU device plugin",
    "gpu.intel.com/*": "Intel's device plugin",
    "habana.ai/gaudi": "Intel Gaudi's device plugin",
    "huawei.com/Ascend*": "Huawei's Ascend device plugin",
    "huawei.com/npu*": "Huawei's Ascend device plugin",
    "hygon.com/dcu*": "Hygon's device plugin",
    "koordinator.sh/fpga": "Koordinator's scheduler (FPGAs)",
    "koordinator.sh/rdma": "Koordinator's scheduler (network cards)",
    "kunlunxin.com/*": "Kunlunxin's device plugin",
    "metax-tech.com/*": "MetaX's device plugin",
    "vastaitech.com/va": "Vastai's device plugin",
}
"""Accelerators whose makes have no module in `tessera_core.vendors`."""


def foreign_resource(registry: DialectRegistry, name: str) -> str | None:
    """What is to be said of a resource name that a pod asks by; None for one that a dialect owns,
    on or off, and for one that is no accelerator's as far as can be known.

    Whose it is where that is known, and which known names are nearest: `no dialect owns
    example.com/gpus; did you mean example.com/gpu?`.
    """
    domain, slash, _ = name.partition("/")
    if not slash or name in registry.resources:
        return None
    known = {n for d in registry.dialects.values() for n in d.resources}
    near = nearest(name, known)
    meant = f"did you mean {' or '.join(near)}?" if near else ""
    owner = _owner(registry, name)
    if owner:
        message = f"{name} belongs to {owner}, which Tessera does not serve"
        return f"{message}; {meant}" if meant else message
    if meant:
        return f"no dialect owns {name}; {meant}"
    alike = sorted(n for n in known if n.startswith(f"{domain}/"))
    if not alike or domain.endswith(_NOT_ACCELERATORS):
        return None
    return f"no dialect owns {name}; known below {domain}/ are {', '.join(alike)}"


def foreign_resources(registry: DialectRegistry, pod: Pod) -> tuple[str, ...]:
    """The same for every name that the pod asks by, with the field where it does so first."""
    return tuple(
        f"{field}: {message}"
        for name, field in _requested(registry, pod)
        if (message := foreign_resource(registry, name))
    )


def _requested(registry: DialectRegistry, pod: Pod) -> Iterator[tuple[str, str]]:
    """Extended resources of which the pod asks for some and that no dialect owns, each with its
    first field; at most `MOST_NAMES`."""
    seen: set[str] = set()
    owned = registry.resources
    for position, container, _ in roles(pod):
        for where, amounts in (
            ("limits", container.resources.limits),
            ("requests", container.resources.requests),
        ):
            for name, quantity in amounts.items():
                if "/" not in name or name in owned or name in seen:
                    continue
                if len(seen) >= MOST_NAMES:
                    return
                if _is_some(quantity):
                    seen.add(name)
                    yield name, field_of(pod, position, where, name)


def _is_some(quantity: Quantity) -> bool:
    try:
        return quantity_value(quantity) != 0
    except BadQuantity:
        return True


def _owner(registry: DialectRegistry, name: str) -> str:
    tables: tuple[Mapping[str, str], ...] = (
        *(vendor.foreign for vendor in registry.vendors.values()), _OTHER_MAKES,
    )  # fmt: skip
    for table in tables:
        for pattern, owner in table.items():
            beginning = pattern.removesuffix("*")
            if name == pattern or (beginning != pattern and name.startswith(beginning)):
                return owner
    return ""
