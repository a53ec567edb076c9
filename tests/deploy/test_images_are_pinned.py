"""`deploy/images/pins.sh` makes a component of digests, and an overlay with it names them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.manifests import COMPONENTS, KUSTOMIZE, ROOT, built_from, containers

DIGEST = "sha256:" + "ab" * 32
IMAGES = ("agent", "quota", "rebalancer", "scheduler")


def pins(lines: str) -> subprocess.CompletedProcess[str]:
    program = ROOT / "deploy" / "images" / "pins.sh"
    return subprocess.run([program], input=lines, capture_output=True, text=True, check=False)


def test_an_overlay_names_the_digests(tmp_path: Path) -> None:
    made = pins("".join(f"example.org:5000/t/{image}@{DIGEST}\n" for image in IMAGES))
    assert made.returncode == 0, made.stderr
    (tmp_path / "pins").mkdir()
    (tmp_path / "pins" / "kustomization.yaml").write_text(made.stdout)
    up = "/".join([".."] * len(tmp_path.resolve().parts[1:]))
    (tmp_path / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        f"resources: [{up}{KUSTOMIZE}/base]\ncomponents: [pins]\n"
    )
    found = {container.spec["image"] for container in containers(built_from(tmp_path))}
    assert {f"example.org:5000/t/{image}@{DIGEST}" for image in IMAGES} <= found
    assert not any("registry.invalid" in image for image in found)
    assert "pins" not in COMPONENTS


@pytest.mark.parametrize(
    "line",
    ["", "example.org/t/agent:0.1.0\n", f"agent@{DIGEST}\n", f"example.org/t/agent@{DIGEST}0\n"],
)
def test_what_is_no_digest_is_refused(line: str) -> None:
    made = pins(line)
    assert (made.returncode, made.stdout) == (1, "")
    assert made.stderr.startswith("pins: ")
