"""Settings, files and goals of make that pages name exist."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest
from msgspec import Struct

from tessera_runtime.settings import variables
from tests.house.test_pages_hold_together import ROOT, pages

SERVICES = ("scheduler", "agent", "quota", "rebalancer", "console")
ELSEWHERE = (
    "libs/hook/src/*.c",
    "libs/hook/include/**/*.h",
    "deploy/**/*.sh",
    "libs/runtime/src/tessera_runtime/bus/streams.py",
)
"""Where names are read that are no service's: the hook's variables, scripts' and streams."""
FILE = re.compile(
    r"`((?:tests|benchmarks|deploy|libs|sim|services(?!/tessera-)|examples|docs)/[\w./-]+)`"
)

MODULE = re.compile(
    r"`(tessera_(?:agent|cli|console|core|embedded|kubelet|quota|rebalancer|runtime|scheduler|schema|testing)"
    r"(?:\.\w+)+)`"
)


def is_there(dotted: str) -> bool:
    """Whether it is a module, or something in one."""
    try:
        resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.fixture(scope="module")
def settings() -> set[str]:
    found: set[str] = set()
    for owner in (*SERVICES, "agent.containerd"):
        module = import_module(f"tessera_{owner}.settings")
        for kind in vars(module).values():
            if inspect.isclass(kind) and issubclass(kind, Struct):
                found.update(variables(kind))
    for pattern in ELSEWHERE:
        for file in ROOT.glob(pattern):
            found.update(re.findall(r"TESSERA_[A-Z0-9_]+", file.read_text(encoding="utf-8")))
    return found


@pytest.fixture(scope="module")
def goals() -> set[str]:
    files = [ROOT / "Makefile", ROOT / "libs/hook/Makefile", *ROOT.glob("libs/hook/*/*.mk")]
    both = "".join(file.read_text(encoding="utf-8") for file in files)
    return set(re.findall(r"(?m)^([a-z][a-z0-9-]*):", both))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
class TestAPage:
    def test_names_settings_that_are_read(self, page: Path, settings: set[str]) -> None:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`[^`\n]*?(TESSERA_[A-Z0-9_]*[A-Z0-9])\b(?!_)[^`\n]*`", text))
        assert not {name for name in named if name not in settings}

    def test_names_files_that_are_there(self, page: Path) -> None:
        for path in FILE.findall(page.read_text(encoding="utf-8")):
            if "..." not in path:
                assert (ROOT / path).exists() or (page.parent / path).exists(), path

    def test_names_goals_that_make_has(self, page: Path, goals: set[str]) -> None:
        text = page.read_text(encoding="utf-8")
        for call in re.findall(
            r"(?m)(?:`|^ *\$ )make ([a-z][a-z0-9 -]*[a-z0-9])(?=`| ?[A-Z#$])", text
        ):
            assert set(call.split()) <= goals, f"make {call}"

    def test_names_modules_that_are_there(self, page: Path) -> None:
        named = MODULE.findall(page.read_text(encoding="utf-8"))
        assert [name for name in named if not is_there(name)] == []
