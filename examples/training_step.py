"""Count a whole training step: forward, loss, backward, optimizer. The model is left as it was."""

import torch

import roofline

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
images, labels = torch.randn(32, 256), torch.randint(0, 10, (32,))


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()


run = roofline.count(step)
for phase in ("forward", "backward", "optimizer"):
    ops = [op for op in run.ops if op.phase == phase]
    print(f"{phase:<10} {sum(o.executed_flops for o in ops):>12,.0f} FLOP")
assert not optimizer.state
