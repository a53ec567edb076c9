"""`make images`: with a builder that answers, or as archives where none does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.agent.machine import built
from tests.deploy.manifests import REGISTRY, ROOT

SCRIPT: Final = ROOT / "deploy" / "images" / "build.sh"
IMAGES: Final = sorted(p.stem for p in SCRIPT.parent.glob("*.Dockerfile"))


def a_builder(folder: Path, name: str) -> Path:
    """A program that answers, and writes down what it is called with."""
    called = folder / "called"
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "{name} $*" >> {called}\n')
    program.chmod(0o755)
    return called


def build(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words], capture_output=True, text=True, check=False, cwd=ROOT,
        env={"PATH": os.defpath, **env},
    )  # fmt: skip


def test_every_image_is_built_under_the_name_that_is_given(tmp_path: Path) -> None:
    called = a_builder(tmp_path, "docker")
    ran = build("example.org/t", "1.2.3", PATH=f"{tmp_path}:{os.defpath}")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [f"example.org/t/{image}:1.2.3" for image in IMAGES]
    commands = [line for line in called.read_text().splitlines() if " build " in line]
    assert len(commands) == len(IMAGES)
    for image, command in zip(IMAGES, commands, strict=True):
        assert f"--file {ROOT}/deploy/images/{image}.Dockerfile" in command
        assert f"--tag example.org/t/{image}:1.2.3 {ROOT}" in command
        assert "--ignorefile" not in command


def test_podman_is_given_what_to_leave_out(tmp_path: Path) -> None:
    called = a_builder(tmp_path, "podman")
    ran = build("example.org/t", "1", "quota", PATH=f"{tmp_path}:{os.defpath}", BUILDER="podman")
    assert ran.returncode == 0, ran.stderr
    ignored = f"--ignorefile={ROOT}/deploy/images/quota.Dockerfile.dockerignore"
    assert ignored in called.read_text()


def test_without_a_builder_an_archive_is_written(tmp_path: Path) -> None:
    built("tessera-work")
    python = str(ROOT / ".venv/bin/python")
    ran = build(
        REGISTRY, "dev", "simulated", BUILDER="none", ARCHIVES=str(tmp_path), PYTHON=python
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{tmp_path}/simulated.tar\n"
    with tarfile.open(tmp_path / "simulated.tar") as tar:

        def read(name: str) -> bytes:
            found = tar.extractfile(name)
            assert found is not None
            return found.read()

        (image,) = json.loads(read("manifest.json"))
        config = json.loads(read(image["Config"]))
        digests = [f"sha256:{hashlib.sha256(read(one)).hexdigest()}" for one in image["Layers"]]
    assert image["RepoTags"] == [f"{REGISTRY}/simulated:dev"]
    assert config["rootfs"]["diff_ids"] == digests
    assert config["config"]["Cmd"] == ["tessera-work"]


def test_what_makes_no_sense_is_named(tmp_path: Path) -> None:
    for words, reported in (
        (("example.org/t",), "build.sh REGISTRY TAG"),
        (("example.org/t", "1", "planner"), "there is no image 'planner'; there are: agent"),
    ):
        ran = build(*words)
        assert ran.returncode == 1
        assert reported in ran.stderr
    ran = build("example.org/t", "1", BUILDER="nobody")
    assert "BUILDER=nobody: `nobody info` fails" in ran.stderr
