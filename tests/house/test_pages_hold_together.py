"""Links of the pages lead somewhere, headings that they name are there, words are plain."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Words that puzzle readers in another language: "who" is for people, `tell` for people that speak.
PUZZLING = re.compile(r"\b(whoever|whom|anew|tells|heed|heard|bears|he|his|him)\b", re.IGNORECASE)


def pages() -> list[Path]:
    """All pages that git knows, or would know."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).exists()]


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What `#...` may name there, as GitHub makes it of headings."""
    heads = re.findall(r"(?m)^#+ +(.+)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
class TestAPage:
    def test_has_links_that_lead_somewhere(self, page: Path) -> None:
        for link in LINK.findall(prose(page)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{link}: there is no such file"
            if anchor:
                assert anchor in anchors(target), f"{link}: there is no such heading"

    def test_names_headings_that_are_there(self, page: Path) -> None:
        text = " ".join(prose(page).split())
        after = re.findall(r"\[[^\]]*\]\(([^)#\s]+\.md)\), \"([^\"]+)\"", text)
        before = re.findall(r"\"([^\"]+)\" in \[[^\]]*\]\(([^)#\s]+\.md)\)", text)
        for link, heading in [*after, *((link, heading) for heading, link in before)]:
            heads = re.findall(r"(?m)^(?:#+ +|\*\*)(.+)$", prose(page.parent / link))
            assert any(head.startswith(heading) for head in heads), f"{link} has no {heading!r}"

    def test_has_no_words_that_puzzle(self, page: Path) -> None:
        assert PUZZLING.findall(re.sub(r"`[^`]*`", "", prose(page))) == []


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs/README.md"
    named = {link.partition("#")[0] for link in LINK.findall(prose(index))}
    there = {page.name for page in pages() if page.parent == index.parent and page != index}
    assert there <= named, "docs/README.md names every page of its folder"
