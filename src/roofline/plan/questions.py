"""Questions that need several plans: critical batch, largest batch under a limit, first token, price."""

import msgspec

from roofline.core.roof import Bound
from roofline.errors import UsageError
from roofline.plan.answers import critical_tokens
from roofline.plan.capacity import largest, tried
from roofline.plan.parts import Experts
from roofline.plan.planner import Plan, plan, vary

_MOST_PASSES = 64
_MOST = 2**20


class Critical(msgspec.Struct, frozen=True, kw_only=True):
    """Where products with weights, and the step as a whole, turn from memory-bound to compute-bound.

    Attributes:
        weight_tokens: Tokens per step and replica at which a product with dense weights does: ridge · bits / 16.
        expert_tokens: The same for routed experts, which see top / count of the tokens; None without experts.
        step_batch: Batch at which all ops together do; None: at no batch up to 2²⁰.
    """

    weight_tokens: float | None
    expert_tokens: float | None
    step_batch: int | None


def critical(planned: Plan) -> Critical:
    """Find the critical batch of a plan."""
    form = planned.setting.storage.of("mlp")
    arithmetic = planned.setting.storage.arithmetic("mlp", planned.setting.precision)
    dense = critical_tokens(planned.machine, form.bits, arithmetic)
    experts = [p for layer in planned.architecture.stack.layers for p in layer.parts if isinstance(p, Experts)]
    return Critical(
        weight_tokens=dense,
        expert_tokens=dense * experts[0].count / experts[0].top if experts and dense else None,
        step_batch=first_compute_bound(planned),
    )


def first_compute_bound(planned: Plan) -> int | None:
    """The smallest batch at which all ops together are compute-bound; None: there is none up to 2²⁰."""
    dp = planned.setting.parallel.dp

    def memory_bound(n: int) -> bool:
        return vary(planned, batch=n * dp).bound() != Bound.COMPUTE

    last = largest(memory_bound, _MOST)
    return None if last is None else (last + 1) * dp


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What fits into the devices' memory. None: unknown, or nothing binds.

    Attributes:
        batch: Largest batch at this context.
        context: Longest context at this batch.
    """

    batch: int | None
    context: int | None


def limits(planned: Plan) -> Limits:
    """Find the largest batch and context that fit."""
    dp = planned.setting.parallel.dp
    batch = largest(lambda n: tried(lambda k: vary(planned, batch=k * dp).memory(), n))
    field = "context" if planned.setting.workload.phase == "decode" else "tokens"
    cp = planned.setting.parallel.cp
    chunk = planned.setting.workload.chunk
    # Every pass of a chunked prefill is planned, so that the search ends with the passes that it can afford.
    most = {"most": chunk * _MOST_PASSES // cp} if chunk and field == "tokens" else {}
    length = largest(lambda n: tried(lambda k: vary(planned, **{field: k * cp}).memory(), n), **most)
    return Limits(batch=batch and batch * dp, context=length and length * cp)


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """The largest batch under a limit of time per token.

    Attributes:
        limit_s: The limit, s.
        batch: Largest batch that keeps it and fits; 0: none does.
        step_s: Step time at that batch, at the roof.
        expected_s: Step time at that batch by the fitted roof; None without a fit.
        tokens_per_s: At that batch, at the roof.
        by: Whether the roof or the fitted roof was held to the limit.
    """

    limit_s: float
    batch: int
    step_s: float | None
    expected_s: float | None
    tokens_per_s: float | None
    by: str


def under_slo(planned: Plan, limit_s: float) -> Slo:
    """Find the largest batch whose time per token is within the limit: by the fitted roof where there is one.

    Raises:
        UsageError: The plan is not of decode.
    """
    if planned.setting.workload.phase != "decode":
        raise UsageError("--itl is a limit of time per token", "leave --phase at decode")
    dp = planned.setting.parallel.dp

    def holds(n: int) -> bool:
        made = vary(planned, batch=n * dp)
        return _time(made) <= limit_s and made.memory().fits is not False

    batch = (largest(holds, _MOST) or 0) * dp
    best = vary(planned, batch=batch) if batch else None
    expected = best.expectation() if best else None
    return Slo(
        limit_s=limit_s,
        batch=batch,
        step_s=best.answers().step_exposed_s if best else None,
        expected_s=expected.likely_s if expected else None,
        tokens_per_s=best.answers().tokens_per_s if best else None,
        by="fitted roof" if planned.expectation() else "roof",
    )


def _time(planned: Plan) -> float:
    """Time between tokens of one sequence: a step's, over the tokens that it yields per sequence."""
    expected = planned.expectation()
    seconds = expected.likely_s if expected else planned.answers().step_exposed_s
    return seconds * planned.setting.workload.batch / planned.answers().tokens


def first_token(planned: Plan) -> Plan | None:
    """The prefill of a prompt as long as a decode plan's context; None where there is nothing to read."""
    workload = planned.setting.workload
    if workload.phase != "decode" or not workload.context or planned.architecture.model_type == "napkin":
        return None
    prompt = msgspec.structs.replace(workload, phase="prefill", tokens=workload.context, context=0)
    try:
        return plan(planned.architecture, planned.machine, prompt, planned.setting.parallel)
    except UsageError:
        return None


def price_per_million(tokens_per_s: float | None, devices: int, price_per_hour: float) -> float | None:
    """Cost of 10⁶ tokens: price · devices / (tokens/s · 3600) · 10⁶, in the price's currency."""
    return price_per_hour * devices / (tokens_per_s * 3600) * 1e6 if tokens_per_s else None
