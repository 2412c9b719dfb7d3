"""A machine: its ceilings, each with a value, an origin and a source."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from roofline.core.precision import Precision
from roofline.errors import MachineError

Origin = Literal["datasheet", "measured", "given"]
Level = Literal["dram", "l1", "l2", "l3", "nvlink", "pcie", "network"]


class Ceiling(msgspec.Struct, frozen=True):
    """One limit of a machine.

    Attributes:
        value: FLOP/s, B/s or s (launch cost), unscaled.
        origin: "datasheet" (a vendor's dense peak), "measured" (sustained here) or "given" (by the user).
        source: Where the value is from: a document, or how and when it was measured.
    """

    value: float
    origin: Origin
    source: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a device can do at best, as a framework sees the device.

    Attributes:
        key: Short name for `--machine`, such as "h100-sxm".
        name: Full name.
        vendor: Who makes it.
        kind: What it is.
        aliases: Device names exactly as drivers and frameworks report them.
        matrix: Dense peak or sustained rate of the matrix engine by precision, FLOP/s (OP/s for integers).
        vector: The same for the vector engine (CUDA cores, SIMD units).
        bandwidth: By memory level or link, B/s; links count one direction.
        streams: Measured rate of memory by kind of traffic (read, copy, triad, update in place), B/s; write-allocate
            is not counted. The memory ceiling is the best of the first three.
        launch_s: Time that one empty op costs the host, s.
        memory_bytes: Capacity of the device's memory.
        cache_bytes: Capacity by cache level; the largest is the last-level cache.
        held_bytes: What the last-level cache really holds for one program, measured, B: a cache that is shared, or
            of which a virtual machine gets a part, holds less than its capacity. None: not measured, or all of it.
        multiprocessors: SMs, CUs or cores.
        boost_hz: Boost clock.
        tdp_w: Power limit by default.
        source: Where the figures are from, unless a ceiling names its own source.
        read_on: Date on which the figures were read or measured, ISO 8601.
        notes: What a user of the figures should know.
    """

    key: str
    name: str
    vendor: str = ""
    kind: Literal["gpu", "cpu", "accelerator"] = "gpu"
    aliases: tuple[str, ...] = ()
    matrix: Mapping[Precision, Ceiling] = {}
    vector: Mapping[Precision, Ceiling] = {}
    bandwidth: Mapping[Level, Ceiling] = {}
    streams: Mapping[str, float] = {}
    launch_s: Ceiling | None = None
    memory_bytes: int | None = None
    cache_bytes: Mapping[Level, int] = {}
    held_bytes: int | None = None
    multiprocessors: int | None = None
    boost_hz: float | None = None
    tdp_w: float | None = None
    source: str = ""
    read_on: str = ""
    notes: tuple[str, ...] = ()

    def matrix_peak(self, precision: Precision) -> Ceiling:
        """Rate of the matrix engine in `precision`, FLOP/s.

        FP32 matrix work on a machine that lists no FP32 matrix rate runs on its vector engine.

        Raises:
            MachineError: No such rate is known.
        """
        found = self.matrix.get(precision)
        if found is None and precision in (Precision.FP32, Precision.FP64):
            found = self.vector.get(precision)
        if found is None:
            raise self._missing(precision, {**self.vector, **self.matrix})
        return found

    def vector_peak(self, precision: Precision) -> Ceiling:
        """Rate of the vector engine for data of `precision`, FLOP/s: FP64 for fp64, else FP32.

        Narrow formats are computed in FP32 by elementwise kernels, so they get the FP32 rate.

        Raises:
            MachineError: No such rate is known.
        """
        engine = Precision.FP64 if precision == Precision.FP64 else Precision.FP32
        if engine not in self.vector:
            raise self._missing(engine, self.vector, " on the vector engine")
        return self.vector[engine]

    @property
    def dram(self) -> Ceiling:
        """Bandwidth of the device's memory, B/s.

        Raises:
            MachineError: It is not known.
        """
        if "dram" not in self.bandwidth:
            raise MachineError(f'no memory bandwidth is known for "{self.name}"', 'give --peak-bandwidth "3.35 TB/s"')
        return self.bandwidth["dram"]

    @property
    def last_level_cache_bytes(self) -> int:
        """What the largest cache holds: its capacity unless less was measured; 0 where none is known."""
        return self.held_bytes or max(self.cache_bytes.values(), default=0)

    @property
    def shared_cache(self) -> tuple[float, int] | None:
        """Rate of a CPU's last-level cache, B/s, and what the caches before it hold, B; None where not measured.

        A GPU has none here: no kernel of ours was seen to reach its L2's rate.
        """
        levels = sorted(self.cache_bytes, key=lambda level: self.cache_bytes[level])
        if self.kind != "cpu" or not levels or levels[-1] not in self.bandwidth:
            return None
        return self.bandwidth[levels[-1]].value, self.cache_bytes[levels[-2]] if len(levels) > 1 else 0

    def ridge_point(self, precision: Precision) -> float:
        """Intensity at which compute and memory bind alike: peak / bandwidth, FLOP/B."""
        return self.matrix_peak(precision).value / self.dram.value

    def _missing(self, precision: Precision, known: Mapping[Precision, Ceiling], where: str = "") -> MachineError:
        names = ", ".join(p.value for p in Precision if p in known) or "none"
        return MachineError(
            f'no {precision} peak{where} for "{self.name}" (known: {names})',
            'choose another --precision, or give the peak: --peak-flops "bf16=125 TFLOP/s"',
        )
