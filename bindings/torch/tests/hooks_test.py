"""Every communication hook of PyTorch trains the same model to the same parameters with tutti as with gloo.

    tutti-run -n 2 python3 hooks_test.py [HOOK...]

Needs 2 ranks. Each case trains with gloo and then with tutti, in this process and the same groups of ranks, and
parameters are compared by the largest difference. What gloo refuses, or PyTorch does not have here, is reported; then
the parameters that tutti leaves have to be those of plain DistributedDataParallel, or finite where there is no such thing.
"""

import datetime
import faulthandler
import functools
import sys
import traceback
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti_torch

faulthandler.dump_traceback_later(280, exit=True)
warnings.simplefilter("ignore")
tutti_torch.register()
torch.set_num_threads(1)
LIMIT = datetime.timedelta(seconds=100)
STEPS = 6
# Sums of two ranks have one order, so float32 is exact but for how each backend divides; 16 bits and quanta are rounded
# alike on both sides, too.
EXACT, ROUNDED = 1e-6, 2e-3


class Case:
    """A model that is trained with one hook on one backend."""

    def __init__(self):
        torch.manual_seed(1)
        self.rank = dist.get_rank()
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.parallel = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.after_step = lambda: None

    def train(self, steps=STEPS):
        torch.manual_seed(100 + self.rank)
        for _ in range(steps):
            samples = torch.randn(8, 8)
            if self.optimizer is not None:
                self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.parallel(samples), samples[:, :4].sin())
            loss.backward()
            if self.optimizer is not None:
                self.optimizer.step()
            self.after_step()
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.model.parameters()]).clone()

    def hook(self, state, hook):
        self.parallel.register_comm_hook(state, hook)
        return self.train()


def plain():
    return Case().train()


def builtin(name):
    case = Case()
    case.parallel._register_builtin_comm_hook(getattr(dist.BuiltinCommHookType, name))
    return case.train()


def default(name):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    return Case().hook(None, getattr(default_hooks, name))


def under_another_name(name):
    """PyTorch refuses hooks for bfloat16 by their names where there is no card."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    def hook(state, bucket):
        return getattr(default_hooks, name)(state, bucket)

    return Case().hook(None, hook)


def wrapper(name):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    return Case().hook(None, getattr(default_hooks, name)(default_hooks.allreduce_hook))


def power_sgd(name, rank=1, **options):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=0.5, **options
    )
    return Case().hook(state, getattr(powerSGD_hook, name))


def power_sgd_of_16_bits():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=0.5)
    return Case().hook(state, default_hooks.bf16_compress_wrapper(powerSGD_hook.powerSGD_hook))


def quantized(name):
    from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

    return Case().hook(dist.group.WORLD, getattr(quantization_hooks, name))


def noop():
    from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks

    return Case().hook(None, debugging_hooks.noop_hook)


def by_enumeration(name):
    from torch.distributed.algorithms import ddp_comm_hooks

    case = Case()
    kind = getattr(ddp_comm_hooks.DDPCommHookType, name)
    ddp_comm_hooks.register_ddp_comm_hook(kind, case.parallel, dist.group.WORLD)
    return case.train()


def post_local_sgd(subgroup_size, local_allreduce=True):
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    case = Case()
    subgroup, _ = dist.new_subgroups(subgroup_size)
    state = post_localSGD_hook.PostLocalSGDState(None, subgroup, 2, post_local_gradient_allreduce=local_allreduce)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    case.after_step = lambda: averager.average_parameters(case.model.parameters())
    return case.hook(state, post_localSGD_hook.post_localSGD_hook)


def local_optimizer():
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    case = Case()
    subgroup, _ = dist.new_subgroups(1)
    case.optimizer = PostLocalSGDOptimizer(case.optimizer, PeriodicModelAverager(period=2, warmup_steps=2))
    return case.hook(post_localSGD_hook.PostLocalSGDState(None, subgroup, 2), post_localSGD_hook.post_localSGD_hook)


def hierarchical():
    from collections import OrderedDict

    from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager

    case = Case()
    averager = HierarchicalModelAverager(OrderedDict([(2, 1), (4, 2)]), warmup_steps=1)
    case.after_step = lambda: averager.average_parameters(case.model.parameters())
    from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks

    return case.hook(None, debugging_hooks.noop_hook)


def fused_optimizer(with_hook):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, optimizer_overlap_hooks
    from torch.distributed.optim.utils import as_functional_optim

    case = Case()
    case.optimizer = None
    if not with_hook:
        case.parallel._register_fused_optim(torch.optim.SGD, lr=0.05)
        return case.train()
    state = optimizer_overlap_hooks._OptimizerHookState(as_functional_optim(torch.optim.SGD, lr=0.05))
    return case.hook(None, optimizer_overlap_hooks._hook_then_optimizer(default_hooks.allreduce_hook, state))


def optimizer_in_backward():
    from torch.distributed.optim import _apply_optimizer_in_backward

    case = Case()
    _apply_optimizer_in_backward(torch.optim.SGD, case.model.parameters(), {"lr": 0.05})
    case.parallel = DistributedDataParallel(case.model)
    case.optimizer = None
    return case.train()


def mixed_precision():
    from torch.nn.parallel.distributed import _MixedPrecision

    case = Case()
    policy = _MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16, buffer_dtype=torch.float16)
    case.parallel = DistributedDataParallel(case.model, mixed_precision=policy)
    return case.train()


def zero(name, shard_buckets=False):
    """Its first steps only find out about buckets: so it trains longer, with the steps that plain() does."""
    from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
    from torch.distributed.optim import ZeroRedundancyOptimizer

    case = Case()
    case.parallel = DistributedDataParallel(case.model, gradient_as_bucket_view=True)
    case.optimizer = None
    optimizer = ZeroRedundancyOptimizer(
        case.model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.05
    )
    hook = getattr(ddp_zero_hook, name)(
        default_hooks.allreduce_hook, case.parallel, optimizer, shard_buckets=shard_buckets
    )
    case.after_step = case.model.zero_grad
    return case.hook(None, hook)


def plain_after_two_steps():
    """What zero() has to come to."""
    case = Case()
    step, done = case.optimizer.step, []

    def later():
        done.append(None)
        if len(done) > 2:
            step()

    case.optimizer.step = later
    return case.train()


def compressed(method, **options):
    """With buckets so small that there are several."""
    from tutti_torch.compression import Compression, hook

    case = Case()
    case.parallel = DistributedDataParallel(case.model, bucket_cap_mb=1e-4)
    state = Compression(case.model, method, ratio_min=1.0, **options)
    case.parallel.register_comm_hook(state, hook)
    return case, state


def compression(method, **options):
    """Its state goes on in another hook, as after a checkpoint: with the same bits."""
    case, state = compressed(method, bucket_bytes=300, **options)
    case.train(STEPS // 2)
    assert (state.ratio > 1.2) == (method != "none")
    saved = state.state_dict()
    again, other = compressed(method, **options)
    other.load_state_dict(saved)
    again.model.load_state_dict(case.model.state_dict())
    assert torch.equal(again.train(2), case.train(2))
    return compressed(method, **options)[0].train()


CASES = {
    "none": (plain, EXACT),
    "builtin ALLREDUCE": (functools.partial(builtin, "ALLREDUCE"), EXACT),
    "builtin FP16_COMPRESS": (functools.partial(builtin, "FP16_COMPRESS"), ROUNDED),
    "allreduce_hook": (functools.partial(default, "allreduce_hook"), EXACT),
    "fp16_compress_hook": (functools.partial(default, "fp16_compress_hook"), ROUNDED),
    "bf16_compress_hook": (functools.partial(default, "bf16_compress_hook"), ROUNDED),
    "bf16_compress_hook, under another name": (functools.partial(under_another_name, "bf16_compress_hook"), ROUNDED),
    "fp16_compress_wrapper": (functools.partial(wrapper, "fp16_compress_wrapper"), ROUNDED),
    "bf16_compress_wrapper": (functools.partial(wrapper, "bf16_compress_wrapper"), ROUNDED),
    "powerSGD_hook": (functools.partial(power_sgd, "powerSGD_hook"), EXACT),
    "powerSGD_hook, rank 2": (functools.partial(power_sgd, "powerSGD_hook", 2), EXACT),
    "powerSGD_hook, cold": (functools.partial(power_sgd, "powerSGD_hook", warm_start=False), EXACT),
    "powerSGD_hook in bf16": (power_sgd_of_16_bits, ROUNDED),
    "batched_powerSGD_hook": (functools.partial(power_sgd, "batched_powerSGD_hook"), EXACT),
    "batched_powerSGD_hook, rank 2": (functools.partial(power_sgd, "batched_powerSGD_hook", 2), EXACT),
    "quantization_pertensor_hook": (functools.partial(quantized, "quantization_pertensor_hook"), ROUNDED),
    "quantization_perchannel_hook": (functools.partial(quantized, "quantization_perchannel_hook"), ROUNDED),
    "noop_hook": (noop, EXACT),
    "DDPCommHookType.ALLREDUCE": (functools.partial(by_enumeration, "ALLREDUCE"), EXACT),
    "DDPCommHookType.POWER_SGD_RANK2": (functools.partial(by_enumeration, "POWER_SGD_RANK2"), EXACT),
    "post_localSGD_hook": (functools.partial(post_local_sgd, 1), EXACT),
    "post_localSGD_hook, subgroup of all": (functools.partial(post_local_sgd, 2), EXACT),
    "post_localSGD_hook, no local sum": (functools.partial(post_local_sgd, 1, False), EXACT),
    "PostLocalSGDOptimizer": (local_optimizer, EXACT),
    "HierarchicalModelAverager": (hierarchical, EXACT),
    "_register_fused_optim": (functools.partial(fused_optimizer, False), EXACT),
    "_hook_then_optimizer": (functools.partial(fused_optimizer, True), EXACT),
    "_apply_optimizer_in_backward": (optimizer_in_backward, EXACT),
    "tutti's compression, none": (functools.partial(compression, "none"), EXACT),
    "tutti's compression, int8": (functools.partial(compression, "int8"), 1e-2),
    "tutti's compression, powersgd": (functools.partial(compression, "powersgd", rank=1), EXACT),
    "tutti's compression, topk": (functools.partial(compression, "topk", share=0.1), EXACT),
    "mixed_precision hook": (mixed_precision, ROUNDED),
    "hook_with_zero_step": (functools.partial(zero, "hook_with_zero_step"), EXACT),
    "hook_with_zero_step, shards": (functools.partial(zero, "hook_with_zero_step", True), EXACT),
    "hook_with_zero_step_interleaved": (functools.partial(zero, "hook_with_zero_step_interleaved"), EXACT),
}
# What gloo does not run is compared with this.
REFERENCES = {name: plain_after_two_steps for name in CASES if name.startswith("hook_with_zero")}
REFERENCES.update({f"tutti's compression, {method}": plain for method in ("none", "int8")})


def attempt(case):
    """Its parameters, or why there are none."""
    try:
        return case()
    except Exception as error:
        if "-v" in sys.argv:
            traceback.print_exc()
        return f"{type(error).__name__}: {error}".splitlines()[0][:120]


def all_cases(backend, names, met):
    """`met`: the store, rank and number of ranks, for both backends: PyTorch 1.13 cannot meet on one port twice."""
    store, rank, size = met
    store = dist.PrefixStore(backend, store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LIMIT)
    found = {name: attempt(CASES[name][0]) for name in names}
    references = {name: attempt(REFERENCES[name]) for name in names if name in REFERENCES}
    dist.barrier()
    return found, references


def main():
    names = [name for name in CASES if len(sys.argv) == 1 or name in sys.argv] or list(CASES)
    met = next(dist.distributed_c10d.rendezvous("env://"))
    rank = met[1]
    gloo, references = all_cases("gloo", names, met)
    dist.destroy_process_group()
    tutti, _ = all_cases("tutti", names, met)
    failed = 0
    for name in names:
        theirs, own, tolerance = gloo[name], tutti[name], CASES[name][1]
        said = "the same as gloo"
        if isinstance(theirs, str):
            said = f"does not run with gloo ({theirs})"
            if not (isinstance(own, str) and "requires NCCL" in own):  # PyTorch 1.13 refuses all others by name, too
                theirs = references.get(name, theirs)
        if isinstance(theirs, str) and isinstance(own, str):
            said += ", nor with tutti"
        elif isinstance(own, str):
            failed += 1
            said = f"FAILED: {own}"
        elif isinstance(theirs, str):
            said += ", but with tutti"
            failed += not bool(torch.isfinite(own).all())
        else:
            difference = (own - theirs).abs().max().item()
            said += f": the largest difference is {difference:.1e}, allowed {tolerance:.0e}"
            if not difference <= tolerance:
                failed += 1
                said = f"FAILED: {said}"
        if rank == 0:
            print(f"{name}: {said}", flush=True)
    dist.destroy_process_group()
    sys.exit(1 if failed else 0)


main()
