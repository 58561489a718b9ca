"""Reads the pages that `tutti-plan draw --format html` writes, and runs the plans in them from the description of the data alone
(studio/plan/player.h): an opinion that shares nothing with what writes them.

    player_run.py PAGE...     a line for each that is wrong: where, and why; then how many are right; exit status 1 if one is wrong

A page must be one well-formed document with one title, one style and one script beside the data, and ask for nothing. Its plan must
be proven. Each step must hold what its sources hold, where a source is memory as earlier steps left it, or a message that another step
sent, in a later round than that step's. At the end each output must hold what the collective promises, and so must the cells
that are shown; the cells of each frame must be the best that a rank has seen until then.
"""

import collections
import html.parser
import json
import math
import pathlib
import re
import sys

MEMBERS = ["title", "collective", "algorithm", "ranks", "root", "parts", "cells", "reduces", "in_place", "ports", "rounds", "proof",
           "busiest", "least", "hosts", "inputs", "outputs", "scratch", "values", "sets", "steps", "messages", "frames"]
BUFFERS = ["in", "out", "scratch"]
VOID = {"meta", "link", "input"}
OPTIONAL_END = {"li", "option"}

Value = collections.namedtuple("Value", "kind ranks")  # kind: the class of a chunk
Step = collections.namedtuple("Step", "round rank kind text buffer first values")
Message = collections.namedtuple("Message", "round source target sent taken")


class Wrong(Exception):
    """Says where and why."""


def require(condition, why):
    if not condition:
        raise Wrong(why)


# ---------------------------------------------------------------------------------------------------------- the page


class Document(html.parser.HTMLParser):
    """Its scripts and its titles; refuses what is not nested, and what a browser would ask somebody for."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.scripts, self.titles, self.open = [], [], []
        self.feed(text)
        self.close()
        require(not self.open, f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        require(len(names) == len(attributes), f"<{tag}> has an attribute twice")
        for name, value in attributes:
            require(not name.startswith("on"), f"<{tag}> has {name}")
            require(name not in ("src", "srcset", "data", "action") and (name != "href" or value == "data:,"), f"<{tag}> asks for {value}")
        require(tag not in ("iframe", "object", "embed", "img", "base", "form"), f"there is a <{tag}>")
        if tag == "script":
            self.scripts.append([names.get("type"), ""])
        if tag == "title":
            self.titles.append("")
        if tag in OPTIONAL_END and self.open[-1] == tag:
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] in OPTIONAL_END and tag not in OPTIONAL_END:
            self.open.pop()
        require(self.open and self.open[-1] == tag, f"</{tag}> within {self.open[-3:]}")
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data
        if self.open and self.open[-1] == "title":
            self.titles[-1] += data


def no_constant(text):
    raise Wrong(f"{text} is no number of JSON")


def read(path):
    """The data of a page."""
    text = path.read_bytes().decode()
    require(text.startswith("<!doctype html>") and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), "there are control characters")
    require(not re.search(r"https?:", text.replace('"http://www.w3.org/2000/svg"', "")), "there is an address")
    document = Document(text)
    require([kind for kind, _ in document.scripts] == ["application/json", None], f"scripts {[kind for kind, _ in document.scripts]}")
    data = document.scripts[0][1]
    require("<" not in data and "&" not in data, "the data has characters that mean something in a page")
    plan = json.loads(data, parse_constant=no_constant)
    require(list(plan) == MEMBERS, f"members {list(plan)}")
    require(document.titles == [plan["title"]], f"titles {document.titles}")
    return plan


# ----------------------------------------------------------------------------------------------------------- the plan


class Run:
    """One plan, run step by step."""

    def __init__(self, plan):
        self.plan, self.n, self.parts = plan, plan["ranks"], plan["parts"]
        self.collective = plan["collective"]
        self.everybody = frozenset(range(self.n))
        sets = [frozenset(rank for rank in range(self.n) if int(bits, 16) >> rank & 1) for bits in plan["sets"]]
        require(len(set(sets)) == len(sets), "a set twice")
        pairs = lambda flat: [Value(kind, sets[number]) for kind, number in zip(flat[::2], flat[1::2], strict=True)]
        self.steps = [Step(*step[:6], pairs(step[6])) for step in plan["steps"]]
        self.messages = [Message(*message) for message in plan["messages"]]
        self.frames = [[(flat[i], flat[i + 1], Value(flat[i + 2], sets[flat[i + 3]])) for i in range(0, len(flat), 4)]
                       for flat in plan["frames"]]
        self.taken = collections.defaultdict(list)
        for message in self.messages:
            self.taken[message.taken].append(message)
        self.buffers = []

    def class_of(self, rank, buffer, chunk):
        block, part = divmod(chunk, self.parts)
        mine = rank * self.parts
        if self.collective == "alltoall":
            return ((rank * self.n + block) if buffer == 0 else (block * self.n + rank)) * self.parts + part
        if buffer == 0:
            return chunk + (mine if self.collective in ("gather", "allgather") else 0)
        return chunk + (mine if self.collective in ("scatter", "reduce_scatter") else 0)

    def blocks_of(self, rank):
        """Of input and output."""
        all_of, root = self.n, rank == self.plan["root"]
        return {"allreduce": (1, 1), "reduce": (1, root), "broadcast": (root, 1), "gather": (1, all_of * root),
                "scatter": (all_of * root, 1), "allgather": (1, all_of), "reduce_scatter": (all_of, 1),
                "alltoall": (all_of, all_of), "barrier": (0, 0)}[self.collective]

    def begin(self):
        for rank in range(self.n):
            for buffer, name in enumerate(["inputs", "outputs"]):
                expected = [self.class_of(rank, buffer, i) for i in range(self.blocks_of(rank)[buffer] * self.parts)]
                require(self.plan[name][rank] == expected, f"rank {rank}: {name} {self.plan[name][rank]}")
            kinds = self.plan["inputs"][rank], self.plan["outputs"][rank]
            values = [Value(kind, frozenset([rank])) for kind in kinds[0]]
            held = [None] * len(kinds[1])
            if self.plan["in_place"]:  # chunks of one class are one memory, those of an all-to-all by their number
                alltoall = self.collective == "alltoall"
                held = [values[i] if alltoall else values[kinds[0].index(kind)] if kind in kinds[0] else None
                        for i, kind in enumerate(kinds[1])]
            self.buffers.append([values, held, [None] * len(self.plan["scratch"][rank])])

    def store(self, step):
        buffers, kinds = self.buffers[step.rank], [self.plan[name][step.rank] for name in ("inputs", "outputs", "scratch")]
        for i, value in enumerate(step.values, step.first):
            require(kinds[step.buffer][i] == value.kind, f"{step.text}: stores a chunk of class {value.kind}")
            buffers[step.buffer][i] = value
            if self.plan["in_place"] and step.buffer < 2:
                other = 1 - step.buffer
                twin = i if self.collective == "alltoall" else kinds[other].index(value.kind) if value.kind in kinds[other] else None
                if twin is not None:
                    buffers[other][twin] = value

    def step(self, index, entered):
        """Runs one step, and compares with what the page says of it."""
        step = self.steps[index]
        where = f"rank {step.rank} step {step.text}"
        match = re.fullmatch(r"(\d+)\.(\d+): (.+?) -> (.+?)(?:  final)?(?:  chunks \d+)?(?:  after [\d. ]+)?", step.text)
        require(match, f"{where}: cannot be read")
        messages, local = list(self.taken[index]), []
        for source in match[3].split(" + "):
            peer = re.fullmatch(r"from (\d+)(?: group \d+)?(?: channel \d+)?", source)
            if peer:
                found = next((message for message in messages if message.source == int(peer[1])), None)
                require(found, f"{where}: there is no message from {peer[1]}")
                messages.remove(found)
                require(found.target == step.rank and found.round <= step.round, f"{where}: takes a message of round {found.round}")
                local.append(self.steps[found.sent].values)
                continue
            place = re.fullmatch(r"(in|out|scratch)\[(?:(\d+)(?:\.\.(\d+))?)?\]", source)
            require(place, f"{where}: cannot be read")
            if place[2] is not None:
                local.append(self.buffers[step.rank][BUFFERS.index(place[1])][int(place[2]):int(place[3] or place[2]) + 1])
        require(not messages, f"{where}: takes more messages than it says")
        if self.collective == "barrier":
            entered[step.rank] |= frozenset().union(*(values[0].ranks for values in local))
            require(step.values[0].ranks == entered[step.rank], f"{where}: knows of {set(step.values[0].ranks)}")
            return
        for i, value in enumerate(step.values):
            parts = [values[i] for values in local]
            require(all(part is not None and part.kind == value.kind for part in parts), f"{where}: sources {parts}")
            require(value.ranks == frozenset().union(*(part.ranks for part in parts)), f"{where}: holds {set(value.ranks)}")
            require(sum(len(part.ranks) for part in parts) == len(value.ranks), f"{where}: a contribution twice")
        if step.buffer >= 0:
            self.store(step)

    def check_messages(self):
        sends = collections.Counter()
        for message in self.messages:
            sender = self.steps[message.sent]
            require(sender.rank == message.source and sender.round < message.round, f"a message of {sender.text} in round {message.round}")
            require(message.taken >= 0, f"nobody takes a message of {sender.text}")
            require(1 <= message.round <= self.plan["rounds"], f"round {message.round}")
            if " group " not in sender.text.split("->")[1]:
                sends[sender.rank, sender.text.split(".")[0], message.round] += 1
        require(self.plan["ports"] == 0 or max(sends.values(), default=0) <= self.plan["ports"], "a lane sends more in a round")

    def check_results(self):
        for rank in range(self.n):
            for i, value in enumerate(self.buffers[rank][1]):
                kind = self.class_of(rank, 1, i)
                owner = kind // self.parts // (self.n if self.collective == "alltoall" else 1)
                if self.collective in ("broadcast", "scatter"):
                    owner = self.plan["root"]
                expected = self.everybody if self.plan["reduces"] else frozenset([owner])
                require(value == Value(kind, expected), f"rank {rank}: output chunk {i} ends with {value}")

    def cell_of(self, rank, kind):
        """Where a rank shows a chunk of a class, or None."""
        if self.collective != "alltoall":
            return kind
        block, part = divmod(kind, self.parts)
        return block // self.n * self.parts + part if block % self.n == rank else None

    def check_frames(self):
        """A cell shows a value that has at least the contributions of what it showed before."""
        alltoall = self.collective == "alltoall"
        require(len(self.frames) == max(1, self.plan["rounds"]) + 1, f"{len(self.frames)} frames")
        seen = [{} for _ in range(self.n)]
        for rank in range(self.n):
            kinds = self.plan["inputs"][rank]
            for i, kind in enumerate(kinds):
                seen[rank][i if alltoall else kind] = Value(kind, frozenset([rank]))
            if self.collective == "barrier":
                seen[rank][0] = Value(0, frozenset([rank]))
        shown = [{} for _ in range(self.n)]
        for number, frame in enumerate(self.frames):
            if number == 1 and alltoall:
                seen, shown = [{} for _ in range(self.n)], [{} for _ in range(self.n)]
                for rank in range(self.n if self.plan["in_place"] else 0):
                    seen[rank].update((self.cell_of(rank, kind), Value(kind, frozenset([rank]))) for kind in self.plan["inputs"][rank]
                                      if self.cell_of(rank, kind) is not None)
            for step in self.steps:
                if number == 0 or max(1, step.round) != number:
                    continue
                for value in step.values:
                    cell = self.cell_of(step.rank, value.kind)
                    if cell is not None and seen[step.rank].get(cell, Value(0, frozenset())).ranks <= value.ranks:
                        seen[step.rank][cell] = value
            for rank, cell, value in frame:
                require(shown[rank].get(cell) != value, f"frame {number}: a cell of rank {rank} changes to what it was")
                shown[rank][cell] = value
            require(shown == seen, f"frame {number}: {[(a, b) for a, b in zip(shown, seen) if a != b][:1]}")
        for rank in range(self.n):
            for kind in range(self.plan["cells"]) if self.collective in ("barrier", "alltoall") else self.plan["outputs"][rank]:
                value = shown[rank].get(kind)
                complete = value and (value.ranks == self.everybody or not (self.plan["reduces"] or self.collective == "barrier"))
                require(complete, f"rank {rank}: cell {kind} ends with {value}")

    def check_traffic(self):
        if self.collective == "barrier":
            require(self.plan["busiest"] is None and self.plan["least"] is None, "a barrier moves blocks")
            return
        ends = collections.Counter()
        for message in self.messages:
            ends["sends", message.source] += len(self.steps[message.sent].values)
            ends["gets", message.target] += len(self.steps[message.sent].values)
        busiest = max(ends.values(), default=0) / self.parts
        least = 0 if self.n == 1 else {"allreduce": 2 * (self.n - 1) / self.n, "reduce": 1, "broadcast": 1}.get(self.collective, self.n - 1)
        require(math.isclose(self.plan["busiest"], busiest, rel_tol=1e-5, abs_tol=1e-9), f"busiest {self.plan['busiest']}, not {busiest}")
        require(math.isclose(self.plan["least"], least, rel_tol=1e-5), f"least {self.plan['least']}, not {least}")
        require(busiest >= least * (1 - 1e-9), f"{busiest} blocks, less than the least")

    def check(self):
        require(self.plan["proof"] and self.plan["proof"]["proven"] is True, f"proof {self.plan['proof']}")
        self.begin()
        entered = [frozenset([rank]) for rank in range(self.n)]
        for index in range(len(self.steps)):
            self.step(index, entered)
        self.check_messages()
        if self.collective != "barrier":
            self.check_results()
        self.check_frames()
        self.check_traffic()


def main():
    right = wrong = 0
    for name in sys.argv[1:]:
        try:
            Run(read(pathlib.Path(name))).check()
            right += 1
        except (Wrong, ValueError, LookupError, TypeError) as error:
            wrong += 1
            print(f"{name}: wrong: {error if isinstance(error, Wrong) else repr(error)}")
    print(f"{right} right, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
