"""Sustained matrix-multiply rate per precision: what the matrix engine really keeps up."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from roofline.clock.sustained import Sustained, sustain
from roofline.clock.timers import Clock, Step, Timer
from roofline.core.precision import Precision

DTYPES = {
    Precision.FP64: torch.float64,
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
    Precision.INT8: torch.int8,
    Precision.FP8: torch.float8_e4m3fn,
}
Shape = tuple[int, int, int]
# Shorter calls are tried more often, as one interruption hides their rate.
_SHORT_S = 5e-3
# On busy cores a small product takes milliseconds: a search that ends there finds a hundredth of the rate.
_LEAST_SEARCH_FLOPS = 2 * 512**3


def gemm_rate(
    precision: Precision,
    device: str,
    timer: Timer,
    *,
    seconds: float,
    clock: Clock,
    largest: int = 16384,
    window_s: float = 10e-3,
    only: Shape | None = None,
) -> Sustained:
    """Best sustained rate of C = A · B over several shapes: 2 · M · N · K FLOP per call.

    Shapes grow from M = N = K = 64 (n = 64 · 2^i and 96 · 2^i, each also as M = N = 2n, K = n / 2) until one call
    takes a tenth of `seconds`: on a CPU fp16 can be a hundred times slower than bf16, fp8 ten thousand times. The
    three fastest are then run in windows.
    Operands are random (zeros draw less power and clock higher) and stay in place.

    Args:
        precision: Of the operands. fp32 is true fp32; tf32 is fp32 data on a matrix engine that rounds it.
        device: Where.
        timer: Of that device.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
        largest: Largest n.
        window_s: Least length of a window, s.
        only: This shape (M, N, K) instead of a search.

    Raises:
        RuntimeError: torch has no such product on this device.
    """
    with exact_products(precision):
        finals = []
        for shape in [only] if only else _fastest(precision, device, timer, seconds, clock, largest):
            step = product(precision, device, shape)
            name, flops = "x".join(map(str, shape)), 2.0 * shape[0] * shape[1] * shape[2]
            share_s = seconds if only else seconds / 6
            finals.append(sustain(name, flops, step, timer, seconds=share_s, clock=clock, window_s=window_s))
    return max(finals, key=lambda f: f.best)


def product(precision: Precision, device: str, shape: Shape) -> Step:
    """Give a step that computes C = A · B for shape (M, N, K), buffers reused, random data.

    Its own generator: the program's random state is left alone.
    """
    m, n, k = shape
    dtype = DTYPES[precision]
    random = torch.Generator(device=device).manual_seed(0)
    if precision == Precision.INT8:
        a = torch.randint(-128, 128, (m, k), dtype=dtype, device=device, generator=random)
        b = torch.randint(-128, 128, (n, k), dtype=dtype, device=device, generator=random).t()
        out = torch.empty((m, n), dtype=torch.int32, device=device)
        return lambda: torch._int_mm(a, b, out=out)
    if precision == Precision.FP8 and torch.version.hip and _is_mi300(device):
        dtype = torch.float8_e4m3fnuz
    a = torch.randn((m, k), device=device, generator=random).to(dtype)
    b = torch.randn((n, k), device=device, generator=random).to(dtype).t()
    if precision == Precision.FP8:
        one, wide = torch.ones((), device=device), torch.empty((m, n), dtype=torch.bfloat16, device=device)
        # Hopper's stated rate is that of its fast accumulation, which keeps fewer bits.
        fast = a.is_cuda and not torch.version.hip
        return lambda: torch._scaled_mm(
            a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast, out=wide
        )
    out = torch.empty((m, n), dtype=dtype, device=device)
    return lambda: torch.mm(a, b, out=out)


def _is_mi300(device: str) -> bool:
    """AMD's MI300 family has an 8-bit float of its own, without minus zero."""
    return torch.cuda.get_device_properties(device).gcnArchName.startswith("gfx94")


def shape_of(found: Sustained) -> Shape:
    """The shape (M, N, K) of a rate from `gemm_rate`."""
    m, n, k = map(int, found.what.split("x"))
    return m, n, k


def _fastest(
    precision: Precision, device: str, timer: Timer, seconds: float, clock: Clock, largest: int
) -> list[Shape]:
    """The three fastest of the candidates, each from the best of a few calls."""
    start = clock()
    found: list[tuple[float, Shape]] = []
    last_s = last_flops = 0.0
    for shape in _shapes(largest):
        flops = 2.0 * shape[0] * shape[1] * shape[2]
        # From the last shape, not from the best rate: the time of small ones is that of the call, and tells nothing.
        expected_s = last_s * flops / last_flops if last_flops else 0.0
        late = last_flops >= _LEAST_SEARCH_FLOPS and clock() - start + 4 * expected_s > seconds / 2
        if expected_s > seconds / 10 or late:
            break
        try:
            step = product(precision, device, shape)
            step()
        except torch.OutOfMemoryError:
            break
        took_s = min(timer(step, 1) for _ in range(5 if expected_s < _SHORT_S else 2))
        last_s, last_flops = took_s, flops
        found.append((flops / took_s if took_s > 0 else 0.0, shape))
    return [shape for _, shape in sorted(found, reverse=True)[:3]]


def _shapes(largest: int) -> Iterator[Shape]:
    power = 64
    while power <= largest:
        # Leading dimensions that are no power of two spare a CPU's caches conflicts.
        for n in (power, power * 3 // 2):
            yield n, n, n
            yield 2 * n, 2 * n, n // 2
        power *= 2


@contextmanager
def exact_products(precision: Precision) -> Iterator[None]:
    """Make fp32 products true fp32, or TF32 for that `precision`, and put the setting back."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == Precision.TF32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
