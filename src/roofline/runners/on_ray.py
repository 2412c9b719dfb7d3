"""Run cases as tasks of a Ray cluster: one at a time per GPU, or per node without GPUs; none disturbs another.

Results come back to the driver, which alone writes the file: a task whose worker dies runs again and is written once.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from roofline.sweeps.case import Case, Result, Where, encode
from roofline.sweeps.drive import NextCase, Runner
from roofline.sweeps.measure import measure_encoded
from roofline.targets.packages import need

RETRIES = 3


def ray_runner(address: str | None = None, *, task: Callable[[bytes, bytes], bytes] = measure_encoded) -> Runner:
    """A runner on a Ray cluster.

    Args:
        address: "auto", "ray://host:10001" or host:port; None starts a cluster on this machine.
        task: Measures one case; other than the default in tests only.

    Raises:
        UsageError: Ray is not installed.
    """
    ray = need("ray", "ray")

    def run_cases(next_case: NextCase, where: Where) -> Iterator[Result]:
        started = not ray.is_initialized()
        if started:
            ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
        try:
            yield from _run(ray, task, next_case, where)
        finally:
            if started:
                ray.shutdown()

    return run_cases


def _run(ray: Any, task: Callable[[bytes, bytes], bytes], next_case: NextCase, where: Where) -> Iterator[Result]:
    resources, slots = _share(ray, where.device)
    remote = ray.remote(**resources, max_retries=RETRIES, retry_exceptions=False)(task)
    running: dict[Any, Case] = {}

    def submit() -> None:
        case = next_case()
        if case is not None:
            running[remote.remote(encode(case), encode(where))] = case

    for _ in range(slots):
        submit()
    while running:
        (ready,), _ = ray.wait(list(running), num_returns=1)
        case = running.pop(ready)
        yield _result(ray, ready, case, where)
        submit()


def _share(ray: Any, device: str) -> tuple[dict[str, float], int]:
    """Resources of a task, and how many run at a time: a whole GPU each, or all the CPUs of the smallest node."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not device.startswith("cpu"):
        return {"num_gpus": 1, "num_cpus": 1}, max(1, int(sum(node.get("GPU", 0) for node in nodes)))
    cpus = [node["CPU"] for node in nodes if node.get("CPU", 0) > 0]
    share = min(cpus, default=1)
    return {"num_cpus": share}, max(1, sum(int(count // share) for count in cpus))


def _result(ray: Any, ready: Any, case: Case, where: Where) -> Result:
    """The result of a task; one whose workers died every time is an outcome too."""
    try:
        return msgspec.json.decode(ray.get(ready), type=Result)
    except (
        ray.exceptions.OutOfMemoryError,
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
    ) as error:
        out_of_memory = isinstance(error, ray.exceptions.OutOfMemoryError)
        return Result(
            key=case.key,
            case=case,
            outcome="out_of_memory" if out_of_memory else "failed",
            why=f"its worker died {RETRIES + 1} times: {(str(error).splitlines() or [''])[0][:200]}",
            machine=where.machine.key if where.machine else None,
        )
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
