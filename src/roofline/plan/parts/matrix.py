"""One weight matrix, and how sizes divide among ranks."""

from typing import Literal

import msgspec

from roofline.errors import UsageError

Role = Literal["attention", "mlp", "experts", "router", "embedding", "head", "other"]


class Matrix(msgspec.Struct, frozen=True):
    """One weight matrix, applied to every token that reaches it.

    Attributes:
        name: As in the Hugging Face module, where one exists.
        inputs: k of the product.
        outputs: n of the product.
        bias: Elements of its bias.
        role: Which part of the model it belongs to; formats of weights differ by role.
    """

    name: str
    inputs: int
    outputs: int
    bias: int = 0
    role: Role = "other"

    @property
    def weights(self) -> int:
        """Elements of the matrix, inputs · outputs."""
        return self.inputs * self.outputs

    @property
    def params(self) -> int:
        """Elements of the matrix and its bias."""
        return self.weights + self.bias


def divided(number: int, by: int, what: str, option: str = "--tp") -> int:
    """`number` / `by`, which must come out even.

    Raises:
        UsageError: It doesn't.
    """
    if number % by:
        fits = [d for d in (1, 2, 4, 8, 16, 32, 64) if number % d == 0]
        raise UsageError(
            f"{option} {by} does not divide the {number} {what}",
            f"choose one of: {', '.join(map(str, fits))}",
        )
    return number // by
