#!/usr/bin/env python3
"""synchrony.py - what each way to keep workers together brings where one of them is slow: examples/adapt for equal wall time, with averaged gradients,
the modes of a parameter server, local SGD and DiLoCo.

  python3 bench/synchrony.py [--workers 2] [--hosts RATE] [--slow 3] [--seconds 20] [--compute-ms 20] [--every 10] [--rounds 3] [--lr 0.05]
                             [--modes NAME,...] [--json FILE] [--svg FILE]
  python3 bench/synchrony.py --show FILE... [--svg FILE]

Computing is a real gradient and a sleep of --compute-ms, and worker 1 is --slow times slower. With --hosts each worker is on an emulated host of its
own (peers/cluster, which needs root) with a link of RATE Mbit/s, and so is the server; else all are processes of this machine. Rounds take turns over
the modes, and have seeds of their own. --modes: some of those that the table names, by their short names (full, synchronous, quorum, bounded1,
bounded3, asynchronous, local, diloco).

A row is a mode: the steps a second of the fastest and of the slow worker, the medians of the rounds; and the mean loss over the last fifth of the time, of
each round, on samples without noise. With local SGD and DiLoCo a fast worker takes more local steps, as many as the slow one has time for. The plot has the loss
over the time: the mean of the rounds. --json keeps what was measured, and --show prints it again, of several files together.

Environment: TUTTI_BIN, folder of the tools (default build/bin of the repository).
"""
import argparse
import json
import math
import os
import re
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layouts import Cluster, Machine, tool  # noqa: E402

MODES = {  # short name: its row in the table, the words of examples/adapt, colour
    "full": ("averaged gradients", ["--mode", "full"], "#222222"),
    "synchronous": ("server, synchronous", ["--server", "synchronous"], "#3b6fb6"),
    "quorum": ("server, quorum of all but one", ["--server", "quorum"], "#7a4ea3"),
    "bounded1": ("server, bounded by 1", ["--server", "bounded", "--staleness", "1"], "#2a9d9d"),
    "bounded3": ("server, bounded by 3", ["--server", "bounded", "--staleness", "3"], "#7cb342"),
    "asynchronous": ("server, asynchronous", ["--server", "asynchronous"], "#d81b60"),
    "local": ("local SGD", ["--mode", "local"], "#c4632a"),
    "diloco": ("DiLoCo", ["--mode", "diloco"], "#e0a000"),
}


def at_time(losses, at):
    """The loss at a time between two that are known."""
    before = max((point for point in losses if point[0] <= at), default=losses[0])
    after = min((point for point in losses if point[0] >= at), default=losses[-1])
    share = (at - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0
    return before[1] + share * (after[1] - before[1])


def last_loss(losses, seconds):
    """The mean of the last fifth of the time: a loss goes up and down from step to step. A mode that looks at the clock now and then trains a little
    longer, which does not count."""
    return statistics.mean(at_time(losses, seconds * (0.8 + 0.2 * part / 50)) for part in range(51))


def read(text, seconds):
    """What examples/adapt said: steps a second of each worker, losses by time, and the loss when the time was over."""
    losses = [(float(at), float(loss)) for at, loss in re.findall(r"at ([\d.]+) s, \d+ steps: loss ([\d.]+)", text)]
    last = re.search(r"loss ([\d.]+) -> ([\d.]+) in ([\d.]+) s; steps a second: ([\d. ]+);", text)
    if last is None:
        sys.exit(f"synchrony.py: this is not what examples/adapt says:\n{text}")
    losses = [(0.0, float(last[1])), *losses, (float(last[3]), float(last[2]))]
    return {"losses": losses, "loss": last_loss(losses, seconds), "rates": [float(rate) for rate in last[4].split()]}


def measure(layouts, mode, seed, options):
    words = [*MODES[mode][1], "--seconds", options.seconds, "--compute-ms", options.compute_ms, "--every", options.every, "--lr", options.lr,
             "--slow", f"1:{options.slow}:0-1000000", "--trace", 1, "--seed", seed]
    done = layouts("--server" in words).job(tool("adapt"), *map(str, words))
    if done.returncode != 0:
        sys.exit(f"synchrony.py: {mode}: examples/adapt failed")
    return read(done.stdout, options.seconds)


def print_table(runs):
    print("| mode | steps a second, fastest worker | slow worker | loss, each round | mean |\n|---|---:|---:|---|---:|")
    for mode, found in runs.items():
        fast = statistics.median(max(run["rates"]) for run in found)
        slow = statistics.median(run["rates"][1] for run in found)
        losses = [run["loss"] for run in found]
        print(f"| {MODES[mode][0]} | {fast:.1f} | {slow:.1f} | {', '.join(f'{loss:.4f}' for loss in losses)} | {statistics.mean(losses):.4f} |")


def mean_of(found, begin, end):
    """The losses of the rounds at equal times, in logarithms."""
    times = [begin + (end - begin) * part / 100 for part in range(101)]
    return [(at, math.exp(statistics.mean(math.log(at_time(run["losses"], at)) for run in found))) for at in times]


def draw(runs, file):
    """The loss over the time, on a logarithmic scale: a line for each mode."""
    width, height, left, bottom = 720, 420, 60, 40
    end = min(run["losses"][-1][0] for found in runs.values() for run in found)
    begin = max(run["losses"][1][0] for found in runs.values() for run in found)  # until then not all modes have looked
    lines = {mode: mean_of(found, begin, end) for mode, found in runs.items()}
    values = [math.log(loss) for points in lines.values() for _, loss in points]
    least, most = min(values), max(values)

    def x_of(at):
        return left + (width - left - 20) * at / end

    def y_of(loss):
        return 20 + (height - bottom - 20) * (most - math.log(loss)) / max(most - least, 1e-9)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<path d="M{left} 20V{height - bottom}H{width - 20}" fill="none" stroke="#444"/>']
    for part in range(5):
        loss, at = math.exp(least + (most - least) * part / 4), end * part / 4
        out.append(f'<text x="{left - 8}" y="{y_of(loss) + 4:.1f}" text-anchor="end">{loss:.3f}</text>')
        out.append(f'<text x="{x_of(at):.1f}" y="{height - bottom + 20}" text-anchor="middle">{at:.3g} s</text>')
    out.append(f'<text x="{left}" y="14">loss on samples that nobody trained on, logarithmic scale</text>')
    ends = sorted(lines, key=lambda mode: -lines[mode][-1][1])  # the highest line is named first
    for number, mode in enumerate(ends):
        path = "L".join(f"{x_of(at):.1f} {y_of(loss):.1f}" for at, loss in lines[mode])
        colour = MODES[mode][2]
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out.append(f'<text x="{width - 30}" y="{36 + 18 * number}" text-anchor="end" fill="{colour}">{MODES[mode][0]}</text>')
    with open(file, "w", encoding="utf-8") as svg:
        svg.write("\n".join(out) + "\n</svg>\n")


class Places:
    """Where the workers of a job run; with a server, on one more rank or host, which is the first."""

    def __init__(self, folder, options):
        self.cluster = None
        if options.hosts is None:
            self.plain = Machine(folder, options.workers, pinned=False)
            self.serving = Machine(folder, options.workers + 1, pinned=False)
        else:
            self.cluster = self.serving = Cluster(folder, options.workers + 1, options.hosts)
            self.plain = self.cluster.part(options.workers)

    def __call__(self, serves):
        return self.serving if serves else self.plain

    def close(self):
        if self.cluster is not None:
            self.cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=float, metavar="RATE")
    parser.add_argument("--slow", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--compute-ms", type=float, default=20)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--svg")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("--show", nargs="+")
    options = parser.parse_args()
    runs = {mode: [] for mode in options.modes.split(",")}
    for file in options.show or []:
        with open(file, encoding="utf-8") as kept:
            for mode, found in json.load(kept).items():
                runs[mode] += found
    if not options.show:
        with tempfile.TemporaryDirectory() as folder:
            places = Places(folder, options)
            try:
                for seed in range(options.first_seed, options.first_seed + options.rounds):
                    for mode, found in runs.items():
                        found.append(measure(places, mode, seed, options))
            finally:
                places.close()
    if options.json is not None:
        with open(options.json, "w", encoding="utf-8") as kept:
            json.dump(runs, kept)
    print_table(runs)
    if options.svg is not None:
        draw(runs, options.svg)


if __name__ == "__main__":
    main()
