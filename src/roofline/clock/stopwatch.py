"""Wall time of one step: warm up until stable, take many samples, keep them all."""

import time
from collections.abc import Sequence
from math import ceil
from statistics import median

import torch

from roofline.analysis.findings import FEWEST_SAMPLES
from roofline.clock.timers import Clock, Progress, Step, Timer, no_garbage_collection, timer_for
from roofline.core.run import Timing

MIN_SAMPLES = FEWEST_SAMPLES
# More samples than this tell nothing new and only fill the saved Run.
MAX_SAMPLES = 1000
# Shorter samples are batched: the clock and the loop cost about 100 ns, which is then below 0.01 %.
MIN_SAMPLE_S = 1e-3
MAX_BATCH = 1 << 20
# A verdict needs the middle half of the samples within a tenth of the median (pyperf's threshold for
# "unstable" is a standard deviation of a tenth of the mean).
STABLE_SPREAD = 0.10
WARM_UP_FRACTION = 0.25


def time_step(
    step: Step,
    device: str,
    *,
    seconds: float = 5.0,
    min_samples: int = MIN_SAMPLES,
    compiled: bool = False,
    before_sample: Step | None = None,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
) -> Timing:
    """Time a step: median and interquartile range of many samples, in s.

    Warm-up: the first call, then batches until the last three agree within a tenth, for at most a quarter of
    `seconds`. Steps shorter than 1 ms are called several times per sample; a sample is then the mean of its batch,
    and the spread is one of means. Python's garbage collector is off meanwhile.
    At least `min_samples` samples are taken even where that takes longer than `seconds`, unless one step alone
    exceeds `seconds`: then two. Whatever the step raises goes through untouched.

    Args:
        step: Runs the program once.
        device: Where it runs; decides how time is taken (see `timers.timer_for`).
        seconds: Time to spend, the first call apart, s.
        min_samples: Least number of samples.
        compiled: The first call compiles: report what it takes above the median as `compile_s`.
        before_sample: Called before each sample and not timed, such as `cache_flusher`; a sample is then one step.
        progress: Told in words what is going on.
        clock: Monotonic, in s.
    """
    timer = timer_for(device, clock)
    say = progress or (lambda _: None)
    begin = clock()
    with no_garbage_collection():
        say("first call (compiles)" if compiled else "warming up")
        first_s = timer(step, 1)
        target_s = max(MIN_SAMPLE_S, seconds / MAX_SAMPLES)
        batch = 1
        if compiled or first_s <= seconds:
            batch = _warm_up(timer, step, seconds * WARM_UP_FRACTION, target_s, clock)
        warmup_s = clock() - begin - (first_s if compiled else 0.0)
        say("timing")
        samples = _samples(timer, step, 1 if before_sample else batch, seconds, min_samples, before_sample, clock)
    timing = summarise(samples)
    return Timing(
        median_s=timing.median_s,
        samples_s=timing.samples_s,
        spread_fraction=timing.spread_fraction,
        stable=timing.stable,
        warmup_s=max(0.0, warmup_s),
        compile_s=max(0.0, first_s - timing.median_s) if compiled else None,
    )


def summarise(samples_s: Sequence[float]) -> Timing:
    """Median, spread = interquartile range / median, and whether that is stable.

    Args:
        samples_s: At least one, s.
    """
    middle = median(samples_s)
    ordered = sorted(samples_s)
    spread = (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / middle if middle > 0 else 0.0
    return Timing(
        median_s=middle,
        samples_s=tuple(samples_s),
        spread_fraction=spread,
        stable=middle > 0 and len(samples_s) >= MIN_SAMPLES and spread <= STABLE_SPREAD,
    )


def cache_flusher(device: str, cache_bytes: int) -> Step:
    """Give a function that evicts the last-level cache by writing twice its size: for cold timings.

    Args:
        device: Whose cache.
        cache_bytes: Capacity of its last-level cache, B.
    """
    junk = torch.empty(max(1, 2 * cache_bytes), dtype=torch.uint8, device=device)
    return lambda: junk.fill_(1)


def _warm_up(timer: Timer, step: Step, budget_s: float, target_s: float, clock: Clock) -> int:
    """Run until steady; returns the number of calls that make a sample of `target_s`."""
    start, batch = clock(), 1
    steady: list[float] = []
    while True:
        took_s = timer(step, batch)
        if took_s < target_s and batch < MAX_BATCH:
            short_by = target_s / took_s if took_s > 0 else 2.0
            batch = min(MAX_BATCH, ceil(batch * min(max(short_by, 1.1), 10.0)))
            steady.clear()
        else:
            steady.append(took_s)
        last = steady[-3:]
        if len(last) == 3 and max(last) <= 1.1 * min(last):
            return batch
        if clock() - start + took_s > budget_s:
            return batch


def _samples(
    timer: Timer, step: Step, batch: int, seconds: float, least: int, before: Step | None, clock: Clock
) -> list[float]:
    start = clock()
    samples: list[float] = []
    while True:
        if before:
            before()
        samples.append(timer(step, batch) / batch)
        needed = min(2, least) if min(samples) > seconds else least
        if len(samples) < needed:
            continue
        if len(samples) >= MAX_SAMPLES or clock() - start + samples[-1] * batch > seconds:
            return samples


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between order statistics."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
