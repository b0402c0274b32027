"""The Hugging Face Trainer on a tiny model, resumed as the usual scripts do."""
import glob
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import loop


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"input_ids": torch.arange(8), "labels": torch.tensor(index % 2)}


class Told(TrainerCallback):
    def __init__(self, log, is_resumed):
        self.log, self.is_resumed = log, is_resumed

    def on_train_begin(self, args, state, control, **kwargs):
        self.log.write("started", state.global_step if self.is_resumed else None)

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(loop.STEP_SECONDS)

    def on_save(self, args, state, control, **kwargs):
        self.log.write("saved", state.global_step)


def main():
    directory, log = os.environ["SLUICE_CHECKPOINT_DIR"], loop.Log(sys.argv[1])
    config = BertConfig(
        vocab_size=32,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    arguments = TrainingArguments(
        directory,
        max_steps=100_000,
        save_steps=loop.STEPS_PER_SAVE,
        save_total_limit=3,
        per_device_train_batch_size=4,
        report_to=[],
        disable_tqdm=True,
    )
    is_resumed = bool(glob.glob(f"{directory}/checkpoint-*[0-9]"))
    told = Told(log, is_resumed)
    trainer = Trainer(
        BertForSequenceClassification(config), arguments, train_dataset=Data(), callbacks=[told]
    )
    trainer.train(resume_from_checkpoint=is_resumed)


main()
