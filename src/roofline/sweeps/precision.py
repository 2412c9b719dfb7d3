"""The precision of a sweep when nobody names one. It depends on no measurement, so that the same command resumes."""

from roofline.core.machine import Machine
from roofline.core.precision import Precision


def of_machine(machine: Machine) -> Precision:
    """BF16 where the machine's rate for it beats FP32's, else FP16 likewise, else FP32."""
    fp32 = machine.matrix.get(Precision.FP32) or machine.vector.get(Precision.FP32)
    for precision in (Precision.BF16, Precision.FP16):
        peak = machine.matrix.get(precision)
        if peak is not None and (fp32 is None or peak.value > fp32.value):
            return precision
    return Precision.FP32


def of_device(device: str) -> Precision:
    """BF16 where the device has instructions for it; FP16 on older GPUs, FP32 on older CPUs."""
    import torch

    kind = torch.device(device).type
    if kind == "cpu":
        fast = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
        return Precision.BF16 if fast else Precision.FP32
    if kind == "cuda" and torch.cuda.is_available():
        return Precision.BF16 if torch.cuda.is_bf16_supported(including_emulation=False) else Precision.FP16
    return Precision.BF16
