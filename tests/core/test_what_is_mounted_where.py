"""The mount that a path leads to is the one that the kernel would enter."""

import pytest

from tessera_core.node.mountinfo import mount_of, origin_of, parse_mountinfo

ROOT = "90 80 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a"
LIMITS = "105 {parent} 8:1 /var/lib/t/limits /usr/local/tessera/limits {ro} - ext4 /dev/sda1 rw"
ABOVE = "110 90 8:1 /pods/volume /usr/local rw - ext4 /dev/sda1 rw"
PATH = "/usr/local/tessera/limits"


def limits(parent: int = 90, ro: str = "ro,nosuid") -> str:
    return LIMITS.format(parent=parent, ro=ro)


@pytest.mark.parametrize(
    ("lines", "id_"),
    [
        ([ROOT, limits()], 105),
        ([ROOT, ABOVE, limits(parent=110)], 105),
        ([ROOT, limits(), ABOVE], 110),
        ([ROOT, ABOVE], 110),
        ([ROOT], 90),
        ([ROOT, limits(), "120 105 0:60 /f /usr/local/tessera/limits rw - tmpfs x rw"], 120),
        ([ROOT, "121 90 0:60 / / rw - tmpfs x rw", limits()], 121),
        ([ROOT, limits(), "122 90 8:1 / /usr/local/tess rw - ext4 x rw"], 105),
        ([limits()], None),
        (["", "nonsense", "1 2 3"], None),
    ],
    ids=["alone", "in a volume", "covered", "taken off", "never there", "covered itself",
         "another root", "a name that begins alike", "outside of its root", "no lines"],
)  # fmt: skip
def test_the_one_that_is_observed(lines: list[str], id_: int | None) -> None:
    found = mount_of(parse_mountinfo("\n".join(lines)), PATH)
    assert (found.id if found else None) == id_


@pytest.mark.parametrize(
    ("line", "read_only"),
    [
        (limits(ro="ro"), True),
        (limits(ro="rw,noatime"), False),
        ("1 2 8:1 / /x rw shared:1 master:2 - ext4 /dev/x ro,errors=continue", True),
        ("1 2 8:1 / /x rw,relatime - 9p ro rw,root=/x", False),
    ],
)
def test_read_only_by_the_mount_or_by_its_file_system(line: str, *, read_only: bool) -> None:
    assert [mount.read_only for mount in parse_mountinfo(line)] == [read_only]


def test_paths_with_spaces() -> None:
    (mount,) = parse_mountinfo(r"1 2 8:1 /a\040b /c\134d rw - ext4 x rw")
    assert (mount.root, mount.point) == ("/a b", r"/c\d")


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        (PATH, ("8:1", "/var/lib/t/limits")),
        ("/usr/local/x", ("8:1", "/pods/volume/x")),
        ("/usr/local", ("8:1", "/pods/volume")),
        ("/etc/passwd", ("0:50", "/etc/passwd")),
    ],
)
def test_where_a_file_lies(path: str, origin: tuple[str, str]) -> None:
    lines = [ROOT, ABOVE, limits(parent=110)]
    assert origin_of(parse_mountinfo("\n".join(lines)), path) == origin
