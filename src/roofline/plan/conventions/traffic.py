"""Bytes that one decoded token asks for, with the choices that people make about them by name."""

from typing import Literal

import msgspec

from roofline.errors import UsageError
from roofline.plan.conventions.facts import ModelFacts

Basis = Literal["read", "resident"]


class TokenBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one decode step on one device.

    Attributes:
        weights: Bytes of weights.
        cache: Bytes of KV cache.
        basis: "read" leaves out the input table, of which a step reads a row per sequence; "resident" is all that
            is stored.
    """

    weights: float
    cache: float
    basis: Basis

    @property
    def total(self) -> float:
        """Bytes of the step."""
        return self.weights + self.cache


def token_bytes(
    facts: ModelFacts,
    *,
    bits_per_weight: float = 16,
    context: float = 0,
    batch: int = 1,
    devices: int = 1,
    whole_head: bool = False,
    basis: Basis = "read",
) -> TokenBytes:
    """Count the bytes of one decode step on one device.

    (N_mm · bits / 8 + batch · context · KV bytes per token) / devices; the input table is not read, but for a row.

    Args:
        facts: The model.
        bits_per_weight: Bits of one stored weight, with its share of scales.
        context: Mean tokens in the cache.
        batch: Sequences decoded together; each brings its own cache, all share the weights.
        devices: Tensor-parallel devices that share weights and cache.
        whole_head: Every device keeps the whole output head (and, where resident, the whole input table).
        basis: What of the weights to count.

    Not counted: activations, the written cache, the row of the input table.

    Raises:
        UsageError: The experts that a batch reads can't be told from these facts.
    """
    if facts.is_sparse and batch > 1 and basis == "read":
        raise UsageError(
            "which experts a batch reads is not known from parameter counts alone",
            "give --batch 1, or let the plan count them: roofline plan MODEL --batch N",
        )
    if context and facts.kv_bytes_per_token is None:
        raise UsageError("the KV cache of this model is not known", "name a model, or leave --context away")
    counted = facts.multiplied if basis == "read" else facts.parameters
    tables = facts.output_head if basis == "read" or facts.tied else facts.output_head + facts.input_embedding
    shared = counted - tables if whole_head else counted
    weights = (shared / devices + (tables if whole_head else 0)) * bits_per_weight / 8
    cache = batch * context * (facts.kv_bytes_per_token or 0) / devices
    return TokenBytes(weights=weights, cache=cache, basis=basis)
