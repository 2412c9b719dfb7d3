"""Where the cases of a sweep run: this process, a Ray cluster, Modal. The engines distribute; we only hand over."""

from roofline.errors import UsageError
from roofline.sweeps.drive import Runner

RUNNERS = ("local", "ray", "modal")


def find_runner(name: str, *, address: str | None = None, gpu: str | None = None) -> Runner:
    """The runner of a name.

    Args:
        name: "local", "ray" or "modal".
        address: Of the Ray cluster; None starts one on this machine.
        gpu: Modal's name of the GPU.

    Raises:
        UsageError: There is no such runner, or its engine is not installed.
    """
    if name == "local":
        from roofline.runners.local import run_cases

        return run_cases
    if name == "ray":
        from roofline.runners.on_ray import ray_runner

        return ray_runner(address)
    if name == "modal":
        from roofline.runners.on_modal import modal_runner

        return modal_runner(gpu)
    raise UsageError(f'unknown runner "{name}"', f"choose one of: {', '.join(RUNNERS)}")
