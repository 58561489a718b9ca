#!/usr/bin/env python3
"""elastic_faults.py - how long an elastic training loop stands still when a fault strikes.

  python3 bench/elastic_faults.py [--case killed,...] [--way spare,...] [--place host,hosts] [--runs 50] [--ranks 4] [--mb 100]
                                  [--deadline 5] [--window 0.5] [--json FILE] [--seed 0] [--verbose]
  python3 bench/elastic_faults.py --table FILE

Ranks with --mb megabytes of state take short steps: an allreduce of 1 MB, and the agreement that the step counts. Then a fault strikes one rank:

  killed    SIGKILL ends its process
  off       the link of its host goes down, and all of the host's processes are killed
  stopped   SIGSTOP stops its process for good; the calls of the others have a deadline of --deadline seconds, then they muster
  late      from then on each of its steps takes three times as long, and 50 ms more at least; the loop's policy puts it out, in windows of --window seconds
  corrupt   from then on the network changes a bit in each 20th large part of what it sends; checksums are on, and the policy puts it out

The others go on in one of three ways:

  spare     a process that waits takes its place, and gets the state
  restart   its program is started again, takes its place, and gets the state: at once, or, where it was put out, when it has ended
  shrink    they go on without it

The ranks are processes of this host, or each has an emulated host of its own (bench/peers/cluster: 1 Gbit/s; needs root), and so have spares and,
where a host is off, restarts. Some combinations are left out: a host that is off has no meaning on one host, memory of one host changes no bits, and
a process that is stopped does not end, so nothing starts it again.

A line of --json is a run: the seconds from the fault to the first step that a survivor's new team counts (signal_to_step), and from a survivor's first
line about the fault, be it of its log or a call that fails, to this step (noticed_to_step). Where no call fails, because the rank died after the step was
agreed on, the loop's counter outage_ns tells the second one. start_to_main: the part of a restart in which Python and NumPy start. wire: the seconds
that the state needs at 1 Gbit/s. The table has the median and the worst of them for each case, and the goal of the first: the bound of the table of
faults + 1 s, for "late" and "corrupt" that of the policy + 1 s, without start_to_main.

A run is wrong if no such step comes within 60 s after the bound, if a survivor ends, if a survivor's error names another rank, or if the ranks do not
have the same state afterwards. In the case "stopped" an error may name another rank: a call that reaches its deadline names a rank that it waits for, which
may wait itself. A line says how many errors did that (names_other). The program prints such runs, and ends with exit code 1.

Environment: TUTTI_LIBRARY, the library (default build/lib/libtutti.so of the repository).
"""
import argparse
import json
import os
import random
import secrets
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = ("killed", "off", "stopped", "late", "corrupt")
WAYS = ("spare", "restart", "shrink")
PLACES = ("host", "hosts")
PATIENCE_S = 60
FIRST_STEPS = 20
LATE_S = 0.05
LATE_WINDOWS = 6  # of the policy
LINK_BYTES_S = 125e6 * 1448 / 1514  # 1 Gbit/s, without the heads of packets
CLUSTER = os.path.join(ROOT, "bench", "peers", "cluster")
PREFIX = f"ef{os.getpid()}"

FLIPS = r"""
/* From SIGUSR2 on, a bit changes in each 20th large part that goes over TCP; its sender sends the rest afterwards. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile sig_atomic_t flips;
static void begin(int number) { (void)number; flips = 1; }
__attribute__((constructor)) static void listen_for_it(void) { signal(SIGUSR2, begin); }
static int is_tcp(int fd)
{
    int domain = 0;
    socklen_t bytes = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && (domain == AF_INET || domain == AF_INET6);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static _Thread_local char copy[4096];
    static _Thread_local unsigned count;
    struct iovec parts[64];
    struct msghdr changed = *message;
    for (size_t i = 0; flips && i < message->msg_iovlen && i < 64; i++) {
        parts[i] = message->msg_iov[i];
        if (parts[i].iov_len < 1000 || !is_tcp(fd) || ++count % 20 != 0) continue;
        if (parts[i].iov_len > sizeof copy) parts[i].iov_len = sizeof copy;
        memcpy(copy, parts[i].iov_base, parts[i].iov_len);
        copy[parts[i].iov_len / 2] ^= 4;
        parts[i].iov_base = copy;
        changed.msg_iov = parts;
        changed.msg_iovlen = i + 1;
        break;
    }
    return syscall(SYS_sendmsg, fd, &changed, flags);
}
"""

# ------------------------------------------------------------------------------------------------------------- a rank


def say(*words):
    print(*words, flush=True)


def train(options):
    """Prints M TIME when it has loaded all, S TEAM SIZE TIME OUTAGE for a step that counts, F TIME MESSAGE for a call that fails, C TEAM STEP SUM for
    the state after the first step of a team, and X TIME MESSAGE for what ends the loop."""
    import numpy as np
    import tutti
    import tutti.elastic

    say("M", time.monotonic_ns())
    lateness, lengths = [], [LATE_S / 2]
    signal.signal(signal.SIGUSR1, lambda *_: lateness.append(max(LATE_S, 2 * statistics.median(lengths[-50:]))))
    is_first = os.environ["TUTTI_ELASTIC_JOIN"] == "0"
    state = np.arange(options.mb * 250000, dtype=np.float32) if is_first else np.zeros(options.mb * 250000, np.float32)
    gradients = np.ones(250000, np.float32)
    more = {}
    if options.case in ("stopped", "late", "corrupt"):
        more["exclude"] = {"window": options.window}
    if options.case == "corrupt":
        more["integrity"] = "network"
    wait = None if options.way == "shrink" else 50.0
    deadline = options.deadline if options.case == "stopped" else 30.0
    checked = -1
    try:
        loop = tutti.elastic.Loop({"state": state}, replace_wait=wait, timeout=deadline, init_timeout=30.0, **more)
        for step in loop:
            gradients[:], began = 1, time.monotonic()
            if lateness:
                time.sleep(lateness[0])
            loop.allreduce(gradients)
            if loop.failure is not None:
                say("F", time.monotonic_ns(), str(loop.failure).replace("\n", " "))
            is_counted = loop.should_commit()
            lengths.append(time.monotonic() - began)
            if is_counted:
                state[0] = step.number
                say("S", step.generation, step.size, time.monotonic_ns(), loop.counters.outage_ns)
                if checked != step.generation:
                    say("C", step.generation, step.number, hash(state.tobytes()[4:]), int(state[0]) == step.number and state[-1] == np.float32(state.size - 1))
                    checked = step.generation
    except tutti.Error as error:
        say("X", time.monotonic_ns(), str(error).replace("\n", " "))
        os._exit(3)


# ------------------------------------------------------------------------------------------------------------- places


class OneHost:
    """All processes on this host."""

    address = "127.0.0.1"

    def free_port(self):
        with socket.socket() as free:
            free.bind((self.address, 0))
            return free.getsockname()[1]

    def command(self, number):
        del number
        return []

    def switch_off(self, number):
        raise NotImplementedError

    def mend(self):
        pass

    def close(self):
        pass


class Hosts:
    """Process k on the emulated host k."""

    address = "10.77.0.1"

    def __init__(self, count):
        self.off = []
        self.variables = {**os.environ, "CLUSTER_PREFIX": PREFIX, "CLUSTER_STATE": f"/run/{PREFIX}-cluster"}
        self._call("up", "--hosts", str(count))

    def _call(self, *words):
        subprocess.run([CLUSTER, *words], env=self.variables, check=True, stdout=subprocess.DEVNULL)

    def free_port(self):
        return random.randrange(20000, 30000)

    def command(self, number):
        return ["ip", "netns", "exec", f"{PREFIX}-h{number}", "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"h{number}"]

    def switch_off(self, number):
        subprocess.run(["ip", "-n", f"{PREFIX}-h{number}", "link", "set", "eth0", "down"], check=True)
        self.off.append(number)

    def mend(self):
        for number in self.off:
            subprocess.run(["ip", "-n", f"{PREFIX}-h{number}", "link", "set", "eth0", "up"], check=True)
        self.off.clear()

    def close(self):
        self._call("down")


# ------------------------------------------------------------------------------------------------------------- a run


class Counted(typing.NamedTuple):
    """A step that counts; it compares by its time."""

    at_ns: int
    process: int
    team: int
    size: int
    outage_ns: int


class Job:
    """The processes of a run, and their lines. The first processes are the ranks that begin."""

    def __init__(self, options, case, way, place, folder):
        self.options, self.case, self.way, self.place = options, case, way, place
        self.lines = selectors.DefaultSelector()
        self.processes, self.started_ns, self.main_ns = [], [], {}
        self.steps, self.errors, self.ends, self.states, self.log = [], [], {}, [], []
        self.variables = {"TUTTI_ELASTIC_STORE": folder, "TUTTI_SECRET": secrets.token_hex(16), "WORLD_SIZE": str(options.ranks),
                          "MASTER_ADDR": place.address, "MASTER_PORT": str(place.free_port()), "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
                          "PYTHONPATH": os.path.join(ROOT, "bindings", "python", "src"),
                          "TUTTI_LIBRARY": os.environ.get("TUTTI_LIBRARY", os.path.join(ROOT, "build", "lib", "libtutti.so"))}
        if options.flips:
            self.variables["LD_PRELOAD"] = options.flips

    def start(self, rank, joins, host):
        words = [*self.place.command(host), sys.executable, os.path.abspath(__file__), "--worker", "--case", self.case, "--way", self.way,
                 "--mb", str(self.options.mb), "--deadline", str(self.options.deadline), "--window", str(self.options.window)]
        variables = {**os.environ, **self.variables, "TUTTI_ELASTIC_JOIN": str(int(joins))}
        if not joins:
            variables["RANK"] = str(rank)
        self.started_ns.append(time.monotonic_ns())
        process = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        for stream in (process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
            self.lines.register(stream, selectors.EVENT_READ, [len(self.processes), b"", stream is process.stderr])
        self.processes.append(process)

    def take(self, process, line, is_log):
        text = line.decode(errors="replace")
        if is_log:
            self.log.append((time.monotonic_ns(), process, text))
            if self.options.verbose:
                print(f"  {process}: {text}", file=sys.stderr)
            return
        kind, _, rest = text.partition(" ")
        if kind == "F":
            at_ns, _, message = rest.partition(" ")
            self.errors.append((int(at_ns), process, message))
        elif kind == "X":
            at_ns, _, message = rest.partition(" ")
            self.ends[process] = (int(at_ns), message)
        elif kind == "M":
            self.main_ns[process] = int(rest)
        elif kind == "C":
            self.states.append((process, *rest.split()))
        elif kind == "S":
            team, size, at_ns, outage_ns = map(int, rest.split())
            self.steps.append(Counted(at_ns, process, team, size, outage_ns))

    def listen(self, seconds):
        """Takes in lines for so long, or until all processes have ended."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.lines.get_map():
            for key, _ in self.lines.select(left):
                process, rest, is_log = key.data
                received = os.read(key.fd, 1 << 16)
                if not received:
                    self.lines.unregister(key.fileobj)
                *lines, key.data[1] = (rest + received).split(b"\n")
                for line in lines:
                    self.take(process, line, is_log)

    def listen_until(self, holds, seconds=PATIENCE_S):
        """Whether it held within that time."""
        until = time.monotonic() + seconds
        while not holds() and self.lines.get_map() and time.monotonic() < until:
            self.listen(0.02)
        return holds()

    def has_begun(self):
        return all(sum(step.process == rank for step in self.steps) >= FIRST_STEPS for rank in range(self.options.ranks))

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.lines.close()


def strike(job, victim):
    """Makes the fault; returns when."""
    pid = job.processes[victim].pid
    at_ns = time.monotonic_ns()
    if job.case == "off":
        job.place.switch_off(victim)
    numbers = {"killed": signal.SIGKILL, "off": signal.SIGKILL, "stopped": signal.SIGSTOP, "late": signal.SIGUSR1, "corrupt": signal.SIGUSR2}
    os.killpg(pid, numbers[job.case])
    return at_ns


def bound_of(options, case, place):
    """Seconds from the fault until survivors know of it, as docs/develop/faults.md or the policy says."""
    if case == "killed":
        return 0.5 if place == "host" else 1.0
    if case == "off":
        return 5.0
    if case == "stopped":
        return options.deadline + 5  # the time of a muster
    return (LATE_WINDOWS + 1) * options.window


class Wrong(Exception):
    """What is wrong with a run."""


def check_states(job, team, survivors):
    """The ranks of a team have the same state, and the right one."""
    there = [state for state in job.states if int(state[1]) == team]
    job.listen_until(lambda: len([s for s in job.states if int(s[1]) == team]) >= len(survivors), 10)
    there = [state for state in job.states if int(state[1]) == team]
    if len({state[2:] for state in there}) != 1 or there[0][4] != "True":
        raise Wrong(f"ranks do not have the same state, or a wrong one: {there}")


def first_line(job, survivors, victim, at_ns):
    """(when, text) of the first line about the fault; None: there is none."""
    names = f"rank {victim} "
    lines = [line for line in job.log + job.errors if line[0] >= at_ns and line[1] in survivors and names in line[2]]
    return min(lines, default=None)


def run_fault(job, chance, fields):
    """Fills in the fields of a run."""
    options, case, way = job.options, job.case, job.way
    victim = chance.randrange(options.ranks)
    fields["victim"] = victim
    job.listen(chance.uniform(0.3, 0.6))
    survivors = [rank for rank in range(options.ranks) if rank != victim]
    old_team, size = job.steps[-1].team, options.ranks - (way == "shrink")
    at_ns = strike(job, victim)
    joiner = len(job.processes)
    if way == "restart" and case in ("killed", "off"):
        job.start(victim, True, options.ranks if case == "off" else victim)

    def find():
        if way == "restart" and len(job.processes) == joiner and job.processes[victim].poll() is not None:
            job.start(victim, True, victim)
        return min((step for step in job.steps if step.team > old_team and step.size == size and step.process in survivors), default=None)

    if not job.listen_until(lambda: find() is not None, PATIENCE_S + bound_of(options, case, fields["place"])):
        running = [rank for rank in survivors if job.processes[rank].poll() is None]
        raise Wrong(f"no step after the fault of rank {victim}; of the survivors, {running} run; errors: {job.errors[:3]}; ends: {job.ends}; "
                    f"log: {[line[2] for line in job.log[-5:]]}")
    found = find()
    others = [message for _, process, message in job.errors if process in survivors and f"rank {victim} " not in message]
    if others and case != "stopped":
        raise Wrong(f"rank {victim} is not named: {others[0]}")
    fields["names_other"] = len(others)
    ended = [rank for rank in survivors if job.processes[rank].poll() is not None]
    if ended:
        raise Wrong(f"of the survivors, {ended} ended: {job.ends}")
    line = first_line(job, survivors, victim, at_ns)
    noticed_ns = found.at_ns - found.outage_ns if line is None else line[0]
    fields.update(signal_to_step=(found.at_ns - at_ns) * 1e-9, noticed_to_step=(found.at_ns - noticed_ns) * 1e-9,
                  first_line="" if line is None else line[2])
    if way == "restart":
        fields["start_to_main"] = (job.main_ns[joiner] - job.started_ns[joiner]) * 1e-9
    check_states(job, found.team, survivors)
    if way != "shrink" and fields["place"] == "hosts":
        fields["wire"] = options.mb * 1e6 / LINK_BYTES_S


def run_once(options, case, way, place, name, seed):
    fields = {"place": name, "case": case, "way": way, "seed": seed, "ranks": options.ranks, "mb": options.mb, "bound": bound_of(options, case, name)}
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, case, way, place, folder)
        try:
            for rank in range(options.ranks):
                job.start(rank, False, rank)
            if way == "spare":
                job.start(options.ranks, True, options.ranks)
                job.listen_until(lambda: options.ranks in job.main_ns)
            if not job.listen_until(job.has_begun):
                raise Wrong(f"it did not start: {job.ends} {job.log[-5:]}")
            run_fault(job, random.Random(seed), fields)
        except Wrong as wrong:
            fields["wrong"] = str(wrong)
        finally:
            job.end()
            place.mend()
    return fields


# ---------------------------------------------------------------------------------------------------------- the table


def combinations(options):
    for name in options.place.split(","):
        for case in options.case.split(","):
            for way in options.way.split(","):
                if name == "host" and case in ("off", "corrupt"):
                    continue
                if case == "stopped" and way == "restart":
                    continue
                yield name, case, way


def measure(options, file):
    """All runs; how many were wrong."""
    is_terminal = sys.stderr.isatty()
    wrong_count, hosts = 0, None
    wanted = list(combinations(options))
    try:
        for name, case, way in wanted:
            if name == "hosts" and hosts is None:
                hosts = Hosts(options.ranks + 1)
            place = hosts if name == "hosts" else OneHost()
            options.flips = options.flips_path if case == "corrupt" else ""
            for run in range(options.runs):
                if is_terminal:
                    print(f"\r{name} {case} {way}: run {run + 1} of {options.runs}, {wrong_count} wrong \033[K", end="", file=sys.stderr, flush=True)
                fields = run_once(options, case, way, place, name, options.seed + run)
                print(json.dumps(fields), file=file, flush=True)
                if "wrong" in fields:
                    wrong_count += 1
                    print(f"\n{name} {case} {way}, seed {fields['seed']}: {fields['wrong']}", file=sys.stderr, flush=True)
        if is_terminal:
            print("\r\033[K", end="", file=sys.stderr)
    finally:
        if hosts is not None:
            hosts.close()
    return wrong_count


def spread(values):
    return f"{statistics.median(values):.2f} | {max(values):.2f}"


def print_row(key, runs):
    fine = [run for run in runs if "wrong" not in run]
    if not fine:
        print("| " + " | ".join(key) + f" | 0 of {len(runs)} | | | | | | | |")
        return
    whole, noticed = ([run[name] - run.get("start_to_main", 0) for run in fine] for name in ("signal_to_step", "noticed_to_step"))
    goal = max(run["bound"] + 1 + run.get("wire", 0) for run in fine)
    wires = [run["noticed_to_step"] / run["wire"] for run in fine if "wire" in run and "start_to_main" not in run]
    starts = [run["start_to_main"] for run in fine if "start_to_main" in run]
    print("| " + " | ".join(key) + f" | {len(fine)}" + (f" of {len(runs)}" if len(fine) < len(runs) else "") +
          f" | {spread(whole)} | {goal:.1f} | {spread(noticed)} | " +
          (f"{statistics.median(starts):.2f}" if starts else "-") + " | " + (f"{statistics.median(wires):.2f}" if wires else "-") + " |")


def print_table(path):
    groups = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            run = json.loads(line)
            groups.setdefault((run["place"], run["case"], run["way"]), []).append(run)
    print("| place | case | way | runs | fault to step, s: median | worst | goal | noticed to step, s: median | worst | start, s | noticed to step / wire |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for key in sorted(groups, key=lambda k: (PLACES.index(k[0]), CASES.index(k[1]), WAYS.index(k[2]))):
        print_row(key, groups[key])


def build_flips(folder):
    """The library that changes bits."""
    source, path = os.path.join(folder, "flips.c"), os.path.join(folder, "flips.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(FLIPS)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", source, "-o", path], check=True)
    return path


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default=",".join(CASES), metavar="CASES")
    parser.add_argument("--way", default=",".join(WAYS), metavar="WAYS")
    parser.add_argument("--place", default=",".join(PLACES), metavar="PLACES")
    parser.add_argument("--runs", type=int, default=50, help="of each combination")
    parser.add_argument("--ranks", type=int, default=4, help="that begin")
    parser.add_argument("--mb", type=int, default=100, help="megabytes of state")
    parser.add_argument("--deadline", type=float, default=5.0, help='seconds that calls wait in the case "stopped"')
    parser.add_argument("--window", type=float, default=0.5, help="seconds of a window of the policy")
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--json", metavar="FILE", help="adds a line for each run")
    parser.add_argument("--table", metavar="FILE", help="only prints the table of such a file")
    parser.add_argument("--verbose", action="store_true", help="also what processes log")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for words, known in ((options.case, CASES), (options.way, WAYS), (options.place, PLACES)):
        if any(word not in known for word in words.split(",")):
            parser.error(f"{words}: known are {', '.join(known)}")
    if options.runs < 1 or options.ranks < 3 or options.mb < 1 or not options.deadline > 0 or not options.window > 0:
        parser.error("RANKS is 3 or more, the other numbers are above 0")
    return options


def main():
    options = parse()
    if options.worker:
        train(options)
        return 0
    if options.table:
        print_table(options.table)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        options.flips_path = build_flips(folder) if "corrupt" in options.case else ""
        path = options.json or os.path.join(folder, "runs")
        with open(path, "a", encoding="utf-8") as file:
            wrong_count = measure(options, file)
        print_table(path)
    return 1 if wrong_count else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
