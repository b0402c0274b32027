"""Hugging Face Trainer: a callback that asks the Trainer for its own checkpoint and parks once that is written.

    trainer = Trainer(..., callbacks=[SluiceCallback()])
    trainer.train(resume_from_checkpoint=bool(glob.glob("out/checkpoint-*")))

The checkpoint is the Trainer's own checkpoint-N directory, so it resumes as it always does. All ranks get the callback.
"""

import os
import sys

from transformers import TrainerCallback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sluice  # noqa: E402


class SluiceCallback(TrainerCallback):
    def __init__(self):
        self.drain = None
        self.is_asked = False

    def on_train_begin(self, args, state, control, **kwargs):
        agree = sluice.torch_agree(args.device) if args.world_size > 1 else None
        self.drain = sluice.Drain(agree=agree, rank=args.process_index)

    def on_step_end(self, args, state, control, **kwargs):
        if self.drain.step(state.global_step):
            self.is_asked = True
            control.should_save = True
        return control

    def on_save(self, args, state, control, **kwargs):
        # Called when everything of the checkpoint has been written.
        if self.is_asked:
            self.is_asked = False
            path = os.path.join(args.output_dir, "checkpoint-%d" % state.global_step)
            self.drain.saved(state.global_step, path)
            self.drain.park()
        return control


def main():
    """Trains a very small model on made-up data, to be seen at work."""
    import glob

    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    out = os.environ.get("SLUICE_CHECKPOINT_DIR") or "out"
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=512))
    tokens = torch.randint(0, 512, (4_096, 64))
    data = [{"input_ids": row, "labels": row} for row in tokens]
    arguments = TrainingArguments(out, max_steps=100_000, save_steps=500, report_to=[])
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[SluiceCallback()])
    trainer.train(resume_from_checkpoint=bool(glob.glob(os.path.join(out, "checkpoint-*"))))


if __name__ == "__main__":
    main()
