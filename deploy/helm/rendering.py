"""Objects of deploy/kustomize as kustomize renders them, with plain names of ConfigMaps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

Json = dict[str, Any]
Id = tuple[str, str, str]

KUSTOMIZE: Final = Path(__file__).parents[1] / "kustomize"
_HASHED: Final = re.compile(r"^  name: (\S+)-[24-9bcdfghkmt]{10}$", re.MULTILINE)
"""Names of ConfigMaps that kustomize makes, in the letters of its hashes."""


class KubectlMissing(RuntimeError):
    """There is no kubectl, which has kustomize."""


def render(components: Iterable[str] = ()) -> list[Json]:
    """The base with these components, in this order. Raises KubectlMissing, and RuntimeError with
    what kustomize says."""
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.relpath(KUSTOMIZE, Path(folder).resolve())
        made = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{base}/base"],
            "components": [f"{base}/components/{name}" for name in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(made))
        return render_folder(Path(folder))


def render_folder(folder: Path) -> list[Json]:
    """A kustomization. Raises as `render` does."""
    return objects_of(_kustomize(folder))


def objects_of(text: str) -> list[Json]:
    """The objects of rendered YAML, with ConfigMaps by names without a hash."""
    for name in _HASHED.findall(text):
        text = re.sub(rf"\b{name}-[24-9bcdfghkmt]{{10}}\b", name, text)
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def id_of(item: Json) -> Id:
    """Kind, namespace and name."""
    about = item["metadata"]
    return item["kind"], about.get("namespace", ""), about["name"]


def by_id(objects: Sequence[Json]) -> dict[Id, Json]:
    """The objects by kind, namespace and name."""
    return {id_of(item): item for item in objects}


def _kustomize(folder: Path) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise KubectlMissing("kubectl is not installed: the chart is made of what it renders")
    ran = subprocess.run(  # noqa: S603  (a program of the installation)
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return ran.stdout
