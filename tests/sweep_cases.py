"""Small sweeps and where to run them, for the tests of sweeps and runners."""

from pathlib import Path

from roofline import machines
from roofline.core.precision import Precision
from roofline.sweeps import decode, ops
from roofline.sweeps.case import Case, Where
from roofline.sweeps.settings import Settings

A10 = machines.resolve("a10")
# Judged by a machine of the database, so that no test measures ceilings.
WHERE = Where(device="cpu", machine=A10, seconds=0.01)


def decode_cases(*sizes: int, device: str = "cpu") -> list[Case]:
    settings = Settings(precision=Precision.FP32, device=device, params=20_000, sizes=sizes)
    return decode.cases(settings)


def op_cases(*names: str, size: int = 64, device: str = "cpu", precision: Precision = Precision.FP32) -> list[Case]:
    return ops.cases(Settings(precision=precision, device=device, sizes=(size,), only=names))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
