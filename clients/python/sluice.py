"""Worker client of Sluice: saves when the agent asks, and parks until it is told to go on.

    drain = sluice.Drain()
    for step, batch in enumerate(loader):
        train(batch)
        if drain.step(step):            # True on every rank at the same step
            try:
                save(path)
                drain.saved(step, path)
            except Exception as error:
                drain.failed(step, error)
            drain.park()                # devices idle, until "continue" (or SIGTERM)

Files in $SLUICE_DRAIN_DIR: the agent writes drain.json; this writes hello.R.json and ack.R.json, R being $RANK.
Without that variable every call does nothing. No dependencies; Python 3.8 or newer. See README.md.
"""

import json
import os
import time

__all__ = ["Drain", "torch_agree", "jax_agree"]
__version__ = "0.1.0"

POLL_SECONDS = 1.0  # Least time between two looks while training.
PARK_POLL_SECONDS = 0.2  # Between two looks while parked.


class Drain:
    """One process of the worker. `agree(bool) -> bool` makes all ranks of one mind; see torch_agree and jax_agree."""

    def __init__(self, agree=None, directory=None, rank=None):
        directory = os.environ.get("SLUICE_DRAIN_DIR", "") if directory is None else str(directory)
        self._dir, self._agree = directory, agree
        self._rank = int(os.environ.get("RANK", "0") if rank is None else rank)
        self._looked_at, self._answered, self._now = None, None, None
        if self._dir:
            world = os.environ.get("WORLD_SIZE", "1")
            self._write("hello", {"pid": os.getpid(), "world_size": world})

    def step(self, step):
        """True if a checkpoint is to be saved after this step. Cheap: one look at a file a second, one vote a step."""
        asked = self._is_asked()
        if self._agree is not None:
            asked = bool(self._agree(asked))
        if asked:
            order = self._read() if self._now is None else self._now
            self._now = order or self._now or {}
            self._ack("saving", step)
        return asked

    def saved(self, step, path=""):
        """The checkpoint is written and closed."""
        self._ack("saved", step, path=str(path))

    def failed(self, step, error):
        """It could not be written."""
        self._ack("failed", step, error=str(error)[:1000])

    def park(self):
        """Waits until the agent says to go on. SIGTERM ends the process here, as anywhere."""
        mine = (self._now or {}).get("drain_id")
        while self._dir:
            order = self._read() or {}
            if order.get("state") != "save" or order.get("drain_id") != mine:
                break
            time.sleep(PARK_POLL_SECONDS)
        self._ack("resumed", None)
        self._answered, self._now = mine, None

    def _is_asked(self):
        now = time.monotonic()
        if not self._dir or (self._looked_at is not None and now - self._looked_at < POLL_SECONDS):
            return False
        self._looked_at = now
        order = self._read()
        if not order or order.get("state") != "save" or order.get("drain_id") == self._answered:
            return False
        self._now = order
        return True

    def _read(self):
        try:
            with open(os.path.join(self._dir, "drain.json"), encoding="utf-8") as file:
                order = json.load(file)
            return order if isinstance(order, dict) else None
        except (OSError, ValueError):
            return None  # Nothing is asked.

    def _ack(self, phase, step, **more):
        drain_id = (self._now or {}).get("drain_id")
        if self._dir and drain_id:
            step = step if step is None else int(step)  # Frameworks count in types of their own.
            self._write("ack", dict(more, drain_id=drain_id, phase=phase, step=step))

    def _write(self, kind, content):
        name = os.path.join(self._dir, "%s.%d.json" % (kind, self._rank))
        try:
            with open(name + ".new", "w", encoding="utf-8") as file:
                json.dump(dict(content, version=1, rank=self._rank), file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(name + ".new", name)
        except OSError as error:  # The directory is gone: training matters more.
            print("sluice: could not write %s: %s" % (name, error), flush=True)


def torch_agree(device=None, group=None):
    """For torch.distributed: a MAX over all ranks of four bytes. With NCCL give the rank's device."""
    import torch
    import torch.distributed as dist

    def agree(asked):
        flag = torch.tensor([int(asked)], dtype=torch.int32, device=device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=group)
        return bool(flag.item())

    return agree


def jax_agree():
    """For jax.distributed: the same over all processes."""
    import numpy
    from jax.experimental import multihost_utils

    def agree(asked):
        return bool(multihost_utils.process_allgather(numpy.array(int(asked))).max())

    return agree
