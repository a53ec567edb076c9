"""What a pod that shares cards may not have, because it would see or take more than its share.

This guards against accidents and against the plain ways around a limit; it is no sandbox. A pod
that asks for no share is not looked at (Pod Security admission is there for that), and a folder of
the node that can be written is a way into the node whatever its name. Left alone on purpose:

- SYS_PTRACE: within its own processes a container can do that anyway, and profilers need it; the
  processes of the node are out of its sight, as hostPID is refused.
- MKNOD: container runtimes give it to everyone; the device cgroup decides what may be opened.
- NET_ADMIN, IPC_LOCK, SYS_NICE and the like: they open no device and no file.
- hostNetwork: container runtimes and NRI listen on files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from tessera_core.dialect import Rejected
from tessera_core.hookpaths import HOOK_LIBRARY_HOST, PRELOAD
from tessera_schema.kube import Container, Pod
from tessera_schema.reasons import Reason

CAPABILITIES: Final = {
    "ALL": "it contains SYS_ADMIN",
    "SYS_ADMIN": "it can mount, unmount and open every device",
    "SYS_MODULE": "it can change the kernel and the driver",
    "SYS_RAWIO": "it can reach a card past its driver",
    "DAC_READ_SEARCH": "it can open any file of the node",
    "BPF": "it can take away the filter that hides other cards",
}
"""Capabilities that are refused, and why."""

NODE_FOLDERS: Final = (
    "/dev", "/proc", "/sys/fs/cgroup",
    "/run/nri", "/run/containerd", "/run/crio", "/run/docker.sock", "/run/cdi", "/etc/cdi",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/kubelet",
)  # fmt: skip
"""Folders and sockets of the node that give out devices or containers, read-only or not."""

LIMIT_FOLDERS: Final = ("/var/lib/tessera", "/usr/local/tessera")
"""Folders of the node that hold the limits and the hook: not to be written."""

HARMLESS_FOLDERS: Final = ("/dev/shm", "/dev/infiniband", "/dev/hugepages")  # noqa: S108  (names)
"""Below those, but no way to a card: shared memory and network adapters of training jobs."""

MOUNT_POINTS: Final = (PRELOAD, HOOK_LIBRARY_HOST.partition("/lib/")[0])
"""Where a container finds the hook and its files: nothing else may be mounted there."""

KINDS: Final = ("initContainers", "containers", "ephemeralContainers")

GUARDED_NOTES: Final = (
    "tolerate-missing-plugins.noderesource.dev", "cdi.k8s.io/", "io.kubernetes.cri-o.Devices",
)  # fmt: skip
"""Beginnings of annotations by which a runtime starts a container without its agent, or gives it
devices that nobody granted."""


def defeats(pod: Pod) -> Rejected | None:
    """The first thing by which a pod that asks for shares would get around them."""
    kinds = ("initContainers", "containers")
    return next(chain(_of_pod(pod), _of_volumes(pod), _of_containers(pod, kinds)), None)


def defeats_debugging(pod: Pod) -> Rejected | None:
    """The same for the containers that were added to a pod that runs, and what they mount."""
    kinds = ("ephemeralContainers",)
    mounted = frozenset(
        mount.name for _, _, c in containers_of(pod, kinds) for mount in c.volume_mounts
    )
    return next(chain(_of_volumes(pod, mounted), _of_containers(pod, kinds)), None)


def containers_of(pod: Pod, kinds: Sequence[str]) -> Iterator[tuple[str, int, Container]]:
    """List, position and container, for some of the lists of a pod's spec."""
    spec = pod.spec
    lists = {
        "initContainers": spec.init_containers, "containers": spec.containers,
        "ephemeralContainers": spec.ephemeral_containers,
    }  # fmt: skip
    for kind in kinds:
        for i, container in enumerate(lists[kind]):
            yield kind, i, container


def _of_pod(pod: Pod) -> Iterator[Rejected]:
    spec = pod.spec
    if spec.node_name:
        yield _rejected(
            "spec.nodeName", spec.node_name,
            "a share is found by the scheduler; leave it out, and name the node in nodeSelector",
        )  # fmt: skip
    if spec.host_pid:
        yield _rejected(
            "spec.hostPID", "true",
            "it shows the processes of other pods, through which their cards can be reached; "
            "leave it out",
        )  # fmt: skip
    if spec.host_ipc:
        yield _rejected(
            "spec.hostIPC", "true", "it shares memory with other pods' processes; leave it out"
        )
    yield from _of_notes(pod)


def _of_notes(pod: Pod) -> Iterator[Rejected]:
    for name, value in pod.metadata.annotations.items():
        if name.startswith(GUARDED_NOTES):
            yield _rejected(
                f"metadata.annotations[{name}]", value[:64],
                "it would start containers without the agent that limits them, or give them "
                "devices that are not theirs; remove it",
            )  # fmt: skip


def _of_volumes(pod: Pod, only: frozenset[str] | None = None) -> Iterator[Rejected]:
    written = {
        mount.name
        for _, _, container in containers_of(pod, KINDS)
        for mount in container.volume_mounts
        if not mount.read_only
    }
    for i, volume in enumerate(pod.spec.volumes):
        if volume.host_path is None or (only is not None and volume.name not in only):
            continue
        near = _near(volume.host_path.path, written=volume.name in written)
        if near:
            yield _rejected(
                f"spec.volumes[{i}].hostPath.path", volume.host_path.path,
                "it reaches devices, other containers or their limits; mount a folder apart from "
                f"{', '.join(near)}",
            )  # fmt: skip


def _of_containers(pod: Pod, kinds: Sequence[str]) -> Iterator[Rejected]:
    for kind, position, container in containers_of(pod, kinds):
        yield from _of_container(f"spec.{kind}[{position}]", container)


def _of_container(field: str, container: Container) -> Iterator[Rejected]:
    context = container.security_context
    if context is not None:
        if context.privileged:
            yield _rejected(
                f"{field}.securityContext.privileged", "true",
                "a privileged container sees every card of the node; "
                "remove privileged, or do not ask for shares in this pod",
            )  # fmt: skip
        if context.proc_mount not in (None, "", "Default"):
            yield _rejected(
                f"{field}.securityContext.procMount", str(context.proc_mount),
                "it uncovers settings of the kernel; leave it out",
            )  # fmt: skip
        for name in context.capabilities.add if context.capabilities else ():
            why = CAPABILITIES.get(name.upper().removeprefix("CAP_"))
            if why:
                yield _rejected(
                    f"{field}.securityContext.capabilities.add", name, f"{why}; leave it out"
                )
    for i, mount in enumerate(container.volume_mounts):
        path = _plain(mount.mount_path)
        if any(_within(path, ours) for ours in MOUNT_POINTS):
            yield _rejected(
                f"{field}.volumeMounts[{i}].mountPath", mount.mount_path,
                "the limits of the container's share are there; mount it elsewhere",
            )  # fmt: skip


def _rejected(field: str, value: str, remedy: str) -> Rejected:
    return Rejected(field=field, value=value, remedy=remedy, reason=Reason.ISOLATION_DEFEATED)


def _near(path: str, *, written: bool) -> list[str]:
    """The guarded folders that the path is, lies below or lies above."""
    plain = _on_node(path)
    if any(_within(plain, fine) for fine in HARMLESS_FOLDERS):
        return []
    guarded = (*NODE_FOLDERS, *LIMIT_FOLDERS) if written else NODE_FOLDERS
    return [there for there in guarded if _within(plain, there) or _within(there, plain)]


def _on_node(path: str) -> str:
    """The path as nodes have it: /var/run is a link to /run."""
    plain = _plain(path)
    return plain.removeprefix("/var") if _within(plain, "/var/run") else plain


def _plain(path: str) -> str:
    """The absolute path without empty, `.` and `..` parts."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _within(path: str, folder: str) -> bool:
    return folder in ("/", path) or path.startswith(folder + "/")
