"""The audit of a claim: every figure in it judged, and what all conventions make of its throughput."""

from collections.abc import Iterable

import msgspec

from roofline.audit.bytes import bytes_findings
from roofline.audit.ceiling import ceiling_findings
from roofline.audit.claim import Claim
from roofline.audit.finding import Finding
from roofline.audit.flops import narrowed, rate_finding, ratio_finding
from roofline.audit.speedup import speedup_finding
from roofline.errors import UsageError
from roofline.plan.conventions import Score, score


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit found.

    Attributes:
        findings: One per claimed figure.
        score: What every convention makes of the throughput; None without a model and its throughput.
    """

    findings: tuple[Finding, ...]
    score: Score | None = None

    @property
    def holds(self) -> bool:
        """Whether every figure adds up."""
        return all(f.status == "holds" for f in self.findings)


def audit(claim: Claim) -> Audit:
    """Judge every figure of a claim.

    Raises:
        UsageError: Nothing is claimed, or a figure has nothing to be judged by.
        MachineError: The machine lacks the peak that a figure is a share of.
    """
    findings = _by_one_convention(list(_findings(claim)))
    scored = _score(claim)
    if not findings and scored is None:
        raise UsageError(
            "nothing to audit",
            "give a claim: --mfu, --hfu, --flops-per-s, --mbu, --bandwidth or --speedup, and what it is of",
        )
    return Audit(findings=tuple(findings), score=scored)


def _findings(claim: Claim) -> Iterable[Finding]:
    if claim.flops_per_s is not None and (rate := rate_finding(claim, claim.flops_per_s)):
        yield rate
    if claim.mfu is not None and _has_rate(claim):
        yield ratio_finding(claim, "mfu", claim.mfu)
    if claim.hfu is not None:
        yield ratio_finding(claim, "hfu", claim.hfu)
    yield from bytes_findings(claim)
    yield from ceiling_findings(claim)
    if claim.speedup is not None:
        if claim.before is None:
            raise UsageError("a speed-up over what?", "give --from-machine and --from-mfu")
        yield speedup_finding(claim, claim.before, claim.speedup)


def _by_one_convention(findings: list[Finding]) -> list[Finding]:
    """Prefer the conventions that reproduce all figures of the claim: one author counts in one way."""
    counted = [f for f in findings if f.status == "holds" and any(e.convention for e in f.explanations)]
    counted = [f for f in counted if f.subject in ("mfu", "hfu", "flops_per_s")]
    shared = set.intersection(*({e.convention for e in f.explanations} for f in counted)) if counted else set()
    return [narrowed(f, shared) if shared and f in counted else f for f in findings]


def _has_rate(claim: Claim) -> bool:
    """An MFU next to a speed-up is judged by it, where there is no rate or throughput to judge it by."""
    return claim.speedup is None or claim.flops_per_s is not None or claim.tokens_per_s is not None


def _score(claim: Claim) -> Score | None:
    if claim.facts is None or claim.tokens_per_s is None or claim.tokens.sequence < 1:
        return None
    return score(
        claim.facts,
        tokens_per_s=claim.tokens_per_s.value,
        num_devices=claim.devices,
        machine=claim.machine,
        tokens=claim.tokens,
        precision=claim.precision,
        phase=claim.phase,
        recompute=claim.recompute,
    )


def common_conventions(audits: Iterable[Audit]) -> set[str]:
    """The conventions that reproduce every figure of several claims: by which a whole table was made."""
    found: set[str] | None = None
    for one in audits:
        for finding in one.findings:
            names = {e.convention for e in finding.explanations if not e.fault}
            found = names if found is None else found & names
    return found or set()
