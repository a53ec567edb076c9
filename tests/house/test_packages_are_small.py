"""A package has at most 20 modules: more of them side by side, and nobody finds one by its name."""

from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MOST: Final = 20


def test_a_package_has_at_most_twenty_modules() -> None:
    modules = Counter(
        str(path.parent.relative_to(ROOT))
        for root in ("libs", "services", "sim")
        for path in (ROOT / root).glob("*/src/**/*.py")
        if path.stem != "__init__" and not path.stem.endswith("_pb2")
    )
    assert modules
    assert {package: count for package, count in modules.items() if count > MOST} == {}
