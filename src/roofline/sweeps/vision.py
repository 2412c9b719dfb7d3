"""Vision: models of torchvision, forward or forward and backward, FP32 master weights under autocast.

They have no closed form, so their FLOP and bytes are counted. By default they are judged by the article's count of
bytes, leaf-module input and output (`module`), so that its figures can be compared; `--bytes` chooses another.
"""

from collections.abc import Sequence
from typing import Any

from roofline.core.machine import Machine
from roofline.core.run import BytesOrigin, Run
from roofline.errors import UsageError
from roofline.sweeps.case import Case
from roofline.sweeps.settings import Settings
from roofline.targets.made import Target
from roofline.targets.options import Options

ITEM = "image"
MODES = ("inference", "train")
ARTICLE_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SMALL_BATCHES = (1, 4, 16)


def cases(settings: Settings) -> list[Case]:
    """One case per model, mode and batch."""
    sizes = settings.sizes or (SMALL_BATCHES if settings.small else ARTICLE_BATCHES)
    unknown = [mode for mode in settings.modes if mode not in MODES]
    if unknown:
        raise UsageError(f'unknown mode "{unknown[0]}"', f"choose from: {', '.join(MODES)}")
    extras: dict[str, str | int | bool] = {}
    if settings.compiled:
        extras["compile"] = True
    if settings.channels_last:
        extras["channels_last"] = True
    return [
        Case(
            sweep="vision",
            series=f"{model} {mode}",
            size=size,
            precision=settings.precision,
            settings={"model": model, "train": mode == "train", **extras},
            device=settings.device,
        )
        for model in settings.models
        for mode in settings.modes
        for size in sorted(sizes)
    ]


def program(case: Case) -> tuple[Target, Options]:
    """The case as a target to count or time."""
    from roofline.targets.from_torchvision import target

    options = Options(
        batch=case.size,
        train=bool(case.settings["train"]),
        precision=case.precision,
        compiled=bool(case.settings.get("compile", False)),
        channels_last=bool(case.settings.get("channels_last", False)),
        device=case.device or "cpu",
    )
    return target(str(case.settings["model"])), options


def predict(case: Case, machine: Machine, origin: BytesOrigin | None) -> Run | None:
    """Nothing: it takes a count by torch."""
    return None


def memory_bytes(case: Case) -> float:
    """Unknown."""
    return 0.0


def facts(cases: Sequence[Case], machine: Machine | None) -> dict[str, Any]:
    """What the theory says before anything runs: where the ridge is."""
    if not cases or machine is None:
        return {}
    return {"ridge_point_flops_per_byte": machine.ridge_point(cases[0].precision)}
