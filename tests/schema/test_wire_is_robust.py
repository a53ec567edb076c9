import msgspec
import pytest

from tessera_schema.grants import decode_grant

DEEP = '{"version":1,"uid":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("text", [DEEP, '{"version":1,"uid":"\ud800"}', "\x00", "NaN"])
def test_whatever_comes_in_it_is_a_decode_error(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_grant(text)
