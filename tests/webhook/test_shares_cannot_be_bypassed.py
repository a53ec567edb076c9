"""Fields by which a pod would see or take more than its share are refused, by name."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_scheduler.webhook.rules import Setting
from tests.webhook.setting import Json, a_manifest, mutated, validated, why_not


def a_volume(path: str, *, read_only: bool = False, at: str = "/data") -> dict[str, Any]:
    mount = {"name": "v", "mountPath": at, "readOnly": read_only}
    return {
        "volumes": [{"name": "v", "hostPath": {"path": path}}],
        "container": {"volumeMounts": [mount]},
    }


def secured(**context: Any) -> dict[str, Any]:
    return {"container": {"securityContext": context}}


def a_mount(path: str) -> dict[str, Any]:
    return {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "container": {"volumeMounts": [{"name": "v", "mountPath": path}]},
    }


SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "privileged": (
        secured(privileged=True), "spec.containers[0].securityContext.privileged: true"),
    "unmasked proc": (
        secured(procMount="Unmasked"), "spec.containers[0].securityContext.procMount: Unmasked"),
    **{
        name: (
            secured(capabilities={"add": ["IPC_LOCK", name]}),
            f"spec.containers[0].securityContext.capabilities.add: {name}",
        )
        for name in ("SYS_ADMIN", "CAP_SYS_ADMIN", "sys_module", "SYS_RAWIO", "ALL",
                     "DAC_READ_SEARCH", "BPF")
    },
    "hostPID": ({"hostPID": True}, "spec.hostPID: true"),
    "hostIPC": ({"hostIPC": True}, "spec.hostIPC: true"),
    "a preset node": ({"nodeName": "n1"}, "spec.nodeName: n1"),
    **{
        f"host path {path}": (
            a_volume(path, read_only=True), f"spec.volumes[0].hostPath.path: {path}")
        for path in ("/dev", "/dev/", "/dev/nvidia0", "//dev/./nvidia0", "/data/../dev", "/",
                     "/var/run", "/run", "/var/run/nri", "/run/nri/nri.sock", "/var",
                     "/run/containerd/containerd.sock", "/var/lib/kubelet/device-plugins",
                     "/var/lib/kubelet", "/var/lib", "/proc", "/etc",
                     "/run/k3s/containerd/containerd.sock", "/run/k0s", "/var/run/podman",
                     "/run/cri-dockerd.sock", "/var/run/crio/crio.sock", "/run/dockershim.sock",
                     "/var/lib/rancher/rke2", "/var/lib/k0s", "/var/snap/microk8s/common/run",
                     "/var/snap", "/sys/bus/pci/devices", "/sys/module/x", "/sys/devices", "/sys")
    },
    **{
        f"written host path {path}": (a_volume(path), f"spec.volumes[0].hostPath.path: {path}")
        for path in ("/usr/local/tessera/lib", "/usr", "/var/lib/tessera/containers")
    },
    **{
        f"a mount on {path}": (
            a_mount(path), f"spec.containers[0].volumeMounts[0].mountPath: {path}")
        for path in ("/etc/ld.so.preload", "/usr/local/tessera", "/usr/local/tessera/limits",
                     "/usr/local/tessera/lib/../usage", "/usr/local", "/usr/local/", "/usr", "/etc",
                     "/etc/", "//etc", "/etc/.", "/", "//", "/data/..", "/data/../etc/./",
                     "/../usr", "/usr//local", "/etc/ld.so.preload/", "etc")
    },
    "a device on /usr/local": (
        {"container": {"volumeDevices": [{"name": "v", "devicePath": "/usr/local"}]}},
        "spec.containers[0].volumeDevices[0].devicePath: /usr/local"),
    **{
        f"SELinux type {kind}": (
            secured(seLinuxOptions={"type": kind}),
            f"spec.containers[0].securityContext.seLinuxOptions.type: {kind}")
        for kind in ("spc_t", "unconfined_t")
    },
    **{
        f"{name} of a container": (
            secured(**{name: {"type": "Unconfined"}}),
            f"spec.containers[0].securityContext.{name}.type: Unconfined")
        for name in ("seccompProfile", "appArmorProfile")
    },
    "a seccomp profile of the pod": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "spec.securityContext.seccompProfile.type: Unconfined"),
    "shared processes": (
        {"shareProcessNamespace": True, "initContainers": [{"name": "s"}]},
        "spec.shareProcessNamespace: true"),
    "SELinux type of the pod": (
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
        "spec.securityContext.seLinuxOptions.type: spc_t"),
    "a process of the node": (
        secured(windowsOptions={"hostProcess": True}),
        "spec.containers[0].securityContext.windowsOptions.hostProcess: true"),
    "processes of the node": (
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
        "spec.securityContext.windowsOptions.hostProcess: true"),
    "a claim": (
        {"resourceClaims": [{"name": "card", "resourceClaimName": "c"}]},
        "spec.resourceClaims: card"),
    **{
        f"annotation {key}": ({"notes": {key: "true"}}, f"metadata.annotations[{key}]: true")
        for key in ("tolerate-missing-plugins.noderesource.dev",
                    "tolerate-missing-plugins.noderesource.dev/container.c", "cdi.k8s.io/all",
                    "devices.nri.io/container.c", "mounts.nri.io/container.c",
                    "cdi-devices.nri.io/container.c", "devices.noderesource.dev/container.c")
    },
}  # fmt: skip
ALLOWED: dict[str, dict[str, Any]] = {
    "not privileged": secured(privileged=False, procMount="Default"),
    "capabilities of profilers": secured(capabilities={"add": ["SYS_PTRACE", "IPC_LOCK"]}),
    "shared memory": a_volume("/dev/shm"),  # noqa: S108  (a path of nodes)
    "network adapters": a_volume("/dev/infiniband"),
    "data": a_volume("/mnt/data"),
    "a folder named like one of ours": a_volume("/devices"),
    "programs, read only": a_volume("/usr", read_only=True),
    **{
        f"a mount on {path}": a_mount(path)
        for path in ("/usr/local/tessera-data", "/usr/local/lib", "/etc/app", "/data/etc", "/opt")
    },
    "processes of one container": {"shareProcessNamespace": True},
    "a seccomp profile": secured(seccompProfile={"type": "RuntimeDefault"}),
    "a seccomp profile of the node": secured(seccompProfile={"type": "Localhost"}),
    "an SELinux type for containers": secured(seLinuxOptions={"type": "container_t"}),
    "not a process of the node": secured(windowsOptions={"hostProcess": False}),
    "a block device": {
        "container": {"volumeDevices": [{"name": "v", "devicePath": "/dev/xvda"}]}
    },
    "a runtime class": {"runtimeClassName": "theirs"},
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_it_is_refused_in_both_phases(why: str) -> None:
    spec, begins = REFUSED[why]
    for phase in (mutated, validated):
        status, message = why_not(phase(a_manifest(SHARE, **spec)))
        assert status == 403
        assert message.startswith(f"{begins}: ")


@pytest.mark.parametrize("why", REFUSED)
def test_a_pod_without_requests_may_have_it(why: str) -> None:
    pod = a_manifest({"cpu": "1"}, **REFUSED[why][0])
    assert mutated(pod).allowed
    assert validated(pod).allowed


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_harmless_is_allowed(name: str) -> None:
    assert mutated(a_manifest(SHARE, **ALLOWED[name])).allowed


def test_init_containers_are_reviewed_too() -> None:
    init = {"name": "i", "securityContext": {"privileged": True}}
    _, message = why_not(mutated(a_manifest(initContainers=[init])))
    assert message.startswith("spec.initContainers[0].securityContext.privileged: true")


def debugging(container: Json, limits: dict[str, str] | None = None) -> tuple[Json, Json]:
    old = a_manifest(limits, nodeName="n1", hostPID=True)
    new = a_manifest(limits, nodeName="n1", hostPID=True, ephemeralContainers=[container])
    return old, new


def test_the_same_goes_for_a_debugging_container() -> None:
    context = {"capabilities": {"add": ["SYS_ADMIN"]}}
    old, new = debugging({"name": "debug", "securityContext": context})
    answer = validated(new, old=old, operation="UPDATE", sub="ephemeralcontainers")
    assert why_not(answer)[1].startswith(
        "spec.ephemeralContainers[0].securityContext.capabilities.add: SYS_ADMIN"
    )
    old, new = debugging({"name": "debug", "securityContext": context}, {"cpu": "1"})
    assert validated(new, old=old, operation="UPDATE", sub="ephemeralcontainers").allowed


def test_what_a_running_pod_has_already_does_not_forbid_to_debug_it() -> None:
    old, new = debugging({"name": "debug"})
    assert validated(new, old=old, operation="UPDATE", sub="ephemeralcontainers").allowed


def test_a_debugging_container_may_not_write_what_others_only_read() -> None:
    spec = a_volume("/usr", read_only=True)
    old = a_manifest(nodeName="n1", **spec)
    mount = {"name": "v", "mountPath": "/host"}
    change: Json = {"old": old, "operation": "UPDATE", "sub": "ephemeralcontainers"}
    for read_only, allowed in ((True, True), (False, False)):
        debug = {"name": "d", "volumeMounts": [{**mount, "readOnly": read_only}]}
        new = a_manifest(nodeName="n1", ephemeralContainers=[debug], **spec)
        assert validated(new, **change).allowed is allowed


def test_a_debugging_container_may_not_be_mounted_above_the_limits() -> None:
    spec: Json = {"volumes": [{"name": "v", "emptyDir": {}}]}
    debug = {"name": "d", "volumeMounts": [{"name": "v", "mountPath": "/usr/local"}]}
    old, new = a_manifest(**spec), a_manifest(ephemeralContainers=[debug], **spec)
    answer = validated(new, old=old, operation="UPDATE", sub="ephemeralcontainers")
    assert why_not(answer)[1].startswith("spec.ephemeralContainers[0].volumeMounts[0].mountPath: ")


@pytest.mark.parametrize(
    ("container", "spec", "field"),
    [
        ({"name": "d", "targetContainerName": "c"}, {}, "targetContainerName: c"),
        ({"name": "d"}, {"shareProcessNamespace": True}, "name: d"),
    ],
)
def test_a_debugging_container_may_not_see_the_processes_of_a_share(
    container: Json, spec: Json, field: str
) -> None:
    change: Json = {"operation": "UPDATE", "sub": "ephemeralcontainers"}
    old, new = a_manifest(**spec), a_manifest(ephemeralContainers=[container], **spec)
    answer = validated(new, old=old, **change)
    assert why_not(answer)[1].startswith(f"spec.ephemeralContainers[0].{field}: ")
    labels = {"allow.tessera.dev/shared-processes": "true"}
    assert validated(new, Setting(labels=labels), old=old, **change).allowed


def test_a_sidecar_may_not_be_mounted_above_the_limits() -> None:
    mount = {"name": "v", "mountPath": "/usr/local", "subPath": "x", "readOnly": True}
    sidecar = {"name": "s", "restartPolicy": "Always", "volumeMounts": [mount]}
    spec: Json = {"volumes": [{"name": "v", "projected": {}}], "initContainers": [sidecar]}
    for limits in (SHARE, {"nvidia.com/gpu": "1"}):
        _, message = why_not(mutated(a_manifest(limits, **spec)))
        assert message.startswith("spec.initContainers[0].volumeMounts[0].mountPath: /usr/local: ")


def test_a_pod_that_gets_no_card_may_have_it() -> None:
    assert mutated(a_manifest({"nvidia.com/gpu": "0"}, hostPID=True)).allowed
