"""Working sets on a fake clock: their sizes, and where a cache ends."""

from collections.abc import Callable

import pytest
import torch

from roofline.clock.memory import filled
from roofline.clock.working_sets import last_cache, working_sets
from test_clock_ceilings import FakeClock, fake_timer


def test_working_sets_double_up_to_half_of_the_buffer():
    clock, largest = FakeClock(), 6 * 4096 * 64
    found = working_sets(
        filled("cpu", largest), fake_timer(clock, 0.1), smallest_bytes=6 * 4096 * 8, seconds=1.0, clock=clock
    )
    assert [s.size_bytes for s in found] == [largest // 8, largest // 4, largest // 2]
    # Every call takes as long here, so rates grow with the bytes.
    assert [s.streams["read"] for s in found] == pytest.approx([s.size_bytes / 0.1 for s in found])


def cached_timer(clock: FakeClock, holds: int, fast: float, slow: float) -> Callable[[object, int], float]:
    """Reads of what the cache holds run at one rate, larger ones at another."""

    def timer(step, calls: int) -> float:
        (part,) = (cell.cell_contents for cell in step.__closure__ if torch.is_tensor(cell.cell_contents))
        nbytes = 4 * part.numel()
        took_s = calls * nbytes / (fast if nbytes <= holds else slow)
        clock.now += took_s
        return took_s

    return timer


@pytest.mark.parametrize("holds", [5 * 2**20, 10 * 2**20, 13 * 2**20])
def test_what_the_last_cache_holds_is_where_the_rate_of_reading_falls(holds):
    clock, capacities = FakeClock(), {"l2": 2**20, "l3": 16 * 2**20}
    timer = cached_timer(clock, holds, fast=50e9, slow=25e9)
    rate, held = last_cache(filled("cpu", 32 * 2**20), timer, capacities, seconds=1.0, clock=clock)
    # Two halvings of a factor of two leave a quarter of it.
    assert held <= holds <= 2**0.26 * held
    assert rate.best == pytest.approx(50e9)


def test_a_cache_that_holds_all_it_has_is_taken_at_its_capacity():
    clock, capacities = FakeClock(), {"l2": 2**20, "l3": 8 * 2**20}
    timer = cached_timer(clock, 8 * 2**20, fast=50e9, slow=25e9)
    found = last_cache(filled("cpu", 32 * 2**20), timer, capacities, seconds=1.0, clock=clock)
    assert found[1] == 8 * 2**20


def test_a_cache_as_slow_as_memory_tells_nothing():
    clock, capacities = FakeClock(), {"l2": 2**20, "l3": 8 * 2**20}
    timer = cached_timer(clock, 2**20, fast=50e9, slow=49e9)
    assert last_cache(filled("cpu", 32 * 2**20), timer, capacities, seconds=1.0, clock=clock) is None
