"""What a weight weighs: bits with all scales, by format; and which weights of a model have which format."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from roofline.core.precision import Precision
from roofline.errors import UsageError
from roofline.plan.parts import Matrix, Role


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """How weights are stored.

    Attributes:
        name: Its name.
        bits: Per weight: the element and its share of the scales, zeros and minima of its group.
        row_bits: Per row of a matrix: scales by output channel.
        arithmetic: Precision of the products; None: that of the activations, weights are unpacked on the fly.
        everything: Whether embeddings and head are stored so too (files for llama.cpp), not only the layers.
        detail: What the bits are made of.
    """

    name: str
    bits: float
    row_bits: int = 0
    arithmetic: Precision | None = None
    everything: bool = False
    detail: str = ""


def _blocks(name: str, block_bytes: int, block: int) -> Format:
    """A format of llama.cpp: blocks of so many bytes for so many weights."""
    bits = 8 * block_bytes / block
    return Format(name=name, bits=bits, everything=True, detail=f"{block_bytes} B per {block} weights")


_FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format(name="fp32", bits=32, arithmetic=Precision.FP32, everything=True, detail="4 B"),
        Format(name="bf16", bits=16, arithmetic=Precision.BF16, everything=True, detail="2 B"),
        Format(name="fp16", bits=16, arithmetic=Precision.FP16, everything=True, detail="2 B"),
        Format(name="fp8", bits=8, row_bits=32, arithmetic=Precision.FP8, detail="1 B, an FP32 scale per row"),
        Format(
            name="fp8-block",
            bits=8 + 32 / 128**2,
            arithmetic=Precision.FP8,
            detail="1 B, an FP32 scale per 128 × 128 block",
        ),
        Format(name="int8", bits=8, row_bits=16, arithmetic=Precision.INT8, detail="1 B, an FP16 scale per row"),
        Format(name="mxfp8", bits=8 + 8 / 32, arithmetic=Precision.FP8, detail="8 bits, an 8-bit scale per 32"),
        Format(name="mxfp4", bits=4 + 8 / 32, detail="4 bits, an 8-bit scale per 32"),
        Format(name="nvfp4", bits=4 + 8 / 16, arithmetic=Precision.FP4, detail="4 bits, an 8-bit scale per 16"),
        _blocks("q2_k", 84, 256),
        _blocks("q3_k", 110, 256),
        _blocks("q4_0", 18, 32),
        _blocks("q4_1", 20, 32),
        _blocks("q4_k", 144, 256),
        _blocks("q5_0", 22, 32),
        _blocks("q5_1", 24, 32),
        _blocks("q5_k", 176, 256),
        _blocks("q6_k", 210, 256),
        _blocks("q8_0", 34, 32),
    )
}
_GROUPED = re.compile(r"int4(?:-g(\d{1,9}))?(-sym)?")
_LAYERS: tuple[Role, ...] = ("attention", "mlp", "experts")
_DTYPE_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def find_format(name: str) -> Format:
    """Find a format by name: bf16, fp8, int8, mxfp4, nvfp4, q4_k, q8_0 and so on.

    int4-g128 has an FP16 scale and a 4-bit zero per group of 128, int4-g32-sym a scale alone per 32.

    Raises:
        UsageError: There is none of that name.
    """
    folded = name.lower().replace("-gguf", "")
    if folded in _FORMATS:
        return _FORMATS[folded]
    grouped = _GROUPED.fullmatch(folded)
    if grouped and int(grouped[1] or 128) > 0:
        return int4(int(grouped[1] or 128), zero=not grouped[2])
    raise UsageError(f'"{name}" is no known format of weights', f"known: {', '.join(format_names())}")


def format_names() -> list[str]:
    """List the names of all formats."""
    return [*_FORMATS, "int4-g128", "int4-g32-sym"]


def int4(group: int, *, zero: bool) -> Format:
    """Weights of 4 bits in groups with an FP16 scale each, and a 4-bit zero unless symmetric (AWQ, GPTQ)."""
    bits = 4 + (16 + 4 * zero) / group
    also = " and a 4-bit zero" if zero else ""
    name = f"int4-g{group}{'' if zero else '-sym'}"
    return Format(name=name, bits=bits, detail=f"4 bits, an FP16 scale{also} per {group}")


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Which weights of a model have which format.

    Attributes:
        base: Of whatever is not quantised.
        layers: Of the matrices of `roles`.
        roles: Roles that `layers` applies to.
    """

    base: Format
    layers: Format
    roles: frozenset[str]

    def of(self, role: Role) -> Format:
        """The format of a matrix by its role."""
        return self.layers if self.layers.everything or role in self.roles else self.base

    def matrix_bytes(self, matrix: Matrix) -> float:
        """Bytes of a matrix and its bias."""
        form = self.of(matrix.role)
        return (matrix.weights * form.bits + matrix.outputs * form.row_bits + matrix.bias * self.base.bits) / 8

    def arithmetic(self, role: Role, activations: Precision) -> Precision:
        """Precision of the products with a matrix: the format's own, or that of the activations."""
        form = self.of(role)
        return activations if form is self.base or form.arithmetic is None else form.arithmetic

    def describe(self) -> str:
        """Name the formats and their bits per weight, in words."""
        if self.layers is self.base or self.layers.everything:
            return f"{self.layers.name} ({self.layers.bits:.4g} bits per weight)"
        where = " and ".join(sorted(self.roles))
        form = self.layers
        return f"{form.name} ({form.bits:.4g} bits per weight: {form.detail}) in {where}, else {self.base.name}"


def storage(
    dtype: str, quantization: Mapping[str, Any], given: str | None = None, precision: Precision | None = None
) -> Storage:
    """Decide how a model's weights are stored.

    Args:
        dtype: The config's own.
        quantization: The config's quantization_config; it wins over `dtype`, which then is that of the activations.
        given: A format that the user names; it wins over both.
        precision: Of the activations, where the user names it; unquantised weights follow it.

    Raises:
        UsageError: The format is unknown.
    """
    base = _FORMATS[_base_name(dtype, precision)]
    if given is not None:
        form = find_format(given)
        if form.name in ("bf16", "fp16", "fp32"):
            return Storage(base=form, layers=form, roles=frozenset())
        return Storage(base=base, layers=form, roles=frozenset(_LAYERS))
    if not quantization:
        return Storage(base=base, layers=base, roles=frozenset())
    kept = tuple(str(m) for m in quantization.get("modules_to_not_convert") or quantization.get("ignore") or ())
    return Storage(base=base, layers=_of_config(quantization), roles=frozenset(_converted(kept)))


def _base_name(dtype: str, precision: Precision | None) -> str:
    if precision is not None and precision.value in ("bf16", "fp16", "fp32"):
        return precision.value
    # Weights published in FP32 are trained and served in BF16 unless asked otherwise.
    return "bf16" if dtype == "float32" else _DTYPE_FORMATS.get(dtype, "bf16")


def _of_config(quantization: Mapping[str, Any]) -> Format:
    """The format that a quantization_config describes.

    Raises:
        UsageError: It is of an unknown method.
    """
    method = str(quantization.get("quant_method") or "").lower()
    if method == "fp8":
        return _FORMATS["fp8-block" if quantization.get("weight_block_size") else "fp8"]
    if method == "mxfp4":
        return _FORMATS["mxfp4"]
    if method in ("awq", "gptq") and quantization.get("bits", 4) == 4:
        zero = bool(quantization.get("zero_point", not quantization.get("sym", False)))
        return _grouped(quantization, zero=zero)
    if method == "modelopt" and "FP4" in str(quantization.get("quant_algo", "")):
        return _FORMATS["nvfp4"]
    if method == "modelopt" and "FP8" in str(quantization.get("quant_algo", "")):
        return _FORMATS["fp8"]
    if method == "compressed-tensors":
        return _compressed(quantization)
    raise UsageError(
        f'the config\'s quantisation "{method}" is not known', "name the format of the weights: --weights int4-g128"
    )


def _compressed(quantization: Mapping[str, Any]) -> Format:
    groups = quantization.get("config_groups") or {}
    found = [g["weights"] for g in groups.values() if isinstance(g, Mapping) and g.get("weights")]
    weights: Mapping[str, Any] = found[0] if found else {}
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 8:
        return _FORMATS["fp8" if kind == "float" else "int8"]
    if bits == 4 and kind == "int":
        return _grouped(weights, zero=not weights.get("symmetric", True))
    if bits == 4:
        return _FORMATS["nvfp4"]
    raise UsageError("the config's compressed-tensors format is not known", "name it: --weights int4-g128")


def _grouped(description: Mapping[str, Any], *, zero: bool) -> Format:
    """4-bit weights with a scale per group, or per row of the matrix where the group size is -1.

    Raises:
        UsageError: The group size makes no sense.
    """
    group = description.get("group_size") or 128
    if group == -1:
        also = " and a 4-bit zero" if zero else ""
        return Format(name="int4-row", bits=4, row_bits=16 + 4 * zero, detail=f"4 bits, an FP16 scale{also} per row")
    if isinstance(group, bool) or not isinstance(group, int) or not 0 < group <= 2**20:
        raise UsageError("the config's group_size is no size of a group", "name the format: --weights int4-g128")
    return int4(group, zero=zero)


def _converted(kept: Iterable[str]) -> list[Role]:
    """Roles that are quantised: those of the layers, less whole kinds that the config keeps."""
    wild = [k for k in kept if "*" in k or not re.search(r"\d", k)]
    skipped = {"attention": "attn", "mlp": "mlp", "experts": "experts"}
    return [r for r in _LAYERS if not any(k.endswith(skipped[r]) for k in wild)]


def weight_bytes(params: float, form: Format) -> float:
    """Bytes of so many weights: params · bits / 8."""
    return params * form.bits / 8
