"""The scheduler: its Deployment, the version and the configuration of its kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from tessera_core.preflight.control_plane import version_of
from tessera_core.preflight.findings import Outcome, failed, listed, ok, or_ok, unknown
from tessera_core.preflight.snapshot import NAMESPACE, InstallationSnapshot
from tessera_core.registry import kube_scheduler_config
from tessera_schema.annotation_keys import SCHEDULER

CONTAINER: Final = "kube-scheduler"
APPLY: Final = "kubectl apply --server-side --force-conflicts -k <your overlay>"
"""What brings back an object that the manifests have."""
_LOCAL: Final = ("http://127.0.0.1:", "http://localhost:")
_PROFILES: Final = "TESSERA_WEBHOOK_SCHEDULERS"


def scheduler_version(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """kube-scheduler is as old as the API server, or one minor version older."""
    image, server = _image(cluster), version_of(cluster.server_version)
    found = version_of(image.rpartition(":")[2]) if ":" in image else None
    if not image:
        yield failed(f"the Deployment {NAMESPACE}/{SCHEDULER} has no container {CONTAINER}", APPLY)
    elif found is None or server is None:
        yield unknown(
            f"image {image} does not name a version",
            f"kubectl -n {NAMESPACE} exec deployment/{SCHEDULER} -c {CONTAINER} -- {CONTAINER} "
            "--version",
        )
    elif found > server or (found[0], found[1] + 1) < server:
        want = cluster.server_version.partition("+")[0].partition("-")[0]
        name = image.rpartition(":")[0]
        yield failed(
            f"kube-scheduler is {image.rpartition(':')[2]}, the API server "
            f"{cluster.server_version}: Kubernetes supports the same minor version, or one older",
            f"kubectl -n {NAMESPACE} set image deployment/{SCHEDULER} {CONTAINER}={name}:{want} "
            f"image-of-{CONTAINER}={name}:{want}  # and newTag in your overlay",
        )
    else:
        yield ok(f"kube-scheduler is {image.rpartition(':')[2]}")


def _image(cluster: InstallationSnapshot) -> str:
    scheduler = cluster.scheduler
    containers = scheduler.spec.template.spec.containers if scheduler is not None else ()
    return next((c.image.partition("@")[0] for c in containers if c.name == CONTAINER), "")


def scheduler_configuration(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """kube-scheduler's configuration calls the extender for every node and every resource name."""
    configuration = cluster.configuration
    if configuration is UNSET:
        yield failed(
            f"no ConfigMap of {NAMESPACE} has the kube-scheduler.yaml that the Deployment mounts",
            APPLY,
        )
        return
    yield from or_ok(
        (failed(text, APPLY) for text in _problems(cluster, configuration)),
        "kube-scheduler calls the extender for all nodes and all names of this release",
    )


def _problems(cluster: InstallationSnapshot, there: Mapping[str, Any]) -> Iterator[str]:
    share = there.get("percentageOfNodesToScore")
    if share != 100:
        yield (
            f"percentageOfNodesToScore is {share}, not 100: kube-scheduler leaves out nodes that "
            "Tessera would choose"
        )
    served = {str(p.get("schedulerName")) for p in _mappings(there.get("profiles"))}
    wanted = {SCHEDULER, *_named_profiles(cluster)}
    if missing := wanted - served:
        yield f"no profile serves {listed(missing)}: pods that name it wait for ever"
    extender = next(
        (e for e in _mappings(there.get("extenders")) if e.get("bindVerb") == "bind"), None
    )
    if extender is None:
        yield "no extender with bindVerb: bind is configured: pods are bound without cards"
        return
    if not str(extender.get("urlPrefix")).startswith(_LOCAL):
        yield (
            f"the extender is called at {extender.get('urlPrefix')}, and Tessera answers on "
            "127.0.0.1 of the same pod only"
        )
    if extender.get("nodeCacheCapable") is not True:
        yield "the extender's nodeCacheCapable is not true: Tessera reads names of nodes alone"
    managed = {str(r.get("name")) for r in _mappings(extender.get("managedResources"))}
    expected = kube_scheduler_config.configuration(cluster.registry, "", (SCHEDULER,))
    names = {r["name"] for r in expected["extenders"][0]["managedResources"]}
    if unmanaged := names - managed:
        yield (
            f"managedResources lacks {listed(unmanaged)}: pods that ask for it are not passed to "
            "Tessera"
        )


def _named_profiles(cluster: InstallationSnapshot) -> tuple[str, ...]:
    """Scheduler names that the webhook leaves in pods."""
    scheduler = cluster.scheduler
    for container in scheduler.all_containers if scheduler is not None else ():
        for variable in container.env:
            if variable.name == _PROFILES and variable.value:
                return tuple(filter(None, variable.value.split(",")))
    return ()


def _mappings(there: Any) -> list[Mapping[str, Any]]:
    return [one for one in there if isinstance(one, dict)] if isinstance(there, list) else []
