"""Runs execution plans of MSCCL++ on symbols, from the description of the format alone (docs/how-to/msccl.md): an opinion that shares
nothing with what writes them.

    mscclpp_run.py [--hosts 2,1] FILE...     a line for each that is wrong: where, and why; then how many ran right; exit status 1
                                             if one is wrong
    mscclpp_run.py [--hosts 2,1] --without-each FILE...    the same of each file without one of its operations, for every one of them; a line for
                                             each that still runs right; exit status 1 if there is one

A file is read strictly: each member that the format has, no other, within the limits of the executor. Every plan runs twice in
succession on each GPU, in several orders, and no GPU waits for another between the two runs.

GPUs of one host, of which there are as many as --hosts says, are joined by memory channels, and GPUs of different hosts by port channels.
Without --hosts all are on one host.

A chunk holds a sum of contributions, with its tree: (gpu, chunk of its input, run). Whoever reads or stores must know of what
was stored there before, and whoever stores of what was read. *To know* is a vector of clocks: how many operations of each thread
block are known. A wait or an acquire brings the clock of who signalled; the threads of a block share it from the next nop on,
and only what was done before a nop is announced by a signal or a release after it. When a kernel begins, its GPU's inputs are
new, and its outputs and scratch are as if somebody had just stored rubbish there.
"""

import json
import random
import sys

OPERATIONS, CHANNELS, REMOTES, SIGNALS, SEMAPHORES, PLACES = 64, 16, 16, 8, 16, 10
COLLECTIVES = {"allreduce", "allgather", "reducescatter", "alltoall"}
LINKS = ["memory", "port"]
RUNS = 2
HOSTS = []  # of each gpu; empty: one for all
RUBBISH = None


class Wrong(Exception):
    """Says where and why."""


# ------------------------------------------------------------------------------------------------------------ reading


def unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Wrong(f"a member twice among {sorted(name for name, _ in pairs)}")
    return members


def no_constant(text):
    raise Wrong(f"{text} is no number of JSON")


def members(where, value, *names):
    """The values of just these members, each of which is a name, or (name, values that it may have)."""
    wanted = [name if isinstance(name, tuple) else (name, None) for name in names]
    if not isinstance(value, dict) or set(value) != {name for name, _ in wanted}:
        raise Wrong(f"{where}: members {sorted(value) if isinstance(value, dict) else value!r}")
    for name, allowed in wanted:
        if allowed is not None and not any(type(value[name]) is type(a) and value[name] == a for a in allowed):
            raise Wrong(f"{where}: {name} is {value[name]!r}")
    return [value[name] for name, _ in wanted]


def link_between(where, a, b, link):
    if HOSTS and not max(a, b) < len(HOSTS):
        raise Wrong(f"{where}: a gpu on no host")
    if link != ("port" if HOSTS and HOSTS[a] != HOSTS[b] else "memory"):
        raise Wrong(f"{where}: {link} between gpus {a} and {b}")


def by_link(where, value, type_name, *names):
    """Members for each type of channel, at most one each: (type, values of the names)."""
    found = [members(where, entry, (type_name, LINKS), *names) for entry in array(where, value, 0, len(LINKS))]
    if len({entry[0] for entry in found}) != len(found):
        raise Wrong(f"{where}: one type twice")
    return found


def number(where, value, least, most):
    if type(value) is not int or not least <= value <= most:
        raise Wrong(f"{where}: {value!r} is not from {least} to {most}")
    return value


def array(where, value, least=0, most=1 << 30):
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise Wrong(f"{where}: no array of {least} to {most}")
    return value


def numbers(where, value, end, most):
    """Distinct ones below end."""
    found = [number(where, v, 0, end - 1) for v in array(where, value, 1, most)]
    if len(set(found)) != len(found):
        raise Wrong(f"{where}: one twice")
    return found


MEMORY, PORT, ANY = ("channel_type", ["memory"]), ("channel_type", ["port"]), ("channel_type", LINKS)
SUM = ("reduce_op", ["sum"])
OPERATION_MEMBERS = {
    "nop": [],
    "copy": ["src_buff", "dst_buff"],
    "re": ["src_buff", "dst_buff", SUM],
    "res": ["src_buff", "dst_buff", MEMORY, SUM],
    "put": ["src_buff", "dst_buff", MEMORY],
    "pwsf": ["src_buff", "dst_buff", "channel_ids", PORT],
    "signal": ["channel_ids", ANY],
    "wait": ["channel_ids", ANY],
    "sem_acquire": ["semaphore_ids"],
    "sem_release": ["semaphore_ids"],
}


class Gpu:
    def __init__(self, rank, value, gpus):
        where = f"gpu {rank}"
        (identity, self.inputs, self.outputs, self.scratch, self.raw_blocks, channels, remotes, semaphores) = members(
            where, value, "id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks", "channels", "remote_buffers", "semaphores"
        )
        if identity != rank:
            raise Wrong(f"{where}: id {identity!r}")
        number(where, self.inputs, 1, 1 << 20)
        number(where, self.outputs, 1, 1 << 20)
        number(where, self.scratch, 0, 1 << 20)
        self.rank, self.remotes, self.semaphores = rank, [], []
        self.peers = {link: [] for link in LINKS}
        for link, peers in by_link(f"{where} channels", channels, "channel_type", "connected_to"):
            self.peers[link] = [number(f"{where} channels", peer, 0, gpus - 1) for peer in array(where, peers, 1)]
            for peer in self.peers[link]:
                link_between(f"{where} channels", rank, peer, link)
            if rank in self.peers[link]:
                raise Wrong(f"{where}: a channel to itself")
        for remote in array(where, remotes):
            peer, kind, links = members(
                f"{where} remote_buffers", remote, "rank", ("type", ["i", "o", "s"]), ("access_channel_types", [[link] for link in LINKS])
            )
            number(f"{where} remote_buffers", peer, 0, gpus - 1)
            link_between(f"{where} remote_buffers", rank, peer, links[0])
            if peer == rank or (peer, kind, links[0]) in self.remotes:
                raise Wrong(f"{where} remote_buffers: its own, or one twice")
            self.remotes.append((peer, kind, links[0]))
        for semaphore in array(where, semaphores):
            self.semaphores.append(number(f"{where} semaphores", members(where, semaphore, "init_value")[0], 0, 1 << 20))
        self.blocks = []


class Block:
    """A thread block: its operations with channels, memory and semaphores looked up."""

    def __init__(self, plan, gpu, index, value):
        self.gpu, self.index, self.where = gpu, index, f"gpu {gpu.rank} threadblock {index}"
        identity, operations, channels, refs = members(self.where, value, "id", "ops", "channels", "remote_buffer_refs")
        if identity != index:
            raise Wrong(f"{self.where}: id {identity!r}")
        self.operations = []
        self.channels, self.remotes = {link: [] for link in LINKS}, {link: [] for link in LINKS}
        for link, ids in by_link(f"{self.where} channels", channels, "channel_type", "channel_ids"):
            self.channels[link] = [(link, i) for i in numbers(f"{self.where} channels", ids, len(gpu.peers[link]), CHANNELS)]
        for link, ids in by_link(f"{self.where} remote_buffer_refs", refs, "access_channel_type", "remote_buffer_ids"):
            self.remotes[link] = numbers(f"{self.where} remote_buffer_refs", ids, len(gpu.remotes), REMOTES)
            if any(gpu.remotes[i][2] != link for i in self.remotes[link]):
                raise Wrong(f"{self.where} remote_buffer_refs: of another type")
        for step, operation in enumerate(array(self.where, operations, 1, OPERATIONS)):
            self.operations.append(self.look_up(plan, f"{self.where} operation {step}", operation))

    def look_up(self, plan, where, value):
        """(name, ids) or (name, lists of cells that are read, lists of cells that are stored to, channels that are signalled)"""
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(name, str) or name not in OPERATION_MEMBERS:
            raise Wrong(f"{where}: no operation is called {name!r} here")
        found = members(where, value, "name", *OPERATION_MEMBERS[name])
        if name == "nop":
            return name, []
        if name in ("signal", "wait"):
            own = self.channels[found[2]]
            return name, [own[i] for i in numbers(where, found[1], len(own), SIGNALS)]
        if name in ("sem_acquire", "sem_release"):
            return name, numbers(where, found[1], len(self.gpu.semaphores), SEMAPHORES)
        sources, targets = array(where, found[1], 1, PLACES), array(where, found[2], 1, PLACES)
        is_put, link, signalled = name in ("put", "pwsf"), "port" if name == "pwsf" else "memory", []
        if name == "pwsf":
            own = self.channels[link]
            signalled = [own[i] for i in numbers(where, found[3], len(own), SIGNALS)]
            if len(signalled) != len(targets):
                raise Wrong(f"{where}: {len(signalled)} channels, {len(targets)} targets")
        if is_put:
            shape_is_right = len(sources) == len(targets) and len({source.get("type") for source in sources}) == 1
        else:
            shape_is_right = (len(sources) > 1) == (name != "copy") and (len(targets) > 1) == (name == "res")
        if not shape_is_right:
            raise Wrong(f"{where}: {len(sources)} sources, {len(targets)} targets")
        sizes = set()
        reads = [self.cells(plan, where, source, sizes) for source in sources]
        stores = [
            self.remote_cells(plan, where, target, sizes, link, signalled[i : i + 1]) if is_put or i > 0 else self.cells(plan, where, target, sizes)
            for i, target in enumerate(targets)
        ]
        if len(sizes) > 1:
            raise Wrong(f"{where}: sizes {sorted(sizes)}")
        return name, reads, stores, signalled

    def cells(self, plan, where, value, sizes):
        kind, first, count = members(where, value, ("type", ["i", "o", "s"]), "index", "size")
        sizes.add(count)
        return plan.cells(where, self.gpu.rank, kind, first, count)

    def remote_cells(self, plan, where, value, sizes, link, signalled):
        remote, first, count = members(where, value, "buffer_id", "index", "size")
        peer, kind, _ = self.gpu.remotes[self.remotes[link][number(where, remote, 0, len(self.remotes[link]) - 1)]]
        if any(self.gpu.peers[link][i] != peer for _, i in signalled):
            raise Wrong(f"{where}: a channel that leads to another gpu")
        sizes.add(count)
        return plan.cells(where, peer, kind, first, count)


class Plan:
    def __init__(self, text):
        try:
            value = json.loads(text, object_pairs_hook=unique, parse_constant=no_constant)
        except (ValueError, RecursionError) as error:
            raise Wrong(f"no JSON: {error}") from None
        no = [False]
        name, self.collective, _, self.in_place, _, gpus, threads, _, alignment, least, most = members(
            "plan", value, "name", ("collective", sorted(COLLECTIVES)), ("protocol", ["Simple"]), ("inplace", [False, True]),
            ("reuse_resources", no), "gpus", "num_threads_per_block", ("use_double_scratch_buffer", no), "buffer_alignment",
            "min_message_size", "max_message_size",
        )  # fmt: skip
        if not isinstance(name, str) or name == "":
            raise Wrong("plan: no name")
        number("plan: num_threads_per_block", threads, 32, 1024)
        number("plan: buffer_alignment", alignment, 16, 16)
        number("plan: max_message_size", most, number("plan: min_message_size", least, 0, 1 << 64), (1 << 64) - 1)
        count = len(array("plan: gpus", gpus, 1, 1024))
        self.gpus = [Gpu(rank, gpu, count) for rank, gpu in enumerate(gpus)]
        self.check_sizes(count, most)
        self.pair_channels()
        self.numbered = {}  # (gpu, buffer, chunk): cell
        self.blocks = []
        for gpu in self.gpus:
            for index, block in enumerate(array(f"gpu {gpu.rank}", gpu.raw_blocks, 1)):
                gpu.blocks.append(Block(self, gpu, index, block))
            self.blocks += gpu.blocks

    def check_sizes(self, count, most):
        first = self.gpus[0]
        self.block = min(first.inputs, first.outputs)  # chunks that belong to one gpu
        whole = self.block * count
        if self.collective == "allreduce":
            wanted = (first.inputs, first.inputs)
        elif self.collective == "alltoall":
            self.block, wanted = first.inputs // count, (first.inputs // count * count,) * 2
        else:
            wanted = (self.block, whole) if self.collective == "allgather" else (whole, self.block)
        for gpu in self.gpus:
            if (gpu.inputs, gpu.outputs) != wanted:
                raise Wrong(f"gpu {gpu.rank}: {gpu.inputs} chunks in, {gpu.outputs} out")
            chunk_bytes = most // (gpu.outputs if self.collective == "allgather" else gpu.inputs)
            if chunk_bytes * max(gpu.inputs, gpu.outputs, gpu.scratch) >= 1 << 32:
                raise Wrong(f"gpu {gpu.rank}: offsets of more than 32 bits")

    def pair_channels(self):
        """The k-th channel from a to b is the k-th one from b to a."""
        self.other_end = {}
        for gpu, link in ((gpu, link) for gpu in self.gpus for link in LINKS):
            counts = [0] * len(self.gpus)
            for channel, peer in enumerate(gpu.peers[link]):
                mine = [c for c, p in enumerate(self.gpus[peer].peers[link]) if p == gpu.rank]
                if counts[peer] >= len(mine):
                    raise Wrong(f"gpu {gpu.rank}: channel {channel} has no other end")
                self.other_end[gpu.rank, (link, channel)] = (peer, (link, mine[counts[peer]]))
                counts[peer] += 1

    def cells(self, where, rank, kind, first, count):
        gpu = self.gpus[rank]
        size = {"i": gpu.inputs, "o": gpu.outputs, "s": gpu.scratch}[kind]
        number(where, first, 0, size - 1)
        number(where, count, 1, size - first)
        return [self.cell(rank, kind, first + i) for i in range(count)]

    def cell(self, rank, kind, chunk):
        """In place, i and o are parts of one memory."""
        if self.in_place and kind != "s":
            if (self.collective, kind) in (("allgather", "i"), ("reducescatter", "o")):
                chunk += rank * self.block
            kind = "m"
        return self.numbered.setdefault((rank, kind, chunk), len(self.numbered))

    def wanted(self, rank, chunk):
        """The contributions in an output chunk at the end."""
        everybody = range(len(self.gpus))
        if self.collective == "allreduce":
            return [(gpu, chunk) for gpu in everybody]
        if self.collective == "reducescatter":
            return [(gpu, rank * self.block + chunk) for gpu in everybody]
        if self.collective == "allgather":
            return [(chunk // self.block, chunk % self.block)]
        return [(chunk // self.block, rank * self.block + chunk % self.block)]


# ------------------------------------------------------------------------------------------------------------- running


class Trees:
    """Sums as numbers: the same number is the same tree, whose operands may change places."""

    def __init__(self):
        self.numbers, self.contents = {}, []

    def make(self, key, contents):
        if key not in self.numbers:
            self.numbers[key] = len(self.contents)
            self.contents.append(contents())
        return self.numbers[key]

    def leaf(self, contribution):
        return self.make(contribution, lambda: [contribution])

    def add(self, a, b):
        if a is RUBBISH or b is RUBBISH:
            return RUBBISH
        return self.make((min(a, b), max(a, b)), lambda: sorted(self.contents[a] + self.contents[b]))


class Cell:
    __slots__ = ("value", "stored", "reads")

    def __init__(self):
        self.value, self.stored, self.reads = RUBBISH, (0, 0), {}


def learn(clock, other):
    for i, value in enumerate(other):
        if value > clock[i]:
            clock[i] = value


class Runner:
    """What is at work: a thread block, or a GPU between its kernels."""

    def __init__(self, index, count):
        self.index = index
        self.done = 0  # operations
        self.known = [0] * count  # by all threads
        self.heard = [0] * count  # by those that waited
        self.at = 0  # operation

    def join(self):
        learn(self.known, self.heard)
        self.known[self.index] = self.done


class Counter:
    """A channel's, or a semaphore's: the clocks of all signals, each with those before it."""

    def __init__(self, initial, count):
        self.clocks, self.taken = [[0] * count for _ in range(initial)], 0
        self.initial = initial

    def give(self, clock):
        clock = list(clock)
        if self.clocks:
            learn(clock, self.clocks[-1])
        self.clocks.append(clock)

    def has(self):
        return self.taken < len(self.clocks)

    def take(self):
        self.taken += 1
        return self.clocks[self.taken - 1]

    def is_as_before(self):
        return len(self.clocks) - self.taken == self.initial


class World:
    def __init__(self, plan, trees):
        self.plan, self.trees = plan, trees
        count = len(plan.blocks) + len(plan.gpus)
        self.runners = [Runner(i, count) for i in range(count)]
        self.hosts = self.runners[len(plan.blocks) :]
        self.runs = [0] * len(plan.gpus)
        self.results = {}  # (run, output chunk): tree, where all have the same
        self.cells = None
        self.channels = {end: Counter(0, count) for end in plan.other_end}
        self.semaphores = {(gpu.rank, i): Counter(value, count) for gpu in plan.gpus for i, value in enumerate(gpu.semaphores)}
        self.of_gpu, first = [], 0
        for gpu in plan.gpus:
            self.of_gpu.append(range(first, first + len(gpu.blocks)))
            first += len(gpu.blocks)
        self.buffers = [
            {kind: [plan.cell(gpu.rank, kind, c) for c in range(n)] for kind, n in (("i", gpu.inputs), ("o", gpu.outputs), ("s", gpu.scratch))}
            for gpu in plan.gpus
        ]
        self.cells = [Cell() for _ in range(len(plan.numbered))]

    # ---------------------------------------------------------------------------------------------------- memory

    def check(self, where, runner, cell, stores):
        other, at = cell.stored
        if runner.known[other] < at:
            raise Wrong(f"{where}: race with a store {self.who(runner, other)}")
        for other, at in cell.reads.items() if stores else ():
            if runner.known[other] < at:
                raise Wrong(f"{where}: race with a read {self.who(runner, other)}")

    def who(self, runner, other):
        if other == runner.index:
            return "of its own, without nop between"
        if other >= len(self.plan.blocks):
            return f"of gpu {other - len(self.plan.blocks)} before its kernel"
        return f"of {self.plan.blocks[other].where}"

    def work(self, where, runner, reads, stores, values):
        """One operation on memory: values(the values read, one list a source) is what each target gets."""
        cells = self.cells
        for source in reads:
            for i in source:
                self.check(where, runner, cells[i], False)
        for target in stores:
            for i in target:
                self.check(where, runner, cells[i], True)
        found = values([[cells[i].value for i in source] for source in reads])
        runner.done += 1
        for source in reads:
            for i in source:
                cells[i].reads[runner.index] = runner.done
        for k, target in enumerate(stores):
            for i, value in zip(target, found[k]):
                if cells[i].stored == (runner.index, runner.done):
                    raise Wrong(f"{where}: stores to one chunk twice")
                cells[i].value, cells[i].stored, cells[i].reads = value, (runner.index, runner.done), {}

    # --------------------------------------------------------------------------------------------------- kernels

    def begin(self, rank):
        host, run, buffers = self.hosts[rank], self.runs[rank], self.buffers[rank]
        where = f"gpu {rank} before run {run}"
        inputs = [self.trees.leaf((rank, chunk, run)) for chunk in range(len(buffers["i"]))]
        outputs = [cell for cell in buffers["o"] if cell not in buffers["i"]] + buffers["s"]
        self.work(where, host, [], [outputs, buffers["i"]], lambda _: [[RUBBISH] * len(outputs), inputs])
        host.join()
        for index in self.of_gpu[rank]:
            runner = self.runners[index]
            learn(runner.heard, host.known)
            runner.join()
            runner.at = 0

    def end(self, rank):
        host, run = self.hosts[rank], self.runs[rank]
        for index in self.of_gpu[rank]:
            self.runners[index].join()
            learn(host.heard, self.runners[index].known)
        host.join()
        for chunk, cell in enumerate(self.buffers[rank]["o"]):
            where = f"gpu {rank} run {run}: output chunk {chunk}"
            self.work(where, host, [[cell]], [], lambda _: [])
            host.join()
            value = self.cells[cell].value
            found = [] if value is RUBBISH else self.trees.contents[value]
            if found != [(*contribution, run) for contribution in sorted(self.plan.wanted(rank, chunk))]:
                raise Wrong(f"{where} holds {found[:5]}")
            if self.plan.collective == "allreduce" and self.results.setdefault((run, chunk), value) != value:
                raise Wrong(f"{where} is added up in another order than on another gpu")
        self.runs[rank] += 1

    # ------------------------------------------------------------------------------------------------ operations

    def sums(self, sources):
        total = sources[0]
        for source in sources[1:]:
            total = [self.trees.add(a, b) for a, b in zip(total, source)]
        return total

    def counters(self, block, ids, name):
        rank = block.gpu.rank
        if name == "signal":
            return [self.channels[self.plan.other_end[rank, i]] for i in ids]
        return [(self.channels if name == "wait" else self.semaphores)[rank, i] for i in ids]

    def move(self, index):
        """Whether the thread block could go on."""
        block, runner = self.plan.blocks[index], self.runners[index]
        operation = block.operations[runner.at]
        name = operation[0]
        where = f"{block.where} operation {runner.at} ({name})"
        if name == "nop":
            runner.join()
        elif name in ("wait", "sem_acquire"):
            counters = self.counters(block, operation[1], name)
            if not all(counter.has() for counter in counters):
                return False
            for counter in counters:
                learn(runner.heard, counter.take())
        elif name in ("signal", "sem_release"):
            if runner.known[index] < runner.done:
                raise Wrong(f"{where}: its threads may still be at work")
            for counter in self.counters(block, operation[1], name):
                counter.give(runner.known)
        else:
            _, reads, stores, signalled = operation
            each = name in ("put", "pwsf")
            if signalled and runner.known[index] < runner.done:
                raise Wrong(f"{where}: its threads may still be at work")
            self.work(where, runner, reads, stores, lambda found: found if each else [self.sums(found)] * len(stores))
            for counter in self.counters(block, signalled, "signal"):
                clock = list(runner.known)
                clock[index] = runner.done
                counter.give(clock)
        runner.at += 1
        return True

    def run(self, order, steps):
        """order(list): the list in some order; steps(): how many operations in a row."""
        for rank in range(len(self.plan.gpus)):
            self.begin(rank)
        left = [len(of) for of in self.of_gpu]  # thread blocks
        active = list(range(len(self.plan.blocks)))
        while active:
            moved = False
            for index in order(active):
                block, runner = self.plan.blocks[index], self.runners[index]
                for _ in range(steps()):
                    if not self.move(index):
                        break
                    moved = True
                    if runner.at < len(block.operations):
                        continue
                    rank = block.gpu.rank
                    active.remove(index)
                    left[rank] -= 1
                    if left[rank] == 0:
                        self.end(rank)
                        if self.runs[rank] < RUNS:
                            self.begin(rank)
                            left[rank] = len(self.of_gpu[rank])
                            active += self.of_gpu[rank]
                    break
            if not moved:
                block = self.plan.blocks[active[0]]
                raise Wrong(f"{block.where} operation {self.runners[active[0]].at}: deadlock")
        for (rank, channel), counter in self.channels.items():
            if not counter.is_as_before():
                raise Wrong(f"gpu {rank} channel {channel}: a signal that nobody waits for")
        for (rank, semaphore), counter in self.semaphores.items():
            if not counter.is_as_before():
                raise Wrong(f"gpu {rank} semaphore {semaphore} is not what it was")


def orders():
    yield list, lambda: 1
    yield lambda active: active[::-1], lambda: OPERATIONS
    chance = random.Random(1)
    yield lambda active: chance.sample(active, len(active)), lambda: chance.randrange(1, 9)


def judge(text):
    """None: right; otherwise what is wrong."""
    try:
        plan = Plan(text)
        for order, steps in orders():
            World(plan, Trees()).run(order, steps)
    except Wrong as wrong:
        return str(wrong)
    return None


def run_all(names):
    wrong = 0
    for name in names:
        with open(name, encoding="utf-8") as file:
            verdict = judge(file.read())
        if verdict is not None:
            print(f"{name}: wrong: {verdict}")
            wrong += 1
    print(f"{len(names) - wrong} right, {wrong} wrong")
    return wrong > 0


def run_without_each(names):
    right = wrong = 0
    for name in names:
        with open(name, encoding="utf-8") as file:
            value = json.load(file)
        for gpu in value["gpus"]:
            for block in gpu["threadblocks"]:
                whole = block["ops"]
                for step, operation in enumerate(whole):
                    block["ops"] = whole[:step] + whole[step + 1 :]
                    if judge(json.dumps(value)) is None:
                        print(f"{name}: right without {operation['name']}, gpu {gpu['id']} threadblock {block['id']} operation {step}")
                        right += 1
                    else:
                        wrong += 1
                block["ops"] = whole
    print(f"{right} right, {wrong} wrong")
    return right > 0 or wrong == 0


def main():
    if sys.argv[1:2] == ["--hosts"]:
        HOSTS.extend(host for host, count in enumerate(sys.argv[2].split(",")) for _ in range(int(count)))
        del sys.argv[1:3]
    if sys.argv[1:2] == ["--without-each"]:
        sys.exit(run_without_each(sys.argv[2:]))
    sys.exit(run_all(sys.argv[1:]))


if __name__ == "__main__":
    main()
