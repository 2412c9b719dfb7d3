"""The theory: work adds and scales, attainable stays under both ceilings, roof times follow the definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision, dtype_bytes, dtype_name, precision_of
from roofline.core.roof import Bound, attainable, averaging_honesty, ridge_point, roof_time
from roofline.core.work import Work
from roofline.errors import MachineError

counts = st.integers(0, 10**15)
works = st.builds(
    Work,
    matrix=st.dictionaries(st.sampled_from([Precision.BF16, Precision.FP32]), counts),
    vector=st.dictionaries(st.just(Precision.FP32), counts),
    read_bytes=counts,
    written_bytes=counts,
)


@given(works, works)
def test_work_adds(a: Work, b: Work) -> None:
    total = a + b
    assert total.executed_flops == a.executed_flops + b.executed_flops
    assert total.needed_flops == a.needed_flops + b.needed_flops
    assert total.vector_flops == a.vector_flops + b.vector_flops
    assert total.moved_bytes == a.moved_bytes + b.moved_bytes


@given(works, st.integers(0, 1000))
def test_work_scales(a: Work, times: int) -> None:
    scaled = times * a
    assert scaled.executed_flops == times * a.executed_flops
    assert scaled.moved_bytes == times * a.moved_bytes


def test_needed_work_is_what_was_executed_unless_it_says_otherwise() -> None:
    full = Work(matrix={Precision.BF16: 100})
    causal = Work(matrix={Precision.BF16: 100}, needed={Precision.BF16: 55})
    assert (full + causal).needed_flops == 155
    assert (full + causal).executed_flops == 200


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_attainable_is_monotone_in_intensity_and_under_both_ceilings(a: float, b: float) -> None:
    low, high = sorted((a, b))
    peak, bandwidth = 1e12, 100e9
    assert attainable(low, peak=peak, bandwidth=bandwidth) <= attainable(high, peak=peak, bandwidth=bandwidth) <= peak
    assert attainable(a, peak=peak, bandwidth=bandwidth) <= a * bandwidth


def test_the_ceilings_meet_at_the_ridge_point() -> None:
    ridge = ridge_point(1e12, 100e9)
    assert ridge == 10
    assert attainable(ridge, peak=1e12, bandwidth=100e9) == 1e12


def test_roof_time_is_the_longest_of_matrix_vector_and_memory(toy: Machine) -> None:
    # 1 TFLOP/s BF16, 0.1 TFLOP/s vector, 100 GB/s.
    compute = roof_time(Work(matrix={Precision.BF16: 1e12}, read_bytes=1e9), toy)
    assert (compute.matrix_s, compute.memory_s, compute.total_s, compute.bound) == (1.0, 0.01, 1.0, Bound.COMPUTE)
    memory = roof_time(Work(matrix={Precision.BF16: 1e9}, read_bytes=80e9, written_bytes=20e9), toy)
    assert (memory.total_s, memory.bound) == (1.0, Bound.MEMORY)
    vector = roof_time(Work(vector={Precision.BF16: 0.2e12}, read_bytes=1e9), toy)
    assert (vector.total_s, vector.bound) == (2.0, Bound.COMPUTE)


def test_precisions_share_the_matrix_engine(toy: Machine) -> None:
    both = roof_time(Work(matrix={Precision.BF16: 1e12, Precision.FP32: 0.5e12}), toy)
    assert both.matrix_s == 1.0 + 1.0


def test_a_precision_without_a_rate_is_an_error_that_names_the_known_ones(toy: Machine) -> None:
    with pytest.raises(MachineError, match=r'no fp8 peak for "Toy" \(known: fp32, bf16\)'):
        roof_time(Work(matrix={Precision.FP8: 1}), toy)


def test_averaging_is_honest_for_equal_ops_and_not_for_opposite_ones(toy: Machine) -> None:
    gemm = Work(matrix={Precision.BF16: 1e12})
    copy = Work(read_bytes=100e9)
    assert averaging_honesty([gemm, gemm], toy) == 1.0
    # One second of each: side by side they could overlap, so the average hides half of the time.
    assert averaging_honesty([gemm, copy], toy) == 0.5
    assert averaging_honesty([], toy) is None


@given(st.lists(works, min_size=1, max_size=8))
def test_averaging_honesty_is_a_share(parts: list[Work]) -> None:
    machine = Machine(
        key="m",
        name="m",
        matrix={p: Ceiling(1e12, "given") for p in (Precision.BF16, Precision.FP32)},
        vector={Precision.FP32: Ceiling(1e11, "given")},
        bandwidth={"dram": Ceiling(1e11, "given")},
    )
    honesty = averaging_honesty(parts, machine)
    assert honesty is None or 0 < honesty <= 1


def test_fp32_matrix_work_without_a_matrix_rate_runs_on_the_vector_engine(toy: Machine) -> None:
    plain = Machine(key="p", name="P", vector=toy.vector, bandwidth=toy.bandwidth)
    assert plain.matrix_peak(Precision.FP32).value == 0.1e12
    with pytest.raises(MachineError):
        plain.matrix_peak(Precision.BF16)


@pytest.mark.parametrize(
    ("spelling", "name", "size", "precision"),
    [
        ("torch.bfloat16", "bfloat16", 2, Precision.BF16),
        ("c10::BFloat16", "bfloat16", 2, Precision.BF16),
        ("float", "float32", 4, Precision.FP32),
        ("c10::Half", "float16", 2, Precision.FP16),
        ("long int", "int64", 8, None),
        ("double", "float64", 8, Precision.FP64),
        ("float8_e4m3fn", "float8_e4m3fn", 1, Precision.FP8),
        ("signed char", "int8", 1, Precision.INT8),
        ("bool", "bool", 1, None),
    ],
)
def test_dtypes_are_read_however_torch_and_traces_spell_them(
    spelling: str, name: str, size: int, precision: Precision | None
) -> None:
    assert dtype_name(spelling) == name
    assert dtype_bytes(name) == size
    assert precision_of(name) == precision
