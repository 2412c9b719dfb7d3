"""A toy machine: 1 TFLOP/s, 100 GB/s, ridge point 10 FLOP/B."""

import pytest

from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision


@pytest.fixture
def toy() -> Machine:
    return Machine(
        key="toy",
        name="Toy",
        matrix={Precision.BF16: Ceiling(1e12, "given"), Precision.FP32: Ceiling(0.5e12, "given")},
        vector={Precision.FP32: Ceiling(0.1e12, "given")},
        bandwidth={"dram": Ceiling(100e9, "given")},
        cache_bytes={"l2": 1_000_000},
    )
