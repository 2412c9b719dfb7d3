"""The measured roofline: kernels of rising intensity, from memory-bound to compute-bound.

Without a compiler, one torch op has to offer any FLOP per byte: the product of a tall matrix with a small square
one, C (M × n) = A (M × n) · B (n × n). The rows of A are read once, those of C written once, and B stays in the
nearest cache, so

    I = 2 · M · n² FLOP / (w · (2 · M · n + n²) B) ≈ n / w FLOP/B

for elements of w bytes. Below n = 2 the memory kernels themselves serve (a sum: one FLOP per element read).
What falls below the roof near the ridge point is the library's loss on thin products, and a user's programs have
the same loss.
"""

from collections.abc import Iterator, Mapping

import torch

from roofline.clock.gemm import DTYPES, exact_products
from roofline.clock.sustained import Sustained, sustain
from roofline.clock.timers import Clock, Progress, Step, Timer
from roofline.core.precision import Precision
from roofline.machines.calibration import SweepPoint

WIDTHS = (2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)
# FLOP per byte that the program names, of the fp32 memory kernels (`memory.stream_rates`).
STREAM_INTENSITY = {"torch.add with alpha": 2 / 12, "torch.mv": 2 / 4, "torch.sum": 1 / 4, "Tensor.mul_": 1 / 8}
_LONGEST_CALL_S = 0.25


def intensity_sweep(
    precision: Precision,
    buffer: torch.Tensor,
    timer: Timer,
    *,
    peak: float,
    seconds: float,
    clock: Clock,
    window_s: float = 10e-3,
    progress: Progress | None = None,
) -> tuple[SweepPoint, ...]:
    """Rates of tall products of rising width, low intensity first.

    The bytes of a call are those of the buffer, several times the last-level cache. Where that many would take longer
    than a quarter of a second at `peak`, a call has fewer rows: compute binds there by far, in cache or not.

    Args:
        precision: Of the elements.
        buffer: Where the tall operands go; it is overwritten.
        timer: Of its device.
        peak: Matrix ceiling in `precision`, FLOP/s.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
        window_s: Least length of a window, s.
        progress: Told in words what is going on.
    """
    points = []
    with exact_products(precision):
        for what, nbytes, flops, step in _kernels(precision, buffer, peak):
            if progress:
                progress(f"sweep: {flops / nbytes:.3g} FLOP/B")
            share_s = seconds / len(WIDTHS)
            rate = sustain(what, flops, step, timer, seconds=share_s, clock=clock, window_s=window_s)
            points.append(SweepPoint(what, flops / nbytes, rate.best))
    return tuple(points)


def stream_points(streams: Mapping[str, Sustained]) -> tuple[SweepPoint, ...]:
    """The memory kernels as points: they do little arithmetic, but some."""
    points = [
        SweepPoint(s.what, STREAM_INTENSITY[s.what], s.best * STREAM_INTENSITY[s.what])
        for s in streams.values()
        if s.what in STREAM_INTENSITY
    ]
    return tuple(sorted(points, key=lambda p: p.intensity_flops_per_byte))


def _kernels(precision: Precision, buffer: torch.Tensor, peak: float) -> Iterator[tuple[str, float, float, Step]]:
    """Description, bytes, FLOP and step of each product; all share the buffer."""
    dtype, device = DTYPES[precision], buffer.device
    random = torch.Generator(device=device).manual_seed(0)
    source, target = buffer.flatten().view(dtype).chunk(2)
    half = len(target)
    block = torch.randn(min(half, 2**20), device=device, generator=random).to(dtype)
    for part in source.split(len(block)):
        part.copy_(block[: len(part)])
    target.zero_()
    for n in WIDTHS:
        rows = min(half // n, int(peak * _LONGEST_CALL_S / (2 * n * n)))
        if rows < n:
            return
        a, c = source[: rows * n].view(rows, n), target[: rows * n].view(rows, n)
        b = torch.randn((n, n), device=device, generator=random).to(dtype)
        nbytes = float(dtype.itemsize * (2 * rows * n + n * n))
        yield f"torch.mm {rows}x{n} by {n}x{n}", nbytes, 2.0 * rows * n * n, _product(a, b, c)


def _product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Step:
    return lambda: torch.mm(a, b, out=c)
