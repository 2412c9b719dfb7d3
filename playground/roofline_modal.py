"""The article's measurements on Modal, or on this machine.

    uv run modal run playground/roofline_modal.py            # per-op
    uv run modal run playground/roofline_modal.py::decode    # LLM decode, batch 1 … 512
    uv run modal run playground/roofline_modal.py::train     # forward and backward, 1 … 4096 tokens
    uv run modal run playground/roofline_modal.py::cv        # ResNet-50 and ViT-B/16, MFU and MBU

Without an account the same entry points run here, and take the options of `roofline sweep`:

    python playground/roofline_modal.py decode --local --batches 1,8,64

On Modal the GPU is the one in ROOFLINE_GPU (A10G). Results go to roofline-sweep-NAME.jsonl; the same command resumes.
"""

import os
import sys
from typing import Any

SWEEPS = {"ops": "ops", "decode": "decode", "train": "train", "cv": "vision"}


def local(arguments: list[str]) -> int:
    """Run one entry point on this machine, as `roofline sweep` does."""
    from roofline.cli.main import run

    words = [a for a in arguments if a != "--local"]
    named = bool(words) and not words[0].startswith("-")
    name = words.pop(0) if named else "ops"
    if name not in SWEEPS:
        print(f'error: no entry point "{name}"\nhint: choose one of: {", ".join(SWEEPS)}', file=sys.stderr)
        return 2
    if "--local" not in arguments and not {"--predict", "--help", "-h"} & set(words):
        on_modal = f"modal run {sys.argv[0]}::{name}"
        print(f"error: say where to run\nhint: add --local to run here; on Modal: {on_modal}", file=sys.stderr)
        return 2
    return run(["sweep", SWEEPS[name], *words])


def measure_on(function: Any, sweep: str) -> None:
    """Run a sweep at the article's sizes through a function of a running app."""
    from roofline.cli.sweeping import run
    from roofline.runners.on_modal import ask

    run(sweep, {"device": "cuda"}, runner=lambda next_case, where: ask(function.remote, next_case, where))


if __name__ == "__main__":
    sys.exit(local(sys.argv[1:]))

from roofline.runners.on_modal import modal_app  # noqa: E402 — running here needs no Modal

_GPU = os.environ.get("ROOFLINE_GPU")
# Modal takes the one entry point that is a name of this module, `ops`, by default; FILE::decode is the one of the app
# named decode. So the functions and the other entry points must not be names of this module.
_MEASURE: dict[str, Any] = {}
app, _MEASURE["ops"] = modal_app("ops", _GPU)
decode, _MEASURE["decode"] = modal_app("decode", _GPU)
train, _MEASURE["train"] = modal_app("train", _GPU)
cv, _MEASURE["vision"] = modal_app("vision", _GPU)


@app.local_entrypoint()
def ops() -> None:
    """Per-op: intensity in closed form, measured time."""
    measure_on(_MEASURE["ops"], "ops")


@decode.local_entrypoint(name="run")
def _decode() -> None:
    measure_on(_MEASURE["decode"], "decode")


@train.local_entrypoint(name="run")
def _train() -> None:
    measure_on(_MEASURE["train"], "train")


@cv.local_entrypoint(name="run")
def _cv() -> None:
    measure_on(_MEASURE["vision"], "vision")


del _decode, _train, _cv
