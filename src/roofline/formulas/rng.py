"""Random numbers and dropout.

The generator itself is integer arithmetic and counts 0. FLOP per number drawn turn its bits into a distribution:

| distribution | formula | FLOP |
|---|---|---|
| uniform | a + (b − a)·u | 2 |
| normal | Box–Muller, √(−2·log u)·cos(2πv): 6; scale and shift 2 | 8 |
| log-normal | and exp | 9 |
| exponential | −log(u) / λ | 3 |
| Cauchy | m + σ·tan(π·(u − ½)) | 5 |
| geometric | ⌈log u / log(1 − p)⌉ | 3 |
| Bernoulli | u < p | 1 |
| dropout | u < p; times the mask; times 1/(1 − p) | 3 |
| gamma, Poisson, binomial, Dirichlet | by rejection: an estimate | 20 |

Bytes: filling in place only writes; `rand_like` does not read the tensor whose shape it takes.
"""

from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, elements, first_tensor, moves, per_output, results, unread
from roofline.formulas.registry import Cost, Rule, formula
from roofline.formulas.spec import TensorSpec

formula(*aten("native_dropout_backward _masked_scale"))(per_output(2))
formula(*aten("bernoulli"))(per_output(1))
formula(*aten("_standard_gamma_grad _dirichlet_grad"))(per_output(20))
formula(*aten("_philox_key_fold_in _philox_key_split"))(moves)


def _drawn(flops: int) -> Rule:
    """Make the rule of a fill: so many FLOP per number, the first argument not read."""

    def rule(*args: Any, out: Any, **_: Any) -> Cost:
        drawn = results(args, out)
        return Cost(vector=elements(drawn) * arithmetic(drawn, flops), read=unread(args[:1]))

    rule.__doc__ = f"{flops} FLOP per number drawn; the destination is only written."
    return rule


formula(*aten("randint randint_like randperm random random_ _fill_mem_eff_dropout_mask_"))(_drawn(0))
formula(*aten("rand rand_like uniform uniform_ _philox_uniform"))(_drawn(2))
formula(*aten("randn randn_like normal_ normal_functional _philox_normal"))(_drawn(8))
formula(*aten("log_normal log_normal_"))(_drawn(9))
formula(*aten("exponential exponential_ geometric geometric_"))(_drawn(3))
formula(*aten("cauchy cauchy_"))(_drawn(5))
formula(*aten("bernoulli_ bernoulli.p"))(_drawn(1))


@formula("aten.normal")
def normal(mean: Any, std: Any = 1, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Normal numbers with given means and deviations: 8 FLOP each."""
    return Cost(vector=8 * out.numel)


@formula(*aten("_standard_gamma poisson binomial _sample_dirichlet"))
def rejection_sampled(x: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Numbers drawn by rejection: 20 FLOP each, an estimate."""
    return Cost(vector=20 * out.numel, formula="estimate")


@formula("aten.multinomial")
def multinomial(weights: TensorSpec, samples: int, replacement: bool = False, *, out: TensorSpec, **_: Any) -> Cost:
    """Draws by weight: exponentials, a quotient and a maximum, 5 FLOP per weight; an estimate."""
    return Cost(vector=5 * weights.numel, formula="estimate")


@formula(*aten("native_dropout _fused_dropout"))
def dropout(x: TensorSpec, p: float, train: Any = True, *, out: Any, **_: Any) -> Cost:
    """Dropout: a comparison, a product with the mask, a scaling; the mask is an output. A copy in evaluation."""
    return Cost(vector=x.numel * (0 if train is False else 3))


@formula("rngprims.philox_rand")
def philox_rand(*args: Any, out: Any, **_: Any) -> Cost:
    """Uniform numbers from a counter: 2 FLOP each."""
    drawn = first_tensor(out)
    assert drawn is not None
    return Cost(vector=2 * drawn.numel)
