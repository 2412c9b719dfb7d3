"""The roofline: what a machine can attain for given work. The file to read first.

An op of F matrix FLOP, V vector FLOP and B bytes takes at best

    T_roof = max(Σ_p F_p / peak_p, Σ_p V_p / vector_peak_p, B / bandwidth)

because the matrix engine, the vector engine and memory work at the same time. The largest term is the bound.
Where bytes are counted behind a cache whose rate is known, the C bytes that pass through it take C / cache rate at
least: that too is memory's term.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.work import Work


class Bound(StrEnum):
    """The ceiling that binds."""

    COMPUTE = "compute"
    MEMORY = "memory"
    NETWORK = "network"
    OVERHEAD = "overhead"
    UNCERTAIN = "uncertain"


class RoofTime(msgspec.Struct, frozen=True):
    """The least time that given work takes on a machine, by resource, in s.

    Attributes:
        matrix_s: Time that the matrix engine needs.
        vector_s: Time that the vector engine needs.
        memory_s: Time that memory needs, or the last-level cache in front of it.
        network_s: Time that the network, or the links within a node, need.
    """

    matrix_s: float
    vector_s: float
    memory_s: float
    network_s: float = 0.0

    @property
    def compute_s(self) -> float:
        """Time that the slower of the two engines needs."""
        return max(self.matrix_s, self.vector_s)

    @property
    def total_s(self) -> float:
        """T_roof: all resources overlap."""
        return max(self.compute_s, self.memory_s, self.network_s)

    @property
    def bound(self) -> Bound:
        """The resource that needs longest; on a tie, compute."""
        if self.network_s > max(self.compute_s, self.memory_s):
            return Bound.NETWORK
        return Bound.MEMORY if self.memory_s > self.compute_s else Bound.COMPUTE


def attainable(intensity: float, *, peak: float, bandwidth: float) -> float:
    """P(I) = min(I · bandwidth, peak), FLOP/s.

    Args:
        intensity: Arithmetic intensity, FLOP/B.
        peak: Compute ceiling, FLOP/s.
        bandwidth: Memory ceiling, B/s.
    """
    return min(intensity * bandwidth, peak)


def ridge_point(peak: float, bandwidth: float) -> float:
    """Intensity at which the two ceilings meet: peak / bandwidth, FLOP/B."""
    return peak / bandwidth


def roof_time(work: Work, machine: Machine) -> RoofTime:
    """Least time of `work` on `machine`, every resource at its ceiling.

    Executed matrix work counts, needed or not: it has to run in the program as it stands. Vector work on a machine
    whose vector rates nobody publishes takes no time: an unknown ceiling can't bind.

    Raises:
        MachineError: A precision of the work has no rate on this machine.
    """
    network = machine.bandwidth.get("network") or machine.bandwidth.get("nvlink")
    cache = machine.shared_cache
    node = machine.bandwidth.get("nvlink") or machine.bandwidth.get("pcie")
    vector = work.vector if machine.vector else {}
    return RoofTime(
        matrix_s=sum(f / machine.matrix_peak(Precision(p)).value for p, f in work.matrix.items() if f),
        vector_s=sum(f / machine.vector_peak(Precision(p)).value for p, f in vector.items() if f),
        memory_s=max(
            work.moved_bytes / machine.dram.value if work.moved_bytes else 0.0,
            work.cache_bytes / cache[0] if cache else 0.0,
        ),
        network_s=max(
            work.network_bytes / network.value if network and work.network_bytes else 0.0,
            work.node_bytes / node.value if node and work.node_bytes else 0.0,
        ),
    )


def averaging_honesty(works: Iterable[Work], machine: Machine) -> float | None:
    """How far one averaged point tells the truth: aggregate roof time / sum of per-op roof times, 0 to 1.

    Near 1 a single point for the whole program is honest; below about 0.9 go per op. None without work.
    """
    total, per_op_s = Work(), 0.0
    for work in works:
        total += work
        per_op_s += roof_time(work, machine).total_s
    return min(1.0, roof_time(total, machine).total_s / per_op_s) if per_op_s else None
