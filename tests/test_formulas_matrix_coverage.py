"""No op of this torch that looks like matrix work lacks a rule."""

import re

import pytest
import torch
import torch.distributed._symmetric_memory
import torch.nn.attention.varlen

import roofline.formulas  # noqa: F401 — fills the table
from roofline.formulas.registry import find_rule, is_free

MATRIX_WORDS = re.compile(
    r"(?:^|_)(?:\w*mm|mv|dot|vdot|addmv|addr|ger|outer|matmul|gemm\w*|linear|q?linear\w*|bilinear|trilinear|q?conv\w*"
    r"|convolution\w*|attention|attn|multi_head|encoder|lstm|gru|rnn|cdist|euclidean|einsum|tensordot|kron|inner|chain"
    r"|matrix)(?:_|$|\d)",
    re.IGNORECASE,
)

LEFT_OUT = {
    "_native._foreach_mm_native_1": "an implementation that aten._foreach_mm calls below dispatch",
    "_native.bmm_triton_0": "an implementation that aten.bmm calls below dispatch",
    "aten.__upsample_bilinear": "resampling, and only in TorchScript",
    "aten._cslt_sparse_mm_search": "tries out algorithms once, outside the program's own work",
    "aten.einsum": "the second form exists only in TorchScript; the first decomposes",
    "export.access_subclass_inner_tensor": "not a product: takes a tensor out of its subclass",
    "quantized_decomposed.convert_element_type": "not a product: a cast",
    "onnx.Attention": "decomposes into products when run; only an ONNX export keeps it whole",
}


def schemas():
    for schema in torch._C._jit_get_all_schemas():
        namespace, op = schema.name.split("::")
        if MATRIX_WORDS.search(op):
            yield schema.name, schema.overload_name, f"{namespace}.{op}"


def decomposes(name: str, overload: str) -> bool:
    """Whether torch itself replaces the op by others, so that those are counted."""
    full = f"{name}.{overload}" if overload else name
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
    except RuntimeError:  # a schema without an operator, known to TorchScript only
        return False


def test_every_op_with_matrix_work_has_a_rule_or_a_reason():
    missing = set()
    for name, overload, packet in schemas():
        known = find_rule(f"{packet}.{overload}" if overload else packet) or is_free(packet)
        if not known and not decomposes(name, overload):
            missing.add(packet)
    assert missing <= set(LEFT_OUT)


def test_the_search_sees_the_ops_that_matter():
    seen = {packet for _, _, packet in schemas()}
    families = (
        "mm addmm bmm mv dot linear _grouped_mm _scaled_mm_v2 _int_mm _weight_int4pack_mm convolution "
        "convolution_backward _flash_attention_forward _scaled_dot_product_efficient_attention_backward "
        "_native_multi_head_attention _transformer_encoder_layer_fwd lstm _cudnn_rnn mkldnn_rnn_layer _trilinear"
    )
    assert seen >= {f"aten.{op}" for op in families.split()}
    assert seen >= {"quantized.linear_dynamic", "onednn.qlinear_pointwise", "mkldnn._linear_pointwise"}


@pytest.mark.parametrize("packet", ["aten.chain_matmul", "aten.tensordot", "aten.matrix_power", "aten.inner"])
def test_ops_that_decompose_have_no_rule_of_their_own(packet):
    assert find_rule(packet) is None
    assert decomposes(packet.replace(".", "::"), "")
