"""What a pod that shares cards may not have, because it would see or take more than its share.

This guards against accidents and against the plain ways around a limit; it is no sandbox. A pod
that asks for no share is not looked at (Pod Security admission is there for that), and a folder of
the node that can be written is a way into the node whatever its name. Each kind can be allowed in a
namespace (`tessera_core.admission.allowances`). Left alone on purpose:

- SYS_PTRACE: within its own processes a container can do that anyway, and profilers need it; the
  processes of the node are out of its view, as hostPID is refused.
- MKNOD: container runtimes give it to everyone; the device cgroup decides what may be opened.
- NET_ADMIN, IPC_LOCK, SYS_NICE and the like: they open no device and no file.
- hostNetwork: container runtimes and NRI listen on files.
- runtimeClassName: administrators make RuntimeClasses, and vendors' runtimes are chosen by one. In
  each of them the agent is asked for a container's cards, or the container has none.
- Persistent volumes and CSI drivers: administrators make them, block devices among them. Where
  they are mounted is looked at, as of every volume.
- Mount propagation: Kubernetes allows what passes mounts on to others to privileged containers
  alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from tessera_core.admission import allowances
from tessera_core.admission.allowances import NOTHING, Allowed, IsolationAllowance
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.hook.paths import HOOK_LIBRARY_HOST, PRELOAD
from tessera_schema.kube import Container, Pod, SecurityContext
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest, Request

CAPABILITIES: Final = {
    "ALL": "it contains SYS_ADMIN",
    "SYS_ADMIN": "it can mount, unmount and open every device",
    "SYS_MODULE": "it can change the kernel and the driver",
    "SYS_RAWIO": "it can reach a card past its driver",
    "DAC_READ_SEARCH": "it can open any file of the node",
    "BPF": "it can take away the filter that hides other cards",
}
"""Capabilities that are refused, and why."""

UNCONFINED: Final = frozenset({"spc_t", "unconfined_t"})
"""SELinux types that confine nothing. Others, such as a vendor's or one's own for containers, open
no more than what they were written for."""

NODE_FOLDERS: Final = (
    "/dev", "/proc", "/sys/fs/cgroup", "/sys/bus/pci", "/sys/devices", "/sys/module",
    "/run/nri", "/run/cdi", "/etc/cdi",
    "/run/containerd", "/run/crio", "/run/cri-dockerd", "/run/cri-dockerd.sock", "/run/docker",
    "/run/docker.sock", "/run/dockershim.sock", "/run/k0s", "/run/k3s", "/run/podman",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/k0s",
    "/var/lib/kubelet", "/var/lib/rancher", "/var/snap/microk8s",
)  # fmt: skip
"""Folders and sockets of the node that give out devices or containers, read-only or not: of the
kernel, of NRI and CDI, of containerd, CRI-O, Docker, Podman, and of k0s, k3s, rke2 and microk8s,
which have them elsewhere."""

LIMIT_FOLDERS: Final = ("/var/lib/tessera", "/usr/local/tessera")
"""Folders of the node that hold the limits and the hook: not to be written."""

HARMLESS_FOLDERS: Final = ("/dev/shm", "/dev/infiniband", "/dev/hugepages")  # noqa: S108  (names)
"""Below those, but no way to a card: shared memory and network adapters of training jobs."""

MOUNT_POINTS: Final = (PRELOAD, HOOK_LIBRARY_HOST.partition("/lib/")[0])
"""Where a container finds the hook and its files. Nothing else may be mounted there, and nothing
above: who has the same volume in another container could remove the mount point, and with it the
mount. That holds for whole cards too: they may be cut into parts while the pod runs."""

KINDS: Final = ("initContainers", "containers", "ephemeralContainers")

GUARDED_NOTES: Final = (
    "tolerate-missing-plugins.noderesource.dev", "cdi.k8s.io/", "io.kubernetes.cri-o.Devices",
    "devices.nri.io", "mounts.nri.io", "cdi-devices.nri.io",
    "devices.noderesource.dev", "mounts.noderesource.dev", "cdi-devices.noderesource.dev",
)  # fmt: skip
"""Beginnings of annotations by which a runtime starts a container without its agent, or a runtime
or NRI's device injector gives it devices that nobody granted."""

_WHOLE: Final = 100
_FOUND = Iterator[tuple[IsolationAllowance, Rejected]]


def isolation_breach(
    pod: Pod, request: PodRequest | None = None, allowed: Allowed = NOTHING
) -> Rejected | None:
    """The first thing by which a pod that asks for shares would get around them, but for what its
    namespace has `allowed`. What it asks for, if known, decides about what is allowed to pods with
    whole cards of their own."""
    kinds = ("initContainers", "containers")
    if pod.spec.node_name:
        return _preset_node(pod)
    whole = request is not None and _has_whole_cards(request)
    found = chain(_of_pod(pod), _of_volumes(pod), _of_containers(pod, kinds))
    return _first(found, allowed, whole=whole)


def mounts_may_breach(pod: Pod) -> bool:
    """Whether `isolation_breach` may find something in the pod's node, volumes or mounts: in most
    pods it does not, and this says so in a tenth of the time."""
    spec = pod.spec
    if spec.node_name:
        return True
    for volume in spec.volumes:
        if volume.host_path is not None:
            return True
    for container in pod.all_containers:
        for mount in container.volume_mounts:
            if _is_tessera(mount.mount_path):
                return True
    return False


def isolation_breach_in_debug_containers(pod: Pod, allowed: Allowed = NOTHING) -> Rejected | None:
    """The same for the containers that were added to a pod that runs, and what they mount."""
    kinds = ("ephemeralContainers",)
    mounted = frozenset(
        mount.name for _, _, c in containers_of(pod, kinds) for mount in c.volume_mounts
    )
    found = chain(_of_volumes(pod, mounted), _of_containers(pod, kinds), _of_targets(pod))
    return _first(found, allowed)


def _first(found: _FOUND, allowed: Allowed, *, whole: bool = False) -> Rejected | None:
    return next(
        (
            rejected
            for kind, rejected in found
            if kind.name not in allowed and not (whole and kind.on_whole_cards)
        ),
        None,
    )


def _has_whole_cards(request: PodRequest) -> bool:
    """Whether every card that the pod may get is its container's own."""
    return all(_is_whole(r) for c in request.containers for r in c.requests)


def _is_whole(request: Request) -> bool:
    all_cores = request.owns_whole_cores and request.cores_percent >= _WHOLE
    all_memory = request.memory_percent == _WHOLE and not request.memory_bytes
    return request.exclusive or (all_cores and all_memory)


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


def _preset_node(pod: Pod) -> Rejected:
    """No namespace may have it: no scheduler sees such a pod, so it would get no card."""
    return Rejected(
        field="spec.nodeName", value=pod.spec.node_name, reason=Reason.ISOLATION_DEFEATED,
        remedy="a share is found by the scheduler; leave it out, and name the node in nodeSelector",
    )  # fmt: skip


def _of_pod(pod: Pod) -> _FOUND:
    spec = pod.spec
    if spec.host_pid:
        yield _rejected(allowances.HOST_PID, "spec.hostPID", "true", "leave it out")
    if spec.share_process_namespace and len(pod.all_containers) > 1:
        yield _rejected(
            allowances.SHARED_PROCESSES, "spec.shareProcessNamespace", "true", "leave it out"
        )
    if spec.host_ipc:
        yield _rejected(
            allowances.HOST_IPC, "spec.hostIPC", "true", "leave it out, or ask for whole cards"
        )
    if spec.resource_claims:
        yield _rejected(
            allowances.RESOURCE_CLAIMS, "spec.resourceClaims", spec.resource_claims[0].name,
            "ask by resources alone",
        )  # fmt: skip
    if spec.security_context is not None:
        yield from _of_context("spec.securityContext", spec.security_context)
    for name, value in pod.metadata.annotations.items():
        if name.startswith(GUARDED_NOTES):
            yield _rejected(
                allowances.RUNTIME_ANNOTATIONS, f"metadata.annotations[{name}]", value, "remove it"
            )


def _of_targets(pod: Pod) -> _FOUND:
    """Debugging containers that see the processes of others."""
    for kind, i, container in containers_of(pod, ("ephemeralContainers",)):
        if container.target_container_name:
            yield _rejected(
                allowances.SHARED_PROCESSES, f"spec.{kind}[{i}].targetContainerName",
                container.target_container_name, "leave it out (kubectl debug without --target)",
            )  # fmt: skip
        elif pod.spec.share_process_namespace:
            yield _rejected(
                allowances.SHARED_PROCESSES, f"spec.{kind}[{i}].name", container.name,
                "use kubectl exec: this pod has shareProcessNamespace",
            )  # fmt: skip


def _of_volumes(pod: Pod, only: frozenset[str] | None = None) -> _FOUND:
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
                allowances.HOST_PATHS, f"spec.volumes[{i}].hostPath.path", volume.host_path.path,
                f"mount a folder apart from {', '.join(near)}",
            )  # fmt: skip


def _of_containers(pod: Pod, kinds: Sequence[str]) -> _FOUND:
    for kind, position, container in containers_of(pod, kinds):
        yield from _of_container(f"spec.{kind}[{position}]", container)


def _of_container(field: str, container: Container) -> _FOUND:
    context = container.security_context
    if context is not None:
        yield from _of_context(f"{field}.securityContext", context)
    for i, mount in enumerate(container.volume_mounts):
        if _is_tessera(mount.mount_path):
            yield _rejected(
                allowances.LIMIT_MOUNTS, f"{field}.volumeMounts[{i}].mountPath", mount.mount_path,
                "mount it elsewhere",
            )  # fmt: skip
    for i, device in enumerate(container.volume_devices):
        if _is_tessera(device.device_path):
            yield _rejected(
                allowances.LIMIT_MOUNTS, f"{field}.volumeDevices[{i}].devicePath",
                device.device_path, "name another path",
            )  # fmt: skip


def _of_context(field: str, context: SecurityContext) -> _FOUND:
    if context.privileged:
        yield _rejected(
            allowances.PRIVILEGED, f"{field}.privileged", "true",
            "remove privileged, or do not ask for shares in this pod",
        )  # fmt: skip
    if context.proc_mount not in (None, "", "Default"):
        yield _rejected(
            allowances.PROC_MOUNT, f"{field}.procMount", str(context.proc_mount), "leave it out"
        )
    yield from _of_profiles(field, context)
    if context.se_linux_options is not None and context.se_linux_options.type in UNCONFINED:
        yield _rejected(
            allowances.SELINUX, f"{field}.seLinuxOptions.type", context.se_linux_options.type,
            "leave it out",
        )  # fmt: skip
    if context.windows_options is not None and context.windows_options.host_process:
        yield _rejected(
            allowances.HOST_PROCESS, f"{field}.windowsOptions.hostProcess", "true", "leave it out"
        )
    for name in context.capabilities.add if context.capabilities else ():
        why = CAPABILITIES.get(name.upper().removeprefix("CAP_"))
        if why:
            yield _rejected(
                allowances.CAPABILITIES, f"{field}.capabilities.add", name, "leave it out", why
            )


def _of_profiles(field: str, context: SecurityContext) -> _FOUND:
    for name, profile in (
        ("seccompProfile", context.seccomp_profile),
        ("appArmorProfile", context.app_armor_profile),
    ):
        if profile is not None and profile.type == "Unconfined":
            yield _rejected(
                allowances.UNCONFINED, f"{field}.{name}.type", profile.type, "write RuntimeDefault"
            )


def _rejected(
    kind: IsolationAllowance, field: str, value: str, remedy: str, why: str = ""
) -> tuple[IsolationAllowance, Rejected]:
    return kind, Rejected(
        field=field, value=value, reason=Reason.ISOLATION_DEFEATED,
        remedy=f"{why or kind.why}; {remedy}; an administrator allows it with the namespace's "
        f"label {kind.label}=true",
    )  # fmt: skip


def _is_tessera(path: str) -> bool:
    plain = _plain(path)
    return any(_within(plain, own) or _within(own, plain) for own in MOUNT_POINTS)


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
    if path.startswith("/") and "//" not in path and "/." not in path and path[-1] != "/":
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _within(path: str, folder: str) -> bool:
    return folder in ("/", path) or path.startswith(folder + "/")
