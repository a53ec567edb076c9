"""Files of a node below a folder. Its device nodes are links to /dev/null: only root makes real
ones."""

from pathlib import Path


def with_nodes(root: Path, *paths: str) -> Path:
    """The folder, with these device nodes."""
    for path in paths:
        made = root / path.lstrip("/")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.symlink_to("/dev/null")
    return root


def with_files(root: Path, files: dict[str, str]) -> Path:
    """The folder, with these files by their paths."""
    for path, text in files.items():
        made = root / path.lstrip("/")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text)
    return root
