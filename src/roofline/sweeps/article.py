"""What the article published, as reference marks beside ours. Numbers only; which claim is which: docs/article.md."""

from typing import NamedTuple

from roofline.sweeps.case import SweepName


class Mark(NamedTuple):
    """One published point of a sweep.

    Attributes:
        series: Of the sweep's points.
        size: Batch, or tokens per step.
        items_per_s: Throughput.
    """

    series: str
    size: int
    items_per_s: float


MACHINE = "a10"
PARAMS = 1.44e9
# Batch 1: 166 token/s. 1 → 128: ~90× (128 per 8.5 ms is 15.1 k). 128 → 512: ~1.5×.
DECODE = (Mark("decode", 1, 166.0), Mark("decode", 128, 128 / 8.5e-3), Mark("decode", 512, 1.5 * 128 / 8.5e-3))
# T = 1: 53 token/s; 1 → 128: ~97×; 1024 → 4096: ~8 k.
TRAIN = (
    Mark("train", 1, 53.0),
    Mark("train", 128, 97 * 53.0),
    Mark("train", 1024, 8000.0),
    Mark("train", 4096, 8000.0),
)
# Batch 64, leaf-module bytes, FLOP/B.
INTENSITIES = {"resnet50 inference": 63.0, "vit_b_16 train": 664.0}
INTENSITY_BATCH = 64
# Names of the article's machines in the database, by generation.
GENERATIONS = ("v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200")


# The published size is rounded, and a stand-in comes out within a few parts in a thousand of what is asked for.
_SAME_SIZE = 0.03


def marks(name: SweepName, machine: str | None, params: float = PARAMS) -> tuple[Mark, ...]:
    """Published points of a sweep; none for machines, or for models of a size, other than the article's.

    Args:
        name: The sweep.
        machine: Key of the machine.
        params: Parameters of the model.
    """
    if machine != MACHINE or abs(params / PARAMS - 1) > _SAME_SIZE:
        return ()
    return {"decode": DECODE, "train": TRAIN}.get(name, ())
