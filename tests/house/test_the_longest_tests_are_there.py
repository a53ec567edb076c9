"""A part that was renamed would be begun last, and one worker would run it alone in the end."""

import pytest

from tests.longest import LONGEST, part


@pytest.mark.parametrize("name", LONGEST)
def test_each_part_is_there(name: str, pytestconfig: pytest.Config) -> None:
    path = pytestconfig.rootpath / name
    assert path.is_dir() if name.endswith("/") else path.is_file()


def test_a_test_is_taken_with_its_part_or_its_file() -> None:
    assert part("tests/node/test_a.py::test_b[c::d]") == "tests/node/"
    assert part("tests/bus/test_a.py::TestB::test_c") == "tests/bus/test_a.py"
