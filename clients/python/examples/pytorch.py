"""PyTorch, one process or many: every rank calls step() after each step, the vote makes them save at the same one.

    sluice run --checkpoint-dir out -- torchrun --nproc-per-node 2 clients/python/examples/pytorch.py
"""

import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sluice  # noqa: E402

OUT = os.environ.get("SLUICE_CHECKPOINT_DIR") or "out"


def save(model, optimizer, step):
    """checkpoint-N.pt under another name first: Sluice and the resume below take only what is complete."""
    path = os.path.join(OUT, "checkpoint-%d.pt" % step)
    if int(os.environ.get("RANK", "0")) == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        with open(path + ".tmp", "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".tmp", path)
    if dist.is_initialized():
        dist.barrier()  # Nobody says "saved" before it is.
    return path


def resume(model, optimizer):
    names = [n for n in os.listdir(OUT) if n.startswith("checkpoint-") and n.endswith(".pt")]
    steps = sorted(int(n[len("checkpoint-"):-len(".pt")]) for n in names)
    if not steps:
        return 0
    state = torch.load(os.path.join(OUT, "checkpoint-%d.pt" % steps[-1]), weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    many = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if many:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 1).to(device)
    if many:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    os.makedirs(OUT, exist_ok=True)
    first = resume(model, optimizer)
    drain = sluice.Drain(agree=sluice.torch_agree(device) if many else None)
    for step in range(first + 1, 100_001):
        x = torch.randn(256, 64, device=device)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if drain.step(step):
            try:
                drain.saved(step, save(model, optimizer, step))
            except Exception as error:
                drain.failed(step, error)
            drain.park()
        elif step % 1_000 == 0:
            save(model, optimizer, step)


if __name__ == "__main__":
    main()
