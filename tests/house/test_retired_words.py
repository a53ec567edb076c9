"""Words that docs/glossary.md retires do not come back: the list of what is left only shrinks."""

import pytest

from tests.house.retired_words import ROOT, allowed, counted, retired, used

HINT = "python -m tests.house.retired_words > tests/house/retired_words.txt"


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    """What is there today."""
    return counted()


def test_the_glossary_has_words_of_both_kinds() -> None:
    assert {"told", "whom"} <= retired("everywhere")
    assert {"kept", "sink"} <= retired("names")


def test_no_file_has_more_retired_words_than_before(found: dict[str, int]) -> None:
    before = allowed()
    more = {
        path: dict(used(ROOT / path, retired("everywhere"), retired("names")))
        for path, total in found.items()
        if total > before.get(path, 0)
    }
    assert more == {}, "docs/glossary.md says which words to use instead"


def test_the_list_shrinks_with_the_words(found: dict[str, int]) -> None:
    fewer = {p: found.get(p, 0) for p, total in allowed().items() if found.get(p, 0) < total}
    assert fewer == {}, f"shrink the list: {HINT}"
