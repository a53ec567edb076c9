"""The Python that is committed is what the descriptions in proto/ give."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "libs/kubelet/src/tessera_kubelet/proto"
DESCRIPTIONS = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proto")
    plugin = Path(sys.executable).parent / "protoc-gen-mypy"
    subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", "-I", "proto",
            f"--plugin=protoc-gen-mypy={plugin}", f"--python_out={folder}", f"--mypy_out={folder}",
            *DESCRIPTIONS,
        ],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def test_every_description_has_its_code_and_no_code_is_left_over(made: Path) -> None:
    names = {path.name for path in made.iterdir()}
    assert names == {f"{name[:-6]}_pb2.{kind}" for name in DESCRIPTIONS for kind in ("py", "pyi")}
    assert {path.name for path in COMMITTED.glob("*_pb2.py*")} == names


@pytest.mark.parametrize("kind", ["py", "pyi"])
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_what_is_committed_is_what_is_made(made: Path, name: str, kind: str) -> None:
    file = f"{name[:-6]}_pb2.{kind}"
    committed = (COMMITTED / file).read_text(encoding="utf-8")
    assert committed == (made / file).read_text(encoding="utf-8")
