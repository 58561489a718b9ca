"""Changes good schedules of MSCCL, one attribute or step at a time, and asks tutti-plan about each: it is refused with its place, or
proven, and then it runs right (msccl_run.py), too.

    msccl_mutations.py TUTTI-PLAN COUNT [SEED]
"""

import collections
import concurrent.futures
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import msccl_run

SUBJECTS = [
    ("allreduce", "ring", 4),
    ("allreduce", "twoshot", 4),
    ("allreduce", "halving_doubling", 8),
    ("allreduce", "double_tree", 5),
    ("allgather", "circulant", 5),
    ("allgather", "two_way_ring", 4),
    ("reduce_scatter", "circulant", 5),
    ("alltoall", "bruck", 5),
    ("broadcast", "double_tree", 6),
    ("reduce", "tree", 5),
    ("gather", "tree", 5),
    ("scatter", "tree", 5),
]
PLACES = ("srcbuf", "dstbuf")
NUMBERS = ("srcoff", "dstoff", "cnt", "depid", "deps", "s")


def exported(program, subject, in_place):
    collective, algorithm, ranks = subject
    command = [program, "export", collective, algorithm, "--ranks", str(ranks), "--format", "msccl"]
    done = subprocess.run(command + ["--in-place"] * in_place, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def nudge(chance, text):
    try:
        return str(int(text) + chance.choice((-2, -1, 1, 2)))
    except ValueError:
        return chance.choice("ios")


def mutate(chance, text):
    """One change of a schedule, as text."""
    root = ElementTree.fromstring(text)
    gpu = chance.choice(list(root))
    block = chance.choice(list(gpu))
    steps = list(block)
    step = chance.choice(steps) if steps else block
    what = chance.randrange(12)
    if what == 0 and steps:
        block.remove(step)
        for index, left in enumerate(block):
            left.set("s", str(index))
    elif what == 1 and len(steps) > 1:
        index = chance.randrange(len(steps) - 1)
        one, other = steps[index], steps[index + 1]
        one.attrib, other.attrib = other.attrib, one.attrib
        one.set("s", str(index))
        other.set("s", str(index + 1))
    elif what == 2:
        step.set("type", chance.choice(("s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "nop")))
    elif what == 3:
        step.set(chance.choice(PLACES), chance.choice("ios"))
    elif what in (4, 5, 6):
        step.set("depid", "-1")
        step.set("deps", "-1")
        if what == 4:
            other = chance.choice(list(gpu))
            if len(other) > 0:
                awaited = chance.choice(list(other))
                awaited.set("hasdep", "1")
                step.set("depid", other.get("id"))
                step.set("deps", awaited.get("s"))
    elif what == 7:
        name = chance.choice(("send", "recv", "chan", "id"))
        block.set(name, nudge(chance, block.get(name)))
    elif what == 8:
        name = chance.choice(("i_chunks", "o_chunks", "s_chunks", "id"))
        gpu.set(name, nudge(chance, gpu.get(name)))
    elif what == 9:
        name = chance.choice(("nchannels", "nchunksperloop", "ngpus", "inplace", "coll"))
        value = root.get(name)
        root.set(name, chance.choice(("allreduce", "allgather", "alltoall")) if name == "coll" else nudge(chance, value))
    else:
        name = chance.choice(NUMBERS)
        step.set(name, nudge(chance, step.get(name, "0")))
    return ElementTree.tostring(root, encoding="unicode")


def ask(program, text):
    done = subprocess.run([program, "verify", "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def check(program, text):
    """What became of one: (kind, complaint or None)."""
    code, said = ask(program, text)
    if code == 0:
        verdict = msccl_run.judge(text)
        return "proven and right", None if verdict is None else f"proven, and runs wrong: {verdict}"
    if code != 1:
        return "failed", f"exit status {code}: {said}"
    kind = "wrong" if " WRONG: " in said else "not expressible" if " not expressible " in said else None
    # Of a whole file, a gpu or a block there is no more to name.
    placed = re.search(r"gpu \d+ tb \d+ step \d+", said) or re.search(r"gpu \d+|line \d+|nchunksperloop|coll=", said)
    return kind or "failed", None if kind and placed else f"refused without a place: {said}"


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    chance = random.Random(seed)
    texts = [exported(program, subject, in_place) for subject in SUBJECTS for in_place in (False, True)]
    texts = [text for text in texts if text]
    assert len(texts) >= len(SUBJECTS), "few plans can be exported"
    for text in texts:
        verdict = msccl_run.judge(text)
        assert ask(program, text)[0] == 0 and verdict is None, verdict
    mutations = []
    while len(mutations) < count:
        text = chance.choice(texts)
        changed = mutate(chance, text)
        if changed != ElementTree.tostring(ElementTree.fromstring(text), encoding="unicode"):
            mutations.append(changed)
    kinds, bad = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for text, (kind, complaint) in zip(mutations, pool.map(lambda text: check(program, text), mutations)):
            kinds[kind] += 1
            if complaint:
                bad += 1
                if bad <= 5:
                    print(f"{complaint}\n{text[:3000]}\n", file=sys.stderr)
    print(f"seed {seed}, {count} mutations of {len(texts)} schedules:",
          ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())))
    sys.exit(bad > 0 or kinds["wrong"] == 0 or kinds["proven and right"] == 0)


if __name__ == "__main__":
    main()
