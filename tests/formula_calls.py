"""Calls of rules from the formula table, as the counter makes them."""

from typing import Any

from roofline.formulas import TensorSpec
from roofline.formulas.registry import Cost, call, find_rule

S = TensorSpec


def cost(name: str, *args: Any, out: Any, **kwargs: Any) -> Cost:
    rule = find_rule(name)
    assert rule is not None, name
    return call(rule, args, kwargs, out)


def vector(name: str, *args: Any, out: Any, **kwargs: Any) -> float:
    return cost(name, *args, out=out, **kwargs).vector
