"""A metric as HAMi prints it, and the text that Prometheus reads.

Names, labels and units are HAMi's: its scheduler, its monitor on each node, and its web interface,
which exports what it computes from both. A `ratio` is a percentage, but for the one of
`hami_node_gpu_memory_allocated_ratio`, which is a part of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

ZONE: Final = "vGPU"
"""A label of every sample of HAMi's scheduler and monitor."""


class Family(Struct, frozen=True):
    """One metric."""

    name: str
    labels: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], float]]
    zoned: bool = True
    """Whether it has the label `zone`."""


class BuildInfo(Struct, frozen=True, kw_only=True):
    """What `hami_build_info` says; a part that is not known is empty."""

    version: str
    revision: str = ""
    compiler: str = ""
    """What runs the program, and its version."""
    platform: str = ""


def build_info(build: BuildInfo) -> Family:
    """The version of the program that prints it. HAMi's `go_version` is empty, as the build date
    is: Prometheus takes an empty label for one that is not there."""
    labels = ("version", "revision", "build_date", "go_version", "compiler", "platform")
    values = (build.version, build.revision, "", "", build.compiler, build.platform)
    return Family("hami_build_info", labels, [(values, 1)], zoned=False)


def older(family: Family, name: str, labels: Mapping[str, str]) -> Family:
    """The same under an older name; `labels` are the older names of those that it had."""
    places = [i for i, label in enumerate(family.labels) if label in labels]
    return Family(
        name,
        tuple(labels[family.labels[i]] for i in places),
        [(tuple(values[i] for i in places), number) for values, number in family.samples],
    )


def text(families: Iterable[Family]) -> Iterator[str]:
    """As Prometheus reads it, line by line."""
    for family in families:
        yield f"# TYPE {family.name} gauge\n"
        names = (*family.labels, "zone") if family.zoned else family.labels
        for values, number in family.samples:
            pairs = zip(names, (*values, ZONE) if family.zoned else values, strict=True)
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
            yield f"{family.name}{{{labels}}} {number:.12g}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
