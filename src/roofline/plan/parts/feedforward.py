"""Feed-forward networks: plain, gated, and mixtures of experts."""

import msgspec

from roofline.plan.parts.matrix import Matrix, divided


class Mlp(msgspec.Struct, frozen=True, kw_only=True):
    """Feed-forward network: two matrices, or three with a gate.

    Attributes:
        width: Inner width.
        gated: Whether a gate multiplies the inner activations.
        bias: Whether the matrices have biases.
    """

    width: int
    gated: bool = True
    bias: bool = False

    name = "mlp"
    kv_elements = 0

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Up (and gate, in one product), down."""
        up = self.width * (2 if self.gated else 1)
        return (
            Matrix("gate_up_proj" if self.gated else "up_proj", width, up, up * self.bias, "mlp"),
            Matrix("down_proj", self.width, width, width * self.bias, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights."""
        return sum(m.params for m in self.matrices(width))

    def shard(self, tp: int) -> "Mlp":
        """The inner width is split."""
        return msgspec.structs.replace(self, width=divided(self.width, tp, "MLP width"))


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """Mixture of experts: every token goes to `top` of `count` feed-forward networks, and to the shared one.

    Attributes:
        count: Experts of the layer, on all ranks.
        top: Experts per token.
        width: Inner width of one expert.
        gated: Whether experts have a gate.
        bias: Whether experts have biases.
        router_bias: Whether the router has one.
        shared: Inner width of the experts that every token goes to; 0: none.
        shared_gate: Whether a scalar gate weighs the shared expert.
        held: Experts that this rank holds; 0: all.
    """

    count: int
    top: int
    width: int
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    shared: int = 0
    shared_gate: bool = False
    held: int = 0

    name = "mlp"
    kv_elements = 0

    @property
    def local(self) -> int:
        """Experts on this rank."""
        return self.held or self.count

    def one(self) -> Mlp:
        """One expert."""
        return Mlp(width=self.width, gated=self.gated, bias=self.bias)

    def always(self, width: int) -> tuple[Matrix, ...]:
        """Matrices that every token meets: the router and the shared expert."""
        found = [Matrix("router", width, self.count, self.count * self.router_bias, "router")]
        if self.shared:
            shared = Mlp(width=self.shared, gated=self.gated).matrices(width)
            found += [msgspec.structs.replace(m, name=f"shared_expert.{m.name}") for m in shared]
        if self.shared_gate:
            found.append(Matrix("shared_expert_gate", width, 1, 0, "router"))
        return tuple(found)

    def distinct(self, tokens: float) -> float:
        """Expected experts of this rank that a batch touches: local · (1 − (1 − top / count)^tokens).

        Routing is taken as even and independent; real routing is skewed and touches fewer.
        """
        return self.local * (1 - (1 - self.top / self.count) ** tokens)

    def params(self, width: int) -> int:
        """All weights on this rank."""
        return sum(m.params for m in self.always(width)) + self.local * self.one().params(width)

    def idle_params(self, width: int) -> int:
        """Weights that one token does not use: (count − top) experts; exact integers, as every expert is alike."""
        return max(0, self.local - self.top) * self.one().params(width)

    def shard(self, tp: int) -> "Experts":
        """Every expert's inner width is split."""
        return msgspec.structs.replace(
            self,
            width=divided(self.width, tp, "expert width"),
            shared=divided(self.shared, tp, "width of the shared expert"),
        )

    def spread(self, ep: int, tp: int) -> "Experts":
        """Whole experts are spread over `ep` ranks; the shared expert is split like any MLP."""
        shared = divided(self.shared, tp, "width of the shared expert")
        return msgspec.structs.replace(self, held=divided(self.count, ep, "experts", "--ep"), shared=shared)
