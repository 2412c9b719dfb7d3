"""The Run: one program on one machine, counted, measured, planned or imported. The centre of everything.

What comes before a Run measures, counts, reads or plans; what comes after only reads it. A Run is immutable,
versioned, and saved as one JSON document whose keys are a contract: units in the names, unknown is null.
"""

import builtins
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofline.core.figures import absurd
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.work import Work
from roofline.errors import RunFileError

SCHEMA = "roofline.run/1"

BytesOrigin = Literal["compulsory", "fused", "cached", "operator", "module", "measured"]
Phase = Literal["forward", "backward", "optimizer"]
Formula = Literal["exact", "estimate", "none"]


class Flops(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of the whole program.

    Attributes:
        needed: Matrix FLOP that a perfect program would do. The numerator of MFU.
        executed: Matrix FLOP that ran: recomputation, masked attention and padding included. Of HFU.
        vector: Vector FLOP.
        by_precision: `executed` by the precision that it ran in.
    """

    needed: float
    executed: float
    vector: float
    by_precision: dict[Precision, float] = {}


class Bytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes moved by the whole program, by origin; None where the origin was not determined."""

    compulsory: float | None = None
    fused: float | None = None
    cached: float | None = None
    operator: float | None = None
    module: float | None = None
    measured: float | None = None


class OpBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes moved by one row of ops, by origin."""

    operator: float | None = None
    cached: float | None = None
    measured: float | None = None

    def by(self, origin: BytesOrigin | None) -> float:
        """Bytes by `origin`; the best at hand where rows don't have it, or for None."""
        known = getattr(self, origin, None) if origin else None
        return self.best if known is None else known

    @property
    def best(self) -> float:
        """The best model of DRAM traffic at hand: measured, else cached, else operator."""
        known = [b for b in (self.measured, self.cached, self.operator) if b is not None]
        return known[0] if known else 0.0


class OpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one op with the same module, phase and shapes. Every figure is the sum over the calls.

    Attributes:
        name: The op, such as "aten.convolution".
        module: Dotted path of the module that called it; "" outside any module.
        phase: Forward, backward or optimizer.
        calls: How often it ran.
        shapes: Input shapes, such as "64x3x224x224, 64x3x7x7".
        precision: Of its matrix work, else of its data; None for index arithmetic.
        engine: Which engine does most of its arithmetic; None for pure data movement.
        needed_flops: Matrix FLOP that a perfect program would do.
        executed_flops: Matrix FLOP that ran.
        vector_flops: Vector FLOP that ran.
        bytes: Bytes moved.
        network_bytes: Bytes sent over the network by this rank.
        node_bytes: Bytes sent over the links within its node (NVLink) by this rank.
        seconds: Time measured; None if not timed.
        roof_s: Least time on the Run's machine; None before it is judged or without the ceiling.
        bound: The ceiling that binds at the roof.
        efficiency_fraction: roof_s / seconds. Above 1 it beats the roof, which is a finding.
        formula: Whether the FLOP count is exact, an estimate, or missing.
    """

    name: str
    module: str = ""
    phase: Phase = "forward"
    calls: int = 1
    shapes: str = ""
    precision: Precision | None = None
    engine: Literal["matrix", "vector"] | None = None
    needed_flops: float = 0
    executed_flops: float = 0
    vector_flops: float = 0
    bytes: OpBytes = OpBytes()
    network_bytes: float = 0
    node_bytes: float = 0
    seconds: float | None = None
    roof_s: float | None = None
    bound: Bound | None = None
    efficiency_fraction: float | None = None
    formula: Formula = "exact"

    def work(self, origin: BytesOrigin | None = None, machine: Machine | None = None) -> Work:
        """The row as Work, with the bytes of `origin` (the best at hand for None), all counted as read.

        By `cached` bytes on a machine with a shared cache of known rate, what the op asks for passes through that
        cache, unless a call is small enough for the caches before it.
        """
        moved, passed = self.bytes.by(origin), self.bytes.operator or 0.0
        cache = machine.shared_cache if machine else None
        through = cache is not None and moved == self.bytes.cached and passed / self.calls > cache[1]
        precision = self.precision or Precision.FP32
        return Work(
            matrix={precision: self.executed_flops} if self.executed_flops else {},
            needed={precision: self.needed_flops} if self.executed_flops else None,
            vector={precision: self.vector_flops} if self.vector_flops else {},
            read_bytes=moved,
            cache_bytes=passed if through else 0,
            network_bytes=self.network_bytes,
            node_bytes=self.node_bytes,
        )


class UnknownOp(msgspec.Struct, frozen=True, kw_only=True):
    """An op that ran without a formula.

    Attributes:
        name: The op.
        calls: How often it ran.
        bytes_fraction: Its share of the program's operator bytes.
        time_fraction: Its share of the measured op time; None if not timed.
    """

    name: str
    calls: int
    bytes_fraction: float
    time_fraction: float | None = None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what ran was counted.

    Attributes:
        counted_fraction: Share of op calls that were counted or declared free.
        unknown_ops: The rest, by name. With any, totals are lower bounds.
    """

    counted_fraction: float = 1.0
    unknown_ops: tuple[UnknownOp, ...] = ()


class PageFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that a program on a CPU takes from the system anew at every step.

    Attributes:
        per_step: How many.
        all_threads_s: Their cost per step if all threads share them, s.
        one_thread_s: Their cost per step if one thread takes them all, s.
    """

    per_step: int
    all_threads_s: float
    one_thread_s: float


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Wall time of one step, every sample kept.

    Attributes:
        median_s: Median of the samples, s.
        samples_s: One entry per step timed, s.
        spread_fraction: Interquartile range / median.
        stable: Whether the spread allows a verdict.
        busy_s: Time per step in which the device ran ops, from the profiler; None if not profiled.
        warmup_s: Time spent before the samples, s.
        compile_s: First call above the median, where the program is compiled; never in the samples.
        page_faults: Memory taken anew at every step; None where there is hardly any, or off the CPU.
    """

    median_s: float
    samples_s: tuple[float, ...]
    spread_fraction: float
    stable: bool
    busy_s: float | None = None
    warmup_s: float | None = None
    compile_s: float | None = None
    page_faults: PageFaults | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Which ceiling binds and how far below it the program is.

    Attributes:
        bound: The ceiling that binds; uncertain where honest counts of bytes name different ones.
        certain: Whether every honest count of bytes names the same ceiling.
        likely_bound: The ceiling that binds by the bytes of `bytes_origin`.
        mfu_fraction: Needed matrix FLOP/s / peak; None without a time or a peak.
        hfu_fraction: Executed matrix FLOP/s / peak.
        mbu_fraction: Bytes/s / bandwidth.
        bytes_origin: Where the bytes of `mbu_fraction` and `intensity_flops_per_byte` come from.
        intensity_flops_per_byte: Executed matrix FLOP / bytes.
        ridge_point_flops_per_byte: Peak / bandwidth in the precision of the matrix work.
        precision: The precision of most of the matrix work, which names the peak.
        roof_s: Sum of the per-op roof times, s.
        efficiency_fraction: roof_s / wall time; above 1 the program beats the roof, which is a finding.
        averaging_honesty_fraction: Aggregate roof time / sum of per-op roof times.
        sentence: The verdict in one sentence.
    """

    bound: Bound
    certain: bool
    likely_bound: Bound | None = None
    mfu_fraction: float | None = None
    hfu_fraction: float | None = None
    mbu_fraction: float | None = None
    bytes_origin: BytesOrigin = "operator"
    intensity_flops_per_byte: float | None = None
    ridge_point_flops_per_byte: float | None = None
    precision: Precision | None = None
    roof_s: float | None = None
    efficiency_fraction: float | None = None
    averaging_honesty_fraction: float | None = None
    sentence: str = ""


class TimeBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Where the wall time goes. The parts are never negative and add up to the wall time.

    Attributes:
        wall_s: Median wall time of one step.
        compute_s: Roof time of compute-bound ops.
        memory_s: Roof time of memory-bound ops.
        inefficiency_s: Op time above the roof.
        network_s: Exposed communication.
        idle_s: The device waits for the host.
    """

    wall_s: float
    compute_s: float
    memory_s: float
    inefficiency_s: float
    network_s: float
    idle_s: float


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try.

    Attributes:
        action: What to do.
        saves_at_most_s: Upper bound on what it can save per step, from the time budget; None if not timed.
        evidence: The numbers behind it.
    """

    action: str
    saves_at_most_s: float | None
    evidence: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One program on one machine.

    Attributes:
        schema: Version of the JSON contract.
        kind: How the figures came about.
        workload: What ran: target, batch, train, precision, options; plain JSON values.
        machine: Whose roof it is judged by, whole; None when only counted.
        environment: Where and with what it ran: versions, threads, date; plain JSON values.
        flops: Totals.
        bytes: Totals by origin.
        coverage: What was counted and what was not.
        timing: Wall time of a step; None when not timed.
        verdict: Filled in by `roofline.analysis.judge`.
        time_budget: Filled in by `roofline.analysis.judge`; None when not timed.
        ops: Rows of ops, in the order of their first call.
        modules: Totals by module path (own work and children's).
        advice: Ranked by what it can save.
        warnings: What to know before trusting a figure, each with the size of its effect.
    """

    schema: str = SCHEMA
    kind: Literal["measured", "counted", "planned", "imported"]
    workload: dict[str, Any]
    machine: Machine | None = None
    environment: dict[str, Any] = {}
    flops: Flops
    bytes: Bytes
    coverage: Coverage = Coverage()
    timing: Timing | None = None
    verdict: Verdict | None = None
    time_budget: TimeBudget | None = None
    ops: tuple[OpRecord, ...] = ()
    modules: "tuple[ModuleTotal, ...]" = ()
    advice: tuple[Advice, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self, *, indent: int = 2) -> builtins.bytes:
        """Encode the Run as one JSON document (UTF-8)."""
        return msgspec.json.format(msgspec.json.encode(self), indent=indent)

    def save(self, path: str | Path) -> Path:
        """Write the Run as JSON; the file is complete or absent, never half-written.

        Raises:
            RunFileError: The file can't be written.
        """
        return write_whole(path, self.to_json() + b"\n")

    @staticmethod
    def load(path: str | Path) -> "Run":
        """Read a saved Run.

        Raises:
            RunFileError: The file is missing, truncated, or no Run of this schema.
        """
        return decode(_read(Path(path)), str(path))

    def report(self, path: str | Path) -> Path:
        """Write a report in the format of the suffix: .html, .png, .svg, .md or .json."""
        from roofline.report import write

        return write(self, path)

    def _repr_html_(self) -> str:
        """Show the Run in a notebook: its table and its plot."""
        from roofline.report.notebook import render

        return render(self)


class ModuleTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of one module: its own ops and those of the modules it calls.

    Attributes:
        path: Dotted path; "" is the whole program.
        kind: Class name.
        calls: Forward calls.
        needed_flops: Matrix FLOP needed, all phases.
        executed_flops: Matrix FLOP executed, all phases.
        vector_flops: Vector FLOP, all phases.
        operator_bytes: Bytes by the `operator` origin, all phases.
        seconds: Measured op time; None if not timed.
    """

    path: str
    kind: str = ""
    calls: int = 0
    needed_flops: float = 0
    executed_flops: float = 0
    vector_flops: float = 0
    operator_bytes: float = 0
    seconds: float | None = None


def decode(data: bytes, origin: str) -> Run:
    """Decode one Run from JSON; `origin` names the source in errors."""
    again = "make it again: roofline measure TARGET -o run.json"
    try:
        run = msgspec.json.decode(_utf8(data, origin), type=Run)
    except msgspec.ValidationError as error:
        raise RunFileError(
            f"{origin} is not a roofline Run: {error}",
            "a Run is made by: roofline measure TARGET -o run.json",
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunFileError(f"{origin} is damaged or truncated: {error}", again) from None
    if run.schema != SCHEMA:
        raise RunFileError(
            f'{origin} has schema "{run.schema}", this version reads "{SCHEMA}"',
            "update roofline, or make the Run again",
        )
    # What ran and where are plain values that no figure is made of.
    wrong = absurd(msgspec.structs.replace(run, workload={}, environment={}))
    if wrong is not None:
        raise RunFileError(f"{origin} is damaged: ${wrong}, which no figure of a Run can be", again)
    return run


def _utf8(data: bytes, origin: str) -> bytes:
    """The text without the mark that editors and shells of Windows begin a file with, which JSON doesn't allow.

    Raises:
        RunFileError: The file is compressed.
    """
    if data.startswith(b"\x1f\x8b"):
        raise RunFileError(f"{origin} is compressed", f"unpack it first: gunzip -c {origin} > run.json")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def json_schema() -> dict[str, Any]:
    """Give the JSON schema (draft 2020-12) of a saved Run."""
    return msgspec.json.schema(Run)


def write_whole(path: str | Path, data: bytes) -> Path:
    """Write `data` to `path` through a temporary file beside it, so that it is complete or absent.

    Raises:
        RunFileError: The folder is missing or not writable.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True) if part.parent.is_dir() else None
        raise RunFileError(
            f"can't write {target}: {error.strerror}", "choose a folder that exists and is writable with -o"
        ) from None
    return target


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunFileError(f"can't read {path}: {error.strerror}", "give the path of a saved Run (.json)") from None
