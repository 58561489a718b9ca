"""Who is which shard of which replica, in tutti_torch.hybrid, for teams as they come and go. Needs no ranks."""

import tutti
from tutti_torch.hybrid import _place


def places(said, step, count):
    return [_place(rank, said, step, count) for rank in range(len(said))]


def table(said, step=7, count=2):
    """(shard, replica) of each rank."""
    return [(place.shard, place.replica) for place in places(said, step, count)]


NEW = (-1, -1)


def first_ranks_are_replicas_in_order():
    assert table([NEW] * 4, step=0) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert all(place.lacks_state and place.replicas == 2 for place in places([NEW] * 4, 0, 2))
    assert sorted(place.number for place in places([NEW] * 6, 0, 3)) == list(range(6))


def a_new_process_takes_the_place_of_a_dead_one():
    assert table([(0, 7), (1, 7), NEW, (1, 7)]) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert table([NEW, NEW, (0, 7), (1, 7)]) == [(0, 1), (1, 1), (0, 0), (1, 0)]


def ranks_without_a_whole_replica_rest():
    assert table([(0, 7), (1, 7), (0, 7)]) == [(0, 0), (1, 0), (0, None)]
    assert not any(place.lacks_state for place in places([(0, 7), (1, 7), (0, 7)], 7, 2))


def what_is_left_of_two_replicas_is_one():
    assert table([(0, 7), (1, 7)]) == [(0, 0), (1, 0)]


def ranks_that_rested_come_after_those_with_the_state():
    assert table([(0, 3), (1, 7), (0, 7), NEW]) == [(0, 1), (1, 0), (0, 0), (1, 1)]
    assert all(place.lacks_state for place in places([(0, 3), (1, 7), (0, 7), NEW], 7, 2))


def a_lost_shard_is_named():
    for said, words in (([(0, 7), (0, 7)], "had shard 1 have died"), ([(0, 7)], "a replica needs 2 ranks, and the team has 1")):
        try:
            _place(0, said, 7, 2)
        except tutti.RankFailed as error:
            assert words in str(error), error
        else:
            raise AssertionError(said)


def a_lost_shard_is_an_error_on_all_ranks():
    for said in ([(0, 7), (0, 7)], [(0, 7), (0, 7), NEW], [(0, 7), (1, 3)]):
        for rank in range(len(said)):
            try:
                _place(rank, said, 7, 2)
            except tutti.RankFailed as error:
                assert "tutti_torch.hybrid" in str(error)
            else:
                raise AssertionError(said)


for test in list(globals().values()):
    if callable(test) and getattr(test, "__module__", "") == "__main__" and test not in (places, table):
        test()
