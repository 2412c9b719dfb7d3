"""Figures: every peak agrees with the parts it is made of, with what vendors print, and with what was measured."""

import csv
import re
from pathlib import Path

import pytest

from roofline.core import units
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.machines import all_machines, find
from roofline.machines import database as db

SHARED = Path(__file__).parents[1] / "../shared/data"
DOCS = Path(__file__).parents[1] / "docs" / "machines.md"

# FLOP per clock and multiprocessor, dense, by compute capability: NVIDIA's and AMD's architecture whitepapers.
# The matrix rates are those of the full engine; products sold with half of it are in HALF.
MATRIX_PER_CLOCK = {
    "7.0": {"fp16": 1024},
    "7.5": {"fp16": 1024, "int8": 2048},
    "8.0": {"fp64": 128, "tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096, "int4": 8192},
    "8.6": {"tf32": 512, "bf16": 1024, "fp16": 1024, "int8": 2048, "int4": 4096},
    "8.9": {"tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "int8": 2048},
    "9.0": {"fp64": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
    "12.0": {"tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "fp4": 4096, "int8": 2048},
    "gfx908": {"fp32": 256, "bf16": 512, "fp16": 1024, "int8": 1024},
    "gfx90a": {"fp64": 256, "fp32": 256, "bf16": 1024, "fp16": 1024, "int8": 1024},
    "gfx942": {"fp64": 256, "fp32": 256, "tf32": 1024, "bf16": 2048, "fp16": 2048, "fp8": 4096, "int8": 4096},
    "gfx950": {"fp64": 128, "fp32": 256, "bf16": 4096, "fp16": 4096, "fp8": 8192, "fp4": 16384, "int8": 8192},
}
VECTOR_PER_CLOCK = {
    "7.0": {"fp32": 128, "fp64": 64},
    "7.5": {"fp32": 128, "fp64": 4},
    "8.0": {"fp32": 128, "fp64": 64},
    "8.6": {"fp32": 256, "fp64": 4},
    "8.9": {"fp32": 256, "fp64": 4},
    "9.0": {"fp32": 256, "fp64": 128},
    "10.0": {"fp32": 256, "fp64": 128},
    "10.3": {"fp32": 256, "fp64": 4},
    "12.0": {"fp32": 256, "fp64": 4},
    "gfx908": {"fp32": 128, "fp64": 64},
    "gfx90a": {"fp32": 128, "fp64": 128},
    "gfx942": {"fp32": 256, "fp64": 128},
    "gfx950": {"fp32": 256, "fp64": 128},
}
AMD_TARGET = {"mi100": "gfx908", "9.0": "gfx90a", "9.4": "gfx942", "9.5": "gfx950"}
# Half the full matrix rate, by NVIDIA's datasheets and whitepapers: in every format, and (GeForce) where the
# accumulation is FP32 while integers and FP4 keep the full rate.
ALL_HALF = {"a10g", "l40"}
HALF = {"rtx-3090", "rtx-4080", "rtx-4090", "rtx-5080", "rtx-5090"}
# FP64 is cut by export rules or not the die's: not made of parts.
CUT = {("h800-sxm", "fp64"), ("h800-pcie", "fp64"), ("l40s", "int4")}


def _target(key: str) -> str:
    written = db.table(key)
    if written.vendor != "AMD":
        return written.compute
    return AMD_TARGET.get(key) or AMD_TARGET.get(written.compute, "")


def _matrix_hz(key: str) -> float | None:
    """Clock of the matrix rates: known where NVIDIA prints it, or where there is one clock for everything."""
    written = db.table(key)
    if written.matrix_clock:
        return units.parse(written.matrix_clock, "Hz")
    return find(key).boost_hz if written.compute != "9.0" or written.vendor == "AMD" else None


def _made_matrix(m: Machine) -> list[tuple[str, float, float]]:
    """Precision, peak, and peak made of parts; empty where the parts are not published."""
    clock, full = _matrix_hz(m.key), MATRIX_PER_CLOCK.get(_target(m.key))
    made = []
    for precision, ceiling in m.matrix.items() if clock and m.multiprocessors and full else ():
        if precision in full and (m.key, precision.value) not in CUT:
            hz = m.boost_hz if precision == Precision.FP64 else clock  # NVIDIA quotes FP64 tensor peaks at full boost
            halved = m.key in ALL_HALF or (m.key in HALF and precision in ("tf32", "bf16", "fp16", "fp8"))
            made.append((precision, ceiling.value, m.multiprocessors * hz * full[precision] / (2 if halved else 1)))
    return made


def _made_vector(m: Machine) -> list[tuple[str, float, float]]:
    per_clock = VECTOR_PER_CLOCK.get(_target(m.key))
    if not (m.boost_hz and m.multiprocessors and per_clock):
        return []
    return [
        (precision, ceiling.value, m.multiprocessors * m.boost_hz * per_clock[precision])
        for precision, ceiling in m.vector.items()
        if precision in per_clock and (m.key, precision.value) not in CUT
    ]


@pytest.mark.parametrize("m", [m for m in all_machines() if _made_matrix(m)], ids=lambda m: m.key)
def test_a_matrix_peak_is_multiprocessors_times_clock_times_flops_per_clock(m):
    for precision, peak, made in _made_matrix(m):
        assert peak == pytest.approx(made, rel=0.03), precision


@pytest.mark.parametrize("m", [m for m in all_machines() if _made_vector(m)], ids=lambda m: m.key)
def test_a_vector_peak_is_multiprocessors_times_clock_times_flops_per_clock(m):
    for precision, peak, made in _made_vector(m):
        assert peak == pytest.approx(made, rel=0.03), precision


def test_most_gpus_are_checked_by_their_parts():
    gpus = [m for m in all_machines() if m.vendor in ("NVIDIA", "AMD")]
    assert sum(bool(_made_matrix(m)) for m in gpus) >= 45
    assert sum(bool(_made_vector(m)) for m in gpus) >= 50


# Sparse rates as printed by the vendors' datasheets, TFLOP/s or TOP/s.
SPARSE = {
    "a100-sxm-80gb": {"tf32": 312, "bf16": 624, "fp16": 624, "int8": 1248, "int4": 2496},
    "a10": {"tf32": 125, "bf16": 250, "fp16": 250, "int8": 500, "int4": 1000},
    "a30": {"tf32": 165, "bf16": 330, "fp16": 330, "int8": 661, "int4": 1321},
    "a40": {"tf32": 149.6, "bf16": 299.4, "fp16": 299.4, "int8": 598.6, "int4": 1197.4},
    "rtx-a4000": {"fp16": 153.4},
    "rtx-a5000": {"fp16": 222.2},
    "rtx-a6000": {"fp16": 309.7},
    "l4": {"tf32": 120, "bf16": 242, "fp16": 242, "fp8": 485, "int8": 485},
    "l40": {"tf32": 181, "bf16": 362.1, "fp16": 362.1, "fp8": 724, "int8": 724, "int4": 1448},
    "l40s": {"tf32": 366, "bf16": 733, "fp16": 733, "fp8": 1466, "int8": 1466},
    "rtx-3090": {"tf32": 71, "bf16": 142, "fp16": 142, "int8": 568},
    "rtx-4090": {"tf32": 165.2, "bf16": 330.4, "fp16": 330.4, "fp8": 660.6, "int8": 1321.2},
    "rtx-6000-ada": {"fp8": 1457},
    "rtx-5090": {"tf32": 209.5, "bf16": 419, "fp16": 419, "fp8": 838, "fp4": 3352, "int8": 1676},
    "rtx-pro-6000-workstation": {"fp4": 4000},
    "rtx-pro-6000-max-q": {"fp4": 3511},
    "h100-pcie": {"tf32": 756, "bf16": 1513, "fp16": 1513, "fp8": 3026, "int8": 3026},
    "h100-sxm": {"tf32": 989, "bf16": 1979, "fp16": 1979, "fp8": 3958, "int8": 3958},
    "h100-nvl": {"tf32": 835, "bf16": 1671, "fp16": 1671, "fp8": 3341, "int8": 3341},
    "h200-sxm": {"tf32": 989, "bf16": 1979, "fp16": 1979, "fp8": 3958, "int8": 3958},
    "h20": {"tf32": 148, "bf16": 296, "fp16": 296, "fp8": 592, "int8": 592},
    "b200": {"tf32": 2250, "bf16": 4500, "fp16": 4500, "fp8": 9000, "fp4": 18000, "int8": 9000},
    "gb200": {"tf32": 2500, "bf16": 5000, "fp16": 5000, "fp8": 10000, "fp4": 20000, "int8": 10000},
    "gb300": {"tf32": 2500, "bf16": 5000, "fp16": 5000, "fp8": 10000, "int8": 330},
    "b300": {"bf16": 4500, "fp8": 9000, "int8": 307},
    "mi300x": {"tf32": 1307.4, "bf16": 2614.9, "fp16": 2614.9, "fp8": 5229.8, "int8": 5229.8},
    "mi325x": {"bf16": 2614.9, "fp16": 2614.9, "fp8": 5229.8, "int8": 5229.8},
}


@pytest.mark.parametrize("key", SPARSE)
def test_twice_the_dense_peak_is_the_printed_sparse_one(key):
    # 1.5 %: the L40S datasheet prints 362.05 dense and 733 sparse.
    for precision, sparse in SPARSE[key].items():
        assert 2 * find(key).matrix[Precision(precision)].value == pytest.approx(sparse * 1e12, rel=0.015), precision


# NVIDIA's HGX and NVL72 pages: FP4 dense is twice FP8, on Blackwell Ultra three times (108 of 36 PFLOP/s for 8 GPUs).
@pytest.mark.parametrize(("key", "times"), [("b100", 2), ("b200", 2), ("gb200", 2), ("b300", 3), ("gb300", 3)])
def test_fp4_is_a_whole_multiple_of_fp8(key, times):
    matrix = find(key).matrix
    assert matrix[Precision.FP4].value == times * matrix[Precision.FP8].value
    assert matrix[Precision.FP8].value == 2 * matrix[Precision.BF16].value


# FLOP/B, ±1: hand-divided from datasheets (A10 and A10G as the article's two roofs).
@pytest.mark.parametrize(
    ("name", "precision", "ridge"),
    [
        ("a100-sxm-80gb", "bf16", 312e12 / 2039e9),
        ("NVIDIA H100 80GB HBM3", "bf16", 295),
        ("NVIDIA H100 80GB HBM3", "fp8", 591),
        ("Tesla V100-SXM2-16GB", "fp16", 139),
        ("Tesla V100-SXM2-32GB", "fp16", 139),
        ("NVIDIA A10", "bf16", 208),
        ("NVIDIA A10G", "bf16", 117),
        ("NVIDIA A100-SXM4-80GB", "bf16", 153),
    ],
)
def test_ridge_points_are_the_published_ones(name, precision, ridge):
    assert find(name).ridge_point(Precision(precision)) == pytest.approx(ridge, abs=1)


# Case B64: sparse peaks halve the MFU, dense ones halved again double it.
def test_420_tflops_on_an_h200_are_42_percent():
    peak = find("NVIDIA H200").matrix_peak(Precision.BF16).value
    assert peak == 989.5e12
    assert units.percent(420e12 / peak) == "42.4 %"


# Case B68: consumer cards multiply at half rate with FP32 accumulation.
@pytest.mark.parametrize(
    ("name", "bf16"),
    [("RTX 4090", 165.2), ("RTX 3090", 71), ("RTX 5090", 209.5), ("A10", 125), ("A10G", 70), ("RTX A6000", 154.8)],
)
def test_16_bit_peaks_are_those_with_fp32_accumulation(name, bf16):
    assert find(name).matrix_peak(Precision.BF16).value == bf16 * 1e12
    assert find(name).matrix_peak(Precision.FP16).value == bf16 * 1e12


# Highest bf16 GEMM rate seen, TFLOP/s: aiconfigurator's measured rows (Apache-2.0), all frameworks.
MEASURED = {
    "a100-sxm-80gb": 299,
    "l40s": 297,
    "h100-sxm": 956,
    "h200-sxm": 940,
    "b200": 2102,
    "b300": 2223,
    "gb200": 2179,
    "gb300": 2334,
    "rtx-pro-6000-server": 459,
}


@pytest.mark.parametrize("key", MEASURED)
def test_a_peak_is_not_below_nine_tenths_of_what_was_measured(key):
    assert find(key).matrix_peak(Precision.BF16).value >= 0.9 * MEASURED[key] * 1e12


# Highest bandwidth of weight-streaming GEMMs, GB/s, same rows. A machine's bandwidth may not be below it. On the L40S
# and the RTX PRO 6000 TensorRT-LLM's few copies of 250 MB leave weights in L2 (859 and 1756 GB/s, falling to the
# others' rate from 2 GB on): there the other frameworks' rows.
def test_a_bandwidth_is_not_below_what_was_measured():
    seen = {"a100-sxm-80gb": 1780, "l40s": 750, "h100-sxm": 3093, "h200-sxm": 4326, "b200": 7132, "b300": 6981}
    seen |= {"gb200": 7447, "gb300": 7126, "rtx-pro-6000-server": 1539}
    for key, gigabytes in seen.items():
        assert find(key).dram.value >= gigabytes * 1e9, key


# Memory clock in MHz, as drivers report it, and bus width in bit; two transfers per clock.
MEMORY = {
    "v100-sxm2-16gb": (877, 4096), "v100-pcie-32gb": (877, 4096), "t4": (5001, 256), "a10": (6251, 384),
    "a10g": (6251, 384), "a30": (1215, 3072), "a40": (7251, 384), "a100-sxm-40gb": (1215, 5120),
    "a100-sxm-80gb": (1593, 5120), "a100-pcie-40gb": (1215, 5120), "a100-pcie-80gb": (1512, 5120),
    "rtx-a4000": (7001, 256), "rtx-a5000": (8001, 384), "rtx-a6000": (8001, 384), "l4": (6251, 192),
    "l40": (9001, 384), "l40s": (9001, 384), "rtx-3090": (9751, 384), "rtx-4080": (11201, 256),
    "rtx-4090": (10501, 384), "rtx-5080": (15001, 256), "rtx-5090": (14001, 512), "rtx-6000-ada": (10001, 384),
    "rtx-pro-6000-server": (12481, 512), "rtx-pro-6000-workstation": (14001, 512), "h100-pcie": (1593, 5120),
    "h100-sxm": (2619, 5120), "h100-nvl": (2619, 6016), "h20": (2619, 6144), "h200-sxm": (3201, 6144),
    "gh200-96gb": (2619, 6144), "b200": (3996, 7680), "b300": (3996, 7680), "mi100": (1200, 4096),
    "mi210": (1600, 4096), "mi250x-gcd": (1600, 4096), "mi300x": (2600, 8192), "mi355x": (4000, 8192),
    "arc-pro-b60": (9500, 192),
}  # fmt: skip


@pytest.mark.parametrize("key", MEMORY)
def test_a_bandwidth_is_memory_clock_times_bus_width(key):
    megahertz, bits = MEMORY[key]
    # 2.5 %: NVIDIA prints 4.8 TB/s for the H200's 4.917 and 2 for the H100 PCIe's 2.039, AMD 8 for 8.192.
    assert find(key).dram.value == pytest.approx(2 * megahertz * 1e6 * bits / 8, rel=0.025)


def test_no_gemm_of_the_shared_sample_beats_its_machine():
    path = SHARED / "gemm_aiconfigurator/gemm_sample.csv"
    if not path.exists():
        pytest.skip("shared data absent")
    with path.open(newline="") as rows:
        for row in csv.DictReader(rows):
            flops = 2 * int(row["m"]) * int(row["n"]) * int(row["k"])
            rate = flops / (float(row["latency_ms"]) / 1e3)
            assert 0.9 * rate <= find(row["device"]).matrix_peak(Precision.BF16).value


SCALE = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "Gi": 2.0**30, "Mi": 2.0**20}
FIGURE = re.compile(r"([0-9.]+) (Gi|Mi|[TGMk]?)(FLOP/s|OP/s|B/s|B|Hz|W)")


def _figures(key: str) -> list[str]:
    written = db.table(key)
    single = [written.memory, written.boost_clock, written.matrix_clock, written.tdp]
    many = [*written.matrix.values(), *written.vector.values(), *written.bandwidth.values(), *written.cache.values()]
    return [text for text in (*single, *many) if text]


@pytest.mark.parametrize("key", db.device_keys())
def test_every_figure_reads_as_written_and_survives_being_printed(key):
    for text in _figures(key):
        found = FIGURE.fullmatch(text)
        assert found, text
        number, prefix, unit = found.groups()
        value = units.parse(text, unit)
        assert value == pytest.approx(float(number) * SCALE[prefix], rel=1e-12)
        printed = units.show(value, unit, capacity=unit == "B")
        assert units.parse(printed, unit) == pytest.approx(value, rel=0.0051), text


@pytest.mark.parametrize("m", all_machines(), ids=lambda m: m.key)
def test_every_machine_names_its_source_and_date_and_has_plausible_figures(m):
    assert m.source and re.fullmatch(r"20\d\d-\d\d-\d\d", m.read_on) and m.vendor
    assert 50e9 < m.dram.value < 20e12
    assert all(1e11 < c.value < 1e17 for c in m.matrix.values())
    assert all(c.source and c.origin == "datasheet" for c in (*m.matrix.values(), *m.bandwidth.values()))
    for fast, slow in (("bf16", "tf32"), ("fp8", "bf16"), ("fp4", "fp8"), ("int4", "int8")):
        if fast in m.matrix and slow in m.matrix:
            assert m.matrix[Precision(fast)].value >= m.matrix[Precision(slow)].value


# ---- the settled disagreements -------------------------------------------------------------------------------------

# Devices of the public tables, by our key; the docs say where we list another device (a GCD, a core) than they do.
OURS = {
    "L4": "l4", "GB300": "gb300", "B300": "b300", "RTX A6000": "rtx-a6000", "RTX 4090": "rtx-4090", "B200": "b200",
    "A100 SXM 80GB": "a100-sxm-80gb", "MI210": "mi210", "MI250": "mi250-gcd", "H100 SXM": "h100-sxm",
    "H200 SXM": "h200-sxm", "GH200": "gh200-144gb", "A10": "a10", "A40": "a40", "MI355X": "mi355x",
    "MI250X": "mi250x-gcd", "V100 PCIe": "v100-pcie-16gb", "A100 PCIe 80GB": "a100-pcie-80gb", "MI300X": "mi300x",
    "MI325X": "mi325x", "RTX 3090": "rtx-3090", "H100 PCIe": "h100-pcie", "B100": "b100", "GB200": "gb200",
    "A10G": "a10g", "L40S": "l40s", "TPU v3": "tpu-v3", "TPU v4": "tpu-v4", "TPU v6e": "tpu-v6e",
    "Gaudi 3": "gaudi3", "Trainium1 (per core)": "trainium1-core", "A100 PCIe 40GB": "a100-pcie-40gb",
}  # fmt: skip


def _settled() -> dict[tuple[str, str], str]:
    text = DOCS.read_text("utf-8").split("## Where public tables disagree")[1]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return {(row[0], row[1]): row[2] for row in rows[2:]}


def _our_values(key: str, field: str) -> dict[str, float]:
    m = find(key)
    plain = {
        "bw": m.dram.value / 1e9,
        "mem_gb": (m.memory_bytes or 0) / 2**30,
        "l2_mb": m.cache_bytes.get("l2", 0) / 2**20,
        "tdp_w": m.tdp_w,
        "boost_mhz": (m.boost_hz or 0) / 1e6,
    }
    if field in plain:
        return {"": plain[field] or 0}
    precision = Precision(field)
    engines = {"matrix": m.matrix, "vector": m.vector}
    return {name: rates[precision].value / 1e12 for name, rates in engines.items() if precision in rates}


def test_every_disagreement_of_the_public_tables_is_settled():
    path = SHARED / "specs/disagreements.csv"
    if not path.exists():
        pytest.skip("shared data absent")
    with path.open(newline="") as rows:
        wanted = {(row["gpu"], row["field"]) for row in csv.DictReader(rows)}
    assert len(wanted) == 80
    assert set(_settled()) == wanted


@pytest.mark.parametrize(("gpu", "field"), list(_settled()))
def test_a_settled_figure_is_the_one_in_the_database(gpu, field):
    entries = [entry.split() for entry in _settled()[gpu, field].split(";")]
    if field.endswith("_MEASURED_max"):
        assert find(OURS[gpu]).matrix_peak(Precision.BF16).value >= 0.9 * float(entries[0][0]) * 1e12
        return
    if (gpu, field) == ("V100 PCIe", "mem_gb"):
        assert {find(f"v100-pcie-{size}gb").memory_bytes for size in (16, 32)} == {16 * 2**30, 32 * 2**30}
        return
    ours = _our_values(OURS[gpu], field)
    for value, *engine in entries:
        name = engine[0] if engine else ("" if "" in ours else "matrix")
        assert ours[name] == pytest.approx(float(value), rel=0.003), (gpu, field, name)


def test_every_measured_maximum_of_the_public_tables_is_under_our_peak():
    path = SHARED / "specs/specs_long.csv"
    if not path.exists():
        pytest.skip("shared data absent")
    keys = OURS | {
        "L40": "l40",
        "RTX 6000 Ada": "rtx-6000-ada",
        "H100 NVL": "h100-nvl",
        "V100 SXM2": "v100-sxm2-16gb",
    }
    checked = 0
    with path.open(newline="") as rows:
        for row in csv.DictReader(rows):
            precision = row["field"].removesuffix("_MEASURED_max")
            if precision != row["field"] and row["gpu"] in keys:
                m = find(keys[row["gpu"]])
                peak = m.matrix_peak(Precision("fp16" if "V100" in row["gpu"] else precision)).value
                assert peak >= 0.9 * float(row["value"]) * 1e12, (row["gpu"], row["value"])
                checked += 1
    assert checked > 25
