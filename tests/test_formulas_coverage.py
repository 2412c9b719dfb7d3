"""Every op that can reach dispatch has a rule, is declared free, or stands here with the reason why not."""

import re

import pytest

from roofline.formulas.registry import find_rule, is_free, registered

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

NAMESPACES = ("aten", "prims", "torchvision", "c10d", "_c10d_functional", "fsdp", "streams", "profiler")

# Left unknown on purpose, so that a count that meets them says so.
UNKNOWN = {
    r"aten\._test_|aten\._foobar": "PyTorch's own tests of its dispatcher",
    r"aten\._spsolve": "a sparse direct solve depends on the fill-in of its factors",
    r"aten\._cslt_|aten\..*_?sparse_semi_structured_(apply|tile)|aten\._to_sparse_semi_structured": (
        "prunes or packs for 2:4 sparsity, once per model; the search times candidates"
    ),
    r"prims\.(_low_memory_|_unsafe_|fma|inductor_|prepare_softmax)": (
        "TorchInductor's own, registered when it is imported; they stand only in graphs that it compiles"
    ),
    r"aten\._dyn_quant_pack_4bit_weight": "packs a weight, once per model",
}


def _dispatched() -> list[str]:
    """Overloads that aren't composite: composite ones decompose before they reach dispatch."""
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.split("::")[0] in NAMESPACES]
    composite = "CompositeImplicitAutograd"
    return sorted(
        n.replace("::", ".") for n in names if not torch._C._dispatch_has_kernel_for_dispatch_key(n, composite)
    )


def _is_left_out(name: str) -> bool:
    return any(re.match(pattern, name) for pattern in UNKNOWN)


def test_every_overload_is_counted_free_or_unknown_for_a_reason() -> None:
    overloads = _dispatched()
    assert len(overloads) > 2000
    missing = [n for n in overloads if find_rule(n) is None and not is_free(n) and not _is_left_out(n)]
    assert missing == []


def test_under_five_percent_of_overloads_are_left_out() -> None:
    overloads = _dispatched()
    unknown = [n for n in overloads if find_rule(n) is None and not is_free(n)]
    assert len(unknown) < 0.05 * len(overloads)


# Free ops whose schema shows a fresh tensor: what it really is.
FRESH = {
    r"(new_|_)?empty(_\w+)?|_efficientzerotensor": "an allocation",
    r"_?sparse_(coo|compressed)_tensor\w*": "wraps the tensors that it is given",
    r"lift|_unsafe_view|_lazy_clone|data": "an alias, though the schema doesn't say so",
    r"_nested_(get|tensor|compute)_\w+|q_per_channel_\w+": "a tensor's own metadata",
    r"_make_(dep_)?token|_functional_(assert|sym)_\w+": "a token that orders effects",
}


def test_what_is_declared_free_makes_no_tensor_that_it_would_have_to_write() -> None:
    suspicious = []
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}".removesuffix(".").replace("::", ".")
        op = ".".join(name.split(".")[1:2])
        if not name.startswith(("aten.", "prims.")) or not is_free(name):
            continue
        fresh = [r for r in schema.returns if str(r.type) == "Tensor" and r.alias_info is None]
        if fresh and not any(re.fullmatch(pattern, op) for pattern in FRESH):
            suspicious.append(name)
    assert suspicious == []


def test_no_rule_claims_an_op_that_was_never_heard_of() -> None:
    """A misspelt name would never match, and the op would be unknown."""
    known = {n.split(".")[0].replace("::", ".") for n in torch._C._dispatch_get_all_op_names()}
    mine = {n for n in registered() if n.startswith(("aten.", "prims.", "torchvision."))}
    assert sorted(n for n in mine if ".".join(n.split(".")[:2]) not in known) == []
