"""A dialect's variables and annotations are read by the dialect alone: another reader would have
its own default for them. The words are those that the dialects themselves declare."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tessera_core.registry.registry import load

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "services/agent", "services/rebalancer", "libs/core/src/tessera_core/rebalance",
    "libs/core/src/tessera_core/usage",
)  # fmt: skip
DIALECTS = load().readers
UNDECLARED = ("CUDA_DEVICE_", "CUDA_DISABLE_CONTROL", "CUDA_OVERSUBSCRIBE", "vcuda-")
"""Read by dialects, and not named by their fields."""
ANYBODYS = frozenset({"kubernetes.io/", "tessera.dev/", "/gpu", "/priority", "/webhook"})


def declared() -> Iterator[str]:
    """Names of dialects' fields: whole where they have no group, else the group and the rest."""
    for dialect in DIALECTS.values():
        for name in (
            *dialect.resources, *dialect.plugin_resources, *dialect.allocated_keys,
            *dialect.result_keys, *dialect.choices, *dialect.opt_out, *dialect.pool_labels,
            *dialect.quota, *dialect.lending_env, *dialect.plain_env, *dialect.schedulers,
        ):  # fmt: skip
            group, slash, rest = name.rstrip("*").partition("/")
            yield from (group + slash, slash + rest) if slash else (name,)


WORDS = sorted({*declared(), *UNDECLARED} - ANYBODYS)


def texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_variable_or_annotation_of_a_dialect_is_spelled(folder: str) -> None:
    spelled = [
        f"{path.relative_to(ROOT)}: {text[:60]}: {word}"
        for path in (ROOT / folder).rglob("*.py")
        if "readers" not in path.parts
        for text in texts(path)
        for word in (*(w for w in WORDS if w in text), *(d for d in DIALECTS if d == text))
    ]
    assert spelled == []


def test_the_words_are_those_of_the_dialects() -> None:
    assert {"CUDA_TASK_PRIORITY", "tencent.com/", "hami.io/", "/vcuda-core"} <= set(WORDS)
