"""Encoding and decoding arrays."""

import array

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti
from tutti import Encoding

ENCODINGS = [encoding for encoding in Encoding if encoding != Encoding.NONE]


def numbers(count):
    return np.sin(np.arange(count) ** 1.5).astype(np.float32)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_was_decoded_encodes_to_the_same_bytes(encoding):
    x = numbers(1000)
    encoded = tutti.encode(x, encoding)
    assert encoded.dtype == np.uint8 and encoded.size == tutti.encoded_size(encoding, 1000) < x.nbytes
    decoded = tutti.decode(encoded, encoding, 1000)
    assert decoded.dtype == np.float32 and not np.array_equal(decoded, x)
    assert np.abs(decoded - x).max() <= 1 / 4
    assert_array_equal(tutti.encode(decoded, encoding), encoded)
    assert_array_equal(tutti.decode(encoded, encoding.name.lower(), (10, 100)), decoded.reshape(10, 100))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_residual_is_what_is_lost(encoding):
    x = numbers(333)
    rest = np.empty_like(x)
    encoded = tutti.encode(x, encoding, residual=rest)
    assert_array_equal(tutti.decode(encoded, encoding, 333) + rest, x)
    same = x.copy()
    assert_array_equal(tutti.encode(same, encoding, residual=same), encoded)
    assert_array_equal(same, rest)


def test_float16_is_that_of_numpy():
    x = numbers(100) * 1000
    assert_array_equal(tutti.encode(x, "float16").view(np.float16), x.astype(np.float16))


def test_int8_has_one_scale_for_128_elements():
    x = np.zeros(256, np.float32)
    x[3], x[4], x[200] = 127, -64, 1
    encoded = tutti.encode(x, "int8").reshape(2, 132)
    assert_array_equal(encoded[:, :4].copy().view(np.float32).ravel(), np.float32([1, np.float32(1) / 127]))
    assert_array_equal(encoded[0, 4:].view(np.int8)[3:5], [127, -64])
    assert encoded[1, 4:].view(np.int8)[200 - 128] == 127


def test_buffers_and_16_bit_floats():
    x = array.array("f", [1, 2, 3, 0.1])
    out = bytearray(tutti.encoded_size("mxint8", 4))
    assert tutti.encode(x, "mxint8", out=out) is out
    back = array.array("f", [0] * 4)
    assert tutti.decode(bytes(out), "mxint8", out=back) is back
    assert back[:3] == x[:3] and abs(back[3] - 0.1) <= 1 / 64
    half = np.float16([1, 0.5, -2])
    encoded = tutti.encode(half, "fp8_e4m3")
    assert_array_equal(tutti.decode(encoded, "fp8_e4m3", 3, dtype=tutti.float16), half)
    raw = np.uint16([0x3F80, 0xC000])  # 1 and -2 in bfloat16
    encoded = tutti.encode(raw, "fp8_e5m2", dtype=tutti.bfloat16)
    decoded = tutti.decode(encoded, "fp8_e5m2", 2, dtype=tutti.bfloat16)
    assert_array_equal(decoded.view(np.uint16), raw)


def test_what_does_not_fit_is_refused():
    x = numbers(128)
    for expected, call in (
        ("UNSUPPORTED", lambda: tutti.encode(np.arange(4), "int8")),
        ("UNSUPPORTED", lambda: tutti.encode(np.float16([1]), "int4")),
        ("INVALID_OPTIONS", lambda: tutti.encode(x, "int9")),
        ("INVALID_OPTIONS", lambda: tutti.encode(x, Encoding.NONE)),
        ("INVALID_BUFFER", lambda: tutti.encode(x[::2], "int8")),
        ("INVALID_BUFFER", lambda: tutti.encode([x, x], "int8")),
        ("INVALID_COUNT", lambda: tutti.encode(x, "int8", out=bytearray(131))),
        ("INVALID_COUNT", lambda: tutti.encode(x, "int8", residual=np.empty(127, np.float32))),
        ("INVALID_COUNT", lambda: tutti.decode(bytes(131), "int8", 128)),
        ("INVALID_COUNT", lambda: tutti.decode(bytes(132), "int8")),
        ("INVALID_COUNT", lambda: tutti.encoded_size("int8", -1)),
    ):
        with pytest.raises(tutti.Error) as caught:
            call()
        assert caught.value.status.name == expected


def test_numpys_dtypes_are_taken_for_tuttis():
    half = np.array([1.5, -2, 0.25], np.float16)
    encoded = tutti.encode(half, "fp8_e4m3")
    assert_array_equal(tutti.decode(encoded, "fp8_e4m3", 3, dtype=np.float16), half)
    with pytest.raises(tutti.InvalidArgument, match="dtype must be one of tutti's or NumPy's"):
        tutti.decode(encoded, "fp8_e4m3", 3, dtype="halves")


def test_explain_knows_the_encoding_of_a_call():
    with tutti.Communicator(0, 1) as comm:
        assert "there is no link between hosts" in comm.explain("allreduce", 1000, encoding="bfloat16/hosts/required")
        assert "only sums" not in comm.explain("allgather", 1000, encoding=tutti.Encoding.INT8)
        assert "only float32 can be encoded so" in comm.explain(
            "allgather", 1000, tutti.bfloat16, encoding="int8/everywhere/required"
        )
        with pytest.raises(tutti.InvalidArgument, match="no encoding of that name"):
            comm.explain("allreduce", 1000, encoding="int9")


def test_explain_knows_the_encoding_of_a_message():
    with tutti.Communicator(0, 1, encodings="send:4k-=int8/everywhere/required") as comm:
        assert "neither the call nor a rule asks for it" in comm.explain("send", 1000, peer=0)
        assert "the permission is not for the link" in comm.explain("send", 1024, peer=0)
        assert "bfloat16 on links between hosts, allowed" in comm.explain("send", 9, peer=0, encoding="bfloat16")
        with pytest.raises(tutti.InvalidArgument, match="of ranks 0 to 0"):
            comm.explain("send", 1000, peer=1)
        with pytest.raises(tutti.InvalidArgument, match="a message goes to a rank"):
            comm.explain("send", 1000)


def test_an_encoding_stands_for_its_name():
    with tutti.Communicator(0, 1) as comm:
        x = np.ones(4, np.float32)
        assert_array_equal(comm.allreduce(x, encoding=tutti.Encoding.BFLOAT16), x)
        with pytest.raises(tutti.InvalidArgument, match="encoding must be a str"):
            comm.allreduce(x, encoding=3)


@pytest.mark.ranks(2)
def test_messages_go_encoded_as_both_ranks_say(comm):
    x, how = numbers(3000), {"encoding": "int8/everywhere/required"}
    rounded = tutti.decode(tutti.encode(x, "int8"), "int8", 3000)
    received = np.zeros(3000, np.float32)
    with tutti.group():
        comm.recv(received, 1 - comm.rank, **how)
        comm.send(x, 1 - comm.rank, **how)
    assert_array_equal(received, rounded)
    assert_array_equal(x, numbers(3000))
    request = comm.send_start(x, 1 - comm.rank, **how)
    with pytest.raises(tutti.Mismatch, match=f"encoded as int8, and rank {comm.rank} allows no encoding"):
        comm.recv(received, 1 - comm.rank)
    request.wait()


@pytest.mark.ranks(2)
def test_blocks_of_different_counts_go_encoded(comm):
    x = numbers(300)
    rounded = tutti.decode(tutti.encode(x, "bfloat16"), "bfloat16", 300)
    mine = [100 + 50 * comm.rank, 200 - 50 * comm.rank]
    theirs = [100, 150] if comm.rank == 0 else [200, 150]
    received = comm.alltoallv(x, mine, theirs, encoding="bfloat16/everywhere/required")
    assert_array_equal(received[: theirs[0]], rounded[:100] if comm.rank == 0 else rounded[100:])
    assert_array_equal(received[theirs[0] :], rounded[:150] if comm.rank == 0 else rounded[150:])
    with pytest.raises(tutti.Unsupported, match="ranks do not know each other's counts"):
        comm.alltoallv(x, mine, theirs, encoding="int8/everywhere/required")
    whole = comm.allgatherv(x[: 100 + comm.rank], [100, 101], encoding="int8/everywhere/required")
    for begin, count in ((0, 100), (100, 101)):
        assert_array_equal(whole[begin : begin + count], tutti.decode(tutti.encode(x[:count], "int8"), "int8", count))
