"""All that a dialect or a vendor imports of Tessera is `tessera_core.dialect_kit`, and its own
package; so the page for their authors need not name anything else."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "libs/core/src/tessera_core"
KIT = "tessera_core.dialect_kit"


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def own_package(path: Path, folder: Path) -> str:
    return f"tessera_core.{folder.name}.{path.relative_to(folder).parts[0].removesuffix('.py')}"


def test_only_the_kit_and_what_is_their_own() -> None:
    foreign = [
        f"{path.relative_to(CORE)}: {module}"
        for folder in (CORE / "dialects", CORE / "vendors")
        for path in folder.rglob("*.py")
        for module in imported(path)
        if module.startswith("tessera")
        and module not in (KIT, f"{KIT}.hami_format")
        and not f"{module}.".startswith(f"{own_package(path, folder)}.")
    ]
    assert foreign == []


def test_the_contracts_name_every_other_package_of_core() -> None:
    """A package that is new is forbidden to dialects and vendors too."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    packages = {
        f"tessera_core.{path.stem}"
        for path in CORE.iterdir()
        if path.stem not in ("__init__", "__pycache__", "py")
    }
    for contract in contracts["importlinter"]["contracts"]:
        if contract["name"] in ("Dialects import the kit alone", "Vendors import the kit alone"):
            (source,) = contract["source_modules"]
            assert set(contract["forbidden_modules"]) == packages - {source, KIT} | {
                "tessera_schema"
            }
