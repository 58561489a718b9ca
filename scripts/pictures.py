#!/usr/bin/env python3
"""pictures.py - the pictures of docs/ and the gallery of them: docs/pictures, docs/reference/gallery.md.

    scripts/pictures.py --tutti-plan build/bin/tutti-plan              writes them
    scripts/pictures.py --tutti-plan build/bin/tutti-plan --compare    writes nothing; fails when they would change

What a collective does is drawn here; what an algorithm does by `tutti-plan draw`, for every algorithm of its list.
Topologies (examples/*.json) are drawn by `tutti-topo`, schedules of pipelines by `tutti-schedule`, which lie beside `tutti-plan`. The step of a
training is drawn by step_picture.py from a profile of it, docs/pictures/step.json. Ratios to the peers' times are drawn by bench/curves from the
tables of bench/RESULTS.md, and losses over time by loss_picture.py from docs/pictures/loss.json, which bench/time_to_loss --json writes. A new profile is made with

    build/bin/tutti-run -n 8 build/bin/gpt --mesh pp=2,dp=2,tp=2 --width 256 --batch 16 --micro-batch 2 --steps 12 --write 0 --held-out 0 \\
        --profile step.json --profile-steps 1 && scripts/step_picture.py --shorten step.json >docs/pictures/step.json
"""
import argparse
import colorsys
import glob
import html
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import loss_picture  # noqa: E402
import step_picture  # noqa: E402

RANKS = 4
ROOT = 1
LETTERS = "abcd"
HUES = (212, 28, 152, 330)   # as in studio/plan/draw_ink.c

# --------------------------------------------------------------------------------------- what collectives do


class Block:
    """A piece of a buffer: whose it is (a rank; None: a result, with everybody's), its name, elements."""

    def __init__(self, owner, name, count=3, gap=0):
        self.owner, self.name, self.count, self.gap = owner, name, count, gap   # gap: elements before it

    def __repr__(self):
        return self.name


def own(rank, block=None, count=3, gap=0):
    return Block(rank, LETTERS[rank] + ("" if block is None else str(block)), count, gap)


def result(block=None, count=3, gap=0):
    return Block(None, "\N{GREEK CAPITAL LETTER SIGMA}" + ("" if block is None else str(block)), count, gap)


class Primitive:
    """Buffers of all ranks before and after, and arrows (from rank, block, to rank, block)."""

    def __init__(self, name, rule, send, recv, root=None, note="", unit=12, whole=False):
        self.name, self.rule, self.send, self.recv, self.root, self.note = name, rule, send, recv, root, note
        self.unit, self.whole = unit, whole   # pixels of an element; whether arrows join whole buffers

    def arrows(self):
        if self.whole:
            yield from ((source, 0, to, 0) for source in range(RANKS) for to in range(RANKS))
            return
        for to, blocks in enumerate(self.recv):
            for j, block in enumerate(blocks):
                for source, others in enumerate(self.send):
                    for i, other in enumerate(others):
                        same = other.name == block.name
                        part = block.owner is None and other.name[1:] == block.name[1:]
                        if same or part:
                            yield source, i, to, j


def everybody(make):
    return [make(rank) for rank in range(RANKS)]


def only_root(blocks):
    return [blocks if rank == ROOT else [] for rank in range(RANKS)]


def row(count):
    return range(count)


def primitives():
    counts = [1, 3, 2, 2]
    matrix = [[1, 2, 1, 3], [2, 1, 2, 1], [3, 1, 1, 2], [1, 2, 2, 1]]   # elements from rank s to rank r
    gaps = [0, 1, 0, 1]
    return [
        Primitive("allreduce", "Everybody gets the sum (or another reduction) of what all have.",
                  everybody(lambda r: [own(r)]), everybody(lambda r: [result()])),
        Primitive("reduce", "The root gets the reduction of what all have.",
                  everybody(lambda r: [own(r)]), only_root([result()]), ROOT),
        Primitive("broadcast", "Everybody gets what the root has.",
                  only_root([own(ROOT)]), everybody(lambda r: [own(ROOT)]), ROOT),
        Primitive("gather", "The root gets everybody's block, in rank order.",
                  everybody(lambda r: [own(r)]), only_root([own(s) for s in row(RANKS)]), ROOT),
        Primitive("scatter", "Block r of the root goes to rank r.",
                  only_root([own(ROOT, r) for r in row(RANKS)]), everybody(lambda r: [own(ROOT, r)]), ROOT),
        Primitive("allgather", "Everybody gets everybody's block, in rank order.",
                  everybody(lambda r: [own(r)]), everybody(lambda r: [own(s) for s in row(RANKS)])),
        Primitive("reduce_scatter", "Rank r gets the reduction of everybody's block r.",
                  everybody(lambda r: [own(r, k) for k in row(RANKS)]), everybody(lambda r: [result(r)])),
        Primitive("alltoall", "Block r of rank s becomes block s of rank r.",
                  everybody(lambda r: [own(r, k) for k in row(RANKS)]),
                  everybody(lambda r: [own(s, r) for s in row(RANKS)])),
        Primitive("gatherv", "Like gather, with blocks of different counts, which may lie anywhere in the root's buffer.",
                  everybody(lambda r: [own(r, None, counts[r])]),
                  only_root([own(s, None, counts[s], gaps[s]) for s in row(RANKS)]), ROOT,
                  "recv_counts 1 3 2 2, recv_displs 0 2 5 8", 20),
        Primitive("scatterv", "Like scatter, with blocks of different counts.",
                  only_root([own(ROOT, r, counts[r]) for r in row(RANKS)]),
                  everybody(lambda r: [own(ROOT, r, counts[r])]), ROOT, "send_counts 1 3 2 2", 20),
        Primitive("allgatherv", "Like allgather, with blocks of different counts.",
                  everybody(lambda r: [own(r, None, counts[r])]),
                  everybody(lambda r: [own(s, None, counts[s]) for s in row(RANKS)]), None, "recv_counts 1 3 2 2", 20),
        Primitive("reduce_scatterv", "Like reduce_scatter, with blocks of different counts.",
                  everybody(lambda r: [own(r, k, counts[k]) for k in row(RANKS)]),
                  everybody(lambda r: [result(r, counts[r])]), None, "recv_counts 1 3 2 2", 20),
        Primitive("alltoallv", "Like alltoall, with a count for every pair of ranks.",
                  everybody(lambda r: [own(r, k, matrix[r][k]) for k in row(RANKS)]),
                  everybody(lambda r: [own(s, r, matrix[s][r]) for s in row(RANKS)]), None, "", 20),
        Primitive("allreduce_list", "A buffer may be a list of tensors, cut differently on every rank.",
                  [[own(0, 0, 3), own(0, 1, 3, 1)], [own(1, 0, 2), own(1, 1, 2, 1), own(1, 2, 2, 1)],
                   [own(2, 0, 6)], [own(3, 0, 2), own(3, 1, 4, 1)]],
                  [[result(0, 3), result(1, 3, 1)], [result(0, 2), result(1, 2, 1), result(2, 2, 1)],
                   [result(0, 6)], [result(0, 2), result(1, 4, 1)]], None,
                  "tensors of 3 3, of 2 2 2, of 6 and of 2 4", 16, True),
    ]


# ------------------------------------------------------------------------------------------- how it is drawn

HEIGHT, PAD, SPACE, GUTTER, TOP, GAP = 30, 8, 20, 66, 92, 96


def rgb(hue, lightness):
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness / 100, 0.62)
    return "#%02x%02x%02x" % tuple(int(value * 255 + 0.5) for value in (red, green, blue))


def colours(lightness):
    lines = []
    for rank, hue in enumerate(HUES):
        shade = rgb(hue, lightness - (8 if 40 < hue < 200 else 0))
        lines.append(".c%d{fill:%s}.l%d{stroke:%s}" % (rank, shade, rank, shade))
    return "".join(lines)


STYLE = """<style>text{text-anchor:middle;font-weight:600;font-size:13px;fill:#fff}.t,.u,.z{text-anchor:start}\
.t{font-size:19px}.u,.z,.e{font-weight:400}.z,.s,.e{font-size:11px}.t{fill:#0f172a}.u,.z,.e{fill:#64748b}.r{fill:#334155}\
.g{fill:#fff}.b{fill:#f8fafc;stroke:#e2e8f0}.m{fill:#475569}.y{stroke:#64748b;stroke-dasharray:3}\
.l{fill:none;stroke-width:1.6;stroke-opacity:.75}.h{fill:none;stroke:#fff;stroke-width:4}
""" + colours(43) + """.lm{stroke:#64748b}
@media(prefers-color-scheme:dark){.g{fill:#0d1117}.h{stroke:#0d1117}.b{fill:#161b22;stroke:#30363d}.t,.r{fill:#e6edf3}\
.u,.z,.e{fill:#9198a1}.m{fill:#59636e}.y,.lm{stroke:#9198a1}
""" + colours(48) + "}</style>"


class Sheet:
    def __init__(self, width, height, title, subtitle):
        self.lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
                      'font-family="Inter, \'Segoe UI\', \'Helvetica Neue\', Arial, \'DejaVu Sans\', sans-serif">'
                      % (width, height, width, height), STYLE,
                      '<rect class="g" width="100%" height="100%" rx="10"/>']
        self.text(20, 32, "t", title)
        self.text(20, 52, "u", subtitle)

    def text(self, x, y, look, words):
        self.lines.append('<text class="%s" x="%d" y="%d">%s</text>' % (look, x, y, html.escape(words, False)))

    def rect(self, look, x, y, width, height, radius):
        self.lines.append('<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"/>'
                          % (look, x, y, width, height, radius))

    def line(self, look, path, halo=True):
        if halo:
            self.lines.append('<path class="h" d="%s"/>' % path)
        self.lines.append('<path class="l %s" d="%s"/>' % (look, path))

    def curve(self, look, x1, y1, x2, y2, halo=True):
        middle = (y2 - y1) * 55 // 100
        self.line(look, "M%d %dC%d %d %d %d %d %d" % (x1, y1, x1, y1 + middle, x2, y2 - middle, x2, y2), halo)

    def done(self):
        return "\n".join(self.lines + ["</svg>", ""])


def width_of(blocks, unit):
    return sum((block.count + block.gap) * unit for block in blocks)


def places(blocks, left, width, unit):
    """Left edges of blocks that are centred in a box."""
    x, out = left + (width - width_of(blocks, unit)) // 2, []
    for block in blocks:
        x += block.gap * unit
        out.append(x)
        x += block.count * unit
    return out


def draw_block(sheet, block, x, y, unit=12):
    width = block.count * unit - 3
    look = "m" if block.owner is None else "c%d" % block.owner
    sheet.rect(look, x, y, width, HEIGHT, 4)
    small = width < 9 * len(block.name) + 4
    if block.owner is None:   # a stroke for everybody who is in it
        part = (width - 4) // RANKS
        for rank in range(RANKS):
            sheet.rect("c%d" % rank, x + (width - part * RANKS) // 2 + rank * part, y + HEIGHT - 8, part, 4, 0)
    sheet.text(x + width // 2, y + (16 if block.owner is None else 20), "s" if small else "", block.name)


def draw_arrows(sheet, primitive, sends, recvs, lefts, box, below):
    """The long ones first; those of a reduction arrive side by side, at their strokes."""
    unit = primitive.unit
    for source, i, to, j in sorted(primitive.arrows(), key=lambda one: -abs(one[0] - one[2])):
        here, there = primitive.send[source][i], primitive.recv[to][j]
        x1 = sends[source][i] + here.count * unit // 2 - 2
        x2 = recvs[to][j] + there.count * unit // 2 - 2
        if primitive.whole:
            x1, x2 = lefts[source] + box // 2, lefts[to] + box // 2
        if there.owner is None:
            spread = 5 if primitive.whole else max((there.count * unit - 9) // RANKS // 2, 1)
            x2 += (source * 2 - RANKS + 1) * spread
        edge = 0 if primitive.whole else PAD
        sheet.curve("l%d" % here.owner, x1, TOP + HEIGHT + 2 * PAD - edge, x2, below + edge - 1)


def draw_primitive(primitive):
    unit = primitive.unit
    inner = max(width_of(blocks, unit) for blocks in primitive.send + primitive.recv)
    box = max(inner + 2 * PAD, 92)
    width = GUTTER + RANKS * (box + SPACE)
    below = TOP + HEIGHT + 2 * PAD + GAP
    height = below + HEIGHT + 2 * PAD + (40 if primitive.note else 22)
    sheet = Sheet(width, height, primitive.name, primitive.rule)
    lefts = [GUTTER + rank * (box + SPACE) for rank in range(RANKS)]
    for rank, left in enumerate(lefts):
        sheet.text(left + box // 2, TOP - 10, "r", "rank %d%s" % (rank, " (root)" if rank == primitive.root else ""))
        for blocks, top in ((primitive.send[rank], TOP), (primitive.recv[rank], below)):
            sheet.rect("b", left, top, box, HEIGHT + 2 * PAD, 8)
            if not blocks:
                sheet.text(left + box // 2, top + PAD + 19, "e", "ignored")
    for words, top in (("send", TOP), ("recv", below)):
        sheet.text(20, top + PAD + 20, "u", words)
    sends = [places(blocks, left, box, unit) for blocks, left in zip(primitive.send, lefts)]
    recvs = [places(blocks, left, box, unit) for blocks, left in zip(primitive.recv, lefts)]
    draw_arrows(sheet, primitive, sends, recvs, lefts, box, below)
    for blocks, xs, top in [(b, x, TOP) for b, x in zip(primitive.send, sends)] + \
                           [(b, x, below) for b, x in zip(primitive.recv, recvs)]:
        for block, x in zip(blocks, xs):
            draw_block(sheet, block, x, top + PAD, unit)
    if primitive.note:
        sheet.text(GUTTER, height - 16, "z", primitive.note + ", in elements")
    return sheet.done()


def draw_barrier():
    box = 92
    width, height = GUTTER + RANKS * (box + SPACE), 250
    sheet = Sheet(width, height, "barrier", "Nobody leaves before everybody has entered.")
    entries, meeting = [20, 58, 8, 40], 58
    for rank, entry in enumerate(entries):
        x = GUTTER + rank * (box + SPACE) + box // 2
        sheet.text(x, TOP - 10, "r", "rank %d" % rank)
        sheet.line("l%d" % rank, "M%d %dV%d" % (x, TOP, TOP + entry), False)
        sheet.rect("c%d" % rank, x - 5, TOP + entry - 5, 10, 10, 5)
        sheet.lines.append('<path class="y" d="M%d %dV%d"/>' % (x, TOP + entry + 6, TOP + meeting + 22))
        leave = TOP + meeting + 24
        sheet.rect("c%d" % rank, x - 5, leave - 5, 10, 10, 5)
        sheet.line("l%d" % rank, "M%d %dV%d" % (x, leave, leave + 44), False)
    y = TOP + meeting
    sheet.lines.append('<path class="y" d="M%d %dH%d"/>' % (GUTTER, y + 12, width - SPACE))
    sheet.text(20, TOP + 30, "u", "enter")
    sheet.text(20, y + 50, "u", "leave")
    return sheet.done()


def draw_messages():
    box = 118
    width, height = GUTTER + RANKS * (box + SPACE), 282
    sheet = Sheet(width, height, "send, recv", "A message goes from one rank to one rank and carries a tag.")
    lefts = [GUTTER + rank * (box + SPACE) for rank in range(RANKS)]
    below = TOP + HEIGHT + 2 * PAD + 60
    for rank, left in enumerate(lefts):
        sheet.text(left + box // 2, TOP - 10, "r", "rank %d" % rank)
    sends = [(0, 0, "to 2, tag 7"), (1, 1, "to 2, tag 5"), (3, 3, "to 1, tag 7")]
    recvs = [(1, 3, "from 3, tag 7", 0), (2, 1, "any, tag 5", -30), (2, 0, "any, any", 30)]
    for source, owner, words in sends:
        for to, other, _, shift in recvs:
            if other == owner:
                sheet.curve("l%d" % owner, lefts[source] + box // 2, TOP + HEIGHT + PAD,
                            lefts[to] + box // 2 + shift, below + PAD - 1)
    for source, owner, words in sends:
        x = lefts[source]
        sheet.rect("b", x, TOP, box, HEIGHT + 2 * PAD, 8)
        draw_block(sheet, own(owner), x + PAD, TOP + PAD)
        sheet.text(x + PAD + 40, TOP + PAD + 19, "z", words)
    for to in sorted({one[0] for one in recvs}):
        x, here = lefts[to], [one for one in recvs if one[0] == to]
        sheet.rect("b", x, below, box, HEIGHT + 2 * PAD, 8)
        for one in here:
            middle = x + box // 2 + one[3]
            draw_block(sheet, own(one[1]), middle - 16, below + PAD)
            sheet.text(middle, below + HEIGHT + 2 * PAD + 14, "e", one[2])
    for words, top in (("send", TOP), ("recv", below)):
        sheet.text(20, top + PAD + 20, "u", words)
    return sheet.done()


def primitive_pictures():
    """[(name, rule, svg)] in the order of the gallery."""
    drawn = {one.name: (one.name, one.rule, draw_primitive(one)) for one in primitives()}
    drawn["barrier"] = ("barrier", "Nobody leaves before everybody has entered.", draw_barrier())
    drawn["send_recv"] = ("send_recv", "A message goes from one rank to one rank and carries a tag.", draw_messages())
    return list(drawn.values())


# ------------------------------------------------------------------------------------------------ algorithms

SIZE_MAX_BYTES = 40 * 1024
AT_ONCE = ("direct", "oneshot", "twoshot", "mesh")   # all their messages are under way together
HOSTS = ((3, 2), (2, 2), (2, 1))                     # of so many ranks
CUBES = re.compile(r"doubling|halving|tree|swing|bine|binomial|butterfly|hypercube|cube")


# Words of tutti-schedule for the pictures of docs/how-to/pipelines.md.
PIPELINES = {
    "gpipe": ["gpipe", "--stages", "4", "--micro", "8"],
    "1f1b": ["1f1b", "--stages", "4", "--micro", "8"],
    "interleaved": ["interleaved", "--stages", "4", "--micro", "8", "--chunks", "2", "--forward", "0.5", "--backward", "1"],
}


MEASURED = "Beside the peers, 2"   # the section of bench/RESULTS.md whose ratios are drawn


class Tool:
    def __init__(self, program):
        self.program = program

    def run(self, *words):
        return subprocess.run([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def algorithms(self):
        """[(collective, name, summary, cost, properties, origin)] of `tutti-plan list --markdown`."""
        listed, collective = [], None
        for line in self.run("list", "--markdown").stdout.decode().split("\n"):
            if line.startswith("### "):
                collective = line[4:]
            elif line.startswith("| `"):
                name, summary, cost, properties, origin = [cell.strip(" `") for cell in line.strip("|").split(" | ")]
                listed.append((collective, name, summary, cost, properties.strip("| "), origin.strip("| ")))
        return listed

    def draw(self, collective, name, properties):
        """The picture with the most telling number of ranks that is not too large: (ranks, svg)."""
        cube = "2^k" in properties or CUBES.search(name)
        sizes = [(ranks, ["--ranks", str(ranks)]) for ranks in ((8, 4, 3, 2) if cube else (6, 5, 4, 3, 2))]
        if "hosts" in properties:
            sizes = [(hosts * locals_, ["--hosts", "%dx%d" % (hosts, locals_)]) for hosts, locals_ in HOSTS]
        for ranks, shape in sizes:
            words = ["draw", collective, name] + shape
            if name in AT_ONCE:
                words += ["--ports", "0"]
            done = self.run(*words)
            if done.returncode == 0 and len(done.stdout) <= SIZE_MAX_BYTES:
                return ranks, done.stdout.decode()
        raise SystemExit("pictures.py: %s %s cannot be drawn: %s" % (collective, name, done.stderr.decode()))


def pages_of(root):
    """Which page of docs/reference/algorithms shows the picture of an algorithm: {"allreduce-ring": "ring"}."""
    pages = {}
    for path in sorted(glob.glob(os.path.join(root, "docs/reference/algorithms/*.md"))):
        with open(path, encoding="utf-8") as file:
            for picture in re.findall(r"pictures/algorithms/([\w-]+)\.svg", file.read()):
                pages.setdefault(picture, os.path.basename(path)[:-len(".md")])
    return pages


def shelf(root):
    """[(name, path, what it is)] of the topologies that come with Tutti."""
    paths = sorted(glob.glob(os.path.join(root, "share/tutti/topologies/*.json")))
    listed = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            listed.append((os.path.splitext(os.path.basename(path))[0], path, json.load(file)["comment"]))
    return listed


def gallery(root, drawn, ranks):
    """drawn: the primitives; ranks: {(collective, name, ...): number of ranks of its picture}."""
    pages = pages_of(root)
    lines = ["# Gallery", "",
             "<!-- Made by scripts/pictures.py from the list of algorithms: `make pictures` writes it anew. -->", "",
             "This page shows what every operation does, and how every algorithm does it. A picture of an operation has one colour for",
             "each rank's data; \N{GREEK CAPITAL LETTER SIGMA} is a reduction, with a stroke for every rank that is in it.",
             "`tutti-plan draw` draws an algorithm from the plan that runs; [Plans](../explanation/plan.md#the-picture) says",
             "how to read them, and how to step through a plan in [a browser](../explanation/plan.md#the-player). Frames",
             "show which ranks stand on one host (`tutti-plan draw --hosts`). [Algorithms](algorithms.md) explains the costs.", ""]
    collectives = []
    for one in ranks:
        if one[0] not in collectives:
            collectives.append(one[0])
    others = [name for name, _, _ in drawn if name not in collectives]
    lines.append("Operations: " + ", ".join("[%s](#%s)" % (name, name) for name in collectives + others) + ".")
    lines += ["", "[Topologies](#topologies) that plans can be [synthesised](../how-to/synthesis.md) for come last."]
    rules = {name: rule for name, rule, _ in drawn}
    for name in collectives + others:
        lines += ["", "## %s" % name, "", rules[name], "", "![%s](../pictures/primitives/%s.svg)" % (name, name)]
        for one, count in ranks.items():
            collective, algorithm, summary, cost, properties, origin = one
            if collective != name:
                continue
            key = "%s-%s" % (collective, algorithm)
            page = pages.get(key)
            more = [cost_text for cost_text in ("`%s`" % cost, properties) if cost_text]
            lines += ["", "### %s %s" % (collective, algorithm), "",
                      "%s. %s. *%s.*%s" % (summary[0].upper() + summary[1:], ", ".join(more), origin,
                                           " [More](algorithms/%s.md)" % page if page else ""), "",
                      "![%s %s of %d ranks](../pictures/algorithms/%s.svg)" % (collective, algorithm, count, key)]
    lines += ["", "## Topologies", "", "The files are in `share/tutti/topologies`."]
    for name, _, comment in shelf(root):
        lines += ["", "### %s" % name, "", comment, "", "![%s](../pictures/topology/%s.svg)" % (name, name)]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------------ main

def make_all(root, tool, topo):
    """{path: text} of everything."""
    made, ranks = {}, {}
    drawn = primitive_pictures()
    for name, _, svg in drawn:
        made["docs/pictures/primitives/%s.svg" % name] = svg
    for one in tool.algorithms():
        count, svg = tool.draw(one[0], one[1], one[4])
        made["docs/pictures/algorithms/%s-%s.svg" % (one[0], one[1])] = svg
        ranks[one] = count
    made["docs/pictures/hello-allreduce.svg"] = tool.run(
        "draw", "allreduce", "ring", "--ranks", "3", "--values", "2,4,6/1,2,3/4,8,12").stdout.decode()
    examples = [(os.path.splitext(os.path.basename(path))[0], path) for path in glob.glob(os.path.join(root, "examples/*.json"))]
    for name, path in sorted(examples + [(name, path) for name, path, _ in shelf(root)]):
        made["docs/pictures/topology/%s.svg" % name] = topo.run(path, "--format", "svg").stdout.decode()
    schedule = Tool(os.path.join(os.path.dirname(tool.program), "tutti-schedule"))
    for name, words in PIPELINES.items():
        made["docs/pictures/pipelines/%s.svg" % name] = schedule.run(*words, "--draw", "-").stdout.decode()
    with open(os.path.join(root, "docs/pictures/step.json"), encoding="utf-8") as file:
        made["docs/pictures/step.svg"] = step_picture.draw(json.load(file))
    with open(os.path.join(root, "docs/pictures/loss.json"), encoding="utf-8") as file:
        made["docs/pictures/loss.svg"] = loss_picture.draw(json.load(file))
    curves = Tool(os.path.join(root, "bench/curves")).run("-F", os.path.join(root, "bench/RESULTS.md"), "-s", MEASURED, "-m",
                                                          "2, 4 and 8 ranks on two cores of a Xeon.")
    if curves.returncode != 0:
        raise SystemExit("pictures.py: " + curves.stderr.decode())
    made["docs/pictures/measured.svg"] = curves.stdout.decode()
    made["docs/reference/gallery.md"] = gallery(root, drawn, ranks)
    return made


def main():
    parser = argparse.ArgumentParser(description="the pictures of docs/ and the gallery")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    parser.add_argument("--tutti-plan", required=True, metavar="PROGRAM")
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    topo = os.path.join(os.path.dirname(options.tutti_plan), "tutti-topo")
    made = make_all(options.root, Tool(options.tutti_plan), Tool(topo))
    there = {os.path.relpath(path, options.root) for folder in ("primitives", "algorithms", "topology", "pipelines")
             for path in glob.glob(os.path.join(options.root, "docs/pictures", folder, "*.svg"))}
    faults = ["%s: nothing has this picture any more" % path for path in sorted(there - set(made))]
    for path, text in made.items():
        place = os.path.join(options.root, path)
        if not options.compare:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        if not os.path.exists(place):
            faults.append("%s: is not there" % path)
            continue
        with open(place, encoding="utf-8") as file:
            if file.read() != text:
                faults.append("%s: would be drawn differently now" % path)
    if not options.compare:
        for path in sorted(there - set(made)):
            os.remove(os.path.join(options.root, path))
        return 0
    print("\n".join(faults + ["%d pictures, %d faults; `make pictures` writes them anew" % (len(made), len(faults))]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
