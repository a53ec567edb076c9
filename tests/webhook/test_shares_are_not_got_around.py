"""Fields by which a pod would see or take more than its share are refused, by name."""

from __future__ import annotations

from typing import Any

import pytest

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
                     "/var/lib/kubelet", "/var/lib", "/proc", "/etc")
    },
    **{
        f"written host path {path}": (a_volume(path), f"spec.volumes[0].hostPath.path: {path}")
        for path in ("/usr/local/tessera/lib", "/usr", "/var/lib/tessera/containers")
    },
    **{
        f"a mount on {path}": (
            a_mount(path), f"spec.containers[0].volumeMounts[0].mountPath: {path}")
        for path in ("/etc/ld.so.preload", "/usr/local/tessera", "/usr/local/tessera/limits",
                     "/usr/local/tessera/lib/../usage")
    },
    **{
        f"annotation {key}": ({"notes": {key: "true"}}, f"metadata.annotations[{key}]: true")
        for key in ("tolerate-missing-plugins.noderesource.dev",
                    "tolerate-missing-plugins.noderesource.dev/container.c", "cdi.k8s.io/all")
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
    "a mount beside ours": a_mount("/usr/local/tessera-data"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_it_is_refused_in_both_phases(why: str) -> None:
    spec, begins = REFUSED[why]
    for phase in (mutated, validated):
        status, message = why_not(phase(a_manifest(**spec)))
        assert status == 403
        assert message.startswith(f"{begins}: ")


@pytest.mark.parametrize("why", REFUSED)
def test_a_pod_that_asks_for_nothing_may_have_it(why: str) -> None:
    pod = a_manifest({"cpu": "1"}, **REFUSED[why][0])
    assert mutated(pod).allowed
    assert validated(pod).allowed


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_harmless_is_allowed(name: str) -> None:
    assert mutated(a_manifest(**ALLOWED[name])).allowed


def test_init_containers_are_looked_at_too() -> None:
    init = {"name": "i", "securityContext": {"privileged": True}}
    _, message = why_not(mutated(a_manifest(initContainers=[init])))
    assert message.startswith("spec.initContainers[0].securityContext.privileged: true")


def debugging(container: Json, limits: dict[str, str] | None = None) -> tuple[Json, Json]:
    old = a_manifest(limits, nodeName="n1", hostPID=True)
    new = a_manifest(limits, nodeName="n1", hostPID=True, ephemeralContainers=[container])
    return old, new


def test_a_debugging_container_is_held_to_the_same() -> None:
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
