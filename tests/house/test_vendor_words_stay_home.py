"""Whoever adds a vendor edits nothing outside its own files; its name appearing elsewhere in the
code would be the first sign that this no longer holds."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = ("nvidia", "iluvatar", "mthreads", "tencent", "inspur")
HOMES = ("dialects", "vendors", "readers")


def test_no_vendor_is_named_outside_its_home() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {word}"
        for folder in ("libs", "services", "sim")
        for path in (ROOT / folder).rglob("*.py")
        if not set(HOMES) & set(path.parts) and "hook" not in path.parts
        for word in WORDS
        if word in path.read_text(encoding="utf-8").lower()
    ]
    assert named == []
