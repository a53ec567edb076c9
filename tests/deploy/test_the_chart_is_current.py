"""The chart's files are what deploy/helm/generate.py makes of deploy/kustomize."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml

from deploy.helm import generate
from deploy.helm.values import COMPONENTS as OF_CHART
from tests.deploy.manifests import COMPONENTS, kubectl

OF_KUSTOMIZE = ("own-kube-scheduler", "passwords")
"""The chart has values and a hook in their place."""
HOW = "run `.venv/bin/python -m deploy.helm.generate`"


@functools.cache
def made() -> dict[Path, str]:
    kubectl()
    return generate.files()


def test_files_are_as_they_would_be_made_now() -> None:
    stale = [
        str(path.relative_to(generate.CHART))
        for path, text in made().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], HOW


def test_no_file_is_left_of_what_is_gone() -> None:
    left = [
        str(path.relative_to(generate.CHART))
        for path in generate.CHART.rglob("*.yaml")
        if path not in made() and path.read_text(encoding="utf-8").startswith(generate.HEAD)
    ]
    assert left == [], HOW


def test_every_component_of_kustomize_is_a_switch_or_a_value() -> None:
    assert sorted((*OF_CHART, *OF_KUSTOMIZE)) == list(COMPONENTS)
    values = yaml.safe_load((generate.CHART / "values.yaml").read_text())
    assert values["components"] == dict.fromkeys(OF_CHART, False)
    assert values["kubeScheduler"]["enabled"] is True  # false: as own-kube-scheduler
