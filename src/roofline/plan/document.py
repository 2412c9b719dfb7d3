"""Plans as JSON: answers beside the Run, several Runs together, points of a sweep."""

from collections.abc import Sequence
from typing import Any

import msgspec

from roofline.core.run import Run
from roofline.plan.planner import Plan
from roofline.plan.questions import Slo, critical, first_token, limits, price_per_million
from roofline.plan.sweep import Point, frontier


def with_answers(run: Run, planned: Plan, slo: Slo | None, price_per_hour: float | None, score: Any = None) -> Run:
    """The Run with everything that the screen says under `workload.plan`; unknown is null."""
    found, expected, room = planned.answers(), planned.expectation(), planned.memory()
    prompt = first_token(planned)
    rate = found.tokens / expected.likely_s if expected else None
    devices = planned.setting.parallel.devices
    answers: dict[str, Any] = {
        "roof": msgspec.to_builtins(found),
        "expected": msgspec.to_builtins(expected) and {**msgspec.to_builtins(expected), "tokens_per_s": rate},
        "first_token_s": prompt.answers().step_s if prompt else None,
        "memory": {**msgspec.to_builtins(room), "total_bytes": room.total_bytes, "fits": room.fits},
        "limits": msgspec.to_builtins(limits(planned)),
        "critical": msgspec.to_builtins(critical(planned)) if planned.setting.workload.phase == "decode" else None,
        "measured": msgspec.to_builtins(score) if score else None,
        "slo": msgspec.to_builtins(slo) if slo else None,
        "price_per_million_tokens": price_per_million(found.tokens_per_s, devices, price_per_hour)
        if price_per_hour is not None
        else None,
        "parameters": planned.architecture.params(),
        "active_parameters": planned.architecture.active_params(),
        "kv_bytes_per_token": planned.architecture.kv_elements_per_token() * planned.setting.kv_item,
    }
    return msgspec.structs.replace(run, workload={**run.workload, "plan": answers})


def together(runs: Sequence[Run]) -> bytes:
    """Several Runs as one document: {"runs": [...]}."""
    return msgspec.json.format(msgspec.json.encode({"runs": list(runs)}), indent=2) + b"\n"


def sweep_document(points: Sequence[Point]) -> bytes:
    """Points of a sweep, and which of them lie on the frontier of time and throughput per device."""
    best = {id(p) for p in frontier(points)}
    rows = [{**msgspec.to_builtins(p), "on_frontier": id(p) in best} for p in points]
    return msgspec.json.format(msgspec.json.encode({"points": rows}), indent=2) + b"\n"
