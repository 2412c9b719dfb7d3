"""Verdict, budget, advice and findings, on a toy machine: 1 TFLOP/s BF16, 0.5 FP32, 100 GB/s, ridge 10."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.analysis import judge
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Bytes, Coverage, Flops, OpBytes, OpRecord, PageFaults, Run, Timing, UnknownOp
from roofline.errors import MachineError, UsageError

TOY = Machine(
    key="toy",
    name="Toy",
    matrix={Precision.BF16: Ceiling(1e12, "given"), Precision.FP32: Ceiling(0.5e12, "given")},
    vector={Precision.FP32: Ceiling(0.1e12, "given")},
    bandwidth={"dram": Ceiling(100e9, "given")},
    cache_bytes={"l2": 1_000_000},
)


def gemm(flops: float, moved: float, seconds: float | None = None, precision: Precision = Precision.BF16) -> OpRecord:
    return OpRecord(
        name="aten.mm",
        engine="matrix",
        precision=precision,
        needed_flops=flops,
        executed_flops=flops,
        bytes=OpBytes(operator=moved),
        seconds=seconds,
    )


def copy(moved: float, seconds: float | None = None) -> OpRecord:
    return OpRecord(name="aten.add", precision=Precision.FP32, bytes=OpBytes(operator=moved), seconds=seconds)


def run_of(
    *ops: OpRecord, wall: float | None = None, compulsory: float | None = None, busy: float | None = None
) -> Run:
    by_precision: dict[Precision, float] = {}
    for op in ops:
        if op.executed_flops and op.precision:
            by_precision[op.precision] = by_precision.get(op.precision, 0) + op.executed_flops
    return Run(
        kind="measured" if wall else "counted",
        workload={"target": "test"},
        machine=TOY,
        flops=Flops(
            needed=sum(o.needed_flops for o in ops),
            executed=sum(o.executed_flops for o in ops),
            vector=sum(o.vector_flops for o in ops),
            by_precision=by_precision,
        ),
        bytes=Bytes(operator=sum(o.bytes.operator or 0 for o in ops), compulsory=compulsory),
        timing=Timing(median_s=wall, samples_s=(wall,) * 5, spread_fraction=0, stable=True, busy_s=busy)
        if wall
        else None,
        ops=ops,
    )


def test_a_large_matmul_is_compute_bound_with_the_ratios_of_the_definition() -> None:
    # 1 TFLOP in 2 s on 1 TFLOP/s; 10 GB in 2 s on 100 GB/s; I = 100 against a ridge of 10.
    verdict = judge(run_of(gemm(1e12, 10e9, 2.0), wall=2.0)).verdict
    assert verdict is not None
    assert (verdict.bound, verdict.certain) == (Bound.COMPUTE, True)
    assert (verdict.mfu_fraction, verdict.mbu_fraction) == (0.5, 0.05)
    assert (verdict.intensity_flops_per_byte, verdict.ridge_point_flops_per_byte) == (100, 10)
    assert (verdict.roof_s, verdict.efficiency_fraction) == (1.0, 0.5)


def test_a_matrix_vector_product_is_memory_bound() -> None:
    verdict = judge(run_of(gemm(1e9, 1e9, 0.02), wall=0.02)).verdict
    assert verdict is not None
    assert (verdict.bound, verdict.mbu_fraction) == (Bound.MEMORY, 0.5)


def test_a_verdict_that_depends_on_the_count_of_bytes_is_uncertain_and_says_both() -> None:
    # Ridge 10: operator bytes give I = 5 (memory), compulsory bytes I = 50 (compute).
    verdict = judge(run_of(gemm(1e12, 200e9, 3.0), wall=3.0, compulsory=20e9)).verdict
    assert verdict is not None
    assert (verdict.bound, verdict.certain, verdict.likely_bound) == (Bound.UNCERTAIN, False, Bound.MEMORY)
    assert "memory-bound by operator bytes" in verdict.sentence and "compute-bound" in verdict.sentence


def test_an_idle_device_is_overhead_bound() -> None:
    # Case B73: a tiny op between two timer calls measures the host.
    verdict = judge(run_of(copy(8, 1e-7), wall=10e-6)).verdict
    assert verdict is not None and verdict.bound == Bound.OVERHEAD


def test_hfu_counts_what_ran_and_mfu_what_was_needed() -> None:
    op = msgspec.structs.replace(gemm(1e12, 1e9, 2.0), needed_flops=0.75e12)
    verdict = judge(run_of(op, wall=2.0)).verdict
    assert verdict is not None
    assert (verdict.hfu_fraction, verdict.mfu_fraction) == (0.5, 0.375)


def test_mixed_precision_work_is_measured_against_each_peak() -> None:
    # 0.5 TFLOP at 1 TFLOP/s and 0.25 TFLOP at 0.5 TFLOP/s need 1 s at the peaks.
    run = run_of(gemm(0.5e12, 1e9, 1.0), gemm(0.25e12, 1e9, 1.0, Precision.FP32), wall=2.0)
    verdict = judge(run).verdict
    assert verdict is not None and verdict.hfu_fraction == pytest.approx(0.5)


def test_a_program_without_matrix_work_has_no_mfu() -> None:
    verdict = judge(run_of(copy(100e9, 1.5), wall=1.6)).verdict
    assert verdict is not None
    assert verdict.mfu_fraction is None and verdict.hfu_fraction is None
    assert verdict.bound == Bound.MEMORY


def test_the_budget_splits_roof_inefficiency_and_idle_time() -> None:
    # GEMM: roof 1 s of 1.5 s; copy: roof 0.5 s of 0.6 s; 0.4 s of 2.5 s is idle.
    budget = judge(run_of(gemm(1e12, 1e9, 1.5), copy(50e9, 0.6), wall=2.5)).time_budget
    assert budget is not None
    parts = (budget.compute_s, budget.memory_s, budget.inefficiency_s, budget.network_s, budget.idle_s)
    assert parts == pytest.approx((1.0, 0.5, 0.6, 0.0, 0.4))


def test_an_op_faster_than_its_roof_contributes_its_own_time_and_is_reported() -> None:
    run = judge(run_of(gemm(1e12, 1e9, 0.5), wall=0.6))
    assert run.time_budget is not None and run.time_budget.compute_s == pytest.approx(0.5)
    assert run.ops[0].efficiency_fraction == 2.0
    assert any("above their roof" in w and "200 %" in w for w in run.warnings)


def test_busy_time_of_unmatched_kernels_is_not_idle() -> None:
    # Half a second of kernels could not be joined to an op: they are slow, not idle.
    budget = judge(run_of(gemm(1e12, 1e9, 1.0), wall=2.0, busy=1.5)).time_budget
    assert budget is not None
    assert (budget.compute_s, budget.inefficiency_s, budget.idle_s) == pytest.approx((1.0, 0.5, 0.5))


times = st.floats(1e-7, 10)
ops = st.one_of(
    st.builds(gemm, st.floats(0, 1e13), st.floats(0, 1e12), st.none() | times),
    st.builds(copy, st.floats(0, 1e12), st.none() | times),
)


@given(st.lists(ops, min_size=1, max_size=12), st.floats(1e-6, 100), st.none() | times)
def test_budget_parts_are_never_negative_and_add_up_to_the_wall_exactly(
    rows: list[OpRecord], wall: float, busy: float | None
) -> None:
    budget = judge(run_of(*rows, wall=wall, busy=busy)).time_budget
    assert budget is not None
    parts = [budget.compute_s, budget.memory_s, budget.inefficiency_s, budget.network_s, budget.idle_s]
    assert min(parts) >= 0
    assert sum(parts) == budget.wall_s == wall


@given(st.lists(ops, min_size=1, max_size=12), st.floats(1e-3, 100))
def test_no_advice_is_worth_more_than_the_wall_time(rows: list[OpRecord], wall: float) -> None:
    for advice in judge(run_of(*rows, wall=wall)).advice:
        assert advice.saves_at_most_s is not None and 0 <= advice.saves_at_most_s <= wall


def test_advice_is_ranked_and_carries_its_evidence() -> None:
    run = judge(run_of(gemm(1e12, 1e9, 3.0, Precision.FP32), copy(50e9, 1.0), wall=4.5))
    savings = [a.saves_at_most_s for a in run.advice]
    assert savings == sorted(savings, reverse=True)
    cast = next(a for a in run.advice if "BF16" in a.action)
    # FP32 runs at half of BF16's rate here, so a cast can save half of the 3 s.
    assert cast.saves_at_most_s == pytest.approx(1.5)
    assert "2.0×" in cast.evidence
    fuse = next(a for a in run.advice if a.action.startswith("fuse"))
    assert fuse.saves_at_most_s == pytest.approx(1.0)


def test_data_in_cache_is_named_as_the_likely_reason() -> None:
    # Case B72: rmsnorm on 67 MB at "5019 GB/s" on a card of 1792 GB/s whose cache holds 96 MB.
    card = msgspec.structs.replace(
        TOY, bandwidth={"dram": Ceiling(1.792e12, "datasheet")}, cache_bytes={"l2": 96 * 2**20}
    )
    run = judge(run_of(copy(67e6, 67e6 / 5.019e12), wall=15e-6), card)
    assert any("280 %" in w and "fit into the last-level cache of 96.0 MiB" in w for w in run.warnings)


def test_compute_far_above_its_roof_points_at_the_timing() -> None:
    # Case B71: a matmul without synchronisation seems to take 0.03 ms instead of 1.36 ms.
    run = judge(run_of(gemm(1.36e9, 1e6, 0.03e-3), wall=0.05e-3))
    assert any("missed a synchronisation" in w for w in run.warnings)


def test_a_clock_above_the_datasheet_is_a_finding_not_an_error() -> None:
    # Case B70: 2080 Ti, 13.45 TFLOP/s at 1.545 GHz, measured 15.88: 118 %, an implied clock of 1.824 GHz.
    card = msgspec.structs.replace(TOY, matrix={Precision.FP32: Ceiling(13.45e12, "datasheet")}, boost_hz=1.545e9)
    run = judge(run_of(gemm(15.88e12, 1e9, 1.0, Precision.FP32), wall=1.0), card)
    assert run.verdict is not None and run.verdict.mfu_fraction == pytest.approx(1.18, abs=0.005)
    assert any("1.82 GHz" in w and "boost above the datasheet" in w for w in run.warnings)


def test_opposite_ops_get_a_warning_that_the_average_hides_them() -> None:
    run = judge(run_of(gemm(1e12, 1e9), copy(100e9)))
    assert run.verdict is not None and run.verdict.averaging_honesty_fraction == pytest.approx(1.01 / 2.0, abs=0.01)
    assert any("go per op" in w for w in run.warnings)


def test_another_origin_of_bytes_can_be_judged_by_and_a_missing_one_is_refused() -> None:
    run = run_of(gemm(1e12, 200e9), compulsory=20e9)
    verdict = judge(run, origin="compulsory").verdict
    assert verdict is not None and verdict.intensity_flops_per_byte == 50
    with pytest.raises(UsageError, match='no "fused" bytes'):
        judge(run, origin="fused")


def test_a_machine_without_the_precision_is_an_error() -> None:
    with pytest.raises(MachineError, match="no fp8 peak"):
        judge(run_of(gemm(1e12, 1e9, precision=Precision.FP8)))


def test_a_small_part_in_a_precision_without_a_rate_is_a_warning() -> None:
    run = judge(run_of(gemm(1e12, 1e9), gemm(1e9, 1e6, precision=Precision.FP8)))
    assert run.ops[1].roof_s is None
    assert any("no fp8 peak" in w and "0.1%" in w for w in run.warnings)


def test_judging_twice_says_nothing_twice() -> None:
    once = judge(run_of(gemm(1e12, 1e9, 0.5), copy(100e9, 0.1), wall=1.0))
    assert judge(once) == once


def test_without_a_machine_there_is_no_verdict() -> None:
    run = msgspec.structs.replace(run_of(gemm(1, 1)), machine=None)
    with pytest.raises(MachineError, match="no machine to judge by"):
        judge(run)


def test_on_a_cpu_dispatch_is_idle_time() -> None:
    # Launch 1 µs. A tiny op of 3 µs is all dispatch (case B73); of a 1 s copy one launch is.
    cpu = msgspec.structs.replace(TOY, kind="cpu", launch_s=Ceiling(1e-6, "measured"))
    tiny = judge(run_of(copy(8, 3e-6), wall=4e-6), cpu)
    assert tiny.verdict is not None and tiny.verdict.bound == Bound.OVERHEAD
    assert tiny.time_budget is not None and tiny.time_budget.idle_s == pytest.approx(4e-6, rel=1e-3)
    long = judge(run_of(copy(50e9, 1.0), wall=1.0), cpu)
    assert long.time_budget is not None and long.time_budget.idle_s == pytest.approx(1e-6)


def test_a_program_that_waits_for_its_links_is_network_bound() -> None:
    linked = msgspec.structs.replace(TOY, bandwidth={**TOY.bandwidth, "network": Ceiling(1e9, "given")})
    reduce = OpRecord(name="c10d.allreduce_", network_bytes=5e9, bytes=OpBytes(operator=1e6))
    verdict = judge(run_of(gemm(1e12, 1e9), reduce), linked).verdict
    assert verdict is not None and (verdict.bound, verdict.certain) == (Bound.NETWORK, True)


def test_bytes_of_ops_without_a_formula_make_a_memory_verdict_uncertain() -> None:
    mystery = OpRecord(name="my.op", bytes=OpBytes(operator=90e9), formula="none")
    unknown = UnknownOp(name="my.op", calls=1, bytes_fraction=0.9)
    run = msgspec.structs.replace(run_of(gemm(1e9, 10e9), mystery), coverage=Coverage(unknown_ops=(unknown,)))
    verdict = judge(run).verdict
    assert verdict is not None
    assert (verdict.bound, verdict.certain, verdict.likely_bound) == (Bound.UNCERTAIN, False, Bound.MEMORY)
    assert "90 % of the bytes" in verdict.sentence.replace("90.0", "90") and "at least" in verdict.sentence


def test_a_program_of_views_has_no_verdict() -> None:
    verdict = judge(run_of(copy(0))).verdict
    assert verdict is not None and (verdict.bound, verdict.certain) == (Bound.UNCERTAIN, False)
    assert verdict.sentence.startswith("Nothing binds on Toy")


@pytest.mark.parametrize(("one_thread_s", "saves_s"), [(0.3, 0.3), (5.0, 1.0)])
def test_page_faults_save_at_most_their_cost_and_no_roof_time(one_thread_s: float, saves_s: float) -> None:
    # 1 s at the roof, 2 s in all: no more than 1 s can be saved.
    run = run_of(gemm(1e12, 10e9, 2.0), wall=2.0)
    assert run.timing is not None
    faults = PageFaults(per_step=100_000, all_threads_s=0.1, one_thread_s=one_thread_s)
    timing = msgspec.structs.replace(run.timing, page_faults=faults)
    (advice,) = [a for a in judge(msgspec.structs.replace(run, timing=timing)).advice if "keep memory" in a.action]
    assert advice.saves_at_most_s == pytest.approx(saves_s)
    assert "100,000 page faults per step take 100 ms" in advice.evidence


# 100 GB/s of memory behind a cache of 400 GB/s; the caches before it hold 1 kB.
CPU = msgspec.structs.replace(
    TOY,
    kind="cpu",
    bandwidth={"dram": Ceiling(100e9, "measured"), "l3": Ceiling(400e9, "measured")},
    cache_bytes={"l2": 1_000, "l3": 1_000_000},
)


def cached_add(calls: int = 1) -> Run:
    op = OpRecord(
        name="aten.add",
        precision=Precision.FP32,
        calls=calls,
        vector_flops=1e5,
        bytes=OpBytes(operator=8e5, cached=0.0),
        seconds=4e-6,
    )
    run = msgspec.structs.replace(run_of(op, wall=4e-6, compulsory=8e5), machine=CPU)
    return msgspec.structs.replace(run, bytes=msgspec.structs.replace(run.bytes, cached=0.0))


def test_what_stays_in_the_last_cache_still_passes_through_it() -> None:
    # 8e5 B / 400 GB/s = 2 us, above 1e5 FLOP / 100 GFLOP/s = 1 us: the cache binds, which is memory's side.
    judged = judge(cached_add())
    assert judged.verdict is not None
    assert judged.ops[0].bound == Bound.MEMORY
    assert judged.ops[0].roof_s == pytest.approx(2e-6)
    assert (judged.verdict.bound, judged.verdict.efficiency_fraction) == (Bound.MEMORY, pytest.approx(0.5))


def test_calls_small_enough_for_the_inner_caches_do_not_wait_for_the_last() -> None:
    judged = judge(cached_add(calls=1000))
    assert (judged.ops[0].bound, judged.ops[0].roof_s) == (Bound.COMPUTE, pytest.approx(1e-6))


def test_other_counts_of_bytes_do_not_pass_the_cache() -> None:
    assert judge(cached_add(), origin="operator").ops[0].roof_s == pytest.approx(8e-6)


def test_a_gpus_cache_rate_is_no_ceiling() -> None:
    gpu = msgspec.structs.replace(CPU, kind="gpu")
    assert judge(msgspec.structs.replace(cached_add(), machine=gpu)).ops[0].roof_s == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("samples", "spread", "said"),
    [
        ((1.0, 1.1), 0.05, "only 2 timing samples, as one step takes 1.05 s"),
        ((1.0, 1.0, 1.2, 1.4, 3.0), 0.33, "the middle half of 5 samples is spread over 33.0 % of the median"),
    ],
)
def test_an_unstable_timing_is_told_once_with_its_reason(
    samples: tuple[float, ...], spread: float, said: str
) -> None:
    run = run_of(gemm(1e12, 10e9, 1.0), wall=1.05)
    timing = Timing(median_s=1.05, samples_s=samples, spread_fraction=spread, stable=False)
    warnings = judge(msgspec.structs.replace(run, timing=timing)).warnings
    assert len([w for w in warnings if "sample" in w]) == 1
    assert said in " ".join(warnings)
