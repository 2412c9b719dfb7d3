"""An audit on one screen: the claim, the judgement of each figure with its arithmetic, all conventions."""

import textwrap

import msgspec

from roofline.audit import Audit, Claim, Finding
from roofline.core.units import column, percent
from roofline.plan.conventions import Row, Score
from roofline.plan.table import with_notes

_WIDE = 100
_SHOWN_OTHERS = 3
# Above this a mistake that fits may do so by chance.
_LIKELY = 0.1


def text(claim: Claim, found: Audit, width: int = _WIDE) -> str:
    """Write the audit as plain text, so many columns wide."""
    blocks = [_wrapped(_heading(claim), "", width), *(_finding(f, width) for f in found.findings)]
    if found.score is not None:
        blocks.append(score_table(found.score, width))
    if claim.facts is not None and claim.facts.notes:
        blocks.append("\n".join(_wrapped(f"note: {note}", "      ", width) for note in claim.facts.notes))
    return "\n\n".join(blocks)


def _heading(claim: Claim) -> str:
    parts = [claim.facts.name] if claim.facts else []
    many = f"{claim.devices} × " if claim.devices > 1 else ""
    parts += [f"{many}{claim.machine.name}", claim.precision.upper()]
    if claim.tokens.documents:
        parts.append(f"{len(claim.tokens.documents)} documents in {claim.tokens.sequence} tokens")
    elif claim.tokens.sequence:
        parts.append(f"{claim.tokens.sequence} tokens per sequence")
    return ", ".join(parts)


def _finding(finding: Finding, screen: int) -> str:
    mark = {"holds": "ok ", "fault": "NO ", "unexplained": "NO "}[finding.status]
    lines = [_wrapped(f"{mark}{finding.title}: {finding.sentence}", "   ", screen)]
    width = max((len(what) for what, _ in finding.arithmetic), default=0)
    lines += [_wrapped(f"     {what:<{width}}  {how}", " " * (width + 7), screen) for what, how in finding.arithmetic]
    others = [e for e in finding.explanations[1:] if e.fault][:_SHOWN_OTHERS]
    lines += [_wrapped(f"     or: {e.fault} ({e.convention or e.peak})", "         ", screen) for e in others]
    if finding.chance_fraction is not None and finding.chance_fraction > _LIKELY:
        share = percent(finding.chance_fraction, 2)
        said = f"weak evidence: some mistake would reproduce {share} of all figures as rough as this one"
        lines.append(_wrapped(f"     {said}", "     ", screen))
    return "\n".join(lines)


def score_table(score: Score, width: int = _WIDE) -> str:
    """Write what every convention makes of a throughput, conventions that count alike on one line."""
    rows = _merged(score.rows)
    columns = [
        ["convention", *(r.convention for r in rows)],
        ["per token", *column([r.flops_per_token for r in rows], "FLOP", digits=4)],
        ["per device", *column([r.flops_per_s for r in rows], "FLOP/s", digits=4)],
        ["of peak", *(percent(r.fraction) for r in rows)],
        ["", *("HFU" if r.counts == "executed" else "MFU" for r in rows)],
    ]
    return "\n".join(with_notes(columns, ["formula", *(r.formula for r in rows)], left=(0, 4), width=width))


def _merged(rows: tuple[Row, ...]) -> list[Row]:
    """Conventions that count alike for this model, on one line."""
    found: dict[float, Row] = {}
    for row in rows:
        first = found.get(row.flops_per_token)
        name = f"{first.convention}, {row.convention}" if first else row.convention
        found[row.flops_per_token] = msgspec.structs.replace(first or row, convention=name)
    return list(found.values())


def _wrapped(line: str, indent: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
