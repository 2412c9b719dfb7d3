"""Claims about FLOP: an MFU, an HFU, a rate."""

from collections.abc import Callable

import msgspec

from roofline.audit.claim import Claim
from roofline.audit.finding import (
    NAMES,
    Explanation,
    Finding,
    Status,
    Subject,
    agrees,
    figure,
    reach_of,
)
from roofline.audit.hypotheses import Division, Peak, divisions, peaks, rate_line
from roofline.audit.quoted import Quoted
from roofline.core.units import Unit, show
from roofline.errors import UsageError
from roofline.plan.conventions import Convention, ModelFacts, Recompute, conventions, recomputations

Line = tuple[str, str]
_RECOMPUTED = "the numerator has work that was computed twice: this is an HFU"
_SCORES_AGAIN = "attention scores, in the backward pass of a fused attention"
_KEPT_EXPLANATIONS = 8
# Conventions that a mistake is looked for under: with the rare ones too, chance explains too much.
_USUAL = ("", "needed", "palm", "nanogpt", "matmul", "torchtitan", "megatron", "6n", "lora", "forward", "2n")
_WRONG_ANYWAY = ("instrumented", "lingua", "moe-total", "lora-as-full")


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """A way to get the FLOP/s of one device, before any division goes wrong.

    Attributes:
        flops_per_s: Of one device.
        convention: Its name; empty where the rate itself was given.
        recompute: What it takes as recomputed.
        fault: What is wrong with it.
        arithmetic: How, as lines; made when they are shown.
    """

    flops_per_s: float
    convention: str = ""
    recompute: str = "none"
    fault: str = ""
    arithmetic: Callable[[], list[Line]]


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """A count, shared among devices and, for a ratio, divided by a peak."""

    count: Count
    division: Division
    peak: Peak | None = None

    @property
    def rate(self) -> float:
        """FLOP/s that is taken for one device's."""
        return self.count.flops_per_s * self.division.factor

    @property
    def value(self) -> float:
        """The figure: a share of the peak, or the rate."""
        return self.rate / self.peak.value if self.peak else self.rate

    @property
    def faults(self) -> list[str]:
        """What is wrong with it."""
        found = (self.count.fault, self.division.fault, self.peak.fault if self.peak else "")
        return [f for f in found if f]


def ratio_finding(claim: Claim, subject: Subject, claimed: Quoted) -> Finding:
    """Judge an MFU or HFU against the rate that was claimed with it, or else against the throughput.

    Raises:
        UsageError: Neither a rate nor a model with its throughput is known.
    """
    known = peaks(claim.machine, claim.precision)
    counts = [_given(claim.flops_per_s.value)] if claim.flops_per_s else _counts(claim, subject)
    ways = [Way(count=c, division=d, peak=p) for c in counts for d in divisions(claim) for p in known]
    return _judge(claim, subject, claimed, ways, claim.flops_per_s or claim.tokens_per_s)


def rate_finding(claim: Claim, claimed: Quoted) -> Finding | None:
    """Judge a rate against the throughput; None where no throughput of a known model is given."""
    if claim.facts is None or claim.tokens_per_s is None:
        return None
    ways = [Way(count=c, division=d) for c in _counts(claim, "flops_per_s") for d in divisions(claim)]
    return _judge(claim, "flops_per_s", claimed, ways, claim.tokens_per_s)


def _judge(claim: Claim, subject: Subject, claimed: Quoted, ways: list[Way], source: Quoted | None) -> Finding:
    """Keep what reproduces the figure with at most one mistake: with two, anything could be explained."""
    unit: Unit = "FLOP/s" if subject == "flops_per_s" else ""
    inputs = [source] if source else []
    right = [w for w in ways if not w.faults]
    usual = [w for w in ways if w.count.convention in (*_USUAL, *_WRONG_ANYWAY)]
    wrong = [w for w in usual if len(w.faults) == 1]
    sound = [w for w in right if agrees(w.value, claimed, inputs, claim.tolerance)]
    mistaken = [w for w in wrong if agrees(w.value, claimed, inputs, claim.tolerance)]
    kept = tuple(_explained(subject, w) for w in (sound or _one_per_fault(mistaken))[:_KEPT_EXPLANATIONS])
    status: Status = "holds" if sound else "fault" if kept else "unexplained"
    return Finding(
        subject=subject,
        unit=unit,
        claimed=claimed.value,
        expected=right[0].value,
        status=status,
        sentence=_sentence(claimed.value, right, kept, unit),
        explanations=kept,
        chance_fraction=_chance(wrong, claimed, inputs, claim.tolerance) if status == "fault" else None,
        arithmetic=(kept[0] if kept else _explained(subject, right[0])).arithmetic,
    )


def _one_per_fault(matches: list[Way]) -> list[Way]:
    """The first, most usual convention of each fault: nobody needs a fault twelve times."""
    found: dict[str, Way] = {}
    for way in matches:
        found.setdefault(way.faults[0], way)
    return list(found.values())


def narrowed(finding: Finding, shared: set[str]) -> Finding:
    """Keep only the explanations by conventions that also reproduce the other figures of the claim."""
    kept = tuple(e for e in finding.explanations if e.convention in shared)
    said = f"adds up{_by(kept)}"
    return msgspec.structs.replace(finding, explanations=kept, sentence=said, arithmetic=kept[0].arithmetic)


def _chance(wrong: list[Way], claimed: Quoted, inputs: list[Quoted], tolerance: float | None) -> float:
    """Share of all figures from zero to twice the claimed one that some mistake would reproduce as well."""
    reached, covered, end = 2 * claimed.value, 0.0, 0.0
    for value in sorted(w.value for w in wrong):
        reach = reach_of(value, claimed, inputs, tolerance)
        low, high = max(value - reach, end), min(value + reach, reached)
        covered += max(0.0, high - low)
        end = max(end, high)
    return covered / reached


def _sentence(claimed: float, right: list[Way], kept: tuple[Explanation, ...], unit: Unit) -> str:
    if kept and not kept[0].fault:
        return f"adds up{_by(kept)}"
    shown = {w.count.convention: w.value for w in reversed(right) if w.count.convention in ("", "palm")}
    shown[right[0].count.convention] = right[0].value
    by = [figure(value, unit) + (f" by {name}" if name else "") for name, value in shown.items()]
    honest = f"right is {' or '.join(reversed(by))}"
    over = "; above 100 % of a peak nothing can be" if unit == "" and claimed > 1 else ""
    if not kept:
        return f"does not add up, and no usual mistake explains it: {honest}{over}"
    more = f" (or {len(kept) - 1} more: see below)" if len(kept) > 1 else ""
    return f"does not add up; it comes out if {kept[0].fault}{more}; {honest}{over}"


def _by(kept: tuple[Explanation, ...]) -> str:
    names = list(
        dict.fromkeys(
            w.convention + ("" if w.recompute == "none" else f" + {w.recompute} recomputation")
            for w in kept
            if w.convention
        )
    )
    return f" by {', '.join(names)}" if names else ""


def _given(value: float) -> Count:
    return Count(flops_per_s=value, arithmetic=lambda: [("rate", f"{rate_line(value)} per device, as claimed")])


def _counts(claim: Claim, subject: Subject) -> list[Count]:
    """Every way to count the FLOP/s of one device from the throughput."""
    if claim.facts is None or claim.tokens_per_s is None:
        raise UsageError(
            f"{NAMES[subject]} needs a rate, or a model and its throughput",
            'give --flops-per-s "420 TFLOP/s", or a model with --tokens-per-s and --sequence',
        )
    found = []
    for convention in conventions():
        if convention.phase != claim.phase or not convention.fits(claim.facts):
            continue
        if convention.reads_sequence and claim.tokens.sequence < 1:
            continue
        for recompute in recomputations() if claim.phase == "train" else recomputations()[:1]:
            fault = _fault(convention, recompute, subject, claim.recompute)
            if fault is not None:
                found.append(_count(claim, claim.facts, convention, recompute, fault))
    return found


def _fault(convention: Convention, recompute: Recompute, subject: Subject, ran: str | None) -> str | None:
    """What is wrong with counting so; None for two things wrong at once, which would explain anything."""
    found = [convention.fault] if convention.fault else []
    twice = recompute.name != "none" or convention.counts == "executed"
    if subject == "mfu" and twice:
        found.append(f"{_RECOMPUTED} ({recompute.title if recompute.name != 'none' else _SCORES_AGAIN})")
    if subject == "hfu" and ran is not None and recompute.name != ran:
        found.append(f'the run recomputes "{ran}", but "{recompute.name}" is counted')
    if convention.counts == "executed" and recompute.name != "none":
        return None
    return None if len(found) > 1 else "".join(found)


def _count(claim: Claim, facts: ModelFacts, convention: Convention, recompute: Recompute, fault: str) -> Count:
    assert claim.tokens_per_s is not None
    weights = convention.weight_flops(facts)
    attention = convention.attention_flops(facts, claim.tokens)
    again = recompute.extra(convention, facts, claim.tokens)
    flops, tokens = weights + attention + again, claim.tokens_per_s.value
    per_device = tokens / claim.devices

    def lines() -> list[Line]:
        extra = f" + {_flop(again)} again ({recompute.title})" if again else ""
        return [
            ("convention", f"{convention.name}: {convention.formula}"),
            ("FLOP per token", f"{_flop(weights)} weights + {_flop(attention)} attention{extra} = {_flop(flops)}"),
            ("throughput", f"{tokens:,.6g} tokens/s ÷ {claim.devices} devices = {per_device:,.5g} tokens/s"),
            ("rate", f"{_flop(flops)} × {per_device:,.5g} /s = {rate_line(flops * per_device)} per device"),
        ]

    return Count(
        flops_per_s=flops * per_device,
        convention=convention.name,
        recompute=recompute.name,
        fault=fault,
        arithmetic=lines,
    )


def _explained(subject: Subject, way: Way) -> Explanation:
    lines = [*way.count.arithmetic(), *_scaled(way.division, way.rate)]
    if way.peak:
        lines.append(("peak", f"{rate_line(way.peak.value)}, {way.peak.label}"))
        share = f"{rate_line(way.rate)} ÷ {rate_line(way.peak.value)} = {figure(way.value, '')}"
        lines.append((NAMES[subject], share))
    return Explanation(
        convention=way.count.convention,
        recompute=way.count.recompute,
        peak=way.peak.label if way.peak else "",
        division=way.division.label,
        fault="".join(way.faults),
        value=way.value,
        arithmetic=tuple(lines),
    )


def _scaled(division: Division, value: float) -> list[Line]:
    return [("mistaken for", f"{rate_line(value)}: {division.label}")] if division.fault else []


def _flop(value: float) -> str:
    return show(value, "FLOP", digits=4)
