"""The one rule of Volcano's pod groups that concerns cards; warnings about groups as such are made
for every dialect in `tessera_core.admission.pod_groups`."""

from __future__ import annotations

from tessera_core.dialect_kit import Pod
from tessera_core.dialects.volcano.names import VGPU_PODGROUP_POLICY


def warnings(pod: Pod) -> tuple[str, ...]:
    """The card policy of a group is not honoured: reported, never ignored."""
    policy = pod.metadata.annotations.get(VGPU_PODGROUP_POLICY)
    if policy is None:
        return ()
    return (
        f"metadata.annotations[{VGPU_PODGROUP_POLICY}]: {policy}: not honoured: pods of one "
        "PodGroup may share a card; ask for vgpu-cores: 100 to have a card alone",
    )
