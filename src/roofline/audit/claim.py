"""What is claimed, and what is known about the run behind it."""

import msgspec

from roofline.audit.quoted import Quoted
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.plan.conventions import ModelFacts, Tokens
from roofline.plan.conventions.rules import Phase


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How a run was spread: each is a way in which tokens get counted twice or not at all.

    Attributes:
        accumulation: Micro-steps per optimizer step.
        tensor: Ranks of tensor parallelism.
        pipeline: Stages.
        sequence: Ranks of sequence or context parallelism.
        per_host: Devices per host.
    """

    accumulation: int = 1
    tensor: int = 1
    pipeline: int = 1
    sequence: int = 1
    per_host: int = 8


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a speed-up is relative to; the same program, so the same FLOP per token.

    Attributes:
        machine: One of its devices.
        mfu: Its MFU.
        devices: How many there were; None: as many as after.
        precision: Whose peak its MFU is of; None: the same as after.
    """

    machine: Machine
    mfu: Quoted
    devices: int | None = None
    precision: Precision | None = None


class Decode(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens were decoded.

    Attributes:
        bits_per_weight: Bits of one stored weight, with its share of scales.
        context: Mean tokens in the cache.
        batch: Sequences decoded together.
    """

    bits_per_weight: float = 16
    context: float = 0
    batch: int = 1


class Gemm(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix product M × K by K × N whose rates are claimed.

    Attributes:
        m: Rows of the result.
        n: Columns of the result.
        k: What is summed over.
        in_bytes: Bytes per element of the operands.
        out_bytes: Bytes per element of the result.
    """

    m: int
    n: int
    k: int
    in_bytes: float = 2
    out_bytes: float = 2

    @property
    def flops(self) -> int:
        """2 · M · N · K."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Operands read and result written once."""
        return (self.m * self.k + self.k * self.n) * self.in_bytes + self.m * self.n * self.out_bytes


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim to audit; what is not known is left out, and what depends on it is not judged.

    Attributes:
        machine: One device.
        precision: What the matrix products run in.
        facts: The model.
        tokens: Sequence length and packed documents.
        devices: Devices that share the throughput.
        tokens_per_s: Tokens in the timed window ÷ its length, of all devices together.
        phase: What a token goes through.
        recompute: What the run recomputes; None where unknown.
        layout: How it was spread.
        decode: How tokens were decoded, for claims about bytes.
        gemm: A single matrix product, in place of a model.
        mfu: Claimed.
        hfu: Claimed.
        flops_per_s: Claimed, per device.
        mbu: Claimed.
        bytes_per_s: Claimed, per device.
        speedup: Claimed, over `before`.
        before: What the speed-up is relative to.
        tolerance: Relative tolerance; None takes the rounding of the quoted numbers.
    """

    machine: Machine
    precision: Precision = Precision.BF16
    facts: ModelFacts | None = None
    tokens: Tokens = Tokens()
    devices: int = 1
    tokens_per_s: Quoted | None = None
    phase: Phase = "train"
    recompute: str | None = None
    layout: Layout = Layout()
    decode: Decode = Decode()
    gemm: Gemm | None = None
    mfu: Quoted | None = None
    hfu: Quoted | None = None
    flops_per_s: Quoted | None = None
    mbu: Quoted | None = None
    bytes_per_s: Quoted | None = None
    speedup: Quoted | None = None
    before: Before | None = None
    tolerance: float | None = None
