"""Runs the test suite that PyTorch ships for backends of torch.distributed, and says what became of each test.

    python3 distributed_suite.py --backend tutti --ranks 4 --results tutti.json
    python3 distributed_suite.py --backend gloo --ranks 4 --results gloo.json
    python3 distributed_suite.py --compare tutti.json gloo.json

Tests name the backends that they are for. For tutti those for gloo and for mpi are run: its name equals theirs in the
suite, and monitored_barrier, which torch.distributed refuses to all but gloo, calls the group's own. Ranks are forked from
this process, which has imported everything: torch's own way imports it again for every rank of every test.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings

warnings.simplefilter("ignore")


class BackendName(str):
    """The name of a backend that the suite takes for several."""

    also = frozenset(("gloo", "mpi"))

    def __eq__(self, other):
        return str.__eq__(self, other) or other in self.also

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


def load_suite(backend):
    """The suite's module, with the backend's name in it."""
    import importlib.util

    import torch.distributed as dist
    import torch.testing._internal.common_distributed as common

    name = "torch.testing._internal.distributed.distributed_test"
    spec = importlib.util.find_spec(name)
    source = spec.loader.get_source(name)
    if backend == "tutti":
        line = 'BACKEND = os.environ["BACKEND"]'
        assert source.count(line) == 1
        source = source.replace(line, "from __main__ import BackendName; BACKEND = BackendName('tutti')")
        common.DistTestCases.backend_feature["plugin"].add("tutti")
        dist.distributed_c10d.own_monitored_barrier = dist.monitored_barrier
        dist.monitored_barrier = monitored_barrier
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


def monitored_barrier(*arguments, **named):
    """torch.distributed's, where it asks for the name of the backend."""
    import torch.distributed.distributed_c10d as distributed

    with unittest.mock.patch.object(distributed, "get_backend", lambda group=None: "gloo"):
        return distributed.own_monitored_barrier(*arguments, **named)


class Result(unittest.TestResult):
    """Tells as it goes, and keeps it."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def note(self, test, outcome, why=""):
        name = test.id().rsplit(".", 1)[-1]
        self.outcomes[name] = {"outcome": outcome, "why": why}
        print(f"{time.monotonic() - self.began:6.1f} s  {outcome:7} {name}  {why[:200]}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addError(self, test, error):
        pattern = re.compile(r"^\w*(\.\w+)*(Error|Exception|Timeout)\b")
        lines = self._exc_info_to_string(error, test).splitlines()
        errors = [line for line in lines if pattern.match(line)]
        self.note(test, "failed", (errors or [str(error[1])])[-1])

    addFailure = addError


def run(arguments):
    os.environ.update(
        BACKEND=arguments.backend,
        WORLD_SIZE=str(arguments.ranks),
        OMP_NUM_THREADS="1",
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(TEMP_DIR=folder, INIT_METHOD=f"file://{folder}/met")
        import torch

        torch.set_num_threads(1)
        if arguments.backend == "tutti":
            import tutti_torch

            tutti_torch.register()
        suite = load_suite(arguments.backend)

        class TestDistBackend(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
            def setUp(self):
                super().setUp()
                self._start_processes(torch.multiprocessing.get_context("fork").Process)

        globals()["TestDistBackend"] = TestDistBackend
        loader = unittest.TestLoader()
        names = [n for n in loader.getTestCaseNames(TestDistBackend) if re.search(arguments.tests, n)]
        result = Result()
        for name in names:
            TestDistBackend(name).run(result)
    if arguments.results:
        with open(arguments.results, "w") as file:
            json.dump(result.outcomes, file, indent=1)
    print(summary(result.outcomes))
    return sum(found["outcome"] == "failed" for found in result.outcomes.values())


def summary(outcomes):
    found = [outcome["outcome"] for outcome in outcomes.values()]
    return ", ".join(f"{found.count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))


# What DDP logs names every backend in C++ that is not PyTorch's own "custom"; dist.get_backend() has its name.
KNOWN = {"test_ddp_logging_data_cpu": "'custom' != 'tutti'"}


def compare(mine, theirs):
    """Prints where the two differ, and the reasons for skipping; returns how many tests only pass with `theirs`."""
    with open(mine) as a, open(theirs) as b:
        own, other = json.load(a), json.load(b)
    worse = 0
    for name in own:
        before, now = other[name], own[name]
        if before["outcome"] == now["outcome"]:
            continue
        is_known = name in KNOWN and KNOWN[name] in now["why"]
        is_worse = not is_known and (before["outcome"] == "passed" or now["outcome"] == "failed")
        worse += is_worse
        now_text, before_text = (f"{found['outcome']} ({found['why']})" for found in (now, before))
        print(f"{'WORSE ' if is_worse else ''}{name}: {now_text}, was {before_text}")
    for outcomes, title in ((own, mine), (other, theirs)):
        reasons = {}
        for found in outcomes.values():
            if found["outcome"] == "skipped":
                reasons[found["why"]] = reasons.get(found["why"], 0) + 1
        print(f"{title}: {summary(outcomes)}")
        for reason, count in sorted(reasons.items(), key=lambda entry: -entry[1]):
            print(f"  {count:4} skipped: {reason}")
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--tests", default="", help="a regular expression")
    parser.add_argument("--results", help="a JSON file to write")
    parser.add_argument("--compare", nargs=2, metavar=("MINE", "THEIRS"))
    arguments = parser.parse_args()
    sys.exit(min(1, compare(*arguments.compare) if arguments.compare else run(arguments)))


if __name__ == "__main__":
    main()
