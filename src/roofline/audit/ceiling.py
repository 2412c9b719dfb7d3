"""A rate or a bandwidth that is claimed alone: all that can be said is whether the machine has so much."""

from roofline.audit.claim import Claim
from roofline.audit.finding import Finding, Status, Subject, figure, reach_of
from roofline.audit.quoted import Quoted
from roofline.core.units import Unit


def ceiling_findings(claim: Claim) -> list[Finding]:
    """Hold a rate to the dense peak and a bandwidth to the memory's, where nothing else judges them."""
    found = []
    judged = claim.mfu or claim.hfu or claim.gemm or (claim.facts and claim.tokens_per_s)
    if claim.flops_per_s is not None and (not judged or (claim.gemm and not claim.mfu)):
        peak = claim.machine.matrix_peak(claim.precision).value
        why = "causal attention counted full, recomputation, another precision, or all devices together"
        what = f"dense {claim.precision.upper()} peak"
        found.append(_finding(claim, "flops_per_s", claim.flops_per_s, peak, "FLOP/s", what, why))
    judged = claim.mbu or claim.gemm or (claim.facts and claim.tokens_per_s)
    if claim.bytes_per_s is not None and not judged:
        why = "data that stays in a cache, bytes counted twice, or all devices together"
        dram = claim.machine.dram.value
        found.append(_finding(claim, "bytes_per_s", claim.bytes_per_s, dram, "B/s", "memory bandwidth", why))
    return found


def _finding(
    claim: Claim, subject: Subject, claimed: Quoted, ceiling: float, unit: Unit, what: str, why: str
) -> Finding:
    share = claimed.value / ceiling
    possible = claimed.value <= ceiling + reach_of(ceiling, claimed, (), claim.tolerance)
    status: Status = "holds" if possible else "unexplained"
    said = f"{figure(share, '')} of the {what} of {claim.machine.name}"
    return Finding(
        subject=subject,
        unit=unit,
        claimed=claimed.value,
        status=status,
        sentence=said if possible else f"impossible, {said}; look for {why}",
        arithmetic=((what, f"{figure(claimed.value, unit)} ÷ {figure(ceiling, unit)} = {figure(share, '')}"),),
    )
