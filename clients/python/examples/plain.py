"""A trainer without a framework: one number learned, a checkpoint every so many steps, and one whenever Sluice asks.

    sluice run --checkpoint-dir out --checkpoint-format rename -- python3 clients/python/examples/plain.py

Checkpoints are files out/step-N.ckpt, written under another name and renamed. It resumes from the newest.
"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sluice  # noqa: E402


def newest(directory):
    names = [n for n in os.listdir(directory) if n.startswith("step-") and n.endswith(".ckpt")]
    steps = [int(n[len("step-"):-len(".ckpt")]) for n in names]
    return max(steps, default=0)


def save(directory, step, value, save_seconds):
    path = os.path.join(directory, "step-%d.ckpt" % step)
    with open(path + ".tmp", "w") as file:
        file.write('{"step": %d, ' % step)
        file.flush()
        time.sleep(save_seconds)  # A larger model takes its time.
        file.write('"value": %r}' % value)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".tmp", path)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default=os.environ.get("SLUICE_CHECKPOINT_DIR") or "out")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    parser.add_argument("--save-seconds", type=float, default=0.2)
    parser.add_argument("--save-steps", type=int, default=100)
    args = parser.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    step, value = newest(args.dir), 0.0
    if step:
        with open(os.path.join(args.dir, "step-%d.ckpt" % step)) as file:
            value = json.load(file)["value"]
    print("pid %d starts from step %d" % (os.getpid(), step), flush=True)
    drain = sluice.Drain()
    while step < args.steps:
        time.sleep(args.step_seconds)
        value += (1.0 - value) / 100
        step += 1
        if drain.step(step):
            try:
                drain.saved(step, save(args.dir, step, value, args.save_seconds))
            except OSError as error:
                drain.failed(step, error)
            drain.park()
            print("goes on after step %d" % step, flush=True)
        elif step % args.save_steps == 0:
            save(args.dir, step, value, args.save_seconds)


if __name__ == "__main__":
    main()
