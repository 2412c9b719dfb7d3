"""Matrix products on narrow, packed or grouped operands: fp8 and fp4, int8 and int4 weights, experts, 2:4 sparsity.

The precision is that of the multipliers: fp8 for scaled_mm, that of the activations where only the weight is
quantised (it is widened before it is multiplied), int8 where the activations are quantised too.

Not counted: applying scales and zero points, widening weights. They ride on the loads and the epilogue.

2:4 sparse weights count the half that is stored and multiplied, so that a run at the sparse peak, twice the dense
one, shows as 100 % of the dense peak.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.core.precision import Precision
from roofline.formulas.matmul import gemm_flops, linear_cost, matmul_dims, matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec, tensors


@formula("aten._scaled_mm", "aten._scaled_mm_v2")
def scaled_mm(a: TensorSpec, b: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """(a · scale) @ (b · scale) in fp8 or fp4: 2 · m · n · k, and one vector FLOP per output for a bias."""
    _batch, m, n, _k = matmul_dims(a.shape, b.shape)
    # The arguments before the bias are two scale tensors, or two triples of scales, recipes and swizzles.
    has_bias = _argument(rest, 2 if not isinstance(rest[0], list | tuple) else 6, "bias", options) is not None
    return Cost(
        matrix=gemm_flops(m, n, _depth(a)),
        vector=m * n if has_bias else 0,
        precision=matrix_precision(a),
    )


@formula("aten._grouped_mm", "transformers.grouped_mm_fallback")
def grouped_mm(a: TensorSpec, b: TensorSpec, offs: Any = None, bias: Any = None, *_: Any, **__: Any) -> Cost:
    """One product per group, the groups laid out along rows, columns or depth.

    a (T, k) by b (G, k, n) is 2 · T · k · n: every row meets the matrix of its group. a (G, m, k) by b (k, T) is
    2 · m · k · T, a (m, T) by b (T, n) is 2 · m · T · n, and two batches are an ordinary batched product. Rows
    behind the last offset, which no group owns, count as if one did. One vector FLOP per output for a bias.
    """
    return _grouped(a, b, bias)


@formula("transformers.grouped_mm_fallback_backward")
def grouped_mm_backward(a: TensorSpec, b: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Gradients of both operands of `grouped_mm`: twice its forward."""
    return Cost(matrix=2 * _grouped(a, b, None).matrix)


@formula("aten._scaled_grouped_mm")
def scaled_grouped_mm(
    a: TensorSpec, b: TensorSpec, scale_a: Any, scale_b: Any, offs: Any = None, bias: Any = None, *_: Any, **__: Any
) -> Cost:
    """`grouped_mm` in fp8 or fp4."""
    return _grouped(a, b, bias)


@formula("aten._scaled_grouped_mm_v2")
def scaled_grouped_mm_v2(a: TensorSpec, b: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """`grouped_mm` in fp8 or fp4, with recipes."""
    return _grouped(a, b, _argument(rest, 7, "bias", options))


@formula("aten._weight_int4pack_mm", "aten._weight_int4pack_mm_for_cpu", "quantized.int4mm_packed_weight_cpu")
def int4_weight(x: TensorSpec, _packed: Any, _group: Any, scales: TensorSpec, **_: Any) -> Cost:
    """Linear with an int4 weight in the precision of x: 2 · rows · n · k. Scales are (k / group, n, 2)."""
    return linear_cost(x, scales, columns=scales.shape[1])


@formula("aten._weight_int4pack_mm_with_scales_and_zeros")
def int4_weight_with_zeros(x: TensorSpec, _packed: Any, _group: Any, scales: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Linear with an int4 weight in the precision of x: 2 · rows · n · k. Scales are (k / group, n)."""
    return linear_cost(x, scales, columns=scales.shape[-1])


@formula("aten._weight_int8pack_mm")
def int8_weight(x: TensorSpec, weight: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Linear with an int8 weight in the precision of x: 2 · rows · n · k."""
    return linear_cost(x, weight)


@formula("aten._dyn_quant_matmul_4bit")
def dynamic_int4(x: TensorSpec, _packed: Any, _block: int, k: int, n: int, **_: Any) -> Cost:
    """Linear that quantises its input to int8 by row: 2 · rows · n · k int8 OP."""
    return linear_cost(x, x, columns=n, depth=k, precision=Precision.INT8)


@formula("aten._mixed_dtypes_linear")
def mixed_dtypes_linear(
    x: TensorSpec, _weight: Any, scale: TensorSpec, *, bias: Any = None, activation: str | None = None, **_: Any
) -> Cost:
    """Linear with an int8 or int4 weight in the precision of x: 2 · rows · n · k."""
    fused = activation not in (None, "", "none")
    return linear_cost(x, scale, bias, columns=scale.shape[-1], extra_per_output=fused)


@formula("aten._cslt_sparse_mm")
def cslt_sparse_mm(
    _compressed: Any, dense: TensorSpec, bias: Any = None, *_: Any, out: TensorSpec, **__: Any
) -> Cost:
    """2:4 sparse by dense, through cuSPARSELt: 2 · m · n · k / 2, the stored half; one vector FLOP for a bias."""
    return Cost(
        matrix=gemm_flops(out.numel, 1, dense.shape[-2]) // 2,
        vector=out.numel if bias is not None else 0,
        precision=matrix_precision(dense),
    )


@formula("aten._sparse_semi_structured_mm")
def semi_structured_mm(stored: TensorSpec, _meta: Any, dense: TensorSpec, **_: Any) -> Cost:
    """2:4 sparse by dense, through CUTLASS; the stored half is (m, k / 2): 2 · m · n · k / 2."""
    m, k = stored.shape
    return Cost(matrix=gemm_flops(m, dense.shape[-1], k), precision=matrix_precision(dense))


@formula("aten._sparse_semi_structured_addmm")
def semi_structured_addmm(_added: Any, stored: TensorSpec, _meta: Any, dense: TensorSpec, **_: Any) -> Cost:
    """2:4 sparse by dense plus a matrix: 2 · m · n · k / 2, and one vector FLOP per output."""
    m, k = stored.shape
    n = dense.shape[-1]
    return Cost(matrix=gemm_flops(m, n, k), vector=m * n, precision=matrix_precision(dense))


@formula("aten._sparse_semi_structured_linear")
def semi_structured_linear(
    x: TensorSpec, stored: TensorSpec, _meta: Any, *, bias: Any = None, activation: str | None = None, **_: Any
) -> Cost:
    """Linear with a 2:4 sparse weight; the stored half is (n, k / 2): 2 · rows · n · k / 2."""
    fused = activation not in (None, "", "none")
    return linear_cost(x, stored, bias, depth=stored.shape[-1], extra_per_output=fused)


@formula("symm_mem._async_input_mm")
def async_input_mm(a: TensorSpec, b: TensorSpec, *_: Any, **__: Any) -> Cost:
    """A product that starts on the parts of a that have arrived: 2 · m · n · k."""
    _batch, m, n, k = matmul_dims(a.shape, b.shape)
    return Cost(matrix=gemm_flops(m, n, k), precision=matrix_precision(a))


@formula("symm_mem.fused_all_gather_matmul", "symm_mem.fused_all_gather_scaled_matmul")
def all_gather_matmul(a: TensorSpec, weights: Sequence[TensorSpec], *_: Any, out: Any, **__: Any) -> Cost:
    """Gather a from all ranks, then multiply it by each weight: 2 · (gathered rows) · n · k each.

    Bytes sent: this rank's shard to each of the other ranks.
    """
    products = list(tensors(out[1]))
    ranks = products[0].numel // products[0].shape[-1] // (a.numel // a.shape[-1])
    return Cost(
        matrix=sum(gemm_flops(p.numel, 1, w.shape[0]) for p, w in zip(products, weights, strict=True)),
        precision=matrix_precision(a),
        network_bytes=a.nbytes * (ranks - 1),
    )


@formula("symm_mem.fused_matmul_reduce_scatter", "symm_mem.fused_scaled_matmul_reduce_scatter")
def matmul_reduce_scatter(a: TensorSpec, b: TensorSpec, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Multiply, then sum over ranks and keep a shard: 2 · rows · n · k.

    Bytes sent: every shard of the product but this rank's own.
    """
    rows, n = prod(a.shape[:-1]), b.shape[-1]
    return Cost(
        matrix=gemm_flops(rows, n, a.shape[-1]),
        vector=rows * n - out.numel,
        precision=matrix_precision(a),
        network_bytes=(rows * n - out.numel) * out.item_bytes,
    )


def _grouped(a: TensorSpec, b: TensorSpec, bias: Any) -> Cost:
    rows, columns, k = prod(a.shape[:-1]), b.shape[-1], _depth(a)
    if a.ndim == 3 and b.ndim == 2:
        rows = a.shape[1]
    outputs = rows * columns * (_groups_of_depth(bias) if a.ndim == b.ndim == 2 else 1)
    return Cost(
        matrix=gemm_flops(rows, columns, k),
        vector=outputs if bias is not None else 0,
        precision=matrix_precision(a),
    )


def _groups_of_depth(bias: Any) -> int:
    """Groups along the depth each give a full output; a bias is one row per group."""
    return bias.shape[0] if isinstance(bias, TensorSpec) else 1


def _depth(a: TensorSpec) -> int:
    """Length of the sums; fp4 stores two values per element."""
    return a.shape[-1] * (2 if a.dtype == "float4_e2m1fn_x2" else 1)


def _argument(rest: Sequence[Any], index: int, name: str, options: dict[str, Any]) -> Any:
    """An argument that may come by position or by name."""
    return rest[index] if len(rest) > index else options.get(name)
