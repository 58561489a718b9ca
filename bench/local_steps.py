#!/usr/bin/env python3
"""local_steps.py - what local steps bring where a rank is slow: examples/adapt with averaged gradients, local SGD and DiLoCo, for equal wall time.

  python3 bench/local_steps.py [--hosts RATE] [--slow 3] [--seconds 20] [--compute-ms 20] [--every 10] [--rounds 3] [--lr 0.05] [--svg FILE]

Two ranks. Computing is a real gradient and a sleep of --compute-ms, and rank 1 is --slow times slower. With --hosts the ranks are on two
emulated hosts (peers/cluster, which needs root) with links of RATE Mbit/s, else on this machine. Rounds take turns over the modes.

A row is a mode: the steps a second of each rank, the medians of the rounds; and the loss when the time was over, of each round. A rank that is
fast takes more local steps, as many as the slow rank has time for. The plot has the loss over the time of each round.

Environment: TUTTI_BIN, folder of the tools (default build/bin of the repository).
"""
import argparse
import os
import re
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layouts import Cluster, Machine, tool  # noqa: E402

MODES = {"full": "gradients averaged in each step", "local": "local SGD", "diloco": "DiLoCo"}
COLOURS = {"full": "#3b6fb6", "local": "#c4632a", "diloco": "#3a8a4d"}


class Run:
    """What examples/adapt said: steps a second of each rank, the last loss, and losses by time."""

    def __init__(self, text):
        self.losses = [(float(at), float(loss)) for at, loss in re.findall(r"at ([\d.]+) s, \d+ steps: loss ([\d.]+)", text)]
        last = re.search(r"loss [\d.]+ -> ([\d.]+) in [\d.]+ s; steps a second: ([\d. ]+);", text)
        if last is None or not self.losses:
            sys.exit(f"local_steps.py: this is not what examples/adapt says:\n{text}")
        self.loss = float(last[1])
        self.rates = [float(rate) for rate in last[2].split()]


def measure(layout, mode, options):
    words = ["--mode", mode, "--seconds", options.seconds, "--compute-ms", options.compute_ms, "--every", options.every, "--lr", options.lr,
             "--slow", f"1:{options.slow}:0-1000000", "--trace", 1]
    done = layout.job(tool("adapt"), *map(str, words))
    if done.returncode != 0:
        sys.exit(f"local_steps.py: {mode}: examples/adapt failed")
    return Run(done.stdout)


def print_table(runs):
    print("| mode | steps a second, rank 0 | rank 1 | loss, each round | mean |\n|---|---:|---:|---|---:|")
    for mode, found in runs.items():
        rates = [statistics.median(run.rates[rank] for run in found) for rank in range(2)]
        losses = [run.loss for run in found]
        print(f"| {MODES[mode]} | {rates[0]:.1f} | {rates[1]:.1f} | {', '.join(f'{loss:.4f}' for loss in losses)} | {statistics.mean(losses):.4f} |")


def draw(runs, file):
    """The loss over the time: a line for each run."""
    width, height, left, bottom = 720, 400, 70, 50
    points = [point for found in runs.values() for run in found for point in run.losses]
    end = max(at for at, _ in points)
    least, most = min(loss for _, loss in points), max(loss for _, loss in points)
    span = max(most - least, 1e-9)

    def x_of(at):
        return left + (width - left - 20) * at / end

    def y_of(loss):
        return 20 + (height - bottom - 20) * (most - loss) / span

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<path d="M{left} 20V{height - bottom}H{width - 20}" fill="none" stroke="#444"/>']
    for part in range(5):
        loss, at = least + span * part / 4, end * part / 4
        lines.append(f'<text x="{left - 8}" y="{y_of(loss) + 4:.1f}" text-anchor="end">{loss:.3f}</text>')
        lines.append(f'<text x="{x_of(at):.1f}" y="{height - bottom + 20}" text-anchor="middle">{at:.3g} s</text>')
    lines.append(f'<text x="{left}" y="14">loss on what was held out</text>')
    for number, (mode, found) in enumerate(runs.items()):
        for run in found:
            path = "L".join(f"{x_of(at):.1f} {y_of(loss):.1f}" for at, loss in run.losses)
            lines.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[mode]}" stroke-width="1.5"/>')
        lines.append(f'<text x="{width - 30}" y="{30 + 18 * number}" text-anchor="end" fill="{COLOURS[mode]}">{MODES[mode]}</text>')
    with open(file, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n</svg>\n")


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
    options = parser.parse_args()
    runs = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        layout = Machine(folder, 2) if options.hosts is None else Cluster(folder, 2, options.hosts)
        try:
            for _ in range(options.rounds):
                for mode, found in runs.items():
                    found.append(measure(layout, mode, options))
        finally:
            layout.close()
    print_table(runs)
    if options.svg is not None:
        draw(runs, options.svg)


if __name__ == "__main__":
    main()
