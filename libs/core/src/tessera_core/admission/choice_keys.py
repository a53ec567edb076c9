"""Annotations by which pods choose cards, and those that are nearly such a one.

A key that nobody reads constrains nothing, and its pod lands on any card: `use-gpuuid` for
the author of `use-gpuuuid` is warned when the pod is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tessera_core.admission.misspellings import nearest
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod

MOST_LOOKED_AT: Final = 32
"""Annotations of one pod that are compared: each costs some tens of microseconds."""


def misspelt_choices(registry: DialectRegistry, pod: Pod, spoken: Iterable[str]) -> Iterator[str]:
    """A warning for each annotation that is nearly a key of a dialect that the pod speaks."""
    choices = frozenset(key for name in spoken for key in registry.dialects[name].choices)
    known = frozenset(key for d in registry.readers.values() for key in d.choices)
    domains = {key.partition("/")[0] for key in choices}
    names = {key.partition("/")[2]: key for key in choices}
    unread = [key for key in pod.metadata.annotations if _may_be_meant(key, domains, names, known)]
    for key in unread[:MOST_LOOKED_AT]:
        same = names.get(key.partition("/")[2])
        meant = (same,) if same else nearest(key, choices)
        if meant:
            yield f"metadata.annotations[{key}]: nobody reads it; write {' or '.join(meant)}"


def _may_be_meant(
    key: str, domains: Iterable[str], names: Iterable[str], known: Iterable[str]
) -> bool:
    domain, _, name = key.partition("/")
    return key not in known and (domain in domains or name in names)
