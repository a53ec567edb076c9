"""Images cannot be built everywhere; what they would hold can be read from their Dockerfiles: every
package that a service imports, at the versions that were tested."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.deploy.manifests import KUSTOMIZE, REGISTRY, ROOT, combined, containers, overlay

IMAGES = ROOT / "deploy/images"
ALL = tuple(sorted(p.name.removesuffix(".Dockerfile") for p in IMAGES.glob("*.Dockerfile")))
NAMES = tuple(name for name in ALL if name != "simulated")
"""Those of services."""
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def dockerfile(name: str) -> str:
    return (IMAGES / f"{name}.Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def copied(name: str) -> list[str]:
    """What comes from the repository."""
    lines = [line for line in dockerfile(name).splitlines() if line.startswith("COPY ")]
    words = [line.split()[1:-1] for line in lines if "--from=" not in line]
    return [word for row in words for word in row if not word.startswith("--")]


def pins(lock: Path) -> dict[str, set[str]]:
    """Name -> versions: for several Pythons there may be several."""
    found: dict[str, set[str]] = {}
    for name, version in PIN.findall(lock.read_text(encoding="utf-8")):
        found.setdefault(normal(name), set()).add(version)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_image_of_the_manifests_has_a_dockerfile(tmp_path: Path) -> None:
    own = {
        c.spec["image"].partition(":")[0].removeprefix(f"{REGISTRY}/")
        for c in containers([*combined(tmp_path, ("console",)), *overlay("simulated")])
        if "tessera" in c.spec["image"]
    }
    assert own == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_what_is_copied_is_there(name: str) -> None:
    missing = [path for path in copied(name) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("name", ALL)
def test_the_context_has_what_is_copied(name: str) -> None:
    lines = (IMAGES / f"{name}.Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in lines if line.startswith("!")]
    for path in copied(name):
        assert any(Path(path).match(pattern) for pattern in let_in), path


TAKEN_IN = {"setuptools", "grpcio-tools"}
"""Packages that others import where they are installed, and do without where they are not."""


@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_in_the_image(name: str) -> None:
    code = f"import sys, tessera_{name}.main; print(*{{m.partition('.')[0] for m in sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    own = {p.name for path in copied(name) for p in (ROOT / path).glob("tessera_*")}
    assert {m for m in imported if m.startswith("tessera_")} <= own
    locked = pins(IMAGES / f"{name}.lock")
    owners = packages_distributions()
    needed = {
        normal(owner)
        for module in imported
        for owner in owners.get(module, ())
        if not owner.startswith("tessera-")
    }
    assert needed - locked.keys() - TAKEN_IN == set()


@pytest.mark.parametrize("name", NAMES)
def test_whatever_its_packages_request_for_is_locked(name: str) -> None:
    locked = pins(IMAGES / f"{name}.lock")
    for path in copied(name):
        project = (ROOT / path).parent / "pyproject.toml"
        if path.endswith("/src") and project.exists():
            asked = tomllib.loads(project.read_text())["project"]["dependencies"]
            names = {normal(re.split(r"[<>=\[;~! ]", one)[0]) for one in asked}
            assert {n for n in names if not n.startswith("tessera-")} <= locked.keys(), path


@pytest.mark.parametrize("name", NAMES)
def test_versions_are_those_that_were_tested(name: str) -> None:
    tested, locked = pins(ROOT / "requirements.lock"), pins(IMAGES / f"{name}.lock")
    assert {n: v for n, v in locked.items() if not v <= tested.get(n, set())} == {}, (
        "run deploy/images/lock.sh"
    )


@pytest.mark.parametrize("lock", sorted(IMAGES.glob("*.lock")), ids=lambda path: path.name)
def test_everything_that_is_fetched_is_known_by_its_hash(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    assert [e.splitlines()[0] for e in entries if e.strip() and "--hash=sha256:" not in e] == []
    assert "://" not in text
    assert f"--require-hashes -r /tmp/{lock.name}" in "".join(map(dockerfile, NAMES)) or (
        f"--require-hashes --only-binary :all: -r /tmp/{lock.name}"
        in "".join(map(dockerfile, NAMES))
    )


@pytest.mark.parametrize("name", ALL)
def test_it_runs_as_nobody_from_a_base_that_is_pinned(name: str) -> None:
    text = dockerfile(name)
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["65532:65532"]
    program = f'"python", "-m", "tessera_{name}"' if name in NAMES else '"tessera-work"'
    assert f"CMD [{program}]" in text


def test_programs_of_the_manifests_are_in_the_images() -> None:
    for container in containers(overlay("production")):
        name = container.spec["image"].partition(":")[0].removeprefix("tessera/")
        program = container.spec.get("command", [""])[0]
        if name in NAMES and program:
            assert f"deploy/images/{program}" in copied(name), container.name
    assert (KUSTOMIZE / "passwords.sh").stat().st_mode & 0o111
