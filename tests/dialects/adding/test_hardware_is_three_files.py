"""A dialect, its vendor and how the agent reads its cards: three files that an outsider adds to the
tree. Nothing is edited, but for what the generator writes; the tests of all dialects hold."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
COPIED = (
    "libs/core/src", "services/agent/src", "deploy/kustomize", "tests/dialects", "tests/house",
    "tests/__init__.py", "docs/glossary.md", "pyproject.toml",
)  # fmt: skip
ADDED = {
    "acme.py": "libs/core/src/tessera_core/dialects/acme.py",
    "acme_vendor.py": "libs/core/src/tessera_core/vendors/acme.py",
    "acme_reader.py": "services/agent/src/tessera_agent/readers/acme.py",
}
MADE = "deploy/kustomize/base/agents/acme/kustomization.yaml"
HEAD = b"# Made by deploy/kustomize/generate.py: edit that.\n"
SUITE = (
    "tests/dialects/test_every_dialect.py", "tests/house/test_vendor_words_stay_home.py",
    "tests/house/test_dialects_words_stay_home.py", "tests/house/test_dialects_import_the_kit.py",
)  # fmt: skip
LOADED = """
from tessera_core.registry.registry import load
from tessera_core.vendors.acme import MONITORING
from tessera_agent.readers.acme import open_reader

registry = load()
assert registry.owners["acme.com/card"] == "acme"
assert registry.vendors["acme"].agent_env == {"ACME_VISIBLE_DEVICES": "all"}
assert MONITORING.vendor == "acme"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the parts that a dialect and a vendor may touch."""
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return tmp_path


def run(tree: Path, *arguments: str) -> None:
    """Python, with the tree's own core and agent before the installed ones."""
    sources = os.pathsep.join(str(tree / name) for name in COPIED[:2])
    environment = {"PATH": os.defpath, "PYTHONPATH": sources, "HOME": str(tree)}
    done = subprocess.run(
        [sys.executable, "-B", *arguments], cwd=tree, env=environment, capture_output=True,
        text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def contents(tree: Path) -> dict[str, bytes]:
    return {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}


def added(tree: Path) -> None:
    for source, target in ADDED.items():
        shutil.copy(HERE / source, tree / target)


def test_the_generator_writes_the_rest(tree: Path) -> None:
    before = contents(tree)
    added(tree)
    run(tree, "-c", LOADED)
    run(tree, "deploy/kustomize/generate.py")
    after = contents(tree)
    assert after.keys() - before.keys() == {*ADDED.values(), MADE}
    assert before.keys() <= after.keys()
    changed = {name for name, text in before.items() if after[name] != text}
    assert changed
    assert all(after[name].startswith(HEAD) for name in changed)
    assert b"acme.com/card" in after["deploy/kustomize/base/scheduler/kube-scheduler.yaml"]
    assert b"  - acme\n" in after["deploy/kustomize/base/agents/kustomization.yaml"]
    assert b"ACME_VISIBLE_DEVICES" in after[MADE]


@pytest.mark.slow
def test_the_tests_of_all_dialects_hold(tree: Path) -> None:
    added(tree)
    run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *SUITE)
