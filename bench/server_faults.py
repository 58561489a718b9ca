#!/usr/bin/env python3
"""server_faults.py - parameter servers with backups of which ranks are killed at random moments, and a ledger of all that was pushed.

  python3 bench/server_faults.py [--runs 20] [--seed 1] [--hosts N] [--stops] [--spares] [--keep FILE] [--read FILE...] [--verbose]

Each run has a seed. From it follow the number of servers (2 to 4) and workers (1 to 3), the mode, and the ranks that SIGKILL ends, and when:
nobody, a worker, a server, a worker and a server, a server and the server that has its backup, or two servers that are not neighbours. In some runs
a worker leaves before the others. With --stops SIGSTOP also stops one to three ranks, each for up to 15 s: soon after the beginning, when a rank dies,
or when a worker is done and leaves. With --spares there are 3 or 4 servers with spares, of which all but one die one after the other, mostly when the
parts that a death left alone have another backup. Without --hosts all ranks are processes of this host. With it, they are spread over 2 to N emulated hosts, one of
them for each rank in turn; this needs root (bench/peers/cluster).

A run is good if

  - all ranks end, and none but those that were killed with an error;
  - each worker pulled the right bits after each clock (mode synchronous), or counted the right updates (all other modes);
  - at the end each push of an acknowledged clock is there once, on all servers, and so is the last clock of a worker that died, or nothing of it;
  - calls fail only where a server and its backup have died, and then name one of these two with its pid; with --spares, only if a server has died before
    all parts had another backup.

A line of JSON for each run goes to standard output, and to the end of FILE with --keep; --read summarises such files. A line has what was drawn, which
ranks died while others worked, the seconds that each worker stood still after the last death ("stood_s") until a call succeeded, or until it failed
("failed_s"), and what was wrong. A table follows, on standard error. The exit code is 1 if a run was not good.

If the machine stands still for a second, as a suspended machine does, time passes without anybody working. Such a run is made again, at most three times.

Environment: TUTTI_BUILD, the folder of the build (default build/ of the repository), with the target tests_train_server_backup_test.
"""
import argparse
import json
import os
import random
import re
import secrets
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from layouts import CLUSTER, ROOT, Cluster, share

PATIENCE_S = 90
STOP_S = 15  # at most, so that no deadline of the ranks passes
STILL_S = 1.0
SPARES_FROM, SLOW_FROM = 1000000, 2000000  # the seeds of runs with spares, on one host and on several
PROGRAM = os.path.join(os.environ.get("TUTTI_BUILD", os.path.join(ROOT, "build")), "tests", "tests_train_server_backup_test")

# ----------------------------------------------------------------------------------------------------------- a run


class Stops:
    """Ranks that SIGSTOP stops, and SIGCONT later."""

    def __init__(self, seed, size):
        draw = random.Random(seed)
        self.waiting = [(draw.choice(("begun", "killed", "done", "done")), draw.random() * 0.03, draw.randrange(size), draw.random() * STOP_S)
                        for _ in range(draw.randint(1, 3))]
        self.due = []  # (moment, rank, signal)
        self.stopped = []

    def hear(self, word):
        for stop in [stop for stop in self.waiting if stop[0] == word]:
            self.waiting.remove(stop)
            _, after, rank, seconds = stop
            now = time.monotonic()
            self.stopped.append((word, rank, round(seconds, 3)))
            self.due += [(now + after, rank, signal.SIGSTOP), (now + after + seconds, rank, signal.SIGCONT)]

    def act(self, ranks):
        """Sends what is due, and returns the seconds until the next signal."""
        now = time.monotonic()
        for at, rank, number in sorted(self.due):
            if at > now:
                return min(at - now, 0.1)
            self.due.remove((at, rank, number))
            ranks[rank].send_signal(number)
        return 0.1


class Run:
    """The ranks of a run, and what they said: (word, seconds, rest) of each rank."""

    def __init__(self, plan, host_count, stops):
        self.plan = plan
        self.stops = Stops(plan["seed"], plan["servers"] + plan["workers"]) if stops else None
        self.size = plan["servers"] + plan["workers"]
        self.kills = {int(rank): us for rank, us in plan["kills"].items()}
        self.lines, self.errors, self.still_s = [[] for _ in range(self.size)], [b""] * self.size, 0.0
        self.ranks, self.reader = [], selectors.DefaultSelector()
        self.hosts = [rank % host_count for rank in range(self.size)] if host_count else None

    def words(self, rank):
        words = [PROGRAM, "--rank", str(self.plan["seed"])]
        return words if self.hosts is None else [CLUSTER, "exec", str(self.hosts[rank]), *words]

    def start(self, secret):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = "127.0.0.1" if self.hosts is None else f"10.77.0.{self.hosts[0] + 1}"
        for rank in range(self.size):
            variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self.size), "MASTER_ADDR": address, "MASTER_PORT": str(port),
                         "TUTTI_SECRET": secret, "TUTTI_LOG": "off"}
            process = subprocess.Popen(self.words(rank), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
            self.ranks.append(process)
            for stream, is_error in ((process.stdout, False), (process.stderr, True)):
                os.set_blocking(stream.fileno(), False)
                self.reader.register(stream, selectors.EVENT_READ, [rank, is_error, b""])

    def take(self, key):
        rank, is_error, rest = key.data
        received = os.read(key.fd, 1 << 16)
        if not received:
            self.reader.unregister(key.fileobj)
        if is_error:
            self.errors[rank] += received
            return
        *lines, key.data[2] = (rest + received).split(b"\n")
        for line in lines:
            word, at_ns, more = line.decode(errors="replace").split(" ", 2)
            self.lines[rank].append((word, int(at_ns) * 1e-9, more))
            if self.stops is not None:
                self.stops.hear(word)

    def follow(self):
        """Until all have ended, or for PATIENCE_S in which the machine did not stand still."""
        before = time.monotonic()
        until = before + PATIENCE_S
        while self.reader.get_map() and time.monotonic() < until:
            for key, _ in self.reader.select(0.1 if self.stops is None else self.stops.act(self.ranks)):
                self.take(key)
            now = time.monotonic()
            if now - before > STILL_S:
                self.still_s += now - before
                until += now - before
            before = now

    def end(self):
        """The ranks that were still there. None is left."""
        late = [rank for rank, process in enumerate(self.ranks) if self.is_there(process)]
        for process in self.ranks:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.reader.close()
        return late

    @staticmethod
    def is_there(process):
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return True
        return False

    # ------------------------------------------------------------------------------------------------- what came of it

    def moment(self, rank, word):
        """The seconds at which a rank said the word first, or None."""
        return next((at for said, at, _ in self.lines[rank] if said == word), None)

    def is_worker(self, rank):
        return rank >= self.plan["servers"] or (self.plan["server_works"] and rank == 0)

    def died(self):
        """The ranks that were killed, with the moments."""
        return {rank: self.moment(rank, "killed") for rank, process in enumerate(self.ranks)
                if process.returncode == -signal.SIGKILL and self.moment(rank, "killed") is not None}

    def lost(self):
        """Pairs of a server and its backup that are gone."""
        servers, gone = self.plan["servers"], self.died()
        return [{server, (server + 1) % servers} for server in range(servers) if server in gone and (server + 1) % servers in gone]

    def judge_ends(self, late):
        for rank, process in enumerate(self.ranks):
            said = self.errors[rank].decode(errors="replace").strip().splitlines()
            if rank in late:
                yield f"rank {rank} was still there after {PATIENCE_S} s"
            elif process.returncode != 0 and rank not in self.died():
                yield f"rank {rank} ended with {process.returncode}: {said[-1] if said else 'it said nothing'}"

    def is_refilled(self, begin, end):
        """Whether a server has said between two moments that parts were alone, and then that none is."""
        for lines in self.lines:
            said = [int(count) for word, at, count in lines if word == "alone" and begin <= at < end]
            if said and said[-1] == 0:
                return True
        return False

    def judge_failures_with_spares(self):
        moments = sorted(self.died().values())
        are_refilled = all(self.is_refilled(begin, end) for begin, end in zip(moments, moments[1:]))
        for rank, lines in enumerate(self.lines):
            for word, _, message in lines:
                if word != "failed":
                    continue
                if are_refilled:
                    yield f"rank {rank} fails, and all parts had another backup: {message}"
                elif not any(re.search(rf"server at rank {server}\b.*pid {self.ranks[server].pid}\b", message) for server in self.died()):
                    yield f"rank {rank} names no server of {sorted(self.died())} with its pid: {message}"

    def judge_failures(self):
        if self.plan["spares"] > 0:
            yield from self.judge_failures_with_spares()
            return
        lost = self.lost()
        for rank, lines in enumerate(self.lines):
            for word, _, message in lines:
                if word != "failed":
                    continue
                culprits = {server for pair in lost for server in pair}
                if not any(re.search(rf"server at rank {server}\b.*pid {self.ranks[server].pid}\b", message) for server in culprits):
                    yield f"rank {rank} names no server of {sorted(culprits)} with its pid: {message}"

    def judge_counts(self):
        """Of modes other than synchronous: each clock is two pushes."""
        for rank, lines in enumerate(self.lines):
            for word, _, counted in lines:
                if word != "counted":
                    continue
                for other, count in enumerate(map(int, counted.split())):
                    clocks = sum(said == "clock" for said, _, _ in self.lines[other])
                    most = clocks + 1 if other in self.died() or self.moment(other, "failed") else clocks
                    if count % 2 or not 2 * clocks <= count <= 2 * most:
                        yield f"rank {rank} counts {count} pushes of rank {other}, of which {clocks} clocks of 2 pushes were acknowledged"

    def stood(self, word):
        """The seconds from the last death until workers that go on said the word."""
        last = max(self.died().values(), default=None)
        if last is None:
            return []
        moments = ([at for said, at, _ in lines if said == word and at >= last] for rank, lines in enumerate(self.lines) if self.is_worker(rank))
        return [round(min(found) - last, 6) for found in moments if found]

    def report(self, late):
        wrong = [*self.judge_ends(late), *self.judge_failures(), *self.judge_counts()]
        worked = [rank for rank, lines in enumerate(self.lines) if self.is_worker(rank)]
        ends = [self.moment(rank, "done") for rank in worked if self.moment(rank, "done") is not None]
        midst = [rank for rank, at in self.died().items() if not ends or at < max(ends)]
        return {**self.plan, "hosts": 1 if self.hosts is None else len(set(self.hosts)), "died": sorted(self.died()), "in_the_midst": sorted(midst),
                "refills": sum(word == "alone" and count == "0" for lines in self.lines for word, _, count in lines),
                "stopped": [] if self.stops is None else self.stops.stopped,
                "pids": [process.pid for process in self.ranks], "lost_a_part": bool(self.lost()), "clocks": sum(said == "clock" for lines in self.lines for said, _, _ in lines),
                "stood_s": self.stood("clock"), "failed_s": self.stood("failed"), "wrong": wrong}


def make_run(seed, options, secret):
    plan = json.loads(subprocess.run([PROGRAM, "--plan", str(seed)], check=True, stdout=subprocess.PIPE).stdout)
    host_count = random.Random(seed).randint(2, options.hosts) if options.hosts else 0
    for _ in range(4):
        run = Run(plan, host_count, options.stops)
        late = []
        try:
            run.start(secret)
            run.follow()
        finally:
            late = run.end()
        if run.still_s == 0:
            break
    found = run.report(late)
    if run.still_s > 0:
        found["still_s"] = round(run.still_s, 1)
    if options.verbose and found["wrong"]:
        for rank, said in enumerate(run.errors):
            print(f"[{rank}] {run.lines[rank]} {said.decode(errors='replace')}", file=sys.stderr)
    return found


# ----------------------------------------------------------------------------------------------------------- summaries


def kind(run):
    """The row of a run in the table, by the ranks that died while others worked."""
    servers = sorted(rank for rank in run["in_the_midst"] if rank < run["servers"])
    if run.get("spares", 0) > 0:
        return f"{len(servers)} of {run['servers']} servers with {run['spares']} spares" + (", and calls fail" if run["failed_s"] else "")
    workers = len(run["in_the_midst"]) - len(servers)
    if len(servers) > 1:
        return "a server and its backup" if run["lost_a_part"] else "two servers that are not neighbours"
    if servers:
        return "a server and a worker" if workers else "a server"
    return "a worker" if workers else "nobody"


def quantiles(values):
    if not values:
        return "| | |"
    return f"| {statistics.median(values):.3f} | {share(values, 0.99):.3f} | {max(values):.3f}"


def summarise(runs, to):
    print("| hosts | killed in the midst | runs | good | clocks acknowledged | s until a call succeeds or fails: median | 99 % | worst |\n"
          "|---|---|---:|---:|---:|---:|---:|---:|", file=to)
    cases = sorted({(run["hosts"] > 1, kind(run)) for run in runs})
    for several, name in cases:
        own = [run for run in runs if (run["hosts"] > 1, kind(run)) == (several, name)]
        good = sum(not run["wrong"] for run in own)
        times = [seconds for run in own for seconds in run["failed_s" if run["failed_s"] else "stood_s"]] if name != "nobody" else []
        print(f"| {'several' if several else 'one'} | {name} | {len(own)} | {good} | {sum(run['clocks'] for run in own)} {quantiles(times)} |", file=to)
    bad = [run for run in runs if run["wrong"]]
    print(f"{len(runs)} runs, {sum(len(run['died']) for run in runs)} ranks killed; {len(bad)} runs were not good", file=to)
    for run in bad:
        print(f"  seed {run['seed']}, {run['hosts']} hosts: {'; '.join(run['wrong'])}", file=to)
    return not bad


def read(names):
    for name in names:
        with open(name, encoding="utf-8") as file:
            yield from (json.loads(line) for line in file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next run has the next seed")
    parser.add_argument("--hosts", type=int, metavar="N", help="emulated hosts; at least 2, and at most 7 are used")
    parser.add_argument("--spares", action="store_true", help="servers with spares, which die one after the other")
    parser.add_argument("--stops", action="store_true", help="SIGSTOP some ranks, too")
    parser.add_argument("--keep", metavar="FILE")
    parser.add_argument("--read", nargs="+", metavar="FILE")
    parser.add_argument("--verbose", action="store_true", help="of runs that are not good, all that the ranks said")
    options = parser.parse_args()
    if options.hosts is not None and not 2 <= options.hosts <= 7:
        parser.error("--hosts must be 2 to 7")
    if options.read is not None:
        sys.exit(0 if summarise(list(read(options.read)), sys.stdout) else 1)
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"server_faults.py: {PROGRAM} is not built")
    runs, secret = [], secrets.token_hex(16)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder, options.hosts, 1000) if options.hosts else None
        try:
            first = options.seed + (0 if not options.spares else SLOW_FROM if options.hosts else SPARES_FROM)
            for seed in range(first, first + options.runs):
                runs.append(make_run(seed, options, secret))
                line = json.dumps(runs[-1])
                print(line, flush=True)
                if options.keep is not None:
                    with open(options.keep, "a", encoding="utf-8") as file:
                        file.write(f"{line}\n")
        finally:
            if cluster is not None:
                cluster.close()
    sys.exit(0 if summarise(runs, sys.stderr) else 1)


if __name__ == "__main__":
    main()
