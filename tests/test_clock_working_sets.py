"""Working sets on a fake clock: their sizes, and where a cache ends."""

from collections.abc import Callable

import pytest
import torch

from roofline.clock import working_sets as module
from roofline.clock.memory import filled
from roofline.clock.sustained import Sustained
from roofline.clock.working_sets import last_cache, working_sets
from test_clock_ceilings import FakeClock, fake_timer


def test_working_sets_double_up_to_the_whole_buffer_whose_known_rates_are_taken():
    clock, largest = FakeClock(), 6 * 4096 * 64
    found = working_sets(
        filled("cpu", largest),
        fake_timer(clock, 0.1),
        smallest_bytes=6 * 4096 * 8,
        known={"Tensor.copy_": 7e9, "torch.mv": 8e9},
        seconds=1.0,
        clock=clock,
    )
    assert [s.size_bytes for s in found] == [largest // 8, largest // 4, largest // 2, largest]
    # Every call takes as long here, so rates grow with the bytes. All reads are sums, also the last.
    assert [s.streams["read"] for s in found] == pytest.approx([s.size_bytes / 0.1 for s in found])
    assert found[-1].streams["copy"] == 7e9


def test_a_buffer_smaller_than_two_caches_is_one_working_set():
    clock = FakeClock()
    found = working_sets(
        filled("cpu", 2**20), fake_timer(clock, 0.1), smallest_bytes=2**30, known={}, seconds=1.0, clock=clock
    )
    assert [set(s.streams) for s in found] == [{"read", "write", "copy", "triad"}]


def test_a_cache_that_shows_its_rate_only_with_patience_is_found_all_the_same(monkeypatch):
    # Two of three windows of the cached set were disturbed at first: 13 against memory's 10 GB/s, then 20.
    rates = iter([13e9, 10e9, 10e9, 20e9, 10e9, 10e9])

    def fake(what, work, step, timer, **options):
        rate = next(rates, 10e9)
        return Sustained(what=what, best=rate, typical=rate, disagreement_fraction=0, windows=3, window_s=0.01)

    monkeypatch.setattr(module, "sustain", fake)
    found = last_cache(filled("cpu", 8 * 2**20), None, {"l2": 2**20, "l3": 4 * 2**20}, seconds=1.0, clock=FakeClock())
    assert found[0].best == 20e9
    assert found[1] == 2 * 2**20


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
