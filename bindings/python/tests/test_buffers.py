"""What can be sent and received, and what is refused before anything is."""

import array
import ctypes
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tutti
from tutti._library import library


@pytest.fixture
def alone():
    with tutti.Communicator(0, 1) as comm:
        yield comm


def status_of(call, *arguments, **how):
    with pytest.raises(tutti.Error) as caught:
        call(*arguments, **how)
    return caught.value.status.name


class HasArrayInterface:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.keep = array


class HasDlpack:
    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.ranks(2)
def test_anything_that_is_a_buffer_will_do(comm):
    number = float(comm.rank + 1)
    for make in (
        lambda: np.full(4, number),
        lambda: array.array("d", [number] * 4),
        lambda: memoryview(np.full(4, number)),
        lambda: (ctypes.c_double * 4)(*[number] * 4),
        lambda: HasArrayInterface(np.full(4, number)),
    ):
        send, out = make(), make()
        assert comm.allreduce(send, out) is out
        assert_array_equal(np.asarray(out if not isinstance(out, HasArrayInterface) else out.keep), [3.0] * 4)
        assert_array_equal(comm.allreduce(send), [3.0] * 4)
    assert_array_equal(comm.allreduce(HasDlpack(np.full(4, number))), [3.0] * 4)
    assert_array_equal(comm.allgather(b"ab"), np.frombuffer(b"abab", np.uint8).reshape(2, 2))
    assert comm.allreduce(np.float64(number)).shape == ()


def test_memory_of_devices_is_refused(alone):
    assert status_of(alone.allreduce, HasDlpack(np.zeros(2), device=(2, 0))) == "INVALID_BUFFER"


def test_what_is_no_buffer_is_a_type_error(alone):
    for thing in (3.0, "text", {}, object()):
        with pytest.raises(TypeError):
            alone.allreduce(thing)


def test_arrays_with_gaps_are_refused(alone):
    table = np.zeros((4, 4))
    assert status_of(alone.allreduce, table[:, 1]) == "INVALID_BUFFER"
    assert status_of(alone.allreduce, np.asfortranarray(np.zeros((2, 3)))) == "INVALID_BUFFER"
    assert status_of(alone.allreduce, np.zeros(4), table[:, 1]) == "INVALID_BUFFER"


def test_outputs_that_are_read_only_are_refused(alone):
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    assert_array_equal(alone.allreduce(frozen), frozen)
    assert status_of(alone.allreduce, np.zeros(4), frozen) == "INVALID_BUFFER"
    assert status_of(alone.allreduce, np.zeros(4, np.uint8), b"1234") == "INVALID_BUFFER"


def test_counts_are_checked(alone):
    assert status_of(alone.allreduce, np.zeros(4), np.zeros(5)) == "INVALID_COUNT"
    assert status_of(alone.allgather, np.zeros(4), np.zeros(8)) == "INVALID_COUNT"
    assert status_of(alone.reduce_scatter, np.zeros(4)) == "INVALID_COUNT"  # not (1, ...)
    assert status_of(alone.allgatherv, np.zeros(4), [3]) == "INVALID_COUNT"
    assert status_of(alone.allgatherv, np.zeros(4), [4, 4]) == "INVALID_COUNT"
    assert status_of(alone.allgatherv, np.zeros(4), [4], out=np.zeros(3)) == "INVALID_COUNT"
    assert status_of(alone.allgatherv, np.zeros(4), [4], displs=[1], out=np.zeros(4)) == "INVALID_COUNT"


@pytest.mark.ranks(3)
def test_parts_are_equal(comm):
    assert status_of(comm.alltoall, np.zeros(4)) == "INVALID_COUNT"
    assert status_of(comm.reduce_scatter, np.zeros(7), np.zeros(2)) == "INVALID_COUNT"
    assert status_of(comm.reduce_scatter, np.zeros((6, 2))) == "INVALID_COUNT"
    if comm.rank == 1:
        assert status_of(comm.scatter, None) == "INVALID_BUFFER"


def test_dtypes_are_checked(alone):
    assert status_of(alone.allreduce, np.zeros(4), np.zeros(4, np.float32)) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, np.zeros(4, complex)) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, np.zeros(4, ">f4")) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, np.zeros(4, "M8[s]")) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, np.array([None])) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, np.zeros(4), dtype=tutti.int64) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, np.zeros(4, np.uint8), dtype=tutti.bfloat16) == "INVALID_DTYPE"
    assert status_of(alone.allreduce, [np.zeros(4), np.zeros(4, int)]) == "INVALID_DTYPE"


def test_roots_and_operations_are_checked(alone):
    assert status_of(alone.reduce, np.zeros(4), root=1) == "INVALID_ROOT"
    assert status_of(alone.broadcast, np.zeros(4), root=-1) == "INVALID_ROOT"
    assert status_of(alone.allreduce, np.zeros(4), op="mean") == "INVALID_OP"
    assert status_of(alone.allreduce, np.zeros(4), op="band") == "INVALID_OP"
    assert status_of(alone.allreduce, np.zeros(4, bool), op="sum") == "INVALID_OP"
    with pytest.raises(TypeError):
        alone.allreduce(np.zeros(4), op=3)


@pytest.mark.ranks(2)
def test_buffers_that_overlap_in_part_are_refused(comm):
    memory = np.zeros(6)
    assert status_of(comm.allreduce, memory[:4], memory[2:]) == "INVALID_BUFFER"
    comm.barrier()
    assert comm.failure is None


def bfloat16_bits(numbers):
    """Of numbers that bfloat16 has exactly."""
    return (np.asarray(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.ranks(2)
def test_bits_may_be_bfloat16(comm):
    send = bfloat16_bits([1.0, -2.5, 3.0])
    result = comm.allreduce(send, dtype=tutti.bfloat16)
    assert result.dtype == np.uint16
    assert_array_equal(result, bfloat16_bits([2.0, -5.0, 6.0]))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_ml_dtypes_are_known(comm, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    send = np.array([1, 2, -4]).astype(getattr(ml_dtypes, name))
    result = comm.allreduce(send)
    assert result.dtype == send.dtype
    assert_array_equal(result.astype(float), [2, 4, -8])


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "dtype", "float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
)
def test_dtypes_of_numpy_are_known(comm, dtype):
    send = np.array([1, 2, 60], dtype)
    result = comm.allreduce(send)
    assert result.dtype == send.dtype
    assert_array_equal(result, np.array([2, 4, 120], dtype))
    assert_array_equal(comm.allgather(send), np.stack([send, send]))


@pytest.mark.ranks(2)
def test_booleans_have_their_own_operations(comm):
    send = np.array([True, comm.rank == 0, False])
    assert_array_equal(comm.allreduce(send, op="lor"), [True, True, False])
    assert_array_equal(comm.allreduce(send, op="land"), [True, False, False])
    assert_array_equal(comm.allreduce(send, op="max"), [True, True, False])
    assert comm.allreduce(send, op="min").dtype == bool


@pytest.mark.ranks(2)
def test_integers_have_logical_and_bitwise_operations(comm):
    send = np.array([0b1100, 0, 5]) if comm.rank == 0 else np.array([0b1010, 0, 0])
    expected = {"band": [8, 0, 0], "bor": [14, 0, 5], "bxor": [6, 0, 5]}
    expected.update(land=[1, 0, 0], lor=[1, 0, 1], lxor=[0, 0, 1])
    for op, numbers in expected.items():
        assert_array_equal(comm.allreduce(send, op=op), numbers, err_msg=op)


# -------------------------------------------------------------------------------------------- lists


@pytest.mark.ranks(1, 3)
def test_lists_are_one_buffer(comm):
    send = [np.full((2, 2), comm.rank + 1.0), np.full(3, 10.0 * (comm.rank + 1))]
    total = sum(range(1, comm.size + 1))
    first, second = comm.allreduce(send)
    assert_array_equal(first, np.full((2, 2), total))
    assert_array_equal(second, np.full(3, 10.0 * total))
    flat = np.empty(7)
    comm.allreduce(send, flat)
    assert_array_equal(flat, [total] * 4 + [10.0 * total] * 3)
    assert comm.allreduce(send, out=send) is send
    assert_array_equal(send[1], second)
    comm.reduce(send, root=0)
    comm.broadcast(send, root=comm.size - 1)


@pytest.mark.ranks(1, 3)
def test_lists_are_gathered_and_scattered(comm):
    send = [np.array([comm.rank, 7]), np.array(comm.rank)]
    result = comm.allgather(send)
    assert len(result) == comm.size
    for rank, (pair, single) in enumerate(result):
        assert_array_equal(pair, [rank, 7])
        assert single == rank
    places = [np.empty(3, int) for _ in range(comm.size)]
    comm.gather(send, places, root=0)
    if comm.rank == 0:
        assert_array_equal(np.stack(places), [[rank, 7, rank] for rank in range(comm.size)])
    place = np.empty(3, int)
    comm.scatter(places, place, root=0)
    assert_array_equal(place, [comm.rank, 7, comm.rank])


@pytest.mark.ranks(1, 3)
def test_lists_have_a_part_for_each_rank(comm):
    send = [np.full(2, float(to)) for to in range(comm.size)]
    assert_array_equal(comm.reduce_scatter(send), np.full(2, float(comm.rank * comm.size)))
    for part in comm.alltoall(send):
        assert_array_equal(part, np.full(2, float(comm.rank)))


# ------------------------------------------------------------------------------------------ v forms


def lengths(size):
    """Different for all, and one empty."""
    return [rank * 2 for rank in range(size)]


def part(rank):
    return np.arange(rank * 2) + 100 * rank


@pytest.mark.ranks(1, 3)
def test_gatherv_takes_different_counts(comm):
    counts = lengths(comm.size)
    everything = np.concatenate([part(rank) for rank in range(comm.size)])
    assert_array_equal(comm.allgatherv(part(comm.rank), counts), everything)
    result = comm.gatherv(part(comm.rank), counts if comm.rank == 0 else None)
    if comm.rank == 0:
        assert_array_equal(result, everything)
    else:
        assert result is None
    displs = [10 * (comm.size - 1 - rank) for rank in range(comm.size)]  # backwards, with gaps
    out = np.full(10 * comm.size, -1)
    comm.allgatherv(part(comm.rank), counts, displs, out)
    for rank in range(comm.size):
        block = out[displs[rank] : displs[rank] + 10]
        assert_array_equal(block[: 2 * rank], part(rank))
        assert (block[2 * rank :] == -1).all()


@pytest.mark.ranks(1, 3)
def test_scatterv_hands_out_different_counts(comm):
    everything = np.concatenate([part(rank) for rank in range(comm.size)])
    if comm.rank == 0:
        assert_array_equal(comm.scatterv(everything, lengths(comm.size)), part(0))
    else:
        out = np.empty(2 * comm.rank, int)
        assert comm.scatterv(None, out=out) is out
        assert_array_equal(out, part(comm.rank))


@pytest.mark.ranks(1, 3)
def test_reduce_scatterv_gives_each_rank_its_block(comm):
    everything = np.concatenate([part(rank) for rank in range(comm.size)])
    result = comm.reduce_scatterv(everything, lengths(comm.size))
    assert_array_equal(result, comm.size * part(comm.rank))


@pytest.mark.ranks(1, 3)
def test_alltoallv_exchanges_different_counts(comm):
    def block(source, to):
        return np.full(source + to, 10 * source + to)

    ranks = range(comm.size)
    send = np.concatenate([block(comm.rank, to) for to in ranks])
    counts = [comm.rank + other for other in ranks]
    result = comm.alltoallv(send, counts, counts)
    assert_array_equal(result, np.concatenate([block(source, comm.rank) for source in ranks]))


# ----------------------------------------------------------------------------------------- memory


def test_empty_gives_zeros_of_any_shape_and_dtype():
    array = tutti.empty((2, 3), np.int16)
    assert array.shape == (2, 3) and array.dtype == np.int16
    assert array.flags.c_contiguous and array.flags.writeable
    assert array.ctypes.data % 64 == 0
    assert not array.any()
    assert tutti.empty(5).dtype == np.float32
    assert tutti.empty((0, 3)).shape == (0, 3)
    assert tutti.empty(4, tutti.bfloat16).itemsize == 2
    with pytest.raises(TypeError):
        tutti.empty(3, object)


def test_shared_memory_is_freed_with_its_last_view(monkeypatch):
    freed = []
    real = library.mem_free
    monkeypatch.setattr(library, "mem_free", lambda address: freed.append(address) or real(address))
    array = tutti.empty(1000)
    address = array.ctypes.data
    view = array[10:20].reshape(2, 5)
    del array
    assert freed == []
    view[:] = 1
    del view
    assert freed == [address]


@pytest.mark.ranks(2)
def test_shared_memory_works_in_collectives(comm):
    array = tutti.empty(1 << 18)
    array[:] = comm.rank + 1
    for _ in range(3):
        comm.allreduce(array, out=array, op="max")
    assert (array == 2).all()


@pytest.fixture
def calls(monkeypatch):
    """The calls of mem_unregister; one that is in `busy` says that an operation is under way."""

    class Calls(list):
        busy = set()

    made = Calls()
    real = library.mem_unregister

    def unregister(address):
        made.append(address)
        return tutti.Status.IN_PROGRESS if address in made.busy else real(address)

    monkeypatch.setattr(library, "mem_unregister", unregister)
    return made


def test_registered_memory_ends_with_its_block(calls):
    data = np.zeros(1000)
    with tutti.register(data) as registration:
        assert registration.is_registered
        assert status_of(tutti.register, data[10:20]) == "INVALID_BUFFER"
        assert calls == []
    assert not registration.is_registered
    registration.unregister()
    assert calls == [data.ctypes.data]
    tutti.register(data).unregister()


def test_registered_memory_lives_as_long_as_its_registration(calls):
    data = np.zeros(1000)
    alive, address = weakref.ref(data), data.ctypes.data
    registration = tutti.register(data)
    del data
    assert alive() is not None
    del registration
    assert calls == [address]
    assert alive() is None


def test_memory_in_use_stays_registered(calls):
    data = np.zeros(1000)
    registration = tutti.register(data)
    calls.busy = {data.ctypes.data}
    assert status_of(registration.unregister) == "IN_PROGRESS"
    assert registration.is_registered
    calls.busy = set()
    registration.unregister()
    forgotten = tutti.register(data)
    alive, calls.busy = weakref.ref(data), {data.ctypes.data}
    del forgotten, data
    assert alive() is not None  # nobody is left to unregister it, and it is in use


def test_memory_that_cannot_be_registered_is_refused():
    data = np.zeros((10, 10))
    assert status_of(tutti.register, data[:, :5]) == "INVALID_BUFFER"
    assert status_of(tutti.register, data[:0]) == "INVALID_BUFFER"
    assert status_of(tutti.register, tutti.empty(5)) == "INVALID_BUFFER"
    assert status_of(tutti.register, HasDlpack(data, (2, 0))) == "INVALID_BUFFER"
    with pytest.raises(TypeError):
        tutti.register(5)
    tutti.register(data).unregister()
    tutti.register(bytes(100)).unregister()  # what is only sent may be read-only


@pytest.mark.ranks(2)
def test_registered_memory_works_in_collectives(comm):
    data = np.full(1 << 18, comm.rank + 1.0)
    with tutti.register(data):
        for _ in range(3):
            comm.allreduce(data, out=data, op="max")
    assert (data == 2).all()
