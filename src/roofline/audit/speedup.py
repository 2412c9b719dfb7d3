"""A speed-up and the MFU before and after it: any two give the third."""

from roofline.audit.claim import Before, Claim
from roofline.audit.finding import Explanation, Finding, Status, agrees, figure
from roofline.audit.hypotheses import peaks, rate_line
from roofline.audit.quoted import Quoted

Line = tuple[str, str]


def speedup_finding(claim: Claim, before: Before, speedup: Quoted) -> Finding:
    """Judge a speed-up by the MFU that it implies.

    The same program does the same FLOP per token, so
    MFU after = MFU before × speed-up × (devices × peak before) / (devices × peak after).

    Without a claimed MFU after, what the speed-up implies is all there is to say.
    """
    implied, lines = _implied(claim, before, speedup)
    if claim.mfu is None:
        possible = implied <= 1
        said = f"implies an MFU of {figure(implied, '')}" + ("" if possible else ", more than the machine can do")
        return _finding(speedup, "holds" if possible else "fault", said, None, (), lines)
    needed = speedup.value * claim.mfu.value / implied
    lines.append(("needed", f"{figure(claim.mfu.value, '')} would take a speed-up of {needed:.3g}"))
    inputs = (before.mfu, speedup)
    if agrees(implied, claim.mfu, inputs, claim.tolerance):
        return _finding(speedup, "holds", f"agrees with an MFU of {figure(claim.mfu.value, '')}", needed, (), lines)
    wrong = tuple(
        w for w in _wrong_peaks(claim, before, implied) if agrees(w.value, claim.mfu, inputs, claim.tolerance)
    )
    said = (
        f"contradicts the MFU: {speedup.value:g}× on {claim.machine.name} is {figure(implied, '')}, not "
        f"{figure(claim.mfu.value, '')}, which would be {needed:.3g}×"
    )
    if wrong:
        return _finding(speedup, "fault", f"{said}; {wrong[0].fault}", needed, wrong, lines)
    return _finding(speedup, "unexplained", said, needed, (), lines)


def _implied(claim: Claim, before: Before, speedup: Quoted) -> tuple[float, list[Line]]:
    old = before.machine.matrix_peak(before.precision or claim.precision).value
    new = claim.machine.matrix_peak(claim.precision).value
    devices = before.devices or claim.devices
    implied = before.mfu.value * speedup.value * (devices * old) / (claim.devices * new)
    counted = f" × {devices} / {claim.devices} devices" if devices != claim.devices else ""
    return implied, [
        ("before", f"{figure(before.mfu.value, '')} of {rate_line(old)}, {before.machine.name}"),
        ("after", f"peak {rate_line(new)}, {claim.machine.name}: {new / old:.4g} times as high"),
        (
            "MFU",
            f"{figure(before.mfu.value, '')} × {speedup.value:g} × {rate_line(old)} ÷ {rate_line(new)}{counted} = "
            f"{figure(implied, '')}",
        ),
    ]


def _wrong_peaks(claim: Claim, before: Before, implied: float) -> list[Explanation]:
    """The MFU after if one of the two peaks was a wrong one."""
    after = peaks(claim.machine, claim.precision)
    earlier = peaks(before.machine, before.precision or claim.precision)
    found = [
        Explanation(peak=p.label, fault=f"after: {p.fault}", value=implied * after[0].value / p.value)
        for p in after[1:]
    ]
    return found + [
        Explanation(peak=p.label, fault=f"before: {p.fault}", value=implied * p.value / earlier[0].value)
        for p in earlier[1:]
    ]


def _finding(
    speedup: Quoted,
    status: Status,
    sentence: str,
    expected: float | None,
    explanations: tuple[Explanation, ...],
    lines: list[Line],
) -> Finding:
    return Finding(
        subject="speedup",
        claimed=speedup.value,
        expected=expected,
        status=status,
        sentence=sentence,
        explanations=explanations,
        arithmetic=tuple(lines),
    )
