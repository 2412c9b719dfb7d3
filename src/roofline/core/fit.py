"""The fitted roof: the time to expect from a well-tuned kernel, not the least time that physics allows.

The datasheet roof promises max(F / peak, B / bandwidth). Real kernels reach a part of each, and pay a fixed time:

    t = max(F / (η · peak), B / (β · bandwidth)) + τ

For a GEMM of M × N × K the shape explains most of the rest, so a few more parameters stand beside the three:

    t = τ + min over tiles and splits of [ ‖compute, L2, DRAM‖₃ + κ · (waves − 1) + (σ if split) ]

- Tiles: the output is cut into tiles of a few sizes, which S multiprocessors take in waves = ⌈tiles · splits / S⌉,
  each as long as a full one. Compute = waves · 2 · tile · (K / splits) · S / (η · peak). κ is the part of a tile
  (pipeline fill, epilogue) that the next one doesn't hide.
- Split-K: where tiles are fewer than multiprocessors, K is split, at the price of a reduction, σ.
- Overlap: engines and memory work at the same time but get in each other's way near the ridge. ‖·‖₃ is the cubic
  mean (a³ + b³ + c³)^⅓: the larger one away from the ridge, 26 % more on it.
- Throttle: long compute-bound kernels meet the power limit. θ is the slow-down of kernels well beyond 1 ms.
- L2: tiles read (rows + columns) · K operands from L2, which has λ times DRAM's bandwidth; operands that are still
  in L2 from their last use don't come from DRAM.

A parameter that a device's data don't show is absent. The data, the fit and its errors: docs/fitted-roofs.md.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import roof_time
from roofline.core.work import Work
from roofline.errors import MachineError

Covers = Literal["gemm", "quantised_linear", "engine_layer"]

# Rows × columns of the output that one multiprocessor computes at a time, as GEMM libraries commonly ship them.
TILES = ((128, 256), (256, 128), (128, 128), (64, 128), (64, 64))
SPLITS = (1, 2, 4, 8, 16)
# Clocks follow power within about this time; shorter kernels run at the clock that the one before left them.
_THROTTLE_S = 1e-3
_ACCUMULATOR_BYTES = 4


class FittedRoof(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one device and precision, what they were fitted to, and how far off they are.

    Attributes:
        precision: Of the operands.
        compute_fraction: η, share of the dense datasheet peak that a full wave reaches.
        bandwidth_fraction: β, share of the datasheet's DRAM bandwidth that a stream reaches.
        latency_s: τ, time of the smallest kernel, back to back in a CUDA graph: no launch from the host.
        wave_s: κ, time that each further wave of tiles doesn't hide.
        split_s: σ, time that a reduction over split K adds.
        throttle_fraction: θ, how much longer compute takes once power limits the clock.
        l2_speedup: λ, bandwidth of L2 in units of DRAM's by datasheet; None where the data don't show it.
        l2_share: ρ, share of L2 that holds what comes back to it; None where the data don't show it.
        element_bytes: Bytes of one operand element, scales of blocks included.
        covers: What was timed. "gemm" is the kernel alone. "quantised_linear" first quantises BF16 activations: time
            and traffic include it. "engine_layer" is a layer of a TensorRT engine by its own profiler, which adds
            several µs.
        samples: Measurements that the parameters were fitted to.
        held_out: Measurements of other shapes that the errors were found on.
        median_error_fraction: Median of |predicted / measured − 1| over the shapes held out.
        p90_error_fraction: Its 90th percentile.
        bias_fraction: Median of predicted / measured − 1.
        low_ratio: 10th percentile of measured / predicted.
        high_ratio: 90th percentile of measured / predicted.
        source: Where the measurements are from: package, frameworks and versions.
        read_on: Date of the fit, ISO 8601.
    """

    precision: Precision
    compute_fraction: float
    bandwidth_fraction: float
    latency_s: float
    wave_s: float = 0.0
    split_s: float = 0.0
    throttle_fraction: float = 0.0
    l2_speedup: float | None = None
    l2_share: float | None = None
    element_bytes: float = 2.0
    covers: Covers = "gemm"
    samples: int = 0
    held_out: int = 0
    median_error_fraction: float = 0.0
    p90_error_fraction: float = 0.0
    bias_fraction: float = 0.0
    low_ratio: float = 1.0
    high_ratio: float = 1.0
    source: str = ""
    read_on: str = ""


def gemm_time(
    m: int, n: int, k: int, *, fit: FittedRoof, machine: Machine, batch: int = 1, l2_hit_fraction: float = 0.0
) -> float:
    """Time to expect from one GEMM, s: the formula at the head of this file.

    Never less than the datasheet roof of the bytes that come from DRAM. Grows with m, n and k: in steps of a tile
    with m and n, continuously with k.

    Args:
        m: Rows of the output (tokens).
        n: Columns of the output (output features).
        k: Length of the sums (input features).
        fit: Parameters for this machine and the operands' precision.
        machine: Whose datasheet peaks the parameters are shares of.
        batch: Independent GEMMs of this shape in one kernel.
        l2_hit_fraction: Share of operand and output bytes that needn't come from DRAM, see `l2_hit_fraction`.

    Raises:
        MachineError: The machine lacks the peak, the bandwidth or the number of multiprocessors.
    """
    return min(gemm_candidates(m, n, k, fit=fit, machine=machine, batch=batch, l2_hit_fraction=l2_hit_fraction))


def gemm_candidates(
    m: int, n: int, k: int, *, fit: FittedRoof, machine: Machine, batch: int = 1, l2_hit_fraction: float = 0.0
) -> Iterator[float]:
    """Times of a GEMM under every tile and split of K, s; the library is taken to choose the shortest.

    Plain arithmetic, so that the fit can run it on whole arrays of shapes.
    """
    processors = _multiprocessors(machine)
    rate = fit.compute_fraction * machine.matrix_peak(fit.precision).value / processors
    memory_s = _memory_s(gemm_bytes(m, n, k, fit) * batch, l2_hit_fraction, fit, machine)
    fixed_s = fit.latency_s + _quantise_s(m * batch, k, fit, machine)
    for rows, columns in TILES:
        tiles = -(-m // rows) * -(-n // columns) * batch
        for splits in SPLITS:
            waves = -(-tiles * splits // processors)
            compute_s = _throttled(waves * (2 * rows * columns * k / splits) / rate, fit)
            partial_bytes = 2 * _ACCUMULATOR_BYTES * m * n * batch * splits if splits > 1 else 0
            l2_bytes = tiles * (rows + columns) * k * fit.element_bytes + partial_bytes
            busy_s = _overlapped(compute_s, _l2_s(l2_bytes, fit, machine), memory_s)
            yield fixed_s + busy_s + fit.wave_s * (waves - 1) + (fit.split_s if splits > 1 else 0.0)


def gemm_bytes(m: int, n: int, k: int, fit: FittedRoof) -> float:
    """Bytes of a GEMM's operands and its output once each; the output has two bytes per element (BF16, FP16)."""
    return fit.element_bytes * (m * k + n * k) + 2 * m * n


def l2_hit_fraction(working_set_bytes: float, *, fit: FittedRoof, machine: Machine) -> float:
    """Share of bytes that are still in L2 when they are used again, 0 to 1.

    All of them while the working set fits into ρ · L2, none from twice that on, linear between.

    Args:
        working_set_bytes: Bytes that the program touches from one use to the next.
        fit: Parameters; without ρ nothing stays.
        machine: Whose L2 it is.
    """
    if fit.l2_share is None or not machine.last_level_cache_bytes:
        return 0.0
    return min(1.0, max(0.0, 2 - working_set_bytes / (fit.l2_share * machine.last_level_cache_bytes)))


def op_time(work: Work, *, fit: FittedRoof, machine: Machine) -> float:
    """Time to expect from one op of known work but unknown shape, s: τ + ‖F / (η · peak), V / vector, B / (β · BW)‖₃.

    No tiles, waves or splits: an op that fills the machine. Network bytes are not counted. The vector rate is the
    datasheet's, nobody fitted it; an unknown one doesn't bind.

    Raises:
        MachineError: A precision of the work has no rate on this machine.
    """
    roof = roof_time(work, machine)
    memory_s = roof.memory_s / fit.bandwidth_fraction
    return fit.latency_s + _overlapped(_throttled(roof.matrix_s / fit.compute_fraction, fit), roof.vector_s, memory_s)


def _multiprocessors(machine: Machine) -> int:
    if not machine.multiprocessors:
        raise MachineError(f'"{machine.name}" has no known number of multiprocessors', "give one in the machine file")
    return machine.multiprocessors


def _overlapped(compute_s: float, other_s: float, memory_s: float) -> float:
    cubes = compute_s * compute_s * compute_s + other_s * other_s * other_s + memory_s * memory_s * memory_s
    total: float = cubes ** (1 / 3)
    return total


def _throttled(compute_s: float, fit: FittedRoof) -> float:
    return compute_s * (1 + fit.throttle_fraction * compute_s / (compute_s + _THROTTLE_S))


def _l2_s(moved: float, fit: FittedRoof, machine: Machine) -> float:
    return moved / (fit.l2_speedup * machine.dram.value) if fit.l2_speedup else 0.0


def _memory_s(moved: float, hit: float, fit: FittedRoof, machine: Machine) -> float:
    """Time of bytes of which a share comes from L2; without λ all of them are as slow as DRAM."""
    if not fit.l2_speedup:
        return moved / (fit.bandwidth_fraction * machine.dram.value)
    return moved * (1 - hit) / (fit.bandwidth_fraction * machine.dram.value) + _l2_s(moved * hit, fit, machine)


def _quantise_s(m: int, k: int, fit: FittedRoof, machine: Machine) -> float:
    """Time of reading BF16 activations and writing them narrow, before the GEMM starts."""
    if fit.covers != "quantised_linear":
        return 0.0
    return m * k * (2 + fit.element_bytes) / (fit.bandwidth_fraction * machine.dram.value)
