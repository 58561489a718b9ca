"""The harness of these tests: what fails on one rank fails the test."""

import os
import signal
import time

import pytest
from conftest import run_ranks


def failure_of(*arguments, **options):
    with pytest.raises(pytest.fail.Exception) as caught:
        run_ranks(*arguments, **options)
    return str(caught.value)


def test_a_failing_rank_fails_the_test_and_shows_its_output():
    def body(comm):
        print(f"this is {comm.rank}")
        assert comm.rank != 1, "one is wrong"

    told = failure_of(2, body)
    assert "rank 1 failed" in told and "one is wrong" in told
    assert "this is 0" in told and "this is 1" in told


def test_a_failing_thread_fails_the_test():
    def body(comm):
        assert comm.rank != 1, "one is wrong"

    assert "one is wrong" in failure_of(2, body, threads=True)


def test_ranks_that_hang_are_killed_with_what_they_started():
    def body(comm):
        if os.fork() == 0:
            time.sleep(100)
        time.sleep(100)

    began = time.monotonic()
    assert "not done after 0.5 s" in failure_of(2, body, deadline=0.5)
    assert time.monotonic() - began < 10


def test_dying_is_a_failure_and_not_dying_too():
    assert "rank 0 died (exit status -9)" in failure_of(
        1, lambda comm: os.kill(os.getpid(), signal.SIGKILL)
    )
    assert "should have died" in failure_of(1, lambda comm: None, dies=0)


def test_a_rank_may_skip_the_test():
    with pytest.raises(pytest.skip.Exception, match="not today"):
        run_ranks(2, lambda comm: pytest.skip("not today"))
