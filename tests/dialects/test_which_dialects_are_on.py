"""Plans serve every dialect. An installation must name those with systems of their own that may
run in the same cluster, since it would take their pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_core.registry.registry import load
from tessera_runtime import dialect_config

OPT_IN = sorted(load().opt_in)


def test_some_are_off_in_an_installation() -> None:
    assert OPT_IN
    assert load().dialects.keys() == load().readers.keys()


@pytest.mark.parametrize("name", OPT_IN)
def test_an_installation_serves_it_where_its_file_says_so(name: str, tmp_path: Path) -> None:
    file = tmp_path / "dialects.yaml"
    file.write_text("hami: {enabled: true}\n")
    without = dialect_config.load(file)
    assert name not in without.readers
    plan = load().readers[name]
    assert without.resources.isdisjoint(plan.resources - plan.shared_names)
    file.write_text(f"{name}: {{enabled: true}}\n")
    assert name in dialect_config.load(file).dialects
    file.write_text(f"{name}: {{enabled: false}}\n")
    off = dialect_config.load(file)
    assert name not in off.dialects
    assert name in off.readers, "its running pods still hold their cards"
