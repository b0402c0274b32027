"""JAX with Orbax: the vote over all hosts, a checkpoint of Orbax's own, and the parking.

    sluice run --checkpoint-dir out -- python3 clients/python/examples/jax_orbax.py

With several hosts call jax.distributed.initialize() first, and leave Orbax's own saving on SIGTERM switched off: a
second way to ask would save twice.
"""

import os
import sys

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sluice  # noqa: E402

OUT = os.path.abspath(os.environ.get("SLUICE_CHECKPOINT_DIR") or "out")


@jax.jit
def train_step(w, key):
    x = jax.random.normal(key, (256, 64))
    loss = lambda w: jnp.mean((x @ w - x.sum(1)) ** 2)  # noqa: E731
    return w - 0.01 * jax.grad(loss)(w)


def main():
    manager = ocp.CheckpointManager(OUT, options=ocp.CheckpointManagerOptions(max_to_keep=3))
    w, first = jnp.zeros(64), 0
    if manager.latest_step() is not None:
        first = manager.latest_step()
        w = manager.restore(first, args=ocp.args.StandardRestore(w))
    many = jax.process_count() > 1
    drain = sluice.Drain(agree=sluice.jax_agree() if many else None, rank=jax.process_index())

    def save(step):
        manager.save(step, args=ocp.args.StandardSave(w), force=True)
        manager.wait_until_finished()  # It saves in the background: "saved" is said when it is.

    for step in range(first + 1, 100_001):
        w = train_step(w, jax.random.key(step))
        if drain.step(step):
            try:
                save(step)
                drain.saved(step, os.path.join(OUT, str(step)))
            except Exception as error:
                drain.failed(step, error)
            drain.park()
        elif step % 1_000 == 0:
            save(step)


if __name__ == "__main__":
    main()
