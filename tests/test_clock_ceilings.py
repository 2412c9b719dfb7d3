"""Ceilings: the arithmetic on a fake clock, the guards, and a tiny real measurement."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from roofline.clock import ceilings as module
from roofline.clock import guarded
from roofline.clock.ceilings import Ceilings, disagreements, inversions, measure_ceilings, with_ceilings
from roofline.clock.gemm import gemm_rate, product
from roofline.clock.guarded import Plan
from roofline.clock.launch import launch_cost
from roofline.clock.memory import cache_rates, filled, stream_rates, working_set_bytes
from roofline.clock.sustained import (
    ImplausibleError,
    Sustained,
    believe,
    cpu_limit,
    summarise_windows,
    sustain,
    unsteady,
)
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision

GIB = 2**30


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fake_timer(clock: FakeClock, call_s: float) -> Callable[[object, int], float]:
    """Every call takes `call_s`, whatever it does; it is really made once."""

    def timer(step, calls: int) -> float:
        step()
        clock.now += call_s * calls
        return call_s * calls

    return timer


def steady(best: float, disagreement: float = 0.0) -> Sustained:
    return Sustained(
        what="8x8x8", best=best, typical=best, disagreement_fraction=disagreement, windows=5, window_s=0.01
    )


CPU = Machine(key="cpu", name="A CPU", kind="cpu", multiprocessors=2, cache_bytes={"l1": 2 * 32768, "l2": 2 * 2**20})


def test_a_rate_is_work_over_time():
    clock = FakeClock()
    found = sustain("x", 500.0, lambda: None, fake_timer(clock, 0.002), seconds=0.2, clock=clock)
    assert found.best == pytest.approx(500 / 0.002)
    assert found.typical == pytest.approx(500 / 0.002)
    assert found.window_s >= 10e-3


def test_a_slow_call_still_gets_three_windows():
    clock = FakeClock()
    found = sustain("x", 1.0, lambda: None, fake_timer(clock, 4.0), seconds=1.0, clock=clock)
    assert found.windows == 3
    assert found.best == pytest.approx(1 / 4)


def test_calls_that_take_no_time_are_refused():
    clock = FakeClock()
    with pytest.raises(ImplausibleError, match="take no time that the clock can see"):
        sustain("empty", 1.0, lambda: None, lambda step, calls: 0.0, seconds=1.0, clock=clock)


def test_windows_go_on_until_the_three_best_agree():
    clock = FakeClock()
    slow_until = iter([1.0, 1.0, 1.0, 4.0, 4.0])

    def timer(step, calls: int) -> float:
        took_s = next(slow_until, 1.0)
        clock.now += took_s
        return took_s

    found = sustain("x", 1.0, lambda: None, timer, seconds=9.5, clock=clock)
    # Two calls find the batch, then windows of 1, 4 and 4 s: too unlike to stop before more of 1 s come.
    assert found.disagreement_fraction == 0
    assert found.windows > 3


def test_disagreement_is_that_of_the_third_best_window_so_that_one_bad_window_does_not_count():
    assert summarise_windows("x", 1.0, [1.0, 1.0, 1.0, 50.0]).disagreement_fraction == 0
    assert summarise_windows("x", 1.0, [1.0, 2.0, 2.0]).disagreement_fraction == pytest.approx(1 - 1 / 2)


def test_unsteady_windows_are_said_to_be():
    assert unsteady("fp32 GEMM rate", steady(1.0, 0.25)) is None
    assert "three best of 5 windows differ by 40.0 %" in unsteady("fp32 GEMM rate", steady(1.0, 0.4))


def test_7265_tflops_on_two_cores_is_implausible():
    # A public tool printed it for two cores, from windows that were too short.
    limit, words = cpu_limit(Precision.FP32, cores=2)
    with pytest.raises(ImplausibleError, match=r"of 7\.2[67] PFLOP/s is implausible"):
        believe("fp32 GEMM rate", "FLOP/s", steady(7265e12), limit=limit, limit_text=words)


@pytest.mark.parametrize(
    ("precision", "flops_per_s", "cores"),
    [
        # Two 512-bit FMA units: 2 · 2 · 16 FLOP per cycle at 3 GHz.
        (Precision.FP32, 64 * 3e9, 1),
        (Precision.FP64, 32 * 3e9, 1),
        # AMX: 1024 FLOP and 2048 OP per cycle.
        (Precision.BF16, 1024 * 3e9, 1),
        (Precision.INT8, 2048 * 3e9, 1),
        # Apple M4 Max, fp32 on its matrix units: about 3.5 TFLOP/s on 16 cores.
        (Precision.FP32, 3.5e12, 16),
    ],
)
def test_what_real_cpus_reach_is_plausible(precision, flops_per_s, cores):
    limit, words = cpu_limit(precision, cores=cores)
    believe("rate", "FLOP/s", steady(flops_per_s), limit=limit, limit_text=words)


def test_working_sets_are_four_times_the_cache_within_a_quarter_of_the_memory():
    assert working_set_bytes(480 * 2**20, 64 * GIB) == 4 * 480 * 2**20
    assert working_set_bytes(1 * 2**20, 64 * GIB) == 256 * 2**20
    assert working_set_bytes(480 * 2**20, 4 * GIB) == 1 * GIB


def test_stream_bytes_are_those_that_the_program_names():
    clock, size = FakeClock(), 6 * 4096 * 4
    rates = stream_rates(filled("cpu", size), fake_timer(clock, 0.1), seconds=1.0, clock=clock)
    # All kernels share one buffer: halves for a copy, thirds for a triad, so each names all of it once.
    # An update in place reads and writes all of it.
    once = dict.fromkeys(("read", "write", "copy", "triad"), size / 0.1)
    assert {name: r.best for name, r in rates.items()} == pytest.approx({**once, "update": 2 * size / 0.1})


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for large pages")
def test_memory_is_measured_on_large_pages_where_there_are_some():
    granted = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not granted.exists() or "[never]" in granted.read_text():
        pytest.skip("this kernel gives no large pages")
    buffer = filled("cpu", 64 * 2**20)
    maps = Path("/proc/self/smaps").read_text()
    within = f"{buffer.data_ptr():x}-"
    huge = int(re.search(within + r".*?AnonHugePages:\s+(\d+) kB", maps, re.DOTALL)[1])
    assert huge > 32 * 1024


def test_cache_rates_count_every_pass_over_the_row():
    clock, calls = FakeClock(), []

    def timer(step, count: int) -> float:
        calls.append(step().numel())
        clock.now += 0.1 * count
        return 0.1 * count

    found = cache_rates({"l1": 2 * 32768}, 2, timer, seconds=0.5, clock=clock)
    row_bytes = 32768 // 2
    assert found["l1"].best == pytest.approx(calls[0] * row_bytes / 0.1)


def test_a_cache_no_larger_than_the_one_below_is_left_out():
    clock = FakeClock()
    found = cache_rates({"l1": 32768, "l2": 32768}, 1, fake_timer(clock, 0.1), seconds=0.5, clock=clock)
    assert set(found) == {"l1"}


def test_a_shared_cache_is_read_beyond_what_the_cores_own():
    clock = FakeClock()
    own, shared = 64 * 2 * 2**20, 100 * 2**20
    found = cache_rates({"l2": own, "l3": shared}, 64, fake_timer(clock, 0.1), seconds=0.5, clock=clock)
    # 64 cores with 2 MiB each: rows of 1 MiB, then of 16 · 2 MiB, in a shared 100 MiB.
    assert {level: s.what for level, s in found.items()} == {
        "l2": "sum over 1024 KiB",
        "l3": f"sum over {16 * 2 * 1024} KiB",
    }


def test_gemm_counts_two_flop_per_multiply_and_add():
    clock = FakeClock()
    found = gemm_rate(Precision.FP32, "cpu", fake_timer(clock, 0.05), seconds=1.0, clock=clock, largest=256)
    m, n, k = map(int, found.what.split("x"))
    assert found.best == pytest.approx(2 * m * n * k / 0.05)


def test_gemm_operands_are_random_and_leave_the_random_state_alone():
    before = torch.get_rng_state()
    out = product(Precision.BF16, "cpu", (16, 16, 16))()
    assert torch.equal(torch.get_rng_state(), before)
    assert out.dtype == torch.bfloat16
    assert out.unique().numel() > 16


def test_gemm_puts_the_matmul_precision_back():
    torch.set_float32_matmul_precision("medium")
    try:
        clock = FakeClock()
        gemm_rate(Precision.FP32, "cpu", fake_timer(clock, 0.05), seconds=0.5, clock=clock, largest=256)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_search_stops_before_a_product_that_would_take_too_long():
    clock, shapes = FakeClock(), []

    def timer(step, calls: int) -> float:
        a = step()
        shapes.append(a.shape)
        clock.now += calls * a.numel() * 1e-6
        return calls * a.numel() * 1e-6

    gemm_rate(Precision.FP32, "cpu", timer, seconds=1.0, clock=clock, largest=4096)
    # A tenth of the time holds 100 000 results; twice as many at K = n / 2 take no longer than predicted from n³.
    assert max(m * n for m, n in shapes) <= 512 * 512


def test_launch_cost_is_host_time_per_call():
    class Ticking:
        now = 0.0

        def __call__(self) -> float:
            self.now += 0.5e-3
            return self.now

    # The clock advances by 0.5 ms per look, and a batch of 500 calls looks twice: 1 µs per call.
    cost = launch_cost("cpu", seconds=0.01, clock=Ticking(), calls=500)
    assert cost.value == pytest.approx(0.5e-3 / 500)
    assert cost.origin == "measured"


def patched(monkeypatch, gemm=1e9, streams=(20e9, 15e9, 18e9, 30e9), disagreement=0.0):
    names = ("read", "copy", "triad", "update")
    tries = []

    def fake_gemm(precision, *args, **options):
        tries.append(precision)
        if callable(gemm):
            return gemm(precision)
        return steady(gemm, disagreement)

    monkeypatch.setattr(guarded, "gemm_rate", fake_gemm)
    monkeypatch.setattr(guarded, "filled", lambda *a: None)
    monkeypatch.setattr(
        guarded, "stream_rates", lambda *a, **k: {n: steady(v) for n, v in zip(names, streams, strict=True)}
    )
    return tries


PLAN = Plan(gemm_s={Precision.FP32: 0.1, Precision.BF16: 0.1}, memory_s=0.1, launch_s=0.0)


def test_memory_bandwidth_is_the_best_of_read_copy_and_triad_but_not_of_update(monkeypatch):
    patched(monkeypatch)
    found = measure_ceilings("cpu", CPU, PLAN)
    assert found.bandwidth["dram"].value == 20e9
    assert found.bandwidth["dram"].origin == "measured"
    assert "write-allocate not counted" in found.bandwidth["dram"].source
    assert found.streams["update"] == 30e9


def test_the_vector_ceiling_of_a_cpu_is_its_fp32_gemm(monkeypatch):
    patched(monkeypatch)
    found = measure_ceilings("cpu", CPU, PLAN)
    assert found.vector[Precision.FP32].value == found.matrix[Precision.FP32].value == 1e9
    assert "same FMA units" in found.vector[Precision.FP32].source


def test_an_implausible_precision_is_tried_twice_then_refused_with_the_reason(monkeypatch):
    tries = patched(monkeypatch, gemm=lambda p: steady(1e9 if p == Precision.FP32 else 1e30))
    found = measure_ceilings("cpu", CPU, PLAN)
    assert tries.count(Precision.BF16) == 2
    assert Precision.BF16 not in found.matrix
    assert "implausible" in found.refused["bf16"]


# torch says so in two ways: "not implemented", and MPS with a TypeError of fp64.
@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError, TypeError])
def test_a_product_that_torch_lacks_is_refused_with_the_reason(monkeypatch, error):
    def gemm(precision):
        if precision != Precision.FP32:
            raise error('"addmm" not implemented\nfor this')
        return steady(1e9)

    patched(monkeypatch, gemm=gemm)
    assert '"addmm" not implemented' in measure_ceilings("cpu", CPU, PLAN).refused["bf16"]


def test_an_implausible_fp32_rate_is_an_error(monkeypatch):
    patched(monkeypatch, gemm=1e30)
    with pytest.raises(ImplausibleError, match="fp32 GEMM rate"):
        measure_ceilings("cpu", CPU, PLAN)


def test_a_copy_faster_than_two_reads_is_an_error(monkeypatch):
    patched(monkeypatch, streams=(10e9, 21e9, 10e9, 10e9))
    with pytest.raises(ImplausibleError, match="twice the read rate"):
        measure_ceilings("cpu", CPU, PLAN)


def test_unsteady_rates_are_refused_when_strict_and_doubted_otherwise(monkeypatch):
    patched(monkeypatch, disagreement=0.5)
    with pytest.raises(ImplausibleError, match="unsteady"):
        measure_ceilings("cpu", CPU, PLAN)
    lenient = Plan(gemm_s={Precision.FP32: 0.1}, memory_s=0.1, launch_s=0.0, strict=False)
    found = measure_ceilings("cpu", CPU, lenient)
    assert found.vector[Precision.FP32].value == 1e9
    assert "fp32 GEMM rate is unsteady" in found.doubts[0]


def test_twice_the_datasheets_bandwidth_is_an_error(monkeypatch):
    patched(monkeypatch)
    known = Machine(key="x", name="X", bandwidth={"dram": Ceiling(10e9, "datasheet")})
    with pytest.raises(ImplausibleError, match=r"1\.5 × the datasheet's"):
        measure_ceilings("cpu", known, PLAN)


def test_measured_ceilings_replace_those_of_the_machine_and_the_rest_stays(toy):
    measured = Ceilings(
        matrix={Precision.BF16: Ceiling(7e11, "measured")},
        vector={},
        bandwidth={"dram": Ceiling(80e9, "measured")},
        launch_s=Ceiling(1e-6, "measured"),
        streams={"read": 80e9, "update": 90e9},
        refused={"fp16": "no such product"},
        measured_on="2026-01-31",
    )
    found = with_ceilings(toy, measured)
    assert found.matrix_peak(Precision.BF16).value == 7e11
    assert found.matrix_peak(Precision.FP32) == toy.matrix_peak(Precision.FP32)
    assert found.dram.value == 80e9
    assert found.read_on == "2026-01-31"
    assert found.notes[0] == "memory: read 80.0 GB/s, update 90.0 GB/s"
    assert "may run above the roof" in found.notes[1]
    assert "fp16 has no measured ceiling: no such product" in found.notes


@pytest.fixture
def one_thread():
    """Threads that wait for one another lose whole time slices on busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_tiny_real_calibration_of_this_cpu_gives_every_ceiling(one_thread):
    plan = Plan(
        gemm_s=dict.fromkeys((Precision.FP32, Precision.BF16), 0.05),
        memory_s=0.05,
        held_s=0.02,
        sets_s=0.05,
        cache_s=0.02,
        launch_s=0.0,
        working_set_bytes=2**20,
        largest_gemm=256,
        window_s=1e-3,
        strict=False,
    )
    said = []
    found = measure_ceilings("cpu", CPU, plan, progress=said.append)
    assert {Precision.FP32, Precision.BF16} == set(found.matrix) | set(map(Precision, found.refused))
    assert set(found.bandwidth) == {"l1", "l2", "dram"}
    assert found.working_sets[-1].size_bytes == pytest.approx(2**20, rel=0.05)
    assert set(found.streams) == {"read", "write", "copy", "triad", "update"}
    assert all(set(s.streams) == {"read", "write", "copy", "triad"} for s in found.working_sets)
    assert all(c.value > 0 and c.source for c in (*found.matrix.values(), *found.bandwidth.values()))
    assert "GEMM bf16" in said


def test_two_measurements_within_a_tenth_are_one_result():
    assert disagreements({"memory bandwidth": 0.91, "fp32 GEMM": 1.1}) == ()
    # 1 / 1.2 is 16.7 % below, whichever of the two came first.
    for ratio in (1.2, 1 / 1.2):
        (found,) = disagreements({"memory bandwidth": 1.0, "fp32 GEMM": ratio})
        assert "too noisy" in found
        assert "fp32 GEMM by 16.7 %" in found
        assert "memory" not in found


def test_a_cache_slower_than_what_lies_behind_it_is_doubted():
    assert inversions({"l1": 300e9, "l2": 200e9, "l3": 20e9, "dram": 19e9}) == ()
    (found,) = inversions({"l1": 9.9e9, "l2": 247e9, "dram": 6e9})
    assert found == "l1 bandwidth of 9.90 GB/s is below that of l2 (247 GB/s)"


def test_main_rates_are_measured_twice_and_the_better_counts(monkeypatch):
    rates = {Precision.FP32: iter([1.0e9, 1.3e9]), Precision.BF16: iter([4e9, 3.9e9])}
    patched(monkeypatch, gemm=lambda p: steady(next(rates[p])))
    monkeypatch.setattr(module, "intensity_sweep", lambda *a, **k: ())
    plan = msgspec.structs.replace(PLAN, repeat_s=0.1, sweep_s=0.1)
    found = measure_ceilings("cpu", CPU, plan)
    assert found.vector[Precision.FP32].value == 1.3e9
    assert found.matrix[Precision.BF16].value == 4e9
    assert found.agreement == {
        "memory bandwidth": 1.0,
        "fp32 GEMM": pytest.approx(1.3),
        "bf16 GEMM": pytest.approx(3.9 / 4),
    }
    assert len(found.doubts) == 1
    assert "fp32 GEMM by 23.1 %" in found.doubts[0]


def test_an_unsteady_repetition_is_told_and_not_refused(monkeypatch):
    turns = iter([0.0, 0.5])
    patched(monkeypatch, gemm=lambda p: steady(1e9, next(turns)))
    plan = Plan(gemm_s={Precision.FP32: 0.1}, memory_s=0.1, launch_s=0.0, repeat_s=0.1)
    assert measure_ceilings("cpu", CPU, plan).agreement["fp32 GEMM"] == 1.0
