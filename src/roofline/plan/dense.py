"""The ops that know no other token: products with weights, norms, activations."""

from roofline.formulas.matmul import gemm_flops
from roofline.plan.ops import Op
from roofline.plan.parts import Matrix
from roofline.plan.setting import Setting

# Square, mean, root, scale, weight and the residual's addition, per element.
NORM_FLOPS = 6
# SiLU (4) and the product with the gate.
ACTIVATION_FLOPS = 5


def linear(
    matrix: Matrix,
    tokens: float,
    path: str,
    setting: Setting,
    *,
    touched: float = 1.0,
    first: bool = False,
) -> Op:
    """The product of tokens and a matrix: 2 · tokens · inputs · outputs.

    Args:
        matrix: The weights.
        tokens: Rows.
        path: Module that holds it.
        setting: Formats.
        touched: How many such matrices are read (experts).
        first: Whether its input is data, so that backward needs no gradient of it.
    """
    rows = round(tokens) if float(tokens).is_integer() else tokens
    flops = gemm_flops(1, matrix.outputs, matrix.inputs) * rows
    return Op(
        name="linear",
        module=f"{path}.{matrix.name}".lstrip("."),
        kind="linear",
        shapes=_shapes(matrix, rows, touched, setting),
        precision=setting.storage.arithmetic(matrix.role, setting.precision),
        matrix=flops,
        vector=tokens * matrix.outputs if matrix.bias else 0,
        weight_bytes=touched * setting.storage.matrix_bytes(matrix),
        input_bytes=tokens * matrix.inputs * setting.item,
        output_bytes=tokens * matrix.outputs * setting.item,
        backward_matrix=flops if first else None,
        exact=float(tokens).is_integer(),
    )


def _shapes(matrix: Matrix, rows: float, touched: float, setting: Setting) -> str:
    """Shapes as torch has them; a grouped product and packed weights say what they are, as they are no plain GEMM."""
    packed = setting.storage.of(matrix.role)
    unpacks = packed is not setting.storage.base and packed.arithmetic is None
    weight = f"{matrix.outputs}x{matrix.inputs}" + (f" {packed.name}" if unpacks else "")
    if matrix.role == "experts":
        return f"{rows:.6g}x{matrix.inputs}, {touched:.4g} experts of {weight}"
    return f"{rows:.10g}x{matrix.inputs}, {weight}"


def norm(module: str, width: int, tokens: float, calls: int, setting: Setting) -> Op:
    """Norms with the residual's addition: both inputs read, both results written."""
    moved = 2 * tokens * width * setting.item * calls
    return Op(
        name="norm",
        module=module,
        kind="vector",
        calls=calls,
        shapes=f"{tokens:.10g}x{width}",
        precision=setting.precision,
        vector=NORM_FLOPS * tokens * width * calls,
        weight_bytes=width * setting.item * calls,
        input_bytes=moved,
        output_bytes=moved,
        exact=False,
    )


def activation(where: str, rows: float, width: int, gated: bool, setting: Setting) -> Op:
    """The activation between up and down, with the gate."""
    return Op(
        name="activation",
        module=where,
        kind="vector",
        shapes=f"{rows:.10g}x{width * (1 + gated)}",
        precision=setting.precision,
        vector=ACTIVATION_FLOPS * rows * width,
        input_bytes=rows * width * (1 + gated) * setting.item,
        output_bytes=rows * width * setting.item,
        exact=False,
    )
