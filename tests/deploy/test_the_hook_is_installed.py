"""`install-hook` puts the library on a node without touching what containers have mounted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tessera_core.hook.paths import HOOK_LIBRARY_HOST, PRELOAD_HOST
from tests.deploy.manifests import ROOT

PROGRAM = ROOT / "deploy/images/install-hook"


def install(content: str, root: Path) -> None:
    library = root.parent / "libtessera.so"
    library.write_text(content)
    subprocess.run(["sh", PROGRAM, library, root], check=True, capture_output=True)


def on(root: Path, path: str) -> Path:
    return root / path.removeprefix("/")


def state(root: Path) -> dict[str, tuple[int, int]]:
    """Every file with its inode and the time it was written."""
    return {
        str(p.relative_to(root)): (p.lstat().st_ino, p.lstat().st_mtime_ns)
        for p in root.rglob("*")
        if not p.is_dir()
    }


def test_the_library_is_where_containers_are_given_it_from(tmp_path: Path) -> None:
    root = tmp_path / "host"
    install("one", root)
    library, preload = on(root, HOOK_LIBRARY_HOST), on(root, PRELOAD_HOST)
    assert library.read_text() == "one"
    assert library.stat().st_mode & 0o777 == 0o644
    assert preload.read_text() == f"{HOOK_LIBRARY_HOST}\n"
    assert preload.stat().st_mode & 0o777 == 0o644


def test_a_newer_one_takes_its_place_and_the_older_stays_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "host"
    install("one", root)
    library = on(root, HOOK_LIBRARY_HOST)
    mounted = library.resolve()
    before = mounted.stat()
    install("two", root)
    assert library.read_text() == "two"
    assert mounted.read_text() == "one"
    assert (mounted.stat().st_ino, mounted.stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )
    assert not library.readlink().is_absolute()  # it is read on the node and in the pod


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "host"
    install("one", root)
    before = state(root)
    install("one", root)
    assert state(root) == before


def test_going_back_is_a_rename_too(tmp_path: Path) -> None:
    root = tmp_path / "host"
    install("one", root)
    install("two", root)
    before = state(root)
    install("one", root)
    assert on(root, HOOK_LIBRARY_HOST).read_text() == "one"
    link = HOOK_LIBRARY_HOST.removeprefix("/")
    assert {k: v for k, v in state(root).items() if k != link} == {
        k: v for k, v in before.items() if k != link
    }


@pytest.mark.parametrize("leftover", ["lib/.new-17", "lib/.new-link", "etc/.new-preload"])
def test_what_was_interrupted_is_done_again(tmp_path: Path, leftover: str) -> None:
    root = tmp_path / "host"
    folder = on(root, HOOK_LIBRARY_HOST).parents[1]
    (folder / leftover).parent.mkdir(parents=True)
    (folder / leftover).write_text("half")
    install("one", root)
    assert on(root, HOOK_LIBRARY_HOST).read_text() == "one"
    assert not (folder / leftover).exists()
