"""Number formats: their names, sizes, and how torch, traces and datasheets spell them."""

from enum import StrEnum


class Precision(StrEnum):
    """A number format that a machine has a rate for."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    FP4 = "fp4"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def is_integer(self) -> bool:
        """Whether rates in this format are OP/s rather than FLOP/s."""
        return self in (Precision.INT8, Precision.INT4)


# Bytes per element of every dtype that torch or a trace can name. Sub-byte packed formats travel as uint8
# storage in torch and are sized by their storage.
DTYPE_BYTES: dict[str, float] = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "complex128": 16,
    "complex64": 8,
    "complex32": 4,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bool": 1,
    "qint8": 1,
    "quint8": 1,
    "qint32": 4,
}

_PRECISION_OF_DTYPE = {
    "float64": Precision.FP64,
    "complex128": Precision.FP64,
    "float32": Precision.FP32,
    "complex64": Precision.FP32,
    "bfloat16": Precision.BF16,
    "float16": Precision.FP16,
    "complex32": Precision.FP16,
    "float8_e4m3fn": Precision.FP8,
    "float8_e5m2": Precision.FP8,
    "float8_e4m3fnuz": Precision.FP8,
    "float8_e5m2fnuz": Precision.FP8,
    "float4_e2m1fn_x2": Precision.FP4,
    "int8": Precision.INT8,
    "uint8": Precision.INT8,
    "qint8": Precision.INT8,
    "quint8": Precision.INT8,
}

# How profiler traces spell dtypes (C++ type names), beside torch's own names.
_TRACE_SPELLINGS = {
    "float": "float32",
    "double": "float64",
    "c10::bfloat16": "bfloat16",
    "c10::half": "float16",
    "half": "float16",
    "long": "int64",
    "long int": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::float8_e4m3fn": "float8_e4m3fn",
    "c10::float8_e5m2": "float8_e5m2",
    "c10::float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::float8_e5m2fnuz": "float8_e5m2fnuz",
}


def dtype_name(spelling: str) -> str:
    """Give torch's name of a dtype, without "torch.", however torch or a trace spells it."""
    name = spelling.removeprefix("torch.")
    return _TRACE_SPELLINGS.get(name.lower(), name)


def dtype_bytes(dtype: str) -> float:
    """Bytes of one element of `dtype` (torch's name).

    Raises:
        KeyError: The dtype is unknown.
    """
    return DTYPE_BYTES[dtype]


def precision_of(dtype: str) -> Precision | None:
    """The rate that arithmetic on `dtype` runs at; None for index types, which no engine multiplies."""
    return _PRECISION_OF_DTYPE.get(dtype)
