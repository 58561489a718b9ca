#!/usr/bin/env python3
"""server_kills.py - trainings with a parameter server, of which workers and the server are killed, beside the same trainings without.

  python3 bench/server_kills.py [--runs 20] [--steps 400] [--workers 4] [--mode synchronous] [--staleness 2] [--replace] [--at-once 1] [--keep FILE]
        [--check]

A network with one hidden layer learns to classify points, on one server and --workers workers. In a training with kills one worker is killed with
SIGKILL between its push and its tick; later the server is; and after that another worker. The server saves its tables again and again, and the death of
the server ends the job: it begins again with all workers and the last file. Servers go on without a worker that died, with the averages of the others.
With --replace, a new process comes in place of each worker that died, while the others work.

Each of --runs pairs of trainings has a seed of its own, for the first parameters, the samples and the kills. The table has the losses on samples that
nobody trained on. --check: exit with 1 if the means differ by more than two standard errors of the difference of two means, or if a training with kills
ends above the highest loss without by more than the spread.

--at-once pairs are trained at the same time; nothing is timed.

With --keep, a file keeps what was found, and a later call with the same file adds pairs with the next seeds.

Environment: as for the Python package (TUTTI_LIBRARY, PYTHONPATH). Needs NumPy.
"""

import argparse
import concurrent.futures
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SERVER_LOST = 9  # exit code of a worker
TOO_LATE = 8  # of a process that came when all others had left
DIMENSIONS, HIDDEN, CLASSES, BATCH, HELD_OUT = 8, 24, 4, 16, 2000
JOB_SECONDS_MAX = 300


# ------------------------------------------------------------------------------------------------ a rank


def draw(seed, count):
    """Points and their classes, by a fixed network, with some that are wrong."""
    import numpy as np

    chance = np.random.default_rng(seed)
    fixed = np.random.default_rng(5)
    first, second = fixed.standard_normal((DIMENSIONS, 16)), fixed.standard_normal((16, CLASSES))
    points = chance.standard_normal((count, DIMENSIONS))
    classes = np.argmax(np.tanh(points @ first) @ second, axis=1)
    wrong = chance.random(count) < 0.05
    classes[wrong] = chance.integers(0, CLASSES, wrong.sum())
    return points, classes


def learn(values, points, classes):
    """The mean loss, and gradients."""
    import numpy as np

    hidden = np.tanh(points @ values["first"] + values["bias"])
    out = hidden @ values["second"]
    share = np.exp(out - out.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    rows = np.arange(len(classes))
    loss = -np.mean(np.log(share[rows, classes]))
    share[rows, classes] -= 1
    share /= len(classes)
    back = (share @ values["second"].T) * (1 - hidden**2)
    return loss, {"first": points.T @ back, "bias": back.sum(axis=0), "second": hidden.T @ share}


def joined_file(job, pid):
    return os.path.join(job["folder"], f"joined-{pid}")


def store_of(job):
    import tutti

    return tutti.FolderStore(os.path.join(job["folder"], f"store-{job['starts']}"))


def serve(made, comm, job):
    """Saves again and again, lets workers in, and dies at its step."""
    import tutti

    def look():
        while True:
            steps = made.counters.steps
            if job["server_dies"] is not None and steps >= job["server_dies"]:
                os.kill(os.getpid(), signal.SIGKILL)
            made.save(job["folder"])
            time.sleep(0.02)

    threading.Thread(target=look, daemon=True).start()
    servers = comm.group([0])
    while not made.serve(wait=0.05):
        if job["replaces"]:
            try:
                with servers.grow(store_of(job), wait=0.1) as grown:
                    made.admit(grown)
            except tutti.Timeout:  # nobody has come
                pass
    os._exit(0)  # the thread is in the middle of something


def work(made, job):
    import numpy as np

    names = dict.fromkeys(("first", "bias", "second", "steps"))
    steps = 0
    while steps < job["steps"]:
        values = made.pull(names)
        steps = round(float(values["steps"][0]))
        worker = made.rank - 1
        points, classes = draw([job["seed"], steps, worker], BATCH)
        gradients = {name: found.astype(np.float32) for name, found in learn(values, points, classes)[1].items()}
        made.push({**gradients, "steps": np.array([-1], np.float32)})
        if job["workers_die"].get(str(worker)) is not None and steps >= job["workers_die"][str(worker)]:
            os.kill(os.getpid(), signal.SIGKILL)
        made.tick()
    loss = learn(made.pull(names), *draw(99, HELD_OUT))[0]
    with open(os.path.join(job["folder"], f"loss-{made.rank}"), "w", encoding="utf-8") as file:
        file.write(f"{loss}\n")


def rank_main(job):
    import tutti
    from tutti import server

    shapes = {"first": (DIMENSIONS, HIDDEN), "bias": (HIDDEN,), "second": (HIDDEN, CLASSES)}
    tables = [
        server.Table(name, shape=shape, optimizer=server.SGD(0.2, momentum=0.5), initial=server.Normal(0.3), seed=job["seed"] + number)
        for number, (name, shape) in enumerate(shapes.items())
    ]
    tables.append(server.Table("steps", shape=1, optimizer=server.SGD(1.0)))
    mode = {"mode": job["mode"], **({"staleness": job["staleness"]} if job["mode"] == "bounded" else {})}
    folder = job["folder"] if job["loads"] else None
    if "RANK" not in os.environ:
        come(tables, job)
        return
    places = job["workers"] if job["replaces"] else 0
    with tutti.init() as comm, server.Server(
        comm, tables, average=True, timeout=60, load_folder=folder, joiners_max=places, **mode
    ) as made:
        if made.is_server:
            serve(made, comm, job)
        try:
            work(made, job)
        except tutti.RankFailed:
            os._exit(SERVER_LOST)


def come(tables, job):
    """A process in place of a worker that died. The server may die before it is in, or have ended."""
    import tutti
    from tutti import server

    try:
        with tutti.join(store_of(job), init_timeout=20) as grown:
            open(joined_file(job, os.getpid()), "w").close()
            made = server.Server.join(grown, tables, timeout=60)
    except tutti.Error:
        os._exit(TOO_LATE)
    try:
        work(made, job)
        made.close()
    except tutti.RankFailed:
        os._exit(SERVER_LOST)


# -------------------------------------------------------------------------------------------------- jobs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_job(job, workers):
    """The exit codes of all ranks, and of processes that came later. Whatever happens, none of them is left."""
    environment = {**os.environ, "WORLD_SIZE": str(workers + 1), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TUTTI_LOG": "off",
                   "TUTTI_SECRET": f"only-the-ranks-of-this-job-know-it-{random.getrandbits(64)}"}
    environment.pop("RANK", None)
    words = [sys.executable, os.path.abspath(__file__), "--job", json.dumps(job)]
    ranks, replaced, end = [], set(), time.monotonic() + JOB_SECONDS_MAX
    try:
        for rank in range(workers + 1):
            ranks.append(subprocess.Popen(words, env={**environment, "RANK": str(rank)}))
        while any(rank.poll() is None for rank in ranks):
            if time.monotonic() > end:
                sys.exit(f"server_kills.py: seed {job['seed']}: the ranks do not end")
            for rank in [rank for rank in ranks[1:] if rank.poll() == -signal.SIGKILL and rank not in replaced]:
                replaced.add(rank)
                if job["replaces"] and ranks[0].poll() is None:
                    ranks.append(subprocess.Popen(words, env=environment))
            if ranks[0].poll() is not None:  # nobody lets a process in that waits for that
                for rank in ranks[workers + 1:]:
                    if rank.poll() is None and not os.path.exists(joined_file(job, rank.pid)):
                        rank.terminate()
            time.sleep(0.02)
        codes = [rank.wait() for rank in ranks]
        return codes[:workers + 1] + [TOO_LATE if code == -signal.SIGTERM else code for code in codes[workers + 1:]]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def train(seed, options, kills):
    """The loss of a training, and how often a worker and the server died."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        job = {"seed": seed, "steps": options.steps, "mode": options.mode, "staleness": options.staleness, "folder": folder, "loads": False,
               "workers_die": {}, "server_dies": None, "replaces": options.replace, "workers": options.workers, "starts": 0}
        dead_workers = dead_servers = came = 0
        if kills:
            first, second = chance.sample(range(options.workers), 2)
            job["workers_die"] = {str(first): int(options.steps * chance.uniform(0.1, 0.3))}
            job["server_dies"] = int(options.steps * chance.uniform(0.4, 0.6))
        while True:
            codes = run_job(job, options.workers)
            dead_workers += codes[1:].count(-signal.SIGKILL)
            dead_servers += codes[0] == -signal.SIGKILL
            came += sum(code in (0, SERVER_LOST) for code in codes[options.workers + 1:])
            job["starts"] += 1
            if any(code not in (0, SERVER_LOST, TOO_LATE, -signal.SIGKILL) for code in codes) or dead_servers > 1:
                sys.exit(f"server_kills.py: seed {seed}: the ranks ended with {codes}")
            if codes[0] == 0:
                break
            job.update(loads=True, server_dies=None, workers_die={str(second): int(options.steps * chance.uniform(0.7, 0.9))})
        losses = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("loss-")]
        with open(losses[0], encoding="utf-8") as file:
            return float(file.read()), dead_workers, dead_servers, came


def train_pair(seed, options):
    return (train(seed, options, False)[0], *train(seed, options, True))


def describe(name, losses):
    return f"| {name} | {statistics.mean(losses):.4f} | {statistics.stdev(losses):.4f} | {min(losses):.4f} | {max(losses):.4f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--mode", default="synchronous", choices=("synchronous", "bounded", "asynchronous"))
    parser.add_argument("--staleness", type=int, default=2)
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        rank_main(json.loads(options.job))
        return
    found = []  # of each seed: the loss without kills, the loss with, workers and servers that were killed, workers that came
    if options.keep is not None and os.path.exists(options.keep):
        with open(options.keep, encoding="utf-8") as file:
            found = json.load(file)
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        found += pool.map(lambda seed: train_pair(seed, options), range(len(found) + 1, len(found) + options.runs + 1))
    if options.keep is not None:
        with open(options.keep, "w", encoding="utf-8") as file:
            json.dump(found, file)
    without, killed, dead_workers, dead_servers, came = zip(*found)
    report(options, without, killed, sum(dead_workers), sum(dead_servers), sum(came))


def report(options, without, killed, dead_workers, dead_servers, came):
    count = len(without)
    print(f"{count} pairs of trainings, {options.mode}, {options.steps} steps, {options.workers} workers; killed: {dead_workers} workers, {dead_servers} servers"
          + (f"; {came} workers came" if options.replace else ""))
    print("| training | mean loss | standard deviation | lowest | highest |\n|---|---:|---:|---:|---:|")
    print(describe("without kills", without))
    print(describe("with kills", killed))
    difference = statistics.mean(killed) - statistics.mean(without)
    error = ((statistics.variance(killed) + statistics.variance(without)) / count) ** 0.5
    print(f"difference of the means {difference:+.4f}, its standard error {error:.4f}")
    if dead_workers != 2 * count or dead_servers != count:
        sys.exit("server_kills.py: a kill has not happened")
    spread = max(without) - min(without)
    if options.check and (abs(difference) > 2 * error or max(killed) > max(without) + spread):
        sys.exit("server_kills.py: trainings with kills end at another loss")


if __name__ == "__main__":
    main()
