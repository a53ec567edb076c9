"""The Tiltfile is Starlark that evaluates; Tilt's functions are played by ones that only listen."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.session_fixtures import CI
from tests.deploy.manifests import REGISTRY, ROOT, named, overlay

TILTFILE = ROOT / "tilt/Tiltfile"
PRELUDE = "os = struct(path = struct(abspath = abspath, exists = exists))\n"
LISTENED = ("docker_build", "local_resource", "k8s_yaml", "k8s_resource", "kustomize")


class Tilt:
    """What the file said to Tilt."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.services: list[str] = []

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, named) for called, args, named in self.calls if called == name]


def evaluated() -> Tilt:
    try:
        starlark = importlib.import_module("starlark")
    except ImportError:
        if CI:
            raise
        pytest.skip("starlark-pyo3 is not installed: no parser of Starlark")
    tilt, module = Tilt(), starlark.Module()

    def listens(name: str) -> Any:
        def called(*args: Any, **named: Any) -> str:
            tilt.calls.append((name, args, named))
            return name

        return called

    for name in LISTENED:
        module.add_callable(name, listens(name))
    module.add_callable("abspath", lambda path: os.path.normpath(TILTFILE.parent / path))
    module.add_callable("exists", lambda path: Path(path).exists())
    module.add_callable("read_yaml", lambda path: yaml.safe_load(Path(path).read_text()))
    known = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
    dialect = starlark.Dialect.extended()
    for text in (PRELUDE, TILTFILE.read_text(encoding="utf-8")):
        starlark.eval(module, starlark.parse("Tiltfile", text, dialect), known)
    tilt.services = list(module["SERVICES"])
    return tilt


def test_its_list_is_the_folder_of_services() -> None:
    there = sorted(p.name for p in (ROOT / "services").iterdir() if (p / "pyproject.toml").exists())
    assert evaluated().services == there


def test_images_that_the_overlay_runs_are_built_from_what_is_there() -> None:
    tilt = evaluated()
    built = {args[0]: options for args, options in tilt.of("docker_build")}
    assert built.keys() == {
        f"{REGISTRY}/{service}"
        for service in ("agent", "console", "quota", "rebalancer", "scheduler")
    }
    for options in built.values():
        assert Path(options["dockerfile"]).is_file()
        assert all((Path(options["context"]) / path).exists() for path in options["only"])


def test_services_without_an_image_run_here() -> None:
    tilt = evaluated()
    built = {args[0].removeprefix(f"{REGISTRY}/") for args, _ in tilt.of("docker_build")}
    here = {args[0] for args, _ in tilt.of("local_resource")}
    assert built | here == set(tilt.services)
    assert not built & here


def test_resources_are_those_of_the_overlay() -> None:
    tilt = evaluated()
    ((folder,), _) = tilt.of("kustomize")[0]
    assert Path(folder) == ROOT / "deploy/kustomize/overlays/dev"
    resources = {args[0] for args, _ in tilt.of("k8s_resource")}
    objects = overlay("dev")
    workloads = {
        item["metadata"]["name"]
        for kind in ("Deployment", "StatefulSet", "DaemonSet")
        for item in named(objects, kind)
    }
    assert resources == workloads
