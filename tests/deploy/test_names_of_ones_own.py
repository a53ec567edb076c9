"""A cluster whose dialects have names of their own: one component configures all services,
kube-scheduler and the policies the same."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml

from tessera_core.registry import kube_scheduler_config
from tessera_core.registry.registry import load
from tessera_runtime import dialect_config
from tests.deploy.manifests import Json, combined, containers, environment, named
from tests.deploy.test_generated_files_are_current import generator

MINE: Final = {"hami": {"memory": "example.org/vmem"}, "volcano": {"enabled": False}}
MOUNTED: Final = "/etc/tessera/dialects"


def with_component(folder: Path, *arguments: str, others: tuple[str, ...] = ()) -> list[Json]:
    """The base with what the generator makes of these options."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(MINE))
    made = generator().main([
        "--dialects", str(folder / "mine.yaml"), "--into", str(folder / "names"), *arguments,
    ])  # fmt: skip
    assert made == 0
    return combined(folder, others, own=["names"])


def data(objects: list[Json], beginning: str, file: str) -> str:
    (found,) = [
        o for o in named(objects, "ConfigMap") if o["metadata"]["name"].startswith(beginning)
    ]
    text: str = found["data"][file]
    return text


def test_every_service_reads_the_same_file(tmp_path: Path) -> None:
    objects = with_component(tmp_path)
    (there,) = [
        o["metadata"]["name"]
        for o in named(objects, "ConfigMap")
        if o["metadata"]["name"].startswith("tessera-dialects")
    ]
    services = [
        c
        for c in containers(objects)
        if c.spec["name"] in {"scheduler", "agent", "quota", "rebalancer"}
    ]
    assert len(services) == 3 + len(load().vendors)  # an agent for each
    for container in services:
        assert environment(container, objects)["TESSERA_DIALECTS_FILE"] == (
            f"{MOUNTED}/dialects.yaml"
        )
        (volume,) = [m["name"] for m in container.spec["volumeMounts"] if m["mountPath"] == MOUNTED]
        (source,) = [v for v in container.pod["volumes"] if v["name"] == volume]
        assert source["configMap"]["name"] == there


def test_it_says_what_was_requested_for(tmp_path: Path) -> None:
    objects = with_component(tmp_path)
    file = tmp_path / "read.yaml"
    file.write_text(data(objects, "tessera-dialects", "dialects.yaml"))
    known = dialect_config.load(file)
    assert "volcano" not in known.dialects
    assert known.owners["example.org/vmem"] == "hami"
    assert "nvidia.com/gpumem" not in known.owners


@pytest.mark.parametrize("aliases", [False, True])
def test_kube_scheduler_leaves_these_names_to_us(tmp_path: Path, *, aliases: bool) -> None:
    more = ("--aliases",) if aliases else ()
    others = ("scheduler-aliases",) if aliases else ()
    objects = with_component(tmp_path, *more, others=others)
    config = yaml.safe_load(data(objects, "tessera-kube-scheduler", "kube-scheduler.yaml"))
    (extender,) = config["extenders"]
    managed = {r["name"]: r["ignoredByScheduler"] for r in extender["managedResources"]}
    assert managed["example.org/vmem"] is True
    assert "nvidia.com/gpumem" not in managed
    known = dialect_config.load(tmp_path / "mine.yaml")
    profiles = kube_scheduler_config.profiles(known) if aliases else ("tessera-scheduler",)
    assert {p["schedulerName"] for p in config["profiles"]} == set(profiles)


def test_policies_guard_the_keys_of_these_dialects(tmp_path: Path) -> None:
    objects = with_component(tmp_path)
    for name in ("tessera-pods", "tessera-results", "tessera-foreign-keys", "tessera-bindings"):
        (policy,) = named(objects, "ValidatingAdmissionPolicy", name)
        (condition,) = policy["spec"]["matchConditions"]
        wanted = [
            made["spec"]["matchConditions"][0]["expression"]
            for made in generator()._key_policies(dialect_config.load(tmp_path / "mine.yaml"))
            if made["metadata"]["name"] == name and "matchConditions" in made["spec"]
        ]
        assert [condition["expression"]] == wanted


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("hami: {memry: x}", "memry"),
        ("other: {enabled: true}", "no such dialect"),
        ("hami: {memory: nvidia.com/gpu}", "five different names"),
    ],
)
def test_nonsense_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reported: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(SystemExit):
        generator().main(["--dialects", str(tmp_path / "bad.yaml"), "--into", str(tmp_path / "x")])
    assert reported in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
