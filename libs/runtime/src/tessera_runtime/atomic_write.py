"""Files that others read while we write them: whole, or as they were."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Make `content` the file's, at once for every reader; the folder is made if it is missing.

    It blocks: call it in a thread. Survives the process; whether it survives a loss of power is the
    file system's choice.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
