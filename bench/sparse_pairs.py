"""PyTorch's allreduce of sparse tensors over Tutti beside gloo, in alternating pairs (pairs.py says how).

    python bench/sparse_pairs.py --ranks 4 --sizes 640000

Each process draws rows of a matrix of 1,000,000 rows of 16 float32, a row of Zipf's distribution with exponent 1 for every 64 bytes:
640000 are 10,000 draws, which are about 5,346 different rows. "coalesced" gives each of them once, "drawn" gives what was drawn, as the
gradient of an embedding does. Each time counts the copy of the result that a program keeps.

Needs PyTorch and tutti_torch.
"""

import datetime

import pairs

ROWS, WIDTH = 1_000_000, 16


def work(side):
    import numpy as np
    import torch
    import torch.distributed as dist
    import tutti_torch

    torch.set_num_threads(1)
    tutti_torch.register()
    dist.init_process_group(side, timeout=datetime.timedelta(seconds=120))
    rank = dist.get_rank()
    chances = 1.0 / np.arange(1, ROWS + 1)
    chances /= chances.sum()

    def call_of(name, size_bytes):
        random = np.random.default_rng(rank)
        drawn = torch.from_numpy(random.choice(ROWS, size_bytes // (4 * WIDTH), p=chances))
        values = torch.from_numpy(random.integers(0, 8, (len(drawn), WIDTH)).astype(np.float32))
        tensor = torch.sparse_coo_tensor(drawn.unsqueeze(0), values, (ROWS, WIDTH))
        given = tensor.coalesce() if name == "coalesced" else tensor
        check_sum(dist, torch, given)

        def call():
            result = given.clone()
            dist.all_reduce(result)
            return result

        return call

    pairs.serve(call_of)
    dist.destroy_process_group()


def check_sum(dist, torch, given):
    """Against the sum of dense columns, of which there are few."""
    result = given.clone()
    dist.all_reduce(result)
    for column in (0, WIDTH - 1):
        dense = torch.zeros(ROWS)
        dense.index_add_(0, given._indices()[0], given._values()[:, column])
        dist.all_reduce(dense)
        result = result.coalesce()
        places = result.indices()[0]
        assert torch.equal(dense[places], result.values()[:, column]), "another sum"
        assert int((dense != 0).sum()) <= len(places)


pairs.main(__doc__, "gloo", ("coalesced", "drawn"), work)
