"""Who adds a vendor edits nothing outside its own files; its name appearing elsewhere in the code
would be the first sign that this no longer holds. The words are those of the vendors and of the
resource names that dialects declare."""

from collections.abc import Iterator
from pathlib import Path

from tessera_core.registry.registry import DialectRegistry, load

ROOT = Path(__file__).parents[2]
REGISTRY = load()
HOMES = ("dialects", "vendors", "readers")
ANYBODYS = frozenset({"kubernetes", "example", "tessera"})
ARCHITECTURES = ("amd64",)
"""Names of processors that have a vendor's name in them."""


def words(registry: DialectRegistry) -> Iterator[str]:
    """Vendors' names, and the domains of resource names: `tencent` of `tencent.com/vcuda-core`. A
    system that is no vendor, as Volcano, may be named."""
    systems = registry.readers.keys() - registry.vendors.keys()
    yield from registry.vendors
    for name in registry.resources:
        word = name.partition("/")[0].rsplit(".", 2)[-2] if "/" in name else ""
        if word and word not in systems | ANYBODYS:
            yield word


WORDS = frozenset(words(REGISTRY))


def text_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8").lower()
    for name in ARCHITECTURES:
        text = text.replace(name, "")
    return text


def test_no_vendor_is_named_outside_its_home() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {word}"
        for folder in ("libs", "services", "sim")
        for path in (ROOT / folder).rglob("*.py")
        if not set(HOMES) & set(path.parts) and "hook" not in path.parts
        for text in (text_of(path),)
        for word in WORDS
        if word in text
    ]
    assert named == []


def test_the_words_are_those_of_vendors_and_resource_names() -> None:
    assert {"nvidia", "iluvatar", "mthreads", "tencent", "inspur"} <= WORDS
    assert WORDS.isdisjoint({"volcano", "koordinator", "kubernetes"})
