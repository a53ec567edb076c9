"""The chart as helm renders it."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.helm.rendering import Id, by_id, objects_of
from tests.contract.kubebin import kube_bin
from tests.contract.session_fixtures import or_skip

Json = dict[str, Any]

CHART: Final = Path(__file__).parents[2] / "deploy" / "helm" / "tessera"
NAMESPACE: Final = "tessera-system"
OF_HELM: Final = ("app.kubernetes.io/managed-by", "helm.sh/chart")
"""Labels that only the chart's objects have."""
HOOKS: Final = {
    ("Secret", NAMESPACE, "tessera-bus"),
    ("ServiceAccount", NAMESPACE, "tessera-uninstall"),
    ("ConfigMap", NAMESPACE, "tessera-uninstall"),
    ("ClusterRole", "", "tessera-uninstall"),
    ("ClusterRoleBinding", "", "tessera-uninstall"),
    ("Role", NAMESPACE, "tessera-uninstall"),
    ("RoleBinding", NAMESPACE, "tessera-uninstall"),
    ("Job", NAMESPACE, "tessera-uninstall"),
}
"""What belongs to no release: the passwords, and what `helm uninstall` runs first."""


@functools.cache
def program() -> Path:
    """helm, which is built if it is not there yet."""
    with or_skip():
        return kube_bin("helm") / "helm"


def rendered(values: Mapping[str, Any] | None = None, *options: str | Path) -> dict[Id, Json]:
    """Everything that `helm template` prints, CRDs too."""
    ran = ran_template(values, *options)
    assert ran.returncode == 0, ran.stderr
    return by_id(json.loads(json.dumps(objects_of(ran.stdout))))


def refused(values: Mapping[str, Any] | None = None, *options: str | Path) -> str:
    """What helm says instead of rendering."""
    ran = ran_template(values, *options)
    assert ran.returncode, ran.stdout[:1000]
    return ran.stderr


def ran_template(
    values: Mapping[str, Any] | None, *options: str | Path
) -> subprocess.CompletedProcess[str]:
    """`helm template` with these values."""
    return subprocess.run(
        [
            program(), "template", "tessera", CHART, "--namespace", NAMESPACE, "--include-crds",
            "--values", "-", *options,
        ],
        input=yaml.safe_dump(dict(values or {})), capture_output=True, text=True, check=False,
    )  # fmt: skip


def installed(objects: Mapping[Id, Json]) -> dict[Id, Json]:
    """What stays in the cluster, as kustomize would have made it: without hooks, without helm's
    labels and without the annotation that stands in the place of kustomize's names."""
    return {name: _plain(item) for name, item in objects.items() if name not in HOOKS}


def _plain(item: Json) -> Json:
    copy: Json = json.loads(json.dumps(item))
    labels = copy["metadata"].get("labels", {})
    for label in OF_HELM:
        labels.pop(label, None)
    if not labels:
        copy["metadata"].pop("labels", None)
    template = copy.get("spec", {}).get("template", {})
    template.get("metadata", {}).get("annotations", {}).pop("checksum/config", None)
    return copy


def pod_of(objects: Mapping[Id, Json], kind: str, name: str) -> Json:
    """The pod that a workload makes."""
    spec: Json = objects[kind, NAMESPACE, name]["spec"]["template"]["spec"]
    return spec


def container_of(objects: Mapping[Id, Json], kind: str, name: str, container: str) -> Json:
    """One of its containers."""
    pod = pod_of(objects, kind, name)
    (found,) = [
        c for c in (*pod.get("initContainers", ()), *pod["containers"]) if c["name"] == container
    ]
    return dict(found)
