"""The files below a node's root: links, a journal, a copy to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_agent.containerd.node_files import StoredFiles, below
from tessera_core.node.containerd_config import ConfigPaths, ContainerdFiles, ContainerdRefused

PATHS = ConfigPaths()
CONFIG = b"# ours\nversion = 3\n"
WANTED = ContainerdFiles(b"imports = []\nversion = 3\n", b"version = 3\n")


def a_node(root: Path) -> StoredFiles:
    """A node with a configuration."""
    folder = root / "etc/containerd"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_bytes(CONFIG)
    (folder / "config.toml").chmod(0o640)
    return StoredFiles(root, PATHS, "/var/lib/tessera/containerd")


def test_absolute_links_begin_at_the_nodes_root(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "run/up").symlink_to("../../../run")
    assert below(tmp_path, "/var/run/nri/nri.sock") == tmp_path / "run/nri/nri.sock"
    assert below(tmp_path, "/run/up/x") == tmp_path / "run/x"
    (tmp_path / "round").symlink_to("/round")
    with pytest.raises(ContainerdRefused, match="lead in a circle"):
        below(tmp_path, "/round/x")


def test_files_are_written_with_their_modes_and_go_again(tmp_path: Path) -> None:
    files = a_node(tmp_path)
    former = files.read()
    assert former == ContainerdFiles(CONFIG, None)
    files.begin(former)
    files.write(WANTED)
    assert files.read() == WANTED
    assert (tmp_path / "etc/containerd/config.toml").stat().st_mode & 0o777 == 0o640
    assert files.begun() == former
    files.write(former)
    files.end()
    assert files.read() == former
    assert files.begun() is None


def test_the_administrators_file_is_copied_once(tmp_path: Path) -> None:
    files = a_node(tmp_path)
    files.back_up(CONFIG)
    files.back_up(b"another")
    copy = tmp_path / "etc/containerd/config.toml.before-tessera"
    assert copy.read_bytes() == CONFIG
    files.drop_backup(b"changed since")
    assert copy.exists()
    files.drop_backup(CONFIG)
    assert not copy.exists()


def test_a_copy_is_tried_and_the_files_stay(tmp_path: Path) -> None:
    files = a_node(tmp_path)
    other = tmp_path / "etc/containerd/conf.d/other.toml"
    other.parent.mkdir()
    other.write_text("version = 3\n")
    staged = below(tmp_path, files.stage(WANTED))
    assert (staged / "config.toml").read_bytes() == WANTED.config
    assert (staged / "conf.d/tessera.toml").read_bytes() == WANTED.drop_in
    assert (staged / "conf.d/other.toml").exists()
    assert staged.parent.stat().st_mode & 0o777 == 0o700
    assert files.read() == ContainerdFiles(CONFIG, None)
    files.drop_stage()
    assert not staged.exists()


def test_a_link_is_somebody_elses_file(tmp_path: Path) -> None:
    files = a_node(tmp_path)
    config = tmp_path / "etc/containerd/config.toml"
    config.rename(tmp_path / "managed.toml")
    config.symlink_to("/managed.toml")
    with pytest.raises(ContainerdRefused, match="it is a link, so something else writes it"):
        files.read()
