"""The gangs that users have in the walks, as YAML says it, and how a test reads them back."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from tessera_schema.kube import Pod

GATE: Final = "tessera.dev/admission"
GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
ONE_CARD: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16000"}
"""No two of these share a card."""
_KOORDINATOR: Final = "gang.scheduling.koordinator.sh"

Policy = Literal["present", "once", "arriving"]


class UsersGang(Struct, frozen=True, kw_only=True):
    """A gang as its users mean it."""

    name: str
    least: int
    """How many of its pods start together."""
    policy: Policy = "present"
    volcano: bool = False
    """Volcano's, with a PodGroup; else its pods alone say what it is, in Koordinator's words."""
    launcher: bool = False
    """Its first pod asks for no card."""
    bundle: tuple[str, ...] = ()
    """Names of the gangs that start together with it, itself among them."""

    @property
    def together(self) -> tuple[str, ...]:
        """The same; itself where it is alone."""
        return self.bundle or (self.name,)


GANGS: Final[dict[str, UsersGang]] = {
    gang.name: gang for gang in (
        UsersGang(name="a", least=2, volcano=True),
        UsersGang(name="b", least=3, volcano=True),
        UsersGang(name="c", least=4, volcano=True, launcher=True),
        UsersGang(name="d", least=5, volcano=True),
        UsersGang(name="k", least=3, policy="once"),
        UsersGang(name="o", least=2, policy="arriving"),
        UsersGang(name="p", least=2, bundle=("p", "q")),
        UsersGang(name="q", least=1, bundle=("p", "q")),
    )
}  # fmt: skip


def a_member(gang: UsersGang, number: int, *, gated: bool) -> dict[str, Any]:
    """One of its pods; with `gated` the webhook was there when it was made."""
    if gang.volcano:
        notes = {"scheduling.k8s.io/group-name": gang.name}
    else:
        match = {"once": "once-satisfied", "arriving": "only-waiting"}
        notes = {
            f"{_KOORDINATOR}/name": gang.name,
            f"{_KOORDINATOR}/min-available": str(gang.least),
            f"{_KOORDINATOR}/match-policy": match.get(gang.policy, "waiting-and-running"),
        }
        if gang.bundle:
            named = ",".join(f'"default/{each}"' for each in gang.bundle)
            notes[f"{_KOORDINATOR}/groups"] = f"[{named}]"
    limits = {} if gang.launcher and number == 0 else ONE_CARD
    return a_pod(f"{gang.name}-{number}", notes, limits, gated=gated)


def a_pod(
    name: str, notes: dict[str, str], limits: dict[str, str], *, gated: bool = False
) -> dict[str, Any]:
    """A pod of Tessera's profile."""
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    spec: dict[str, Any] = {"schedulerName": "tessera-scheduler", "containers": [container]}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {"metadata": {"name": name, "annotations": notes}, "spec": spec}


def a_pod_group(gang: UsersGang, least: int) -> dict[str, Any]:
    """The PodGroup of a gang of Volcano's."""
    return {
        "apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": gang.name},
        "spec": {"minMember": least},
    }  # fmt: skip


# -- as a test reads them


def gang_of(pod: Pod) -> str:
    """Name of the gang that a pod names; empty for none."""
    notes = pod.metadata.annotations
    return notes.get("scheduling.k8s.io/group-name") or notes.get(f"{_KOORDINATOR}/name", "")


def has_card(pod: Pod) -> bool:
    """Whether the pod asks for one."""
    return any(container.resources.limits for container in pod.spec.containers)


def is_gated(pod: Pod) -> bool:
    """Whether a gate of Tessera's is closed."""
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def is_leaving(pod: Pod) -> bool:
    """Whether it was deleted and still ends."""
    return pod.metadata.deletion_timestamp is not None
