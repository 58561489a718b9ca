#!/usr/bin/env python3
"""step_picture.py - one step of a training on many ranks, as a picture, from a profile of it (examples/gpt: gpt --profile FILE).

    scripts/step_picture.py step.json >step.svg
    scripts/step_picture.py --shorten step.json >short.json     what is drawn, and no more

A row for each rank, time to the right. The row has the passes of micro-batches, with their numbers, and the optimizer; its lower half tells
where the rank waits for an axis because nothing hides communication. The line below the row is what is under way between replicas meanwhile.
Of several steps in the profile it draws the last one.
"""
import json
import sys

sys.dont_write_bytecode = True

LEFT, TOP, WIDTH, PITCH, ROW, LINE = 150, 84, 860, 36, 22, 4
WAITS = {"waits for replicas": "d", "waits for slices": "s"}   # waiting for stages is what remains of the row
LOOK = """<style>text{font-weight:600;font-size:12px;fill:#fff}.t{font-size:19px;fill:#0f172a}.u,.z{font-weight:400;fill:#64748b}.z{font-size:11px}\
.r{fill:#334155}.n{text-anchor:middle;font-size:11px}.g{fill:#fff}.i{fill:#e2e8f0}.f{fill:#1d4f91}.f1{fill:#3b7dc4}.b{fill:#1c6b4a}.b1{fill:#2a8f63}\
.o{fill:#7c3aed}.s{fill:#fbbf24}.d{fill:#e5484d}
@media(prefers-color-scheme:dark){.g{fill:#0d1117}.i{fill:#21262d}.t,.r{fill:#e6edf3}.u,.z{fill:#9198a1}}</style>"""


class Step:
    """The last step of a profile: its events by rank, and when it began and ended on any of them."""

    def __init__(self, profile):
        events = [event for event in profile["traceEvents"] if event["ph"] == "X"]
        self.names = {event["pid"]: event["args"]["name"] for event in profile["traceEvents"] if event.get("name") == "process_name"}
        steps = [event for event in events if event["name"].startswith("step ")]
        if not steps:
            sys.exit("step_picture.py: there is no step in this profile")
        self.number = max(int(event["name"].split()[1]) for event in steps)
        mine = [event for event in steps if event["name"] == f"step {self.number}"]
        self.begin = min(event["ts"] for event in mine)
        self.end = max(event["ts"] + event["dur"] for event in mine)
        self.events = {rank: sorted((event for event in events if event["pid"] == rank and event["ts"] + event["dur"] > self.begin
                                     and event["ts"] < self.end), key=lambda event: event["ts"]) for rank in sorted(self.names)}

    def x(self, time):
        return LEFT + WIDTH * (min(max(time, self.begin), self.end) - self.begin) / (self.end - self.begin)


def boxes(step, events, y, height):
    """One path for all of them."""
    parts = []
    for event in events:
        left, right = step.x(event["ts"]), step.x(event["ts"] + event["dur"])
        if right - left >= 0.15:
            parts.append(f"M{left:.1f} {y}h{right - left:.1f}v{height}h{left - right:.1f}z")
    return "".join(parts)


def put(lines, look, path):
    if path:
        lines.append(f'<path class="{look}" d="{path}"/>')


def look_of(event):
    """The class of what a rank computes; None: it is drawn otherwise, or not at all."""
    name, _, number = event["name"].partition(" ")
    if event["cat"] == "frame" and name in ("forward", "backward"):
        return name[0] + ("1" if int(number) % 2 else "")
    return "o" if event["name"] == "optimizer" else None


def draw_rank(step, rank, y):
    lines = [f'<text class="r" x="20" y="{y + 15}">{step.names[rank].replace("rank ", "", 1)}</text>',
             f'<rect class="i" x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW}" rx="2"/>']
    events = step.events[rank]
    computing = [(event, look_of(event)) for event in events if event["tid"] == 0]
    for look in ("f", "f1", "b", "b1", "o"):
        put(lines, look, boxes(step, [event for event, its in computing if its == look], y, ROW))
    for name, look in WAITS.items():
        put(lines, look, boxes(step, [event for event, _ in computing if event["name"] == name], y + ROW // 2 + 1, ROW // 2 - 1))
    for event, look in computing:
        width = step.x(event["ts"] + event["dur"]) - step.x(event["ts"])
        if look in ("f", "f1", "b", "b1") and width > 12:
            lines.append(f'<text class="n" x="{step.x(event["ts"]) + width / 2:.0f}" y="{y + 10}">{event["name"].split()[1]}</text>')
    under_way = [event for event in events if event["cat"] == "communication" and event["args"]["axis"] == "dp"]
    put(lines, "d", boxes(step, under_way, y + ROW + 2, LINE))
    return lines


def legend(y):
    words = [("f", "forward"), ("b", "backward"), ("o", "optimizer"), ("s", "waits for slices (tp)"), ("d", "waits for replicas (dp)"),
             ("i", "waits for stages (pp)")]
    lines, x = [], LEFT
    for look, text in words:
        lines.append(f'<rect class="{look}" x="{x}" y="{y}" width="12" height="12" rx="2"/><text class="z" x="{x + 17}" y="{y + 10}">{text}</text>')
        x += 32 + 6.2 * len(text)
    return lines


def draw(profile):
    """The picture, from a profile as json.load gives it."""
    step = Step(profile)
    height = TOP + PITCH * len(step.names) + 42
    width = LEFT + WIDTH + 20
    bottom = TOP + PITCH * len(step.names)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             "font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">", LOOK,
             '<rect class="g" width="100%" height="100%" rx="10"/>',
             f'<text class="t" x="20" y="32">One step on {len(step.names)} ranks</text>',
             f'<text class="u" x="20" y="52">{(step.end - step.begin) / 1000:.1f} ms; numbers are those of micro-batches; '
             "below each rank: operations between replicas under way</text>",
             '<text class="z" x="20" y="74">rank</text>']
    for index, rank in enumerate(step.names):
        lines += draw_rank(step, rank, TOP + PITCH * index)
    lines += legend(bottom + 12)
    return "\n".join(lines + ["</svg>", ""])


def shorten(profile):
    """The same profile with what the picture shows of its last step."""
    step = Step(profile)
    kept = [event for event in profile["traceEvents"] if event.get("name") == "process_name"]
    for events in step.events.values():
        for event in events:
            if event["tid"] == 0:
                is_shown = event["name"] == f"step {step.number}" or event["name"] in WAITS or look_of(event) is not None
            else:
                is_shown = event["args"]["axis"] == "dp"
            if is_shown and event["dur"] > (step.end - step.begin) / (8 * WIDTH):
                kept.append({name: event[name] for name in ("name", "cat", "ph", "pid", "tid", "ts", "dur", "args") if name in event})
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in kept)
    return '{"displayTimeUnit":"ms","traceEvents":[\n%s\n]}\n' % lines


def main():
    words = sys.argv[1:]
    make = shorten if words[:1] == ["--shorten"] else draw
    if make == shorten:
        words.pop(0)
    if len(words) != 1 or words[0].startswith("-"):
        sys.exit(__doc__)
    with open(words[0], encoding="utf-8") as file:
        sys.stdout.write(make(json.load(file)))


if __name__ == "__main__":
    main()
