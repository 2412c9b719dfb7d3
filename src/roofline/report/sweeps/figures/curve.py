"""The roof of a sweep as a curve, between its sizes too, so that its bend is where it belongs."""

from bisect import bisect_right
from collections.abc import Sequence
from math import inf, log2

import msgspec

from roofline.errors import RooflineError
from roofline.sweeps.case import Result, result_of
from roofline.sweeps.experiments import experiment
from roofline.sweeps.summary import Point, point

# Sizes per octave.
_DENSITY = 16


def roof_curve(results: Sequence[Result]) -> list[Point]:
    """Points at the roof, from the smallest size of a series to the largest, from its closed form.

    The closed form gives the shape. Where a count differs from it (training: a cache that holds weights between the
    passes), the curve is scaled to go through the roofs of the points: by what those on its side of the bend need,
    and to no higher rate than theirs.

    Args:
        results: Of one series on one machine, all with a Run.

    Returns:
        Their own points where they have no closed form, or not one for all.
    """
    own = sorted((point(r) for r in results), key=lambda p: p.size)
    if len({msgspec.structs.replace(r.case, size=0).key for r in results}) > 1:
        return own
    by_size = {p.size: found for p in own if (found := _predicted(results[0], p.size)) is not None}
    if len(by_size) < len(own):
        return own
    between = [_predicted(results[0], size) for size in _between(own[0].size, own[-1].size) if size not in by_size]
    dense = sorted([*by_size.values(), *(p for p in between if p is not None)], key=lambda p: p.size)
    fastest = max((p.flops / p.roof_s for p in own if p.flops and p.roof_s), default=inf)
    made = []
    for p in dense:
        roof, fitted = (_at(p.size, _ratios(own, by_size, p, field)) for field in ("roof_s", "fitted_s"))
        assert p.roof_s is not None
        if roof != 1 and p.flops:
            roof = max(roof, p.flops / fastest / p.roof_s)
        made.append(_scaled(p, roof, fitted))
    return made


def _predicted(like: Result, size: int) -> Point | None:
    """The point of another size at the roof; None without a closed form."""
    run = like.run
    if run is None or run.machine is None or run.verdict is None or "model" in like.case.settings:
        return None
    case = msgspec.structs.replace(like.case, size=size)
    try:
        found = experiment(case.sweep).predict(case, run.machine, run.verdict.bytes_origin)
    except RooflineError:
        # Bytes of an origin that only a count has.
        return None
    return point(result_of(case, found)) if found is not None else None


def _between(low: int, high: int) -> list[int]:
    """Sizes at even steps of a logarithmic axis."""
    octaves = log2(high / low)
    steps = round(octaves * _DENSITY)
    return sorted({round(low * 2 ** (k / _DENSITY)) for k in range(1, steps)} - {low, high})


def _ratios(own: Sequence[Point], predicted: dict[int, Point], like: Point, field: str) -> list[tuple[int, float]]:
    """What the points have over what their closed forms have, by size, where the same ceiling binds as in `like`."""
    found = []
    for p in own:
        closed = predicted[p.size]
        ours, theirs = getattr(p, field), getattr(closed, field)
        if ours and theirs and closed.likely_bound == like.likely_bound:
            found.append((p.size, ours / theirs))
    return found


def _at(size: int, ratios: Sequence[tuple[int, float]]) -> float:
    """The ratio at a size, straight on a logarithmic axis between two known ones."""
    if not ratios:
        return 1.0
    i = bisect_right([s for s, _ in ratios], size)
    if i == 0 or i == len(ratios):
        return ratios[min(i, len(ratios) - 1)][1]
    (low, before), (high, after) = ratios[i - 1], ratios[i]
    share = log2(size / low) / log2(high / low)
    return before + share * (after - before)


def _scaled(p: Point, roof: float, fitted: float) -> Point:
    """The point at a roof that is `roof` times as long."""
    assert p.roof_s is not None
    return msgspec.structs.replace(
        p,
        roof_s=p.roof_s * roof,
        step_s=p.roof_s * roof,
        fitted_s=p.fitted_s * fitted if p.fitted_s else None,
        mfu_fraction=p.mfu_fraction / roof if p.mfu_fraction is not None else None,
    )
