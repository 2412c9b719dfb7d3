"""Run cases on Modal, the article's way: one container with one GPU, asked case by case.

One app per sweep, so that `modal run playground/roofline_modal.py::decode` names it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from roofline.sweeps.case import Result, Where, encode
from roofline.sweeps.drive import NextCase, Runner
from roofline.sweeps.measure import measure_encoded
from roofline.targets.packages import need

GPU = "A10G"
PYTHON = "3.12"
PACKAGES = ("torch", "torchvision", "click", "jinja2", "matplotlib", "msgspec", "numpy", "plotly", "rich")
TIMEOUT_S = 1800
# A container that waits for the next case keeps its GPU, and costs, for no longer than this.
IDLE_S = 60


def modal_app(name: str, gpu: str | None = None) -> tuple[Any, Any]:
    """Define an app with one function, which measures one case.

    Args:
        name: Of the sweep.
        gpu: Modal's name of the GPU; None: A10G.

    Returns:
        The app, and its function: case and place as JSON in, a line of a file of results out.

    Raises:
        UsageError: Modal is not installed.
    """
    modal = need("modal", "modal")
    image = modal.Image.debian_slim(python_version=PYTHON).pip_install(*PACKAGES).add_local_python_source("roofline")
    app = modal.App(f"roofline-{name}", image=image)
    function = app.function(gpu=gpu or GPU, timeout=TIMEOUT_S, scaledown_window=IDLE_S, max_containers=1, retries=2)(
        measure_encoded
    )
    return app, function


def modal_runner(gpu: str | None = None) -> Runner:
    """A runner that starts an app of its own for the time of the sweep."""
    modal = need("modal", "modal")
    app, function = modal_app("sweep", gpu)

    def run_cases(next_case: NextCase, where: Where) -> Iterator[Result]:
        with modal.enable_output(), app.run():
            yield from ask(function.remote, next_case, where)

    return run_cases


def ask(measure: Any, next_case: NextCase, where: Where) -> Iterator[Result]:
    """Ask a function of an app that runs already for one case after the other."""
    while (case := next_case()) is not None:
        yield msgspec.json.decode(measure(encode(case), encode(where)), type=Result)
