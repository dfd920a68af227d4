# SPDX-License-Identifier: MIT
"""accelerate, transformers and Lightning on two ranks, with the lines that README.md gives: the gradients of both."""
import importlib.util
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

COMMON = """
import sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, isomer_shmem
torch.manual_seed(0)
inputs, targets = torch.randn(32, 8), torch.randn(32, 1)
layer = torch.nn.Linear(8, 1)

def check(weight):  # one step of SGD over all samples, by hand
    reference = torch.nn.Linear(8, 1)
    reference.load_state_dict(start)
    (reference(inputs) - targets).square().mean().backward()
    expected = start["weight"] - 0.1 * reference.weight.grad
    torch.testing.assert_close(weight.detach().cpu(), expected)
    assert dist.get_backend() == "isomer" and dist.get_world_size() == 2, dist.get_backend()
    print("works", flush=True)

start = {name: value.clone() for name, value in layer.state_dict().items()}
"""
ACCELERATE = COMMON + """
dist.init_process_group("isomer")
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=16)
model, optimizer, data = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), 0.1), data)
for x, y in data:
    accelerator.backward((model(x) - y).square().mean())
    optimizer.step()
check(accelerator.unwrap_model(model).weight)
"""
TRANSFORMERS = COMMON + """
dist.init_process_group("isomer")
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = layer
    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean()}
settings = TrainingArguments(sys.argv[1], use_cpu=True, per_device_train_batch_size=16, num_train_epochs=1, report_to=[],
                             save_strategy="no", logging_strategy="no", max_grad_norm=0, disable_tqdm=True,
                             lr_scheduler_type="constant")
data = [{"x": x, "labels": y} for x, y in zip(inputs, targets)]
trainer = Trainer(Model(), settings, train_dataset=data,
                  optimizers=(torch.optim.SGD(layer.parameters(), 0.1), None))
trainer.train()
check(layer.weight)
"""
LIGHTNING = COMMON + """
import lightning
from lightning.pytorch.strategies import DDPStrategy
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = layer
    def training_step(self, batch, index):
        return (self.layer(batch[0]) - batch[1]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=16)
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="isomer"),
                            max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), data)
check(layer.weight)
"""


@pytest.mark.parametrize("module, program, starts_ranks",
                         [("accelerate", ACCELERATE, False), ("transformers", TRANSFORMERS, False),
                          ("lightning", LIGHTNING, True)])
def test_one_step(module, program, starts_ranks, tmp_path):
    for needed in (module, "accelerate") if module == "transformers" else (module,):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    file = tmp_path / "program.py"
    file.write_text(program)
    launcher = [] if starts_ranks else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    done = subprocess.run([sys.executable, *launcher, str(file), str(tmp_path / "out")], capture_output=True, text=True,
                          timeout=300, cwd=tmp_path, env={**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0 and done.stdout.count("works") == 2, done.stdout + done.stderr
