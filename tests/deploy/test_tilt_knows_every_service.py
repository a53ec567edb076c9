"""The Tiltfile is Starlark that evaluates; Tilt's functions are played by ones that only listen."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.session_fixtures import CI
from tests.deploy.manifests import REGISTRY, ROOT, Json, built_from, containers, workloads

TILTFILE = ROOT / "tilt/Tiltfile"
PRELUDE = "os = struct(path = struct(abspath = abspath, exists = exists), getenv = getenv)\n"
LISTENED = (
    "allow_k8s_contexts", "docker_build", "k8s_resource", "k8s_yaml", "kustomize",
    "local_resource", "print", "run", "sync",
)  # fmt: skip


class Tilt:
    """What the file said to Tilt."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.services: list[str] = []

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, named) for called, args, named in self.calls if called == name]


def evaluated(contexts: str = "") -> Tilt:
    try:
        starlark = importlib.import_module("starlark")
    except ImportError:
        if CI:
            raise
        pytest.skip("starlark-pyo3 is not installed: no parser of Starlark")
    tilt, module = Tilt(), starlark.Module()

    def listens(name: str) -> Any:
        def called(*args: Any, **named: Any) -> Any:
            tilt.calls.append((name, args, named))
            return [name, *args]

        return called

    for name in LISTENED:
        module.add_callable(name, listens(name))
    module.add_callable("abspath", lambda path: os.path.normpath(TILTFILE.parent / path))
    module.add_callable("exists", lambda path: Path(path).exists())
    module.add_callable("getenv", lambda _, otherwise: contexts or otherwise)
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
        f"{REGISTRY}/{image}"
        for image in ("agent", "console", "quota", "rebalancer", "scheduler", "simulated")
    }
    for options in built.values():
        assert Path(options["dockerfile"]).is_file()
        assert all((Path(options["context"]) / path).exists() for path in options["only"])


def test_services_without_an_image_run_here() -> None:
    tilt = evaluated()
    images = {args[0].removeprefix(f"{REGISTRY}/") for args, _ in tilt.of("docker_build")}
    built = images - {"simulated"}
    here = {args[0] for args, _ in tilt.of("local_resource")}
    assert built | here == set(tilt.services)
    assert not built & here


def resources(tilt: Tilt) -> dict[str, dict[str, Any]]:
    return {args[0]: options for args, options in tilt.of("k8s_resource")}


def rendered(tilt: Tilt) -> list[Json]:
    """The objects that Tilt applies."""
    folders = [Path(folder) for (folder,), _ in tilt.of("kustomize")]
    assert folders == [ROOT / "tilt", ROOT / "deploy/simulated"]
    return [item for folder in folders for item in built_from(folder)]


def test_resources_are_those_of_the_manifests() -> None:
    tilt = evaluated()
    assert resources(tilt).keys() == {w["metadata"]["name"] for w in workloads(rendered(tilt))}


def test_a_run_that_waits_for_all_resources_ends() -> None:
    """`tilt ci` waits for every pod, so what has none here is not waited for."""
    tilt = evaluated()
    none = {"tessera-nats-cluster", "tessera-agent-iluvatar", "tessera-agent-mthreads"}
    ignored = {n for n, o in resources(tilt).items() if o.get("pod_readiness") == "ignore"}
    assert ignored == {*none, "tessera-passwords"}
    for name, options in resources(tilt).items():
        assert set(options.get("resource_deps", ())) <= resources(tilt).keys() - ignored, name


def test_only_named_clusters_are_written_to() -> None:
    ((usual,), _), *_ = evaluated().of("allow_k8s_contexts")
    assert "kind-tessera" in usual
    ((more,), _), *_ = evaluated("mine,yours").of("allow_k8s_contexts")
    assert more == [*usual, "mine", "yours"]


@pytest.mark.parametrize("service", ["agent", "quota", "rebalancer"])
def test_code_that_is_changed_lies_where_the_image_has_it(service: str) -> None:
    """And the service can be ended there, and is started again."""
    tilt = evaluated()
    (options,) = [o for (n,), o in tilt.of("docker_build") if n == f"{REGISTRY}/{service}"]
    *syncs, end = options["live_update"]
    text = (ROOT / f"deploy/images/{service}.Dockerfile").read_text()
    (copied,) = [line for line in text.splitlines() if line.endswith(" /opt/tessera/lib/")]
    folders = copied.split()[1:-1]
    assert syncs == [["sync", str(ROOT / folder), "/opt/tessera/lib"] for folder in folders]
    assert end == ["run", "kill $(cat /tmp/service)"]
    (running,) = [
        c for c in containers(rendered(tilt))
        if c.spec["name"] == service and c.workload["metadata"]["name"] not in (
            "tessera-agent-iluvatar", "tessera-agent-mthreads")
    ]  # fmt: skip
    script = running.spec["command"][2]
    assert f"python -m tessera_{service} & echo $! > /tmp/service" in script
    assert running.spec["securityContext"]["readOnlyRootFilesystem"] is False


def test_the_root_has_a_tiltfile_that_includes_it() -> None:
    lines = (ROOT / "Tiltfile").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["include('./tilt/Tiltfile')"]
