"""Runs schedules of MSCCL on symbols, from the description of the format alone (docs/how-to/msccl.md): an opinion that shares nothing
with the importer.

    msccl_run.py FILE...              a line for each: right, or wrong and where; exit status 1 if one is wrong
    msccl_run.py --depth N FILE...    connections hold N messages, and a step that takes one and sends one does both at once

A chunk is the list of the contributions in it: (gpu, chunk of its input), each as often as it was added. Without --depth a connection
holds one message, and a step takes its message first, and then waits for room to send. Every file is run in several orders, since a schedule may
be right in one by luck: thread blocks in turn, the last one first, and by chance from fixed seeds.
"""

import collections
import random
import sys
import xml.etree.ElementTree as ElementTree

SENDS = {"s", "rcs", "rrs", "rrcs"}
RECEIVES = {"r", "rcs", "rrc", "rrs", "rrcs"}
READS = {"s", "rrc", "rrs", "rrcs", "cpy", "re"}
STORES = {"r", "rcs", "rrc", "rrcs", "cpy", "re"}
SEEDS = 3
DEPTH = 0  # of --depth


class Wrong(Exception):
    """Says where and why."""


def number(element, name, default=None):
    text = element.get(name)
    if text is None:
        if default is None:
            raise Wrong(f"<{element.tag}> has no {name}")
        return default
    try:
        return int(text)
    except ValueError:
        raise Wrong(f'{name}="{text}"') from None


class Block:
    """A thread block: what it does, and how far it is."""

    def __init__(self, gpu, element):
        self.gpu, self.id = gpu, number(element, "id")
        self.send, self.recv = number(element, "send"), number(element, "recv")
        self.channel = number(element, "chan")
        self.steps = list(element)
        self.done = 0
        self.posting = None  # a message that waits for room

    def place(self):
        kind = self.steps[self.done].get("type") if self.done < len(self.steps) else "end"
        return f"gpu {self.gpu} tb {self.id} step {self.done} ({kind})"


class Schedule:
    def __init__(self, root):
        self.gpus = number(root, "ngpus")
        self.chunks = number(root, "nchunksperloop")
        self.coll = root.get("coll").replace("reducescatter", "reduce_scatter")
        self.in_place = number(root, "inplace", 0) == 1
        self.root = number(root, "root", 0)
        whole = self.coll in ("allreduce", "reduce", "broadcast")
        if self.chunks % (1 if whole else self.gpus):
            raise Wrong("nchunksperloop is no multiple of ngpus")
        self.block = self.chunks if whole else self.chunks // self.gpus  # chunks that belong to one gpu
        self.scratch = {}
        self.blocks = []
        for gpu in root:
            rank = number(gpu, "id")
            if rank in self.scratch or not 0 <= rank < self.gpus:
                raise Wrong(f"gpu {rank} twice, or out of range")
            self.scratch[rank] = number(gpu, "s_chunks")
            for tb in gpu:
                self.blocks.append(Block(rank, tb))
        if len(self.scratch) != self.gpus:
            raise Wrong("a gpu is missing")
        self.of = {(b.gpu, b.id): b for b in self.blocks}

    def input_size(self, gpu):
        if self.coll in ("broadcast", "scatter") and gpu != self.root:
            return 0
        return self.chunks if self.coll in ("scatter", "reduce_scatter", "alltoall") else self.block

    def output_size(self, gpu):
        if self.coll in ("reduce", "gather") and gpu != self.root:
            return 0
        return self.chunks if self.coll in ("gather", "allgather", "alltoall") else self.block

    def cell(self, gpu, buffer, chunk):
        """In place, i and o are parts of one memory."""
        if self.in_place and buffer in "io":
            if self.coll in ("gather", "allgather"):
                if self.coll == "gather" and gpu != self.root:
                    return gpu, buffer, chunk
                return gpu, "m", chunk + (gpu * self.block if buffer == "i" else 0)
            if self.coll in ("scatter", "reduce_scatter"):
                if self.coll == "scatter" and gpu != self.root:
                    return gpu, buffer, chunk
                return gpu, "m", chunk + (gpu * self.block if buffer == "o" else 0)
            return gpu, "m", chunk
        return gpu, buffer, chunk

    def wanted(self, gpu, chunk):
        """What output chunk holds at the end."""
        everybody, part = range(self.gpus), chunk % self.block
        if self.coll in ("allreduce", "reduce"):
            return [(g, chunk) for g in everybody]
        if self.coll == "reduce_scatter":
            return [(g, gpu * self.block + chunk) for g in everybody]
        if self.coll == "broadcast":
            return [(self.root, chunk)]
        if self.coll == "scatter":
            return [(self.root, gpu * self.block + chunk)]
        if self.coll in ("gather", "allgather"):
            return [(chunk // self.block, part)]
        if self.coll == "alltoall":
            return [(chunk // self.block, gpu * self.block + part)]
        raise Wrong(f"coll {self.coll} is not known here")

    # ------------------------------------------------------------------------------------------------- a run

    def run(self, choose):
        self.memory, self.links = {}, {}
        for block in self.blocks:
            block.done, block.posting = 0, None
        for gpu in range(self.gpus):
            for chunk in range(self.input_size(gpu)):
                self.memory[self.cell(gpu, "i", chunk)] = collections.Counter([(gpu, chunk)])
        waiting = [block for block in self.blocks if block.steps]
        while waiting:
            for index in choose(len(waiting)):
                if self.move(waiting[index]):
                    break
            else:
                raise Wrong(f"{waiting[0].place()}: deadlock")
            waiting = [b for b in waiting if b.done < len(b.steps)]
        for link, messages in self.links.items():
            if messages:
                raise Wrong(f"connection {link}: a message that nobody takes")
        for gpu in range(self.gpus):
            for chunk in range(self.output_size(gpu)):
                found = self.memory.get(self.cell(gpu, "o", chunk))
                if found != collections.Counter(self.wanted(gpu, chunk)):
                    raise Wrong(f"gpu {gpu}: output chunk {chunk} holds {sorted((found or {}).items())[:4]} ...")

    def range(self, block, step, side):
        buffer, first = step.get(side + "buf"), number(step, side + "off")
        size = {"i": self.input_size, "o": self.output_size, "s": self.scratch.get}[buffer](block.gpu)
        count = number(step, "cnt")
        if first < 0 or count < 1 or first + count > size:
            raise Wrong(f"{block.place()}: chunks {first} to {first + count - 1} of {buffer}, which has {size}")
        return [self.cell(block.gpu, buffer, first + i) for i in range(count)]

    def read(self, block, cells):
        for cell in cells:
            if cell not in self.memory:
                raise Wrong(f"{block.place()}: reads {cell}, which nobody wrote")
        return [self.memory[cell] for cell in cells]

    def move(self, block):
        """Whether the block could go on a bit."""
        step = block.steps[block.done]
        kind = step.get("type")
        if kind not in SENDS | RECEIVES | {"cpy", "re", "nop"}:
            raise Wrong(f"{block.place()}: no such type")
        if block.posting is None:
            depid, deps = number(step, "depid", -1), number(step, "deps", -1)
            if depid >= 0:
                other = self.of.get((block.gpu, depid))
                if other is None or not 0 <= deps < len(other.steps):
                    raise Wrong(f"{block.place()}: waits for what does not exist")
                if number(other.steps[deps], "hasdep", 0) != 1:
                    raise Wrong(f"{block.place()}: waits for a step with hasdep 0")
                if other.done <= deps:
                    return False
            values = None
            if kind in RECEIVES:
                queue = self.links.setdefault((block.recv, block.gpu, block.channel), collections.deque())
                if not queue or (DEPTH > 0 and kind in SENDS and len(self.sent_by(block)) >= DEPTH):
                    return False
                values = queue.popleft()
            if kind == "nop":
                block.done += 1
                return True
            if values is not None and len(values) != number(step, "cnt"):
                raise Wrong(f"{block.place()}: {len(values)} chunks come")
            if kind in READS:
                own = self.read(block, self.range(block, step, "src"))
                values = own if values is None else [a + b for a, b in zip(own, values)]
            if kind == "re":
                values = [a + b for a, b in zip(values, self.read(block, self.range(block, step, "dst")))]
            if kind in STORES:
                self.memory.update(zip(self.range(block, step, "dst"), values))
            if kind not in SENDS:
                block.done += 1
                return True
            block.posting = values
            if block.send < 0:
                raise Wrong(f"{block.place()}: nobody to send to")
            self.post(block)
            return True
        return self.post(block)

    def sent_by(self, block):
        return self.links.setdefault((block.gpu, block.send, block.channel), collections.deque())

    def post(self, block):
        queue = self.sent_by(block)
        if len(queue) >= max(DEPTH, 1):
            return False
        queue.append(block.posting)
        block.posting = None
        block.done += 1
        return True


def orders():
    yield lambda count: range(count)
    yield lambda count: range(count - 1, -1, -1)
    for seed in range(SEEDS):
        chance = random.Random(seed)
        yield lambda count: chance.sample(range(count), count)


def judge(text):
    """None: right; otherwise what is wrong."""
    try:
        schedule = Schedule(ElementTree.fromstring(text))
        for order in orders():
            schedule.run(order)
    except (Wrong, ElementTree.ParseError) as wrong:
        return str(wrong)
    return None


def main():
    global DEPTH
    wrong = 0
    if sys.argv[1:2] == ["--depth"]:
        DEPTH = int(sys.argv[2])
        del sys.argv[1:3]
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            verdict = judge(file.read())
        print(f"{name}: {'right' if verdict is None else 'wrong: ' + verdict}")
        wrong += verdict is not None
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
