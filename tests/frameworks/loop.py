"""What the trainers of these tests have in common: steps, a log, and when to save."""
import json
import os
import signal
import time

STEP_SECONDS = 0.1
STEPS_PER_SAVE = 25


class Log:
    """One JSON object a line, appended; several starts share it."""

    def __init__(self, path):
        self.path = path

    def write(self, event, step):
        line = json.dumps({"event": event, "step": step}) + "\n"
        with open(self.path, "a") as file:
            file.write(line)


def stop_on_sigterm():
    """An object whose `is_set` says that SIGTERM came. Nothing is done in the handler itself."""

    class Flag:
        is_set = False

    def handle(_signal, _frame):
        Flag.is_set = True

    signal.signal(signal.SIGTERM, handle)
    return Flag


def train(log, start, save, stop=None):
    """Trains from step `start` (None: from nothing) until it is told to stop; saves then too."""
    log.write("started", start)
    step = start or 0
    while True:
        time.sleep(STEP_SECONDS)
        step += 1
        is_over = stop is not None and stop.is_set
        if is_over or step % STEPS_PER_SAVE == 0:
            save(step)
            log.write("saved", step)
        if is_over:
            return


def attempt():
    """Number of this start, told by `sluice run`."""
    return os.environ["SLUICE_WORKER"].split("/")[1]
