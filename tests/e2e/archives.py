"""Images as archives, without docker: `python -m tests.e2e.archives`, for `make images` where
nothing else builds images. They are what the tests run: this machine's Python, packages and
libraries, under the Dockerfiles' last stages.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from tests.agent.machine import built
from tests.e2e import dockerfile
from tests.e2e.images import Image

HOOK = "libtessera.so"


def write_archive(path: Path, reference: str, image: Image) -> None:
    """As `docker save` does: `ctr images import`, `kind load image-archive` and k3s read it."""
    names = [f"{layer.digest.removeprefix('sha256:')}.tar" for layer in image.layers]
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": names}]
    with tarfile.open(path, "w") as tar:
        _add(tar, "config.json", image.config)
        for name, layer in zip(names, image.layers, strict=True):
            _add(tar, name, layer.data)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, BytesIO(content))


def main(arguments: Sequence[str]) -> int:
    """Write the archives and print their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("image", nargs="+")
    given = parser.parse_args(arguments)
    given.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as sources:
        for name in given.image:
            image = dockerfile.build(name, built(HOOK), Path(sources))
            path = given.into / f"{name}.tar"
            write_archive(path, f"{given.registry}/{name}:{given.tag}", image)
            print(path, flush=True)  # noqa: T201  (its answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
