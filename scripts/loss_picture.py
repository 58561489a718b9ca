#!/usr/bin/env python3
"""loss_picture.py - the training loss over time with compressed gradients, as a picture, from what bench/time_to_loss measured.

    scripts/loss_picture.py docs/pictures/loss.json >docs/pictures/loss.svg

A plot for each rate of the network: the mean over seeds of the loss, at the time of a step on that network times the number of steps. A line
ends with its last step.
"""
import json
import math
import sys

sys.dont_write_bytecode = True

WIDTH, PLOT, HEIGHT, LEFT, TOP, GAP = 980, 410, 300, 56, 100, 78
COLOURS = ("#334155", "#2a69b2", "#0891b2", "#22915d", "#b2692a", "#7c3aed", "#c0392b")
DARK = ("#e6edf3", "#4a90e2", "#22c3e6", "#35bd7e", "#d98a4a", "#a47bf0", "#e5675a")


def look():
    lines = "".join(f".l{i}{{stroke:{colour}}}.f{i}{{fill:{colour}}}" for i, colour in enumerate(COLOURS))
    dark = "".join(f".l{i}{{stroke:{colour}}}.f{i}{{fill:{colour}}}" for i, colour in enumerate(DARK))
    return ("<style>text{font-size:12px;fill:#64748b}.t{font-size:19px;font-weight:600;fill:#0f172a}.h{font-size:14px;font-weight:600;fill:#334155}"
            ".m{text-anchor:middle}.e{text-anchor:end}.g{fill:#fff}.b{fill:#f8fafc;stroke:#e2e8f0}.r{stroke:#e2e8f0}.l{fill:none;stroke-width:2;"
            f"stroke-linejoin:round}}.n{{font-size:13px;font-weight:600}}{lines}\n@media(prefers-color-scheme:dark){{.g{{fill:#0d1117}}.t,.h{{fill:#e6edf3}}"
            f".b{{fill:#161b22;stroke:#30363d}}.r{{stroke:#30363d}}text{{fill:#9198a1}}{dark}}}</style>")


def nice_step(span):
    """Of about five marks: 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(span / 5))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * 5 >= span)


def plot(data, number, rate, left):
    """One of the plots, whose left edge is there."""
    ends = [line["curve"][-1][0] * line["step_ms"][number] * 1e-3 for line in data["lines"]]
    losses = [loss for line in data["lines"] for _, loss in line["curve"]]
    low, high, end = min(losses) - 0.05, max(losses) + 0.05, 1.03 * max(ends)

    def x(time):
        return left + PLOT * time / end

    def y(loss):
        return TOP + HEIGHT * (high - loss) / (high - low)

    out = [f'<text class="h" x="{left}" y="{TOP - 12}">{rate} Mbit/s</text>',
           f'<rect class="b" x="{left}" y="{TOP}" width="{PLOT}" height="{HEIGHT}" rx="4"/>']
    mark, step = math.ceil(low * 4) / 4, nice_step(end)
    while mark < high:
        out.append(f'<path class="r" d="M{left} {y(mark):.1f}h{PLOT}"/><text class="e" x="{left - 6}" y="{y(mark) + 4:.1f}">{mark:.2f}</text>')
        mark += 0.25
    for k in range(int(end / step) + 1):
        out.append(f'<text class="m" x="{x(k * step):.1f}" y="{TOP + HEIGHT + 18}">{k * step:g}{" s" if k else ""}</text>')
    for i, line in enumerate(data["lines"]):
        points = "L".join(f"{x(steps * line['step_ms'][number] * 1e-3):.1f} {y(loss):.1f}" for steps, loss in line["curve"])
        out.append(f'<path class="l l{i}" d="M{points}"/>')
    return out


def draw(data):
    rates = data["rates_mbit"]
    height = TOP + HEIGHT + 66
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
             "font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">", look(),
             '<rect class="g" width="100%" height="100%" rx="10"/>',
             '<text class="t" x="20" y="32">Training loss over time, with compressed gradients</text>',
             '<text x="20" y="54">The character model on four hosts, mean of three seeds, equal steps. A line ends with its last step.</text>']
    for number, rate in enumerate(rates[:2]):
        lines += plot(data, number, rate, LEFT + number * (PLOT + GAP))
    x = LEFT
    for i, line in enumerate(data["lines"]):
        lines.append(f'<rect class="f{i}" x="{x}" y="{height - 30}" width="14" height="4"/><text class="n f{i}" x="{x + 19}" y="{height - 23}">{line["name"]}</text>')
        x += 48 + 8 * len(line["name"])
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(draw(json.load(file)))


if __name__ == "__main__":
    main()
