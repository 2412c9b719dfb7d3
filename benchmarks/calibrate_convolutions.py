"""Does the FP32 GEMM ceiling of a CPU hold for convolutions? Rates per core, by processor time.

    python benchmarks/calibrate_convolutions.py

One thread, and its processor time rather than the wall's: other programs on the machine then hardly matter.
FLOP = 2 · B · C_out · H_out · W_out · C_in · R · S. ResNet-50 has 8.18 GFLOP per image of 224 × 224 in its
convolutions and its last layer; its time includes normalisation, activations and sums.
"""

import time
from collections.abc import Callable

import torch
import torchvision

from roofline.core.units import percent, show

BATCH = 8
# Channels in, out, kernel, stride, height: the kinds of layer of ResNet-50.
LAYERS = [
    (3, 64, 7, 2, 224),
    (64, 64, 3, 1, 56),
    (128, 128, 3, 1, 28),
    (256, 256, 3, 1, 14),
    (512, 512, 3, 1, 7),
    (256, 64, 1, 1, 56),
    (1024, 256, 1, 1, 14),
]


def main() -> None:
    torch.set_num_threads(1)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    gemm = rate(lambda: a @ b, 2 * 1024**3)
    print(f"GEMM 1024x1024x1024: {show(gemm, 'FLOP/s')} per core")
    for layer in LAYERS:
        rates = [convolution(*layer, layout) for layout in (torch.contiguous_format, torch.channels_last)]
        shown = ", ".join(
            f"{name} {show(r, 'FLOP/s')} ({percent(r / gemm)} of GEMM)"
            for name, r in zip(("channels first", "channels last"), rates, strict=True)
        )
        print("convolution {}->{}, {}x{}, stride {}, {}: {}".format(*layer[:3], *layer[2:], shown))
    model, x = torchvision.models.resnet50().eval(), torch.randn(BATCH, 3, 224, 224)
    whole = rate(lambda: model(x), BATCH * 8.18e9)
    print(f"ResNet-50: {show(whole, 'FLOP/s')} per core ({percent(whole / gemm)} of GEMM)")


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int, height: int, layout: torch.memory_format
) -> float:
    layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False).to(memory_format=layout)
    x = torch.randn(BATCH, inputs, height, height).to(memory_format=layout)
    y = layer(x)
    return rate(lambda: layer(x), 2 * y.numel() * inputs * kernel**2)


def rate(step: Callable[[], object], flops: float, tries: int = 5) -> float:
    """Best of some calls, FLOP per second of this thread's processor time."""
    step()
    fastest_s = float("inf")
    for _ in range(tries):
        begin = time.thread_time()
        step()
        fastest_s = min(fastest_s, time.thread_time() - begin)
    return flops / fastest_s


if __name__ == "__main__":
    with torch.inference_mode():
        main()
