"""The chart, made of deploy/kustomize: `python -m deploy.helm.generate`.

kustomize renders the base and what each component changes, and they are written next to the
templates, which merge them with the values. So kustomize stays the one source. A test compares the
files with this, and another one what chart and kustomize render.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from deploy.helm import documents, rendering
from deploy.helm.changes import difference
from deploy.helm.rendering import KUSTOMIZE, by_id, id_of
from deploy.helm.values import COMPONENTS, Base, Json, Section, sections
from tessera_core import dialects
from tessera_core.registry import registry
from tessera_core.registry.registry import BadConfiguration, DialectRegistry

CHART: Final = Path(__file__).parent / "tessera"
HEAD: Final = "# Made by deploy/helm/generate.py of deploy/kustomize: edit that.\n"
NEEDS: Final = {"nats-tls": ("cert-manager",)}
"""Component -> those that it goes with."""
WITH_CONSOLE: Final = ("console",)
"""The component whose service others change: what they change in it is in a folder of its own."""
OWN_NAMESPACE: Final = ("Namespace", "", "tessera-system")
"""`helm install --create-namespace` makes it: a chart cannot hold its own namespace."""
NOT_OF_CHART: Final = ("simulated",)
"""Overlays for a try, which the chart has no values for."""
WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet")
ABOUT: Final = {
    "apiVersion": "v2",
    "name": "tessera",
    "description": "Shares the memory and compute of accelerators among the pods of a cluster",
    "type": "application",
    "kubeVersion": ">=1.30.0-0",
}


def files() -> dict[Path, str]:
    """Every generated file and what it holds. Raises KubectlMissing."""
    known = registry.load()
    base = rendering.render()
    with_console = rendering.render(WITH_CONSOLE)
    images = _images(with_console)
    tag = images["scheduler"].rpartition(":")[2]
    listed = list(
        sections(Base(images, _connection(base), tuple(known.vendors), tuple(known.readers)))
    )
    made = {
        "Chart.yaml": documents.documents(HEAD, [{**ABOUT, "version": tag, "appVersion": tag}]),
        "values.yaml": documents.values_yaml(HEAD, listed),
        "values.schema.json": documents.values_schema(listed),
        "README.md": _readme(listed),
        "files/components.yaml": documents.documents(HEAD, [list(COMPONENTS)]),
        "files/dialects.yaml": documents.documents(HEAD, [_dialects(known)]),
        "files/hooked.yaml": documents.documents(
            HEAD, [[v.name for v in known.vendors.values() if v.hooked]]
        ),
        **dict(_overlays()),
    }
    for name, objects in _groups(base).items():
        made[name] = documents.documents(HEAD, objects)
    for component in COMPONENTS:
        made[f"files/components/{component}.yaml"] = documents.documents(
            HEAD, _changes(component, base)
        )
        if component in WITH_CONSOLE:
            continue
        if changed := list(_changes_of_console(component, base, with_console)):
            made[f"files/console/{component}.yaml"] = documents.documents(HEAD, changed)
    return {CHART / name: text for name, text in made.items()}


def _groups(base: Sequence[Json]) -> dict[str, list[Json]]:
    """File -> its objects: the definitions, and the rest by what it is part of."""
    made: dict[str, list[Json]] = {}
    for item in base:
        if id_of(item) != OWN_NAMESPACE:
            made.setdefault(_file(item), []).append(item)
    return made


def _file(item: Json) -> str:
    kind, _, name = id_of(item)
    if kind == "CustomResourceDefinition":
        return f"crds/{name.partition('.')[0]}.yaml"
    if kind.startswith("ValidatingAdmissionPolicy"):
        return "files/base/policies.yaml"
    for part in ("nats", "quota", "rebalancer", "agent"):
        if part in name.split("-"):
            return f"files/base/{part}.yaml"
    return "files/base/" + ("scheduler.yaml" if "scheduler" in name else "common.yaml")


def _changes(component: str, base: Sequence[Json]) -> Iterator[Json]:
    """What a component adds to the base and changes in it."""
    needed = NEEDS.get(component, ())
    there = by_id(rendering.render(needed) if needed else base)
    for found, item in by_id(rendering.render((*needed, component))).items():
        if found not in there:
            yield item
        elif item != there[found]:
            yield _patch(there[found], item)


def _changes_of_console(
    component: str, base: Sequence[Json], with_console: Sequence[Json]
) -> Iterator[Json]:
    """What a component changes in the objects of the console."""
    of_console = by_id(with_console).keys() - by_id(base).keys()
    needed = (*WITH_CONSOLE, *NEEDS.get(component, ()))
    there = by_id(with_console if needed == WITH_CONSOLE else rendering.render(needed))
    for found, item in by_id(rendering.render((*needed, component))).items():
        if found in of_console and item != there[found]:
            yield _patch(there[found], item)


def _patch(old: Json, new: Json) -> Json:
    """Raises ValueError where what an object is or is labelled with is changed."""
    about = {k: v for k, v in new["metadata"].items() if k in {"name", "namespace"}}
    patch = difference(old, new)
    if "metadata" in patch:
        raise ValueError(f"{id_of(new)}: its metadata is changed: teach changes.py to")
    return {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": about, **patch}


def _images(base: Sequence[Json]) -> dict[str, str]:
    """Image name -> reference."""
    pods = [item["spec"]["template"]["spec"] for item in base if item["kind"] in WORKLOADS]
    found = [
        container["image"]
        for pod in pods
        for container in (*pod.get("initContainers", ()), *pod["containers"])
    ]
    return {image.rpartition(":")[0].rpartition("/")[2]: image for image in found}


def _connection(base: Sequence[Json]) -> Json:
    data = by_id(base)["ConfigMap", "tessera-system", "tessera-kube-scheduler"]["data"]
    found: Json = yaml.safe_load(data["kube-scheduler.yaml"])["clientConnection"]
    return found


def _dialects(known: DialectRegistry) -> Json:
    """Dialect -> whether it is off until it is named, the options that name a resource, those that
    others' names follow from, the resources that no option names, and its manifests' profiles."""
    return {name: _names(known, name) for name in known.readers}


def _names(known: DialectRegistry, name: str) -> Json:
    """Found by trying: each option is set to another value."""
    resources = known.readers[name].resources
    options: dict[str, str] = {}
    derived = []
    for field in msgspec.structs.fields(import_module(f"{dialects.__name__}.{name}").Options):
        other = _another(field.default)
        if other is None:
            continue
        try:
            renamed = registry.load({name: {field.name: other}}).readers[name].resources
        except BadConfiguration:
            continue  # a word of a list of its own, which names nothing
        if isinstance(other, str) and renamed == resources - {field.default} | {other}:
            options[field.name] = field.default
        elif renamed != resources:
            derived.append(field.name)
    fixed = sorted(resources - set(options.values()))
    schedulers = list(known.readers[name].schedulers)
    return {
        "optional": name in known.opt_in, "options": options, "derived": derived, "fixed": fixed,
        "schedulers": schedulers,
    }  # fmt: skip


def _another(value: object) -> Any:
    """A value that is surely another one; none = this kind names no resource."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "example.org/another"
    return ["example.org"] if isinstance(value, tuple) else None


def _overlays() -> Iterator[tuple[str, str]]:
    """Values that make of the chart what the overlays of kustomize are: components, the tag of
    images, and patches for the rest."""
    for folder in sorted((KUSTOMIZE / "overlays").iterdir()):
        if folder.name in NOT_OF_CHART:
            continue
        said = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
        named = [path.rpartition("/")[2] for path in said.get("components", ())]
        components = [name for name in named if name in COMPONENTS]
        values: Json = {"components": dict.fromkeys(components, True)}
        base = rendering.render(components)
        for tag in {image["newTag"] for image in said.get("images", ())}:
            values["images"] = {"tag": tag}
            base = _tagged(base, tag)
        values["overlayPatches"] = [
            _patch(by_id(base)[found], item)
            for found, item in by_id(rendering.render_folder(folder)).items()
            if found in by_id(base) and item != by_id(base)[found]
        ]
        yield f"overlays/{folder.name}.yaml", documents.documents(HEAD, [values])


def _tagged(objects: Sequence[Json], tag: str) -> list[Json]:
    """The objects with another tag of Tessera's own images."""
    registry, _, name = _images(objects)["scheduler"].rpartition("/")
    old = name.partition(":")[2]
    text = re.sub(
        rf"({re.escape(registry)}/\w+):{re.escape(old)}", rf"\1:{tag}", json.dumps(objects)
    )
    tagged: list[Json] = json.loads(text)
    return tagged


def _readme(listed: Sequence[Section]) -> str:
    return README + "\n".join(documents.values_table(listed))


README: Final = """\
<!-- Made by deploy/helm/generate.py: edit that. -->

# Tessera's Helm chart

It renders the same objects as `deploy/kustomize`, of which it is made. How to install, upgrade and
remove it is in [docs/install.md](../../../docs/install.md#with-helm).

| | |
| --- | --- |
| `files/base` | the objects of the base, as kustomize renders them |
| `files/components` | what each component adds and changes |
| `files/console` | what components change in the console, where it is on too |
| `overlays` | values that are the overlays `single-node`, `production` and `dev` |
| `templates/objects.yaml` | base, then components, then values |
| `templates/_merge.tpl` | how they are merged: as kustomize does |
| `templates/_values.tpl` | what each value changes |

## Values

"""


def _stale(wanted: Mapping[Path, str]) -> Iterator[Path]:
    """Files that were made before, and are not any more."""
    for path in CHART.rglob("*.yaml"):
        if path not in wanted and path.read_text(encoding="utf-8").startswith(HEAD):
            yield path


def main() -> int:
    """Write all files."""
    made = files()
    for path in _stale(made):
        path.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
