"""Manifests as `kubectl kustomize` makes them, and what stands in them."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec import Struct

from tests.contract.session_fixtures import CI

Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
KUSTOMIZE: Final = ROOT / "deploy" / "kustomize"
OVERLAYS: Final = tuple(sorted(p.name for p in (KUSTOMIZE / "overlays").iterdir()))
COMPONENTS: Final = tuple(sorted(p.name for p in (KUSTOMIZE / "components").iterdir()))
REGISTRY: Final = "registry.invalid/tessera"
"""Where images are until an overlay says where they really are: a host that never exists, so that
nobody else's image runs in their place."""
WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job")


def kubectl() -> str:
    """The program; without it the test is skipped, and fails where CI=true."""
    found = shutil.which("kubectl")
    if found is None:
        if CI:
            pytest.fail("kubectl is not installed")
        pytest.skip("kubectl is not installed")
    return found


def overlay(name: str) -> list[Json]:
    """The objects of an overlay."""
    return _built(KUSTOMIZE / "overlays" / name)


def built_from(folder: Path) -> list[Json]:
    """The objects of a kustomization."""
    return _built(folder)


def combined(
    folder: Path, components: Iterable[str], resources: Sequence[str] = (), own: Sequence[str] = ()
) -> list[Json]:
    """The base with these components, in this order, and then those `own` ones in the folder."""
    base = os.path.relpath(KUSTOMIZE, folder.resolve())
    made = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{base}/base", *resources],
        "components": [*(f"{base}/components/{name}" for name in components), *own],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(made))
    return _build(folder)


@functools.cache
def _built(folder: Path) -> list[Json]:
    return _build(folder)


def _build(folder: Path) -> list[Json]:
    ran = subprocess.run(
        [kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "deprecated" not in ran.stderr, ran.stderr
    objects = [_plain(item) for item in yaml.load_all(ran.stdout, yaml.CSafeLoader)]
    return json.loads(json.dumps(objects))  # type: ignore[no-any-return]  # what JSON can say


def _plain(item: Any) -> Json:
    assert isinstance(item, dict), item
    return item


class Container(Struct, frozen=True):
    """A container with where it stands."""

    workload: Json
    spec: Json

    @property
    def name(self) -> str:
        return f"{self.workload['metadata']['name']}/{self.spec['name']}"

    @property
    def pod(self) -> Json:
        found: Json = self.workload["spec"]["template"]["spec"]
        return found


def workloads(objects: Iterable[Json]) -> list[Json]:
    return [item for item in objects if item["kind"] in WORKLOADS]


def containers(objects: Iterable[Json]) -> Iterator[Container]:
    for item in workloads(objects):
        pod = item["spec"]["template"]["spec"]
        for spec in (*pod.get("initContainers", ()), *pod["containers"]):
            yield Container(item, spec)


def named(objects: Iterable[Json], kind: str, name: str = "") -> list[Json]:
    return [
        item
        for item in objects
        if item["kind"] == kind and name in ("", item["metadata"]["name"])
    ]  # fmt: skip


def environment(container: Container, objects: Iterable[Json]) -> dict[str, str]:
    """Its variables as the process would see them; a field of the pod is named by its path."""
    known = list(objects)
    env: dict[str, str] = {}
    for source in container.spec.get("envFrom", ()):
        (found,) = named(known, "ConfigMap", source["configMapRef"]["name"])
        env |= found["data"]
    for entry in container.spec.get("env", ()):
        assert ("value" in entry) != ("valueFrom" in entry), entry
        env[entry["name"]] = entry.get("value") or _from(entry.get("valueFrom", {}))
    return env


def _from(source: Json) -> str:
    if "fieldRef" in source:
        path: str = source["fieldRef"]["fieldPath"]
        return "10.0.0.1" if path.endswith("IP") else path
    return "from-a-secret"
