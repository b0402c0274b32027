"""Two ranks that save one sharded tensor together, with torch.distributed.checkpoint over gloo."""
import dataclasses
import glob
import os
import sys

import loop


def allow_old_defaults():
    """torch 1.13 has defaults that dataclasses of Python 3.11 refuse; later versions need nothing."""
    get = dataclasses._get_field

    def lenient(cls, name, kind, kw_only):
        default = getattr(cls, name, None)
        if isinstance(default, dataclasses.Field):
            default = default.default
        if type(default).__hash__ is None and not isinstance(default, (list, dict, set)):
            type(default).__hash__ = object.__hash__
        return get(cls, name, kind, kw_only)

    dataclasses._get_field = lenient


allow_old_defaults()
import torch
import torch.distributed as dist
from torch.distributed._shard import sharded_tensor
from torch.distributed._shard.sharding_spec import ChunkShardingSpec

try:
    import torch.distributed.checkpoint as dcp
except ModuleNotFoundError:
    import torch.distributed._shard.checkpoint as dcp


def latest(directory):
    """The highest step, whole or not: as many scripts do."""
    steps = [int(path.rsplit("-", 1)[1]) for path in glob.glob(f"{directory}/step-*[0-9]")]
    return max(steps, default=None)


def main():
    directory, log = os.environ["SLUICE_CHECKPOINT_DIR"], loop.Log(sys.argv[1])
    rendezvous = f"file://{sys.argv[1]}.rendezvous-{loop.attempt()}"
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    spec = ChunkShardingSpec(dim=0, placements=["rank:0/cpu", "rank:1/cpu"])
    state = {"w": sharded_tensor.ones(spec, 1000, 100), "extra": torch.ones(10)}
    start = latest(directory)
    if start is not None:
        dcp.load_state_dict(state, dcp.FileSystemReader(f"{directory}/step-{start}"))
    # Both have read before either writes.
    dist.barrier()

    def save(step):
        dcp.save_state_dict(state, dcp.FileSystemWriter(f"{directory}/step-{step}"))

    loop.train(log if rank == 0 else loop.Log(os.devnull), start, save)


main()
