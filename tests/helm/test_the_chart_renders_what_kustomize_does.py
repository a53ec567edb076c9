"""The chart and deploy/kustomize make the same objects, whole, whatever is on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm.generate import NEEDS, NOT_OF_CHART, OWN_NAMESPACE
from deploy.helm.rendering import Id, by_id, objects_of
from deploy.helm.values import COMPONENTS
from tests.deploy.manifests import OVERLAYS, combined, overlay
from tests.deploy.test_names_of_ones_own import with_component
from tests.helm.chart import CHART, HOOKS, OF_HELM, installed, refused, rendered

Json = dict[str, Any]

SAME_OBJECTS = (
    "console", "ha", "nats-tls", "otel", "prometheus", "scheduler-aliases", "device-plugin",
)  # fmt: skip
"""These change what others of them change too."""
MAKES_PASSWORDS = {
    (kind, "tessera-system", "tessera-passwords")
    for kind in ("ServiceAccount", "Role", "RoleBinding", "Job")
}
"""What the component `passwords` adds to overlays: the chart has a hook for it."""
OF_CHART = [name for name in OVERLAYS if name not in NOT_OF_CHART]
COMBINATIONS = [
    (),
    *((one,) for one in COMPONENTS),
    *itertools.combinations(SAME_OBJECTS, 2),
    ("vendor-plugins", "migration"),
    tuple(COMPONENTS),
]


def with_needs(chosen: Sequence[str]) -> list[str]:
    """In the order in which the chart applies them."""
    wanted = {*chosen, *(need for one in chosen for need in NEEDS.get(one, ()))}
    return [name for name in COMPONENTS if name in wanted]


def of_kustomize(objects: Sequence[Json]) -> dict[Id, Json]:
    """By plain names, without the namespace, which helm makes, and the passwords of overlays."""
    plain = objects_of(yaml.safe_dump_all(objects, sort_keys=False))
    found = by_id(json.loads(json.dumps(plain)))
    left_out = {OWN_NAMESPACE, *HOOKS, *MAKES_PASSWORDS}
    return {name: item for name, item in found.items() if name not in left_out}


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=lambda chosen: "+".join(chosen) or "none")
def test_components_are_the_same(chosen: tuple[str, ...], tmp_path: Path) -> None:
    names = with_needs(chosen)
    wanted = of_kustomize(combined(tmp_path, names))
    assert installed(rendered({"components": dict.fromkeys(names, True)})) == wanted


@pytest.mark.parametrize("name", OF_CHART)
def test_overlays_are_the_same(name: str) -> None:
    found = rendered({}, "--values", CHART / "overlays" / f"{name}.yaml")
    assert installed(found) == of_kustomize(overlay(name))


def test_every_object_says_that_it_is_helms() -> None:
    for name, item in rendered().items():
        if item["kind"] != "CustomResourceDefinition" and name not in HOOKS:
            assert set(OF_HELM) <= item["metadata"]["labels"].keys(), name


def test_hooks_are_the_passwords_and_what_uninstalls() -> None:
    found = rendered()
    hooks = {n for n, i in found.items() if "helm.sh/hook" in i["metadata"].get("annotations", {})}
    assert hooks == HOOKS


@pytest.mark.parametrize("name", OF_CHART)
def test_overlays_leave_room_for_ones_own_registry(name: str) -> None:
    own = {"images": {"registry": "example.org/t"}}
    found = rendered(own, "--values", CHART / "overlays" / f"{name}.yaml")
    assert "registry.invalid" not in json.dumps(list(found.values()))


OWN_NAMES = (
    {"hami": {"memory": "example.org/vmem"}, "volcano": {"enabled": False}},
    {"koordinator": {"resource_whole": "example.org/gpu"}, "mthreads": {"core": "example.org/c"}},
    {"hami": {"enabled": False}, "iluvatar": {"enabled": False}, "replicas": {"enabled": True}},
)


@pytest.mark.parametrize("mine", OWN_NAMES, ids=lambda mine: "+".join(mine))
@pytest.mark.parametrize("aliases", [False, True])
def test_resources_by_other_names_are_the_same(
    mine: Json, *, aliases: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As deploy/kustomize/generate.py --dialects makes them. The policies stay those of the base,
    which guard the keys of all dialects, also of those that are off."""
    monkeypatch.setattr("tests.deploy.test_names_of_ones_own.MINE", mine)
    names = ("scheduler-aliases",) if aliases else ()
    options = ("--aliases",) if aliases else ()
    wanted = of_kustomize(with_component(tmp_path, *options, others=names))
    base = of_kustomize(combined(tmp_path, names))
    wanted |= {n: i for n, i in base.items() if n[0] == "ValidatingAdmissionPolicy"}
    found = installed(rendered({"components": dict.fromkeys(names, True), "dialects": mine}))
    for objects in (wanted, found):
        for name in ("tessera-dialects", "tessera-kube-scheduler"):
            data = objects["ConfigMap", "tessera-system", name]["data"]
            data |= {file: yaml.safe_load(text) for file, text in data.items()}
    assert found == wanted


def test_names_that_follow_from_an_option_are_refused() -> None:
    said = refused({"dialects": {"gpumanager": {"prefixes": ["example.org"]}}})
    assert "dialects.gpumanager.prefixes" in said
