"""A plan on one screen, as plain text: what it takes, what it reads, where it turns, what fits, every op's share.

Plain because a plan answers in a blink, and a library for tables takes longer to import than all of it.
"""

import msgspec

from roofline.core.run import Run
from roofline.core.units import column, percent, show
from roofline.plan.capacity import Memory
from roofline.plan.fitted import Expectation
from roofline.plan.planner import Plan
from roofline.plan.questions import Critical, Slo, critical, first_token, limits, price_per_million
from roofline.plan.table import aligned

_WIDE = 100
_ROWS = 14
_LABEL = 14


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for beyond the plan.

    Attributes:
        slo: The largest batch under a limit.
        price_per_hour: Of one device.
    """

    slo: Slo | None = None
    price_per_hour: float | None = None


def lines(planned: Plan, run: Run, asked: Asked | None = None, width: int = _WIDE) -> list[str]:
    """The screen of one plan, so many columns wide; prose that is wider goes on below."""
    asked = asked or Asked()
    rows = [*times(planned), *_facts(planned), *_asked(planned, asked)]
    return [
        *_filled(" · ".join(title(planned)), width),
        *_filled(_sentence(run), width),
        "",
        *(line for row in rows for line in row.filled(width)),
        "",
        *op_table(run, width),
        "",
        *(line for row in _not_modelled(planned, run) for line in row.filled(width)),
    ]


def title(planned: Plan) -> list[str]:
    """What is planned."""
    workload, parallel = planned.setting.workload, planned.setting.parallel
    parts = [planned.architecture.name, workload.phase, f"batch {workload.batch:,}"]
    if workload.phase != "train" and (workload.past or workload.phase == "decode"):
        parts.append(f"context {workload.past:,}")
    if planned.architecture.is_tower:
        parts.append(f"{max(1, workload.images)} images each" if workload.images > 1 else "one image each")
    elif workload.new_tokens > 1:
        parts.append(f"{workload.new_tokens:,} tokens")
    if planned.draft:
        parts.append(f"{planned.draft.tokens} draft tokens, {planned.draft.acceptance:.0%} accepted")
    form = planned.setting.storage.layers
    parts.append(str(workload.precision) if form is planned.setting.storage.base else f"{form.name} weights")
    split = [f"{k} {v}" for k in ("tp", "pp", "dp", "ep", "cp") if (v := getattr(parallel, k)) > 1]
    split += [f"zero {parallel.zero}"] if parallel.zero else []
    parts += [" ".join(split)] if split else []
    many = f"{parallel.devices} × " if parallel.devices > 1 else ""
    return [*parts, f"{many}{planned.machine.name}"]


def _sentence(run: Run) -> str:
    text = run.verdict.sentence if run.verdict else ""
    return text.split(". At the roof")[0] + "."


class Labelled(msgspec.Struct, frozen=True):
    """A line with a label before it."""

    label: str
    text: str

    def filled(self, width: int) -> list[str]:
        """As lines: what is wider than the screen goes on below, indented."""
        return _filled(self.text, width, f"{self.label:<{_LABEL}}", " " * _LABEL)


def _row(label: str, *cells: str) -> Labelled:
    return Labelled(label, "  ".join(c for c in cells if c))


def _filled(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    from textwrap import wrap

    return wrap(text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def times(planned: Plan) -> list[Labelled]:
    """Step time and rate: at the roof, and as expected."""
    found = planned.answers()
    decode = planned.setting.workload.phase == "decode"
    floor = show(found.step_s, "s")
    if found.step_exposed_s > 1.001 * found.step_s:
        floor = f"{floor} to {show(found.step_exposed_s, 's')}"
    rate = f"{_count(found.tokens_per_s)} tokens/s"
    each = planned.setting.parallel.devices
    per = f"({_count(found.tokens_per_s_per_device)} per device)" if each > 1 else ""
    rows = [_row("at the roof", f"{floor} per step", f"{rate} {per}".strip(), "no kernel can be faster")]
    if found.communication_s:
        hidden = f"{show(found.communication_s, 's')}: the first time hides it all, the second none of it"
        rows.append(_row("communication", hidden))
    if found.bubble_s:
        rows.append(_row("pipeline", f"{show(found.bubble_s, 's')} of the step its stages idle (bubble)"))
    rows += _expected(planned, planned.expectation())
    if planned.draft:
        rows.append(
            _row("speculation", f"{found.tokens / planned.setting.workload.batch:.3g} tokens per step expected")
        )
    ratios = f"MFU {percent(found.mfu_fraction)}, MBU {percent(found.mbu_fraction)}"
    if percent(found.hfu_fraction) != percent(found.mfu_fraction):
        ratios += f", HFU {percent(found.hfu_fraction)}"
    rows.append(_row("ratios", f"{ratios} at the roof: none can be higher"))
    prompt = first_token(planned) if decode else None
    if prompt is not None:
        first = show(prompt.answers().step_s, "s")
        rows.append(
            _row("first token", f"{first} at the roof, for prompts of {planned.setting.workload.context:,} tokens")
        )
    return rows


def _expected(planned: Plan, expected: Expectation | None) -> list[Labelled]:
    if expected is None:
        why = f'no measured kernels of this precision are known for "{planned.machine.key}"'
        return [_row("expected", f"n/a: {why}")]
    found = planned.answers()
    interval = f"{show(expected.low_s, 's')} to {show(expected.high_s, 's')}"
    rate = f"{_count(found.tokens / expected.likely_s)} tokens/s"
    share = found.step_s / expected.likely_s
    ratios = f"MFU {percent(_times(found.mfu_fraction, share))}, MBU {percent(_times(found.mbu_fraction, share))}"
    return [_row("expected", f"{show(expected.likely_s, 's')} ({interval})", rate, ratios, "by the fitted roof")]


def _facts(planned: Plan) -> list[Labelled]:
    found, room = planned.answers(), planned.memory()
    per_token = planned.architecture.kv_elements_per_token() * planned.setting.kv_item
    reads = f"{show(found.weights_read_bytes, 'B')} read per step and device"
    rows = [_row("weights", f"{reads}, {planned.setting.storage.describe()}")]
    if planned.setting.workload.phase != "train" and per_token:
        cache = (
            f"{show(per_token, 'B')} per token ({planned.setting.kv.name}), {show(found.kv_read_bytes, 'B')} moved"
        )
        rows.append(_row("KV cache", f"{cache} per step and device"))
    total, active = planned.architecture.params(), planned.architecture.active_params()
    used = f", {billions(active)} active" if active != total else ""
    rows.append(
        _row("parameters", f"{billions(total)}{used}, {show(found.flops_needed, 'FLOP')} needed per step and device")
    )
    if planned.setting.workload.phase == "decode":
        rows.append(_row("critical", *_critical(critical(planned), planned)))
    return [*rows, *fit_rows(planned, room)]


def billions(params: float) -> str:
    """A number of parameters in words: "8.03 billion"."""
    return f"{params / 1e9:.3g} billion" if params >= 1e9 else f"{params / 1e6:.3g} million"


def _critical(found: Critical, planned: Plan) -> list[str]:
    tokens = found.weight_tokens
    text = f"batch {tokens:,.0f} for weights" if tokens else "n/a for weights"
    if found.expert_tokens:
        text += f", {found.expert_tokens:,.0f} for experts"
    whole = (
        f"batch {found.step_batch:,} for the whole step"
        if found.step_batch
        else "no batch makes the whole step compute-bound: cache and state grow with it"
    )
    if planned.architecture.model_type == "napkin":
        return [text]
    return [f"{text}; {whole}"]


def fit_rows(planned: Plan, room: Memory) -> list[Labelled]:
    """What is held, whether it fits, what would."""
    parts = {
        "weights": room.weights_bytes,
        "KV and state": room.kv_bytes,
        "activations": room.activations_bytes,
        "gradients": room.gradients_bytes,
        "optimizer": room.optimizer_bytes,
    }
    held = ", ".join(f"{n} {show(b, 'B', capacity=True)}" for n, b in parts.items() if b)
    verdict = {True: "yes", False: "NO", None: "unknown"}[room.fits]
    of = f" of {show(room.capacity_bytes, 'B', capacity=True)}" if room.capacity_bytes else ""
    rows = [_row("fits", f"{verdict}: {show(room.total_bytes, 'B', capacity=True)}{of} per device ({held})")]
    if room.capacity_bytes and planned.architecture.model_type != "napkin":
        found = limits(planned)
        workload = planned.setting.workload
        length = "context" if workload.phase == "decode" else "tokens"
        most = [f"batch {found.batch:,}" if found.batch is not None else "any batch"]
        most.append(
            f"{length} {found.context:,} at batch {workload.batch:,}"
            if found.context is not None
            else f"any {length}"
        )
        rows.append(_row("", f"at most {' or '.join(most)}"))
    return rows


def _asked(planned: Plan, asked: Asked) -> list[Labelled]:
    rows = []
    if asked.slo is not None:
        s = asked.slo
        limit = f"under {show(s.limit_s, 's')} per token by the {s.by}"
        text = f"batch {s.batch:,}, {_count(s.tokens_per_s)} tokens/s at the roof" if s.batch else "no batch"
        rows.append(_row("limit", f"{text} {limit}"))
    if asked.price_per_hour is not None:
        devices = planned.setting.parallel.devices
        rate = planned.answers().tokens_per_s
        least = price_per_million(rate, devices, asked.price_per_hour)
        text = f"at least {least:.3g} per million tokens" if least is not None else "n/a"
        expected = planned.expectation()
        if expected is not None:
            likely = price_per_million(planned.answers().tokens / expected.likely_s, devices, asked.price_per_hour)
            text += f", {likely:.3g} expected" if likely is not None else ""
        rows.append(_row("price", f"{text} (at {asked.price_per_hour:g} per device and hour)"))
    return rows


def op_table(run: Run, width: int = _WIDE) -> list[str]:
    """Ops, longest at the roof first; a narrow screen leaves out FLOP and bytes, of which it shows the ratio."""
    ops = sorted(run.ops, key=lambda op: -(op.roof_s or 0))
    shown, rest = ops[:_ROWS], ops[_ROWS:]
    total = sum(op.roof_s or 0 for op in ops)
    names = [f"{op.name}{'' if op.phase == 'forward' else f' ({op.phase})'}" for op in shown]
    flops = [op.executed_flops or op.vector_flops for op in shown]
    moved = [op.bytes.best for op in shown]
    ratios = [
        show(f / b, "FLOP/B").removesuffix(" FLOP/B") if b else "n/a" for f, b in zip(flops, moved, strict=True)
    ]
    cells = [
        ["op", *names],
        ["module", *(op.module or "(model)" for op in shown)],
        ["calls", *(f"{op.calls:,}" for op in shown)],
        ["roof time", *column([op.roof_s for op in shown], "s", same_prefix=False)],
        ["share", *(percent((op.roof_s or 0) / total if total else None) for op in shown)],
        ["bound", *(op.bound.value if op.bound else "n/a" for op in shown)],
    ]
    if width >= _WIDE:
        cells += [["FLOP", *(show(f, "FLOP") for f in flops)], ["bytes", *(show(b, "B") for b in moved)]]
    table = aligned([*cells, ["FLOP/B", *ratios]], left=(0, 1, 5), width=width, cut=(1, 0))
    if rest:
        share = percent(sum(op.roof_s or 0 for op in rest) / total if total else None)
        table.append(f"and {len(rest)} more ops, {share} of the roof time (all: --json)")
    return table


def _not_modelled(planned: Plan, run: Run) -> list[Labelled]:
    missing = ["launch by the host", "rotary positions", "scheduling", "tokenizer"]
    if planned.setting.workload.phase == "decode":
        missing.insert(2, "sampling")
    if any(op.name == "scan" for op in planned.ops):
        missing.append("how a kernel blocks the scan (an estimate)")
    if any("expert" in op.module for op in planned.ops):
        missing.append("skewed routing (even is taken)")
    if planned.setting.parallel.devices > 1:
        missing.append("contention of links, collectives below their link's rate")
    expected = planned.expectation()
    fitted = [_row("fitted to", f"kernels of {expected.source}")] if expected else []
    return [_row("not modelled", ", ".join(missing)), *fitted, *(_row("warning", text) for text in run.warnings)]


def _count(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(fraction: float | None, share: float) -> float | None:
    return None if fraction is None else fraction * share
