"""A click-through model with embeddings of users and ads, on a parameter server and on a synchronous twin without one.

    tutti-run -n 4 python3 examples/embeddings.py                        # rank 0 serves, the others work
    tutti-run -n 4 python3 examples/embeddings.py --mode asynchronous

The data are generated: users and ads have hidden vectors, and a click is the more likely the more alike they are. The model
learns vectors of its own: click = sigmoid(user . ad + context . weights). In each step a worker pulls the rows of its batch,
and pushes their gradients. The twin has no server: the workers divide the tables among themselves, bring gradients to
the owners of rows with sparse_push, and look rows up with sparse_pull. Its steps are those of the mode "synchronous",
bit for bit, which the program checks.
"""

from __future__ import annotations

import argparse
from typing import Dict, List, NamedTuple, Tuple

import numpy as np

import tutti
from tutti import server

ROWS = {"users": 2000, "ads": 300}
WIDTH, CONTEXT, BATCH = 4, 3, 256
RATE, DENSE_RATE = 0.1, 0.001  # of sums over a batch
HIDDEN = {name: np.random.default_rng(count).standard_normal((count, 2)) for name, count in ROWS.items()}


class Batch(NamedTuple):
    rows: Dict[str, np.ndarray]  # indices of users and of ads
    context: np.ndarray
    clicks: np.ndarray


def draw(step: int, worker: int) -> Batch:
    """What that worker sees in that step. Low users and ads come often."""
    chance = np.random.default_rng([step, worker])
    rows = {name: (count * chance.random(BATCH) ** 3).astype(np.int64) for name, count in ROWS.items()}
    context = chance.standard_normal((BATCH, CONTEXT)).astype(np.float32)
    score = 2 * np.sum(HIDDEN["users"][rows["users"]] * HIDDEN["ads"][rows["ads"]], axis=1) + context[:, 0]
    return Batch(rows, context, (chance.random(BATCH) < 1 / (1 + np.exp(-score))).astype(np.float32))


def learn(batch: Batch, values: Dict[str, np.ndarray]) -> Tuple[float, Dict[str, np.ndarray]]:
    """The loss, and the gradients: of each example's user and ad, and of the weights of the context."""
    users, ads, weights = values["users"], values["ads"], values["weights"]
    click = 1 / (1 + np.exp(-(np.sum(users * ads, axis=1) + batch.context @ weights)))
    loss = -np.mean(np.log(np.where(batch.clicks > 0, click, 1 - click) + 1e-9))
    error = (click - batch.clicks).astype(np.float32)
    gradients = {"users": error[:, None] * ads, "ads": error[:, None] * users, "weights": batch.context.T @ error}
    return float(loss), gradients


def added_up(rows: np.ndarray, gradients: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Each row once, with the sum of its gradients."""
    different, inverse = np.unique(rows, return_inverse=True)
    sums = np.zeros((different.size, gradients.shape[1]), np.float32)
    np.add.at(sums, inverse.ravel(), gradients)
    return different, sums


# --------------------------------------------------------------------------------------- with servers


def tables() -> List[server.Table]:
    rows = [
        server.Table(
            name,
            rows=count,
            width=WIDTH,
            optimizer=server.SGD(RATE),
            initial=server.Uniform(0.5),
            seed=count,
        )
        for name, count in ROWS.items()
    ]
    return rows + [server.Table("weights", shape=CONTEXT, optimizer=server.SGD(DENSE_RATE))]


def work(made: server.Server, rank: int, steps: int) -> List[float]:
    """Pushes and the next pull go in one round trip."""
    losses = []
    batch = draw(0, rank)
    values = made.pull({**batch.rows, "weights": None})
    for step in range(steps):
        loss, gradients = learn(batch, values)
        losses.append(loss)
        pushed = {name: added_up(batch.rows[name], gradients[name]) for name in ROWS}
        batch = draw(step + 1, rank)
        values = made.push_pull({**pushed, "weights": gradients["weights"]}, {**batch.rows, "weights": None})
    return losses


def all_values(made: server.Server) -> Dict[str, np.ndarray]:
    return made.pull({**{name: np.arange(count) for name, count in ROWS.items()}, "weights": None})


# --------------------------------------------------------------------------------------- without servers


class Twin:
    """The same tables, of which each worker owns a range of rows."""

    def __init__(self, comm: tutti.Communicator, initial: Dict[str, np.ndarray]) -> None:
        self.comm = comm
        self.weights = initial["weights"].copy()
        self.own = {}
        for name, count in ROWS.items():
            first, end = tutti.sparse_range(count, comm.size, comm.rank)
            self.own[name] = initial[name][first:end].copy()

    def pull(self, batch: Batch) -> Dict[str, np.ndarray]:
        found = {name: self.comm.sparse_pull(self.own[name], batch.rows[name], ROWS[name]) for name in ROWS}
        return {**found, "weights": self.weights}

    def step(self, batch: Batch, gradients: Dict[str, np.ndarray]) -> None:
        for name, count in ROWS.items():
            first, _ = tutti.sparse_range(count, self.comm.size, self.comm.rank)
            sums = self.comm.sparse_push(*added_up(batch.rows[name], gradients[name]), count)
            self.own[name][sums.indices - first] += np.float32(-RATE) * sums.values
        gradient = np.zeros(CONTEXT, np.float32)
        for one in self.comm.allgather(gradients["weights"]):  # in the order of ranks, as servers do
            gradient += one
        self.weights += np.float32(-DENSE_RATE) * gradient

    def is_same(self, values: Dict[str, np.ndarray]) -> bool:
        """Whether this worker's rows, and the weights, are these, bit for bit."""
        for name, count in ROWS.items():
            first, end = tutti.sparse_range(count, self.comm.size, self.comm.rank)
            if not np.array_equal(self.own[name], values[name][first:end]):
                return False
        return np.array_equal(self.weights, values["weights"])


def train_twin(twin: Twin, rank: int, steps: int) -> List[float]:
    losses = []
    for step in range(steps):
        batch = draw(step, rank)
        loss, gradients = learn(batch, twin.pull(batch))
        losses.append(loss)
        twin.step(batch, gradients)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", default="synchronous", choices=["synchronous", "bounded", "asynchronous", "quorum"])
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    more = {"bounded": {"staleness": 2}, "quorum": {"quorum": 1}}.get(arguments.mode, {})
    with tutti.init(timeout=60) as comm:
        if comm.size < 2:
            parser.error("one rank serves and the others work: start it with tutti-run -n 2 or more")
        workers = comm.split(None if comm.rank == 0 else 0)
        with server.Server(comm, tables(), servers=[0], mode=arguments.mode, timeout=60, **more) as made:
            made.serve()
            if workers is None:
                return
            twin = Twin(workers, all_values(made))
            losses = work(made, comm.rank, arguments.steps)
            workers.barrier()  # every worker's last update is in a step
            values = all_values(made)
        twin_losses = train_twin(twin, comm.rank, arguments.steps)
        last = np.mean(losses[-20:])
        says = f"rank {comm.rank}: the loss fell from {np.mean(losses[:20]):.3f} to {last:.3f}"
        if arguments.mode == "synchronous":
            if losses != twin_losses or not twin.is_same(values):
                raise SystemExit(f"{says}; the twin without servers has other bits")
            says += "; the twin without servers has the same bits"
        else:
            says += f", that of the synchronous twin to {np.mean(twin_losses[-20:]):.3f}"
        print(says)
        workers.close()


if __name__ == "__main__":
    main()
