"""Speculative decoding: a cheap model proposes tokens, the model verifies them in one step."""

import msgspec

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture
from roofline.plan.ops import Op, merged
from roofline.plan.phases import draft_ops, step_ops
from roofline.plan.setting import Setting, setting


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are proposed.

    Attributes:
        model: The model that proposes; None: the model's own layers for multi-token prediction.
        tokens: γ, tokens proposed per step.
        acceptance: α, chance that a proposed token is accepted, independent of the others.
    """

    model: Architecture | None
    tokens: int
    acceptance: float

    @property
    def accepted(self) -> float:
        """Expected tokens per step: 1 + α + … + α^γ = (1 − α^(γ+1)) / (1 − α).

        Source: Leviathan et al. 2023, equation 1.
        """
        return sum(self.acceptance**i for i in range(self.tokens + 1))

    def check(self) -> None:
        """Refuse numbers that make no sense.

        Raises:
            UsageError: One doesn't.
        """
        if not 1 <= self.tokens <= 64:
            raise UsageError(f"--draft-tokens is {self.tokens}, expected 1 to 64", "4 is a usual choice")
        if not 0 <= self.acceptance <= 1:
            raise UsageError(f"--acceptance is {self.acceptance:g}, expected 0 to 1", "0.7 is a usual value")


def speculative_ops(architecture: Architecture, how: Setting, draft: Draft) -> list[Op]:
    """Ops of one step: γ steps of the draft, and one of the model over γ + 1 tokens per sequence.

    Raises:
        UsageError: The model has no layers of its own to propose with.
    """
    draft.check()
    verify = msgspec.structs.replace(how, workload=msgspec.structs.replace(how.workload, tokens=draft.tokens + 1))
    own = draft.model is None
    if own and not architecture.mtp:
        raise UsageError(
            f"{architecture.name} has no layers for multi-token prediction",
            "name a draft model: --draft llama-3.2-1b",
        )
    if own:
        proposals = list(draft_ops(architecture, how))
    else:
        assert draft.model is not None
        small = msgspec.structs.replace(how.workload, tokens=1, weights=None)
        proposals = step_ops(draft.model, setting(draft.model, small, how.parallel))
    named = [msgspec.structs.replace(op, module=f"draft.{op.module}").times(draft.tokens) for op in proposals]
    return merged([*named, *step_ops(architecture, verify)])
