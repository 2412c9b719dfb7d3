"""What NVIDIA's driver says of a GPU, through nvidia-smi (NVML): identity, power limit and clocks."""

import msgspec

_FIELDS = (
    "name",
    "memory.total",
    "compute_cap",
    "power.limit",
    "power.default_limit",
    "clocks.applications.graphics",
    "clocks.default_applications.graphics",
)
_TIMEOUT_S = 10


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as the driver reports it; None is "not supported".

    Attributes:
        name: Product name.
        memory_bytes: Total memory.
        compute: Compute capability "major.minor".
        power_limit_w: Power limit now.
        default_power_w: Power limit by default.
        clock_mhz: Application clock now.
        default_clock_mhz: Application clock by default.
    """

    name: str
    memory_bytes: int | None = None
    compute: str = ""
    power_limit_w: float | None = None
    default_power_w: float | None = None
    clock_mhz: float | None = None
    default_clock_mhz: float | None = None


def read(gpu: str) -> Reading | None:
    """Ask nvidia-smi for one GPU, by index or UUID; None where it is absent or refuses."""
    import subprocess  # slow to import, and only detection needs it

    query = ["nvidia-smi", f"--id={gpu}", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(answer.stdout)


def parse(text: str) -> Reading | None:
    """Read nvidia-smi's line; None if it is not one line of the fields asked for."""
    parts = [part.strip() for part in text.strip().split(",")]
    if len(parts) != len(_FIELDS) or "\n" in text.strip():
        return None
    mib = _number(parts[1])
    return Reading(
        name=parts[0],
        memory_bytes=round(mib * 2**20) if mib else None,
        compute=parts[2] if _number(parts[2]) else "",
        power_limit_w=_number(parts[3]),
        default_power_w=_number(parts[4]),
        clock_mhz=_number(parts[5]),
        default_clock_mhz=_number(parts[6]),
    )


def below_default(seen: Reading) -> tuple[str, ...]:
    """Say what is set below its default, and so keeps the GPU below its peak."""
    notes = []
    if seen.power_limit_w and seen.default_power_w and seen.power_limit_w < seen.default_power_w:
        notes.append(f"power limit {seen.power_limit_w:.0f} W, below the default {seen.default_power_w:.0f} W")
    if seen.clock_mhz and seen.default_clock_mhz and seen.clock_mhz < seen.default_clock_mhz:
        notes.append(f"clock set to {seen.clock_mhz:.0f} MHz, below the default {seen.default_clock_mhz:.0f} MHz")
    return tuple(notes)


def _number(text: str) -> float | None:
    """Read a number; "[N/A]" and "[Not Supported]" are none."""
    try:
        return float(text)
    except ValueError:
        return None
