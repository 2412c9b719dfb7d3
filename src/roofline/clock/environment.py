"""Where and with what a Run was made: plain JSON values, and nothing that names a host, a user or a path."""

import os
import platform
import subprocess
import time
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from roofline import __version__
from roofline.core.units import percent

_PACKAGES = ("torchvision", "transformers", "timm", "triton", "numpy")
_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "GOMP_CPU_AFFINITY",
    "ONEDNN_MAX_CPU_ISA",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)
# Other programs that keep more than a quarter of the cores busy are seen in the timings.
BUSY_FRACTION = 0.25
_WATCH_S = 0.1


def environment(device: str = "cpu") -> dict[str, Any]:
    """Describe versions, threads, clocks, power limit, date and commit; what can't be read is None.

    It watches the cores for a tenth of a second, to see what other programs keep busy.

    Args:
        device: Where the program will run.
    """
    kind = torch.device(device).type
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "roofline": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {"torch": str(torch.__version__)}
        | {name: version for name in _PACKAGES if (version := _version(name))},
        "device": device,
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu": _cpu(),
        "gpu": _gpu(device) if kind == "cuda" and torch.cuda.is_available() else None,
        "settings": _settings(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "commit": _commit(),
        "load_average": _load(),
        "busy_fraction": busy_fraction(),
    }


def busy_fraction() -> float | None:
    """Share of the cores' time that other programs take, watched for 0.1 s; None where the system doesn't tell."""
    before, own_s = _ticks(), time.process_time()
    if before is None:
        return None
    time.sleep(_WATCH_S)
    after, own_s = _ticks(), time.process_time() - own_s
    if after is None:
        return None
    idle, total = (b - a for a, b in zip(before, after, strict=True))
    own = own_s * os.sysconf("SC_CLK_TCK")
    return round(min(1.0, max(0.0, (total - idle - own) / total)), 3) if total else 0.0


def busy_warning(described: dict[str, Any]) -> str | None:
    """Say that other programs were running when the environment was described; None if it was quiet."""
    return busy_sentence(described.get("busy_fraction"))


def busy_sentence(fraction: float | None) -> str | None:
    """Say that other programs keep this share of the cores busy, if that is enough to disturb a measurement."""
    if fraction is None or fraction <= BUSY_FRACTION:
        return None
    return f"other programs keep {percent(fraction)} of the cores busy: times may be too long and ceilings too low"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    frequency = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    no_turbo, boost = (
        _text("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        _text("/sys/devices/system/cpu/cpufreq/boost"),
    )
    max_khz = _text(frequency / "cpuinfo_max_freq")
    return {
        "name": _cpu_name(),
        "logical_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "governor": _text(frequency / "scaling_governor"),
        "turbo": no_turbo == "0" if no_turbo else boost == "1" if boost else None,
        "max_hz": int(max_khz) * 1000 if max_khz and max_khz.isdigit() else None,
    }


def _cpu_name() -> str | None:
    for line in (_text("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip() or None
    if platform.system() == "Darwin":
        return _output(["sysctl", "-n", "machdep.cpu.brand_string"])
    return platform.processor() or None


def _gpu(device: str) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
        **_power_and_clocks(str(getattr(properties, "uuid", ""))),
    }


def _power_and_clocks(uuid: str) -> dict[str, Any]:
    """Ask the driver's tool, by UUID: its numbering of devices is not CUDA's."""
    fields = {
        "driver": "driver_version",
        "power_limit_w": "power.limit",
        "default_power_limit_w": "power.default_limit",
        "sm_clock_mhz": "clocks.sm",
        "max_sm_clock_mhz": "clocks.max.sm",
        "max_memory_clock_mhz": "clocks.max.memory",
    }
    query = f"--query-gpu={','.join(fields.values())}"
    answer = _output(["nvidia-smi", query, "--format=csv,noheader,nounits", "-i", f"GPU-{uuid}"]) if uuid else None
    values = [v.strip() for v in (answer or "").split(",")]
    if len(values) != len(fields):
        return dict.fromkeys(fields)
    return {name: value if name == "driver" else _number(value) for name, value in zip(fields, values, strict=True)}


def _settings() -> dict[str, Any]:
    """Switches of torch that change what runs, and so the times."""
    return {
        "float32_matmul_precision": _matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
    }


def _matmul_precision() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        # torch refuses to answer where its older and newer switches were mixed.
        return None


def _commit() -> str | None:
    """Commit of the working folder; "+" marks uncommitted changes to tracked files."""
    commit = _output(["git", "rev-parse", "--short=12", "HEAD"])
    changed = _output(["git", "status", "--porcelain", "--untracked-files=no"]) if commit else None
    return f"{commit}+" if changed else commit


def _load() -> float | None:
    """Mean number of running processes over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _ticks() -> tuple[int, int] | None:
    """Idle and all processor time of the cores that this process may use, in ticks since the system's start."""
    stat = _text("/proc/stat")
    if stat is None:
        return None
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    rows = [[int(v) for v in line.split()[1:9]] for line in stat.splitlines() if line.split()[0] in cores]
    # Fields: user, nice, system, idle, iowait, irq, softirq, steal.
    return sum(row[3] + row[4] for row in rows), sum(map(sum, rows))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip() or None
    except OSError:
        return None


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
