"""Trains with JAX and saves with Orbax: every so many steps, and on SIGTERM."""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

import loop


def main():
    directory, log = os.environ["SLUICE_CHECKPOINT_DIR"], loop.Log(sys.argv[1])
    stop = loop.stop_on_sigterm()
    options = ocp.CheckpointManagerOptions(max_to_keep=3)
    manager = ocp.CheckpointManager(directory, options=options)
    state = {"w": jnp.ones((200, 200)), "momentum": jnp.zeros((200, 200))}
    start = manager.latest_step()
    if start is not None:
        state = manager.restore(start, args=ocp.args.StandardRestore(state))
    update = jax.jit(lambda state: {"w": state["w"] * 0.99, "momentum": state["w"] + 1})
    state = update(state)

    def save(step):
        nonlocal state
        state = update(state)
        manager.save(step, args=ocp.args.StandardSave(state))
        manager.wait_until_finished()

    loop.train(log, start, save, stop)


main()
