"""The stopwatch, on a fake clock: exact and instant."""

import gc

import pytest

from roofline.clock.stopwatch import cache_flusher, summarise, time_step
from roofline.clock.timers import find_device, timer_for
from roofline.errors import UsageError


class FakeClock:
    """Time passes only where a step says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeStep:
    """Takes the given times, then the last of them for ever."""

    def __init__(self, clock: FakeClock, *takes_s: float) -> None:
        self.clock, self.takes_s, self.calls = clock, takes_s, 0

    def __call__(self) -> None:
        self.clock.now += self.takes_s[min(self.calls, len(self.takes_s) - 1)]
        self.calls += 1


def timed(*takes_s: float, seconds: float = 1.0, **options):
    clock = FakeClock()
    step = FakeStep(clock, *takes_s)
    return time_step(step, "cpu", seconds=seconds, clock=clock, **options), step, clock


def test_a_steady_step_takes_what_it_takes():
    timing, _, _ = timed(0.125)
    assert timing.median_s == 0.125
    assert timing.spread_fraction == 0
    assert timing.stable
    assert timing.samples_s == (0.125,) * 8


def test_short_steps_are_batched_into_samples_of_a_millisecond():
    timing, step, clock = timed(1e-6, seconds=0.1)
    assert timing.median_s == pytest.approx(1e-6)
    assert clock.now / len(timing.samples_s) >= 1e-3
    assert step.calls >= 1000 * len(timing.samples_s)


def test_slow_first_calls_are_warm_up_not_samples():
    timing, _, _ = timed(0.9, 0.2, 0.05, 0.01, seconds=2.0)
    assert timing.median_s == pytest.approx(0.01)
    assert max(timing.samples_s) == pytest.approx(0.01)
    assert timing.warmup_s >= 0.9 + 0.2 + 0.05


def test_warm_up_ends_after_a_quarter_of_the_time_even_if_never_steady():
    clock = FakeClock()
    step = FakeStep(clock, *(0.02 * (1 + n % 2) for n in range(1000)))
    timing = time_step(step, "cpu", seconds=2.0, clock=clock)
    assert timing.warmup_s <= 0.02 + 2.0 / 4 + 0.04
    assert not timing.stable


def test_at_least_five_samples_even_where_they_exceed_the_time():
    timing, _, clock = timed(0.8, seconds=1.0)
    assert len(timing.samples_s) == 5
    assert clock.now > 1.0


def test_a_step_longer_than_the_whole_time_gets_two_samples_and_a_warning():
    timing, step, _ = timed(10.0, seconds=1.0)
    assert timing.samples_s == (10.0, 10.0)
    assert step.calls == 3
    assert not timing.stable


def test_compile_time_is_the_first_call_above_the_median_and_in_no_sample():
    timing, _, _ = timed(30.0, 0.1, seconds=1.0, compiled=True)
    assert timing.compile_s == pytest.approx(30.0 - 0.1)
    assert max(timing.samples_s) == pytest.approx(0.1)
    assert timing.warmup_s < 1.0


def test_without_compilation_no_compile_time_is_claimed():
    assert timed(0.1)[0].compile_s is None


def test_what_runs_before_a_sample_is_not_timed():
    clock = FakeClock()
    flushes = []

    def flush() -> None:
        clock.now += 5.0
        flushes.append(clock.now)

    timing = time_step(FakeStep(clock, 1e-4), "cpu", seconds=1.0, clock=clock, before_sample=flush)
    assert timing.median_s == pytest.approx(1e-4)
    assert len(flushes) == len(timing.samples_s)


def test_garbage_collection_is_off_inside_and_back_afterwards():
    clock = FakeClock()
    seen = []

    def step() -> None:
        clock.now += 0.1
        seen.append(gc.isenabled())

    assert gc.isenabled()
    time_step(step, "cpu", seconds=0.5, clock=clock)
    assert not any(seen)
    assert gc.isenabled()


def test_what_a_step_raises_goes_through_and_garbage_collection_comes_back():
    def step() -> None:
        raise ZeroDivisionError("of the user's")

    with pytest.raises(ZeroDivisionError, match="of the user's"):
        time_step(step, "cpu")
    assert gc.isenabled()


def test_spread_is_the_interquartile_range_over_the_median():
    # Quartiles of 1 … 5 by linear interpolation are 2 and 4, the median is 3.
    timing = summarise([5.0, 1.0, 3.0, 2.0, 4.0])
    assert timing.median_s == 3.0
    assert timing.spread_fraction == pytest.approx((4 - 2) / 3)
    assert not timing.stable
    assert timing.samples_s == (5.0, 1.0, 3.0, 2.0, 4.0)


def test_one_outlier_in_many_leaves_a_timing_stable():
    assert summarise([1.0] * 20 + [50.0]).stable


def test_progress_says_that_the_first_call_compiles():
    said = []
    timed(0.1, compiled=True, progress=said.append)
    assert said == ["first call (compiles)", "timing"]


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:99", "meta"])
def test_a_device_that_is_not_here_is_a_usage_error(device):
    with pytest.raises(UsageError):
        timer_for(device)


def test_the_cpu_is_always_here():
    assert find_device("cpu").type == "cpu"


def test_a_cold_timing_writes_twice_the_cache():
    written = cache_flusher("cpu", 1000)()
    assert written.nbytes == 2 * 1000
