"""`install-hook` lays links to the driver where containers of GPU Manager's users get them from."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tessera_core.hook.paths import DRIVER_HOST
from tests.deploy.manifests import ROOT

LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"


def links(root: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Each link after a run of it, and where that leads."""
    root.mkdir(exist_ok=True)
    library = root / "libtessera.so"
    library.write_text("library")
    program = ROOT / "deploy/images/install-hook"
    subprocess.run(
        ["sh", program, library, root], check=True, capture_output=True,
        env={"PATH": os.defpath, **(env or {})},
    )  # fmt: skip
    folder = root / DRIVER_HOST.removeprefix("/")
    return {
        str(path.relative_to(folder)): str(path.readlink())
        for path in folder.rglob("*")
        if not path.is_dir()
    }


def test_they_lead_to_where_the_runtime_puts_the_driver(tmp_path: Path) -> None:
    found = links(tmp_path)
    assert found["bin/nvidia-smi"] == "/usr/bin/nvidia-smi"
    for name in ("libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1"):
        assert found[f"lib64/{name}"] == f"{LIBRARIES}/{name}"
        assert found[f"lib/{name}"] == f"/usr/lib/i386-linux-gnu/{name}"


def test_a_node_may_keep_its_libraries_elsewhere(tmp_path: Path) -> None:
    links(tmp_path)
    found = links(tmp_path, {"DRIVER_LIBRARIES": "/usr/lib64"})
    assert {where for name, where in found.items() if name.startswith("lib64/")} == {
        f"/usr/lib64/{name.removeprefix('lib64/')}" for name in found if name.startswith("lib64/")
    }


def test_what_was_interrupted_is_done_again_and_nothing_twice(tmp_path: Path) -> None:
    before = links(tmp_path)
    folder = tmp_path / DRIVER_HOST.removeprefix("/")
    (folder / "lib64/.new-link").symlink_to("/half")
    (folder / "lib64/libcuda.so.1").unlink()
    assert links(tmp_path) == before
    made = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    assert links(tmp_path) == before
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*") if path.is_symlink()} == {
        path: time for path, time in made.items() if path.is_symlink()
    }
