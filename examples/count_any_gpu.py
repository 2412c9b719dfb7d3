"""What would this model's roof be on three GPUs? Needs no GPU."""

import torch

import roofline

model = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dtype=torch.bfloat16)
tokens = torch.randn(8, 256, 512, dtype=torch.bfloat16)

for name in ("a10", "a100-sxm-80gb", "h100-sxm"):
    run = roofline.count(model, tokens, machine=name)
    assert run.verdict is not None
    print(run.verdict.sentence)
