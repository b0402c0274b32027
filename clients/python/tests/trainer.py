"""A trainer for tests, which behaves as it is told: well, or in one of the ways in which trainers do not."""

import argparse
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sluice  # noqa: E402


def newest(directory):
    names = [n for n in os.listdir(directory) if n.startswith("step-") and n.endswith(".ckpt")]
    return max([int(n[len("step-"):-len(".ckpt")]) for n in names], default=0)


def save(args, step):
    path = os.path.join(args.dir, "step-%d.ckpt" % step)
    with open(path + ".tmp", "wb") as file:
        file.write(b"x" * 1_000)
        file.flush()
        time.sleep(args.save_seconds)
        if args.sparse_bytes:
            file.truncate(args.sparse_bytes)
        os.fsync(file.fileno())
    os.rename(path + ".tmp", path)
    return path


def launch(args):
    """What torchrun is to its ranks: it does not catch the signal, they do."""
    children = []
    for rank in range(2):
        pid = os.fork()
        if pid == 0:
            os.environ["LOCAL_RANK"] = os.environ["RANK"] = str(rank)
            os.execv(sys.executable, [sys.executable, __file__, "--dir", args.dir, "--rank-of-launcher",
                                      "--save-steps", str(args.save_steps), "--log", args.log])
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def log(args, text):
    with open(args.log, "a") as file:
        file.write("%s pid=%d rank=%s\n" % (text, os.getpid(), os.environ.get("RANK", "0")))


def handle_usr1(args, wanted):
    signal.signal(signal.SIGUSR1, lambda *_: (wanted.append(1), log(args, "signalled")))
    if os.fork() == 0:
        # A data loader: it has inherited the handler and not the work.
        while os.getppid() != 1:
            time.sleep(0.5)
        os._exit(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default=os.environ.get("SLUICE_CHECKPOINT_DIR"))
    parser.add_argument("--log", default="")
    parser.add_argument("--save-steps", type=int, default=1_000_000)
    parser.add_argument("--save-seconds", type=float, default=0.2)
    parser.add_argument("--sparse-bytes", type=int, default=0)
    parser.add_argument("--client", choices=["no", "good", "lies", "deaf", "fails", "is-done"], default="no")
    parser.add_argument("--save-when", default="", help="save once when this file is there")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--launcher", action="store_true")
    parser.add_argument("--rank-of-launcher", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    if args.launcher:
        return launch(args)
    if args.ignore_term:
        signal.signal(signal.SIGTERM, lambda *_: log(args, "ignores SIGTERM"))
    step, wanted = newest(args.dir), []
    if args.rank_of_launcher:
        handle_usr1(args, wanted)
    drain = sluice.Drain() if args.client != "no" else None
    log(args, "started at %d" % step)
    while True:
        time.sleep(0.1)
        step += 1
        if drain and args.client != "deaf" and drain.step(step):
            if args.client == "is-done":
                return log(args, "is done after %d" % step)
            if args.client == "fails":
                drain.failed(step, OSError("disk full"))
            else:
                drain.saved(step, "" if args.client == "lies" else save(args, step))
            log(args, "parks after %d" % step)
            drain.park()
            log(args, "goes on after %d" % step)
        elif wanted:
            wanted.clear()
            save(args, step)
        elif step % args.save_steps == 0:
            save(args, step)
        elif args.save_when and os.path.exists(args.save_when):
            args.save_when = ""
            save(args, step)


if __name__ == "__main__":
    main()
