"""Blocks of diffusion transformers."""

import msgspec

from roofline.plan.parts.matrix import Matrix, divided


class DoubleStream(msgspec.Struct, frozen=True):
    """A block of a diffusion transformer with weights for image tokens and the same again for text tokens.

    Attributes:
        heads: Heads.
        head_dim: Per head.
        mlp: Inner width of each stream's MLP.
        qkv_bias: Whether queries, keys and values have biases.
    """

    heads: int
    head_dim: int
    mlp: int
    qkv_bias: bool = True

    name = "double"
    kv_elements = 0

    def stream_matrices(self, width: int) -> tuple[Matrix, ...]:
        """Matrices of one stream: modulation, queries with keys and values, output, MLP."""
        inner = self.heads * self.head_dim
        return (
            Matrix("mod.lin", width, 6 * width, 6 * width, "other"),
            Matrix("attn.qkv", width, 3 * inner, 3 * inner * self.qkv_bias, "attention"),
            Matrix("attn.proj", inner, width, width, "attention"),
            Matrix("mlp.0", width, self.mlp, self.mlp, "mlp"),
            Matrix("mlp.2", self.mlp, width, width, "mlp"),
        )

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Matrices of both streams."""
        return self.stream_matrices(width) * 2

    def params(self, width: int) -> int:
        """All weights: the matrices, and norms of queries and keys in both streams."""
        return sum(m.params for m in self.matrices(width)) + 4 * self.head_dim

    def shard(self, tp: int) -> "DoubleStream":
        """Heads and the inner width are split."""
        heads = divided(self.heads, tp, "attention heads")
        return msgspec.structs.replace(self, heads=heads, mlp=divided(self.mlp, tp, "MLP width"))


class SingleStream(msgspec.Struct, frozen=True):
    """A block of a diffusion transformer over image and text tokens alike, attention and MLP in parallel.

    Attributes:
        heads: Heads.
        head_dim: Per head.
        mlp: Inner width of the MLP.
    """

    heads: int
    head_dim: int
    mlp: int

    name = "single"
    kv_elements = 0

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Modulation; queries, keys, values and MLP in one; both outputs in one."""
        inner = self.heads * self.head_dim
        first = 3 * inner + self.mlp
        return (
            Matrix("modulation.lin", width, 3 * width, 3 * width, "other"),
            Matrix("linear1", width, first, first, "mlp"),
            Matrix("linear2", inner + self.mlp, width, width, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights: the matrices, and norms of queries and keys."""
        return sum(m.params for m in self.matrices(width)) + 2 * self.head_dim

    def shard(self, tp: int) -> "SingleStream":
        """Heads and the inner width are split."""
        heads = divided(self.heads, tp, "attention heads")
        return msgspec.structs.replace(self, heads=heads, mlp=divided(self.mlp, tp, "MLP width"))
