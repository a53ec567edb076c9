"""What manifests repeat of the code is what the code says."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import yaml

from tessera_core.registry import registry
from tessera_runtime import dialect_config
from tests.deploy.manifests import KUSTOMIZE

HOW = "run `.venv/bin/python deploy/kustomize/generate.py`"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", KUSTOMIZE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_files_are_as_they_would_be_made_now() -> None:
    stale = [
        str(path.relative_to(KUSTOMIZE))
        for path, text in generator().files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], HOW


def test_no_file_is_left_of_what_is_gone() -> None:
    made = generator()
    wanted = made.files()
    left = [
        str(path.relative_to(KUSTOMIZE))
        for path in KUSTOMIZE.rglob("*.yaml")
        if path not in wanted and path.read_text(encoding="utf-8").startswith(made.HEAD)
    ]
    assert left == [], HOW


def test_there_is_an_agent_for_every_vendor() -> None:
    vendors = registry.load().vendors
    there = yaml.safe_load((KUSTOMIZE / "base/agents/kustomization.yaml").read_text())["resources"]
    assert there == ["access", *vendors]


def test_the_dialects_file_is_one_that_services_read() -> None:
    known = dialect_config.load(KUSTOMIZE / "base/dialects/dialects.yaml")
    assert known.dialects.keys() == registry.load(installed=True).dialects.keys()
