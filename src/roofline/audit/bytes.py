"""Claims about bytes: an MBU, a bandwidth."""

import msgspec

from roofline.audit.claim import Claim, Decode, Gemm
from roofline.audit.finding import Explanation, Finding, Status, Subject, agrees, figure
from roofline.audit.quoted import Quoted
from roofline.core.units import Unit, show
from roofline.errors import UsageError
from roofline.plan.conventions import ModelFacts, token_bytes
from roofline.plan.conventions.traffic import Basis

Line = tuple[str, str]


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """A way to get the bytes per second of one device."""

    name: str
    bytes_per_s: float
    fault: str = ""
    arithmetic: tuple[Line, ...] = ()


def bytes_findings(claim: Claim) -> list[Finding]:
    """Judge a bandwidth against the throughput or the rate, and an MBU against either.

    Raises:
        UsageError: There is nothing to judge an MBU by.
    """
    found = []
    if claim.bytes_per_s is not None and (known := _ways(claim)):
        found.append(_judge(claim, "bytes_per_s", claim.bytes_per_s, known, _inputs(claim)))
    if claim.mbu is not None:
        found.append(_mbu(claim, claim.mbu))
    return found


def _mbu(claim: Claim, claimed: Quoted) -> Finding:
    bandwidth = claim.machine.dram.value
    if claim.bytes_per_s is not None:
        rate = claim.bytes_per_s
        ways = [_given(claim, rate.value)]
        inputs = [rate]
    else:
        ways, inputs = _ways(claim), _inputs(claim)
    if not ways:
        raise UsageError(
            "MBU needs a bandwidth, or a model and its throughput",
            'give --bandwidth "1397 GB/s", or a model with --tokens-per-s',
        )
    over_peak = [_over(way, bandwidth, claim.machine.name) for way in ways]
    return _judge(claim, "mbu", claimed, over_peak, inputs)


def _given(claim: Claim, value: float) -> Traffic:
    return Traffic(name="", bytes_per_s=value, arithmetic=(("bandwidth", f"{_rate(value)} per device, as claimed"),))


def _over(way: Traffic, bandwidth: float, name: str) -> Traffic:
    share = way.bytes_per_s / bandwidth
    line = ("MBU", f"{_rate(way.bytes_per_s)} ÷ {_rate(bandwidth)} ({name}) = {figure(share, '')}")
    return msgspec.structs.replace(way, bytes_per_s=share, arithmetic=(*way.arithmetic, line))


def _inputs(claim: Claim) -> list[Quoted]:
    used = claim.flops_per_s if claim.gemm is not None else claim.tokens_per_s
    return [used] if used is not None else []


def _ways(claim: Claim) -> list[Traffic]:
    if claim.gemm is not None and claim.flops_per_s is not None:
        return [_of_gemm(claim.gemm, claim.flops_per_s.value)]
    if claim.facts is not None and claim.tokens_per_s is not None:
        return _of_decode(claim, claim.facts, claim.tokens_per_s.value)
    return []


def _of_gemm(gemm: Gemm, flops_per_s: float) -> Traffic:
    """Operands and result once, in the time that the FLOP took."""
    value = gemm.bytes * flops_per_s / gemm.flops
    return Traffic(
        name="operands and result once each",
        bytes_per_s=value,
        arithmetic=(
            ("FLOP", f"2·M·N·K = {show(gemm.flops, 'FLOP', digits=4)}"),
            ("bytes", f"(M·K + K·N)·{gemm.in_bytes:g} + M·N·{gemm.out_bytes:g} = {show(gemm.bytes, 'B', digits=4)}"),
            (
                "bandwidth",
                f"{show(gemm.bytes, 'B', digits=4)} × {show(flops_per_s, 'FLOP/s', digits=4)} ÷ FLOP "
                f"= {_rate(value)}",
            ),
        ),
    )


def _of_decode(claim: Claim, facts: ModelFacts, tokens_per_s: float) -> list[Traffic]:
    """What a step reads first, then what is called its bytes elsewhere."""
    found = []
    counted: tuple[tuple[Basis, bool], ...] = (
        ("read", True),
        ("read", False),
        ("resident", False),
        ("resident", True),
    )
    for basis, with_cache in counted:
        if with_cache and not claim.decode.context:
            continue
        for whole_head in (False, True) if claim.devices > 1 else (False,):
            found.append(_way(claim, facts, tokens_per_s, basis, with_cache, whole_head))
    honest = found[0]
    if claim.devices > 1:
        fault = f"the bytes of all {claim.devices} devices are divided by the bandwidth of one"
        scaled = honest.bytes_per_s * claim.devices
        found.append(Traffic(name=honest.name, bytes_per_s=scaled, fault=fault, arithmetic=honest.arithmetic))
    return found


def _way(
    claim: Claim, facts: ModelFacts, tokens_per_s: float, basis: Basis, with_cache: bool, whole_head: bool
) -> Traffic:
    decode: Decode = claim.decode
    counted = token_bytes(
        facts,
        bits_per_weight=decode.bits_per_weight,
        context=decode.context if with_cache else 0,
        batch=decode.batch,
        devices=claim.devices,
        whole_head=whole_head,
        basis=basis,
    )
    steps = tokens_per_s / decode.batch
    value = counted.total * steps
    name = ("weights read" if basis == "read" else "weights resident") + (" + KV cache" if with_cache else "")
    name += ", output head whole on every device" if whole_head else ""
    return Traffic(
        name=name,
        bytes_per_s=value,
        arithmetic=(
            (
                "bytes per step",
                f"{_size(counted.weights)} of weights + {_size(counted.cache)} of KV cache per device",
            ),
            ("counted", name),
            ("steps", f"{tokens_per_s:.4g} tokens/s ÷ batch {decode.batch} = {steps:.4g} /s"),
            ("bandwidth", f"{_size(counted.total)} × {steps:.4g} /s = {_rate(value)}"),
        ),
    )


def _judge(claim: Claim, subject: Subject, claimed: Quoted, ways: list[Traffic], inputs: list[Quoted]) -> Finding:
    unit: Unit = "" if subject == "mbu" else "B/s"
    matches = [w for w in ways if agrees(w.bytes_per_s, claimed, inputs, claim.tolerance)]
    kept = [w for w in matches if not w.fault] or matches
    honest = figure(ways[0].bytes_per_s, unit)
    status: Status = "unexplained" if not kept else "fault" if kept[0].fault else "holds"
    if not kept:
        said = f"does not add up, and no usual way to count bytes explains it: right is {honest}"
    elif kept[0].fault:
        said = f"does not add up: {kept[0].fault}; right is {honest}"
    else:
        said = "adds up" + (f" by {kept[0].name}" if kept[0].name else "")
    return Finding(
        subject=subject,
        unit=unit,
        claimed=claimed.value,
        expected=ways[0].bytes_per_s,
        status=status,
        sentence=said,
        explanations=tuple(
            Explanation(convention=w.name, fault=w.fault, value=w.bytes_per_s, arithmetic=w.arithmetic) for w in kept
        ),
        arithmetic=(kept or ways)[0].arithmetic,
    )


def _rate(value: float) -> str:
    return show(value, "B/s", digits=4)


def _size(value: float) -> str:
    return show(value, "B", digits=4)
