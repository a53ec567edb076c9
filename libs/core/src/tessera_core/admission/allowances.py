"""What of a pod would defeat isolation, by kind, and how an administrator allows a kind in a
namespace: with the label `allow.tessera.dev/<kind>: "true"` on the Namespace object.

Labels of namespaces are the administrators' to write, which Pod Security admission relies on too.
A kind that is allowed is not looked for in that namespace any more, in no place that reads pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from msgspec import Struct

from tessera_core.admission.misspellings import nearest
from tessera_schema.annotation_keys import GROUP

ALLOW: Final = f"allow.{GROUP}/"
"""Beginning of the labels."""
_YES: Final = "true"
_MOST_SHOWN: Final = 3


class IsolationAllowance(Struct, frozen=True):
    """One way around a share's limits."""

    name: str
    what: str
    """What of a pod is refused, for the page of refusals (docs/isolation.md)."""
    why: str
    on_whole_cards: bool = False
    """Whether pods that hold their cards alone may have it without a label."""

    @property
    def label(self) -> str:
        """The label by which a namespace allows it."""
        return f"{ALLOW}{self.name}"


PRIVILEGED: Final = IsolationAllowance(
    "privileged", "`securityContext.privileged` of a container",
    "a privileged container sees every card of the node",
)  # fmt: skip
CAPABILITIES: Final = IsolationAllowance(
    "capabilities",
    "`securityContext.capabilities.add` with ALL, BPF, DAC_READ_SEARCH, SYS_ADMIN, SYS_MODULE or "
    "SYS_RAWIO",
    "each of them mounts, opens or reaches what the container was not given",
)
PROC_MOUNT: Final = IsolationAllowance(
    "proc-mount", "`securityContext.procMount` other than `Default`",
    "it uncovers settings of the kernel",
)  # fmt: skip
UNCONFINED: Final = IsolationAllowance(
    "unconfined",
    "`seccompProfile` or `appArmorProfile` of type `Unconfined`, of a container or the pod",
    "nothing keeps its processes from namespaces of their own, in which they can take the limits "
    "away",
)
SELINUX: Final = IsolationAllowance(
    "selinux", "`seLinuxOptions.type` `spc_t` or `unconfined_t`, of a container or the pod",
    "these types are confined by nothing: the node's files and devices are open to them",
)  # fmt: skip
HOST_PROCESS: Final = IsolationAllowance(
    "host-process", "`windowsOptions.hostProcess`, of a container or the pod",
    "its processes are the node's own and meet no limit",
)  # fmt: skip
HOST_PID: Final = IsolationAllowance(
    "host-pid", "`hostPID`",
    "it shows the processes of other pods, through which their cards can be reached",
)  # fmt: skip
SHARED_PROCESSES: Final = IsolationAllowance(
    "shared-processes",
    "`shareProcessNamespace` in a pod of several containers, and debugging containers with a "
    "target (`targetContainerName`), or in a pod that has it",
    "through another container's processes a container reaches its files, and could remove the "
    "mount points of the limits",
)
HOST_IPC: Final = IsolationAllowance(
    "host-ipc", "`hostIPC`", "it shares memory with other pods' processes, which use the same card",
    on_whole_cards=True,
)  # fmt: skip
HOST_PATHS: Final = IsolationAllowance(
    "host-paths",
    "`hostPath` volumes on, above or below the folders that are listed further down",
    "they reach devices, other containers or their limits",
)
LIMIT_MOUNTS: Final = IsolationAllowance(
    "limit-mounts",
    "volume mounts and devices on, above or below `/usr/local/tessera` and `/etc/ld.so.preload`: "
    "`/`, `/etc`, `/usr` and `/usr/local` among them",
    "the limits of the container's share are there, and another container that has the same volume "
    "could take them away",
)
RUNTIME_ANNOTATIONS: Final = IsolationAllowance(
    "runtime-annotations",
    "annotations that a container runtime or an NRI plugin reads devices, mounts or exceptions "
    "from",
    "they start containers without the agent that limits them, or give devices that nobody granted",
)
RESOURCE_CLAIMS: Final = IsolationAllowance(
    "resource-claims", "`resourceClaims` (dynamic resource allocation)",
    "they give devices outside the ledger: a card that a claim gives is counted nowhere here",
)  # fmt: skip

KINDS: Final = (
    PRIVILEGED, CAPABILITIES, PROC_MOUNT, UNCONFINED, SELINUX, HOST_PROCESS, HOST_PID,
    SHARED_PROCESSES, HOST_IPC, HOST_PATHS, LIMIT_MOUNTS, RUNTIME_ANNOTATIONS, RESOURCE_CLAIMS,
)  # fmt: skip
"""All kinds that can be allowed."""
_BY_LABEL: Final = {kind.label: kind for kind in KINDS}

Allowed = frozenset[str]
"""Names of kinds."""
NOTHING: Final[Allowed] = frozenset()
EVERYTHING: Final[Allowed] = frozenset(kind.name for kind in KINDS)
"""Where somebody else says whether the pod may run."""


def allowed_by(labels: Mapping[str, str]) -> Allowed:
    """The kinds that a namespace's labels allow."""
    meant = _BY_LABEL.keys() & labels.keys() if labels else NOTHING
    return frozenset(_BY_LABEL[label].name for label in meant if labels[label] == _YES)


def without_effect(labels: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be said of a namespace's labels that mean to allow something and do not."""
    odd = (
        _label_text(label, value)
        for label, value in sorted(labels.items())
        if label.startswith(ALLOW) and (label not in _BY_LABEL or value not in (_YES, "false"))
    )
    return tuple(islice(odd, _MOST_SHOWN))


def _label_text(label: str, value: str) -> str:
    if label in _BY_LABEL:
        return f'namespace label {label}={value}: allows nothing; write "true" or "false"'
    near = nearest(label, _BY_LABEL)
    meant = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(_BY_LABEL)}"
    return f"namespace label {label}: no such label, it allows nothing; {meant}"
