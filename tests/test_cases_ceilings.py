"""The cases of the field about ceilings and timing, B64 to B81: where each is tested, and those that live here.

B80 to B82 as far as counters are read from a file belong to the importers of counter exports; what their numbers mean
is tested here on a Run.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from roofline.analysis import judge
from roofline.analysis.findings import reason_above
from roofline.clock.gemm import product
from roofline.clock.memory import filled, stream_rates
from roofline.clock.sweep import STREAM_INTENSITY
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Bytes, Flops, OpBytes, OpRecord, Run, Timing

HERE = Path(__file__).parent
CASES = HERE.parent / "../shared/cases.md"
LIVES = {
    "B64": ("test_machines_figures.py", "test_420_tflops_on_an_h200_are_42_percent"),
    "B66": ("test_machines.py", "test_an_unknown_gpu_is_an_error_not_an_a100"),
    "B67": ("test_machines.py", "test_names_that_public_tables_confuse_are_eleven_machines_or_ambiguous"),
    "B68": ("test_machines_figures.py", "test_16_bit_peaks_are_those_with_fp32_accumulation"),
    "B70": ("test_analysis.py", "test_a_clock_above_the_datasheet_is_a_finding_not_an_error"),
    "B71": ("test_analysis.py", "test_compute_far_above_its_roof_points_at_the_timing"),
    "B72": ("test_cases_ceilings.py", "test_a_sum_of_what_the_cache_holds_is_named_so_and_not_an_mbu_above_one"),
    "B73": ("test_analysis.py", "test_an_idle_device_is_overhead_bound"),
    "B74": ("test_clock_stopwatch.py", "test_compile_time_is_the_first_call_above_the_median_and_in_no_sample"),
    "B75": ("test_cases_ceilings.py", "test_empirical_roofs_multiply_random_bits"),
    "B79": ("test_cases_ceilings.py", "test_memory_rates_count_named_bytes_and_say_so"),
    "B81": ("test_cases_ceilings.py", "test_a_device_that_is_busy_all_the_time_may_still_be_far_from_its_peak"),
    "B80": ("test_cases_ceilings.py", "test_a_padded_tile_is_executed_work_and_not_needed_work"),
}


def test_every_case_of_ceilings_and_timing_is_tested_where_the_table_says() -> None:
    for case, (file, name) in LIVES.items():
        tree = ast.parse((HERE / file).read_text())
        assert name in {f.name for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}, case


def test_the_table_leaves_out_no_case_of_the_list() -> None:
    if not CASES.exists():
        pytest.skip("the list of cases is not here")
    listed = set(re.findall(r"^- \*\*(B\d+)\*\*", CASES.read_text(), re.MULTILINE))
    assert {case for case in listed if 64 <= int(case[1:]) <= 81} == LIVES.keys()


def run_of(op: OpRecord, machine: Machine, seconds: float) -> Run:
    precision = {op.precision: op.executed_flops} if op.precision and op.executed_flops else {}
    return judge(
        Run(
            kind="measured",
            workload={"target": "one op"},
            machine=machine,
            flops=Flops(needed=op.needed_flops, executed=op.executed_flops, vector=0.0, by_precision=precision),
            bytes=Bytes(operator=op.bytes.operator),
            timing=Timing(median_s=seconds, samples_s=(seconds,) * 5, spread_fraction=0.0, stable=True),
            ops=(msgspec.structs.replace(op, seconds=seconds),),
        )
    )


# B72: a sum of 256 KiB runs at 68.2 GB/s from cache on a CPU whose memory gives 3.0.
def test_a_sum_of_what_the_cache_holds_is_named_so_and_not_an_mbu_above_one() -> None:
    cpu = Machine(
        key="cpu",
        name="CPU",
        kind="cpu",
        vector={Precision.FP32: Ceiling(100e9, "measured")},
        bandwidth={"dram": Ceiling(3.0e9, "measured")},
        cache_bytes={"l2": 2 * 2**20},
    )
    moved = 256 * 1024
    why = reason_above(68.2 / 3.0, Bound.MEMORY, moved, cpu)
    assert why == "its 262 kB fit into the last-level cache of 2.00 MiB"
    large = OpRecord(name="aten.sum", precision=Precision.FP32, bytes=OpBytes(operator=2 * 10**6))
    warnings = run_of(large, cpu, 2e6 / 68.2e9).warnings
    assert any("above their roof" in w and "fit into the last-level cache" in w for w in warnings)


# B75: zeros and regular patterns draw less power: 326 against 305 TFLOP/s.
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.INT8])
def test_empirical_roofs_multiply_random_bits(precision: Precision) -> None:
    a, b = operands(product(precision, "cpu", (64, 64, 64)))
    for operand in (a, b):
        # Of 4096 normal numbers in bf16, some hundreds differ; of 256 int8 values, nearly all occur.
        assert operand.unique().numel() > 200
        assert (operand < 0).float().mean().item() == pytest.approx(0.5, abs=0.05)


def operands(step: Callable[[], object]) -> tuple[torch.Tensor, torch.Tensor]:
    held = dict(zip(step.__code__.co_freevars, (c.cell_contents for c in step.__closure__ or ()), strict=True))
    return held["a"], held["b"]


# B79: STREAM's triad names 24 B per element where the bus moves 32 (4/3), its copy 16 where it moves 24 (3/2).
def test_memory_rates_count_named_bytes_and_say_so() -> None:
    elements = 6 * 4096

    def timer(step: Callable[[], object], calls: int) -> float:
        step()
        return 0.1 * calls

    ticks = iter(range(10**6))
    rates = stream_rates(filled("cpu", 4 * elements), timer, seconds=1.0, clock=lambda: float(next(ticks)))
    read_only, copied, added = elements, elements // 2, elements // 3
    assert rates["read"].best * 0.1 == pytest.approx(4 * read_only)
    assert rates["copy"].best * 0.1 == pytest.approx((4 + 4) * copied)
    assert rates["triad"].best * 0.1 == pytest.approx((4 + 4 + 4) * added)
    # 2 FLOP per 12 named bytes, not per the 16 that move.
    assert STREAM_INTENSITY["torch.add with alpha"] == pytest.approx(2 / 12)


def test_an_update_in_place_above_the_memory_ceiling_is_put_down_to_write_allocate() -> None:
    cpu = Machine(
        key="cpu",
        name="CPU",
        kind="cpu",
        bandwidth={"dram": Ceiling(12.5e9, "measured")},
        cache_bytes={"l2": 2**20},
        streams={"read": 8.5e9, "copy": 10.8e9, "triad": 12.5e9, "update": 19.3e9},
    )
    why = reason_above(1.5, Bound.MEMORY, 1e9, cpu, in_place=True)
    assert "no write-allocate" in why and "19.3 GB/s" in why and "12.5 GB/s" in why
    # Above what was measured in place, and out of place, that is no explanation.
    assert "write-allocate" not in reason_above(2.0, Bound.MEMORY, 1e9, cpu, in_place=True)
    assert "write-allocate" not in reason_above(1.5, Bound.MEMORY, 1e9, cpu)
    relu = OpRecord(name="aten.relu_", precision=Precision.FP32, bytes=OpBytes(operator=1e9))
    assert any("aten.relu_" in w and "no write-allocate" in w for w in run_of(relu, cpu, 1e9 / 18e9).warnings)
    out_of_place = msgspec.structs.replace(relu, name="aten.relu")
    assert not any("no write-allocate" in w for w in run_of(out_of_place, cpu, 1e9 / 18e9).warnings)


# B80: an 8×8×8 product in 14.8 µs did 1024 useful FLOP, 69 MFLOP/s; padded to a tile of 64 times that, 4.4 GFLOP/s.
# B82: 1×5120×6912 in fp16 needs 70 778 880 FLOP; padded to M = 64 the pipe executes 4 529 848 320.
@pytest.mark.parametrize(
    ("needed", "executed", "seconds", "useful", "piped"),
    [
        (2 * 8 * 8 * 8, 64 * 1024, 14.8e-6, 69.2e6, 4.43e9),
        (2 * 5120 * 6912, 4_529_848_320, 100e-6, 707.8e9, 45.3e12),
    ],
)
def test_a_padded_tile_is_executed_work_and_not_needed_work(
    needed: int, executed: int, seconds: float, useful: float, piped: float
) -> None:
    peak = 100e12
    gpu = Machine(
        key="x",
        name="X",
        matrix={Precision.FP16: Ceiling(peak, "given")},
        bandwidth={"dram": Ceiling(1e12, "given")},
    )
    op = OpRecord(
        name="aten.mm",
        engine="matrix",
        precision=Precision.FP16,
        needed_flops=needed,
        executed_flops=executed,
        bytes=OpBytes(operator=1000),
    )
    verdict = run_of(op, gpu, seconds).verdict
    assert verdict is not None and verdict.mfu_fraction is not None and verdict.hfu_fraction is not None
    assert verdict.mfu_fraction * peak == pytest.approx(useful, rel=2e-3)
    assert verdict.hfu_fraction * peak == pytest.approx(piped, rel=2e-3)
    assert verdict.hfu_fraction / verdict.mfu_fraction == pytest.approx(64)


# B81: a pipe that is active half of the time need not do half of the peak; MFU counts FLOP, never activity.
@pytest.mark.parametrize("busy_s", [1.0, 0.5])
def test_a_device_that_is_busy_all_the_time_may_still_be_far_from_its_peak(busy_s: float) -> None:
    gpu = Machine(
        key="x",
        name="X",
        matrix={Precision.FP16: Ceiling(100e12, "given")},
        bandwidth={"dram": Ceiling(1e12, "given")},
    )
    op = OpRecord(
        name="aten.mm",
        engine="matrix",
        precision=Precision.FP16,
        needed_flops=10e12,
        executed_flops=10e12,
        bytes=OpBytes(operator=1e9),
    )
    run = run_of(op, gpu, 1.0)
    assert run.timing is not None
    timing = msgspec.structs.replace(run.timing, busy_s=busy_s)
    ops = (msgspec.structs.replace(op, seconds=busy_s),)
    judged = judge(msgspec.structs.replace(run, timing=timing, ops=ops))
    assert judged.verdict is not None and judged.time_budget is not None
    # 10 TFLOP in 1 s of a device that can do 100: 10 %, whether it was active all or half of it.
    assert judged.verdict.mfu_fraction == judged.verdict.hfu_fraction == pytest.approx(0.10)
    # Activity tells idle time from slow kernels, nothing else.
    assert judged.time_budget.idle_s == pytest.approx(1.0 - busy_s)
    assert judged.time_budget.compute_s == pytest.approx(0.1)
