"""Names: a machine is found by its exact name, or not at all."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.errors import MachineError, RunFileError, UsageError
from roofline.machines import (
    all_machines,
    find,
    identify,
    implied_clock_hz,
    load_machine,
    override,
    resolve,
    save_machine,
)
from roofline.machines import database as db
from roofline.machines import table as doc_table

DATABASE = Path(db.__file__).parent
DOCS = Path(__file__).parents[1] / "docs" / "machines.md"

# Name as the driver reports it, bf16 TFLOP/s dense, DRAM GB/s: from NVIDIA's datasheets.
FIFTEEN = [
    ("NVIDIA L40S", 362.05, 864),
    ("NVIDIA L40", 181.05, 864),
    ("NVIDIA L4", 121, 300),
    ("NVIDIA A10", 125, 600),
    ("NVIDIA A10G", 70, 600),
    ("NVIDIA RTX A4000", 76.7, 448),
    ("NVIDIA H100 80GB HBM3", 989.5, 3350),
    ("NVIDIA H100 PCIe", 756.5, 2000),
    ("NVIDIA H100 NVL", 835.5, 3900),
    ("NVIDIA H200", 989.5, 4800),
    ("NVIDIA B200", 2250, 7700),
    ("NVIDIA B300 SXM6 AC", 2250, 7700),
    ("NVIDIA GB300", 2500, 8000),
    ("NVIDIA A100-SXM4-40GB", 312, 1555),
    ("NVIDIA A100-SXM4-80GB", 312, 2039),
]


@pytest.mark.parametrize(("name", "bf16", "bandwidth"), FIFTEEN)
def test_a_driver_name_finds_its_own_row(name, bf16, bandwidth):
    found = find(name)
    assert found.matrix_peak(Precision.BF16).value == pytest.approx(bf16 * 1e12)
    assert found.dram.value == pytest.approx(bandwidth * 1e9)
    assert found.source and found.read_on


def test_fifteen_names_are_fifteen_machines():
    assert len({find(name).key for name, _, _ in FIFTEEN}) == 15


# Case B67 of the field.
def test_names_that_public_tables_confuse_are_eleven_machines_or_ambiguous():
    names = ["NVIDIA B300 SXM6 AC", "NVIDIA GB300", "NVIDIA A10", "A10G", "A100-SXM4-40GB", "L4", "L40S"]
    names += ["NVIDIA H100 80GB HBM3", "H100 NVL", "H100 PCIe"]
    assert len({find(name).key for name in names}) == len(names)
    with pytest.raises(MachineError, match="ambiguous"):
        find("NVIDIA H100")
    assert find("A100-SXM4-40GB").dram.value == 1.555e12


@pytest.mark.parametrize("name", ["H100", "NVIDIA H100", "nvidia h100"])
def test_a_bare_h100_is_ambiguous_and_lists_the_three(name):
    with pytest.raises(MachineError, match="ambiguous") as error:
        find(name)
    assert all(key in error.value.message for key in ("h100-sxm", "h100-pcie", "h100-nvl"))
    assert "h100-sxm" in error.value.hint and error.value.exit_code == 2


# Case B66: torchtitan took an MI350X for an A100 and printed 152 % for 20.5 %.
@pytest.mark.parametrize("name", ["NVIDIA RTX 4070", "NVIDIA H100 SXM9", "AMD Instinct MI999X", "a", "", "🙂"])
def test_an_unknown_gpu_is_an_error_not_an_a100(name):
    with pytest.raises(MachineError, match="unknown machine") as error:
        find(name)
    assert "--peak-flops" in error.value.hint and "roofline devices" in error.value.hint


@pytest.mark.parametrize("name", ["Apple A10", "AMD A10", "Intel A40", "apple-h100", "AMD NVIDIA L4", "NVIDIA M1"])
def test_a_name_with_another_vendor_in_front_is_unknown(name):
    for looked_up in (find, identify):
        with pytest.raises(MachineError, match="unknown machine"):
            looked_up(name)


def test_an_unknown_name_comes_with_near_names():
    with pytest.raises(MachineError, match='"h100-sxm"'):
        find("h100-sxn")


# device_name=… of vLLM's and SGLang's tuned configurations, which spell the driver's name with underscores.
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA_H100_80GB_HBM3", "h100-sxm"),
        ("NVIDIA_H100_PCIe", "h100-pcie"),
        ("NVIDIA_H100_NVL", "h100-nvl"),
        ("NVIDIA_A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA_A100_80GB_PCIe", "a100-pcie-80gb"),
        ("NVIDIA_A800-SXM4-80GB", "a800-sxm-80gb"),
        ("NVIDIA_GH200_480GB", "gh200-96gb"),
        ("NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition", "rtx-pro-6000-server"),
        ("NVIDIA_RTX_PRO_6000_Blackwell_Workstation_Edition", "rtx-pro-6000-workstation"),
        ("NVIDIA_RTX_PRO_6000_Blackwell_Max-Q_Workstation_Edition", "rtx-pro-6000-max-q"),
        ("AMD_Instinct_MI300X_OAM", "mi300x"),
        ("AMD_Instinct_MI308X_OAM", "mi308x"),
        ("AMD_Instinct_MI325_OAM", "mi325x"),
        ("AMD_Instinct_MI350_OAM", "mi350x"),
        ("AMD_Instinct_MI355_OAM", "mi355x"),
        ("Intel(R)_Arc(TM)_Pro_B60_Graphics", "arc-pro-b60"),
    ],
)
def test_a_name_of_a_tuned_kernel_configuration_finds_its_device(name, key):
    assert find(name).key == key


# Names that drivers report for devices which are not in the database, as vLLM's and SGLang's tuned configurations and
# public logs spell them: close to a name that is.
NEIGHBOURS = """NVIDIA GeForce RTX 4090 D; NVIDIA GeForce RTX 4090 Laptop GPU; NVIDIA GeForce RTX 3090 Ti;
NVIDIA H20-3e; NVIDIA GeForce RTX 4080 SUPER; NVIDIA GeForce RTX 5090 D; NVIDIA H100 80GB HBM2e; NVIDIA L20;
NVIDIA L20Y; NVIDIA L20X; NVIDIA GB10; NVIDIA PG506-230; NVIDIA A100-SXM-64GB; NVIDIA A10M; NVIDIA A100X;
NVIDIA A10-24Q; NVIDIA A40-48Q; Tesla V100S-PCIE-32GB; Tesla V100-SXM3-32GB; Tesla V100-SXM2-32GB-LS;
AMD Instinct MI300XHF OAM; AMD Instinct MI300X HF; AMD Radeon R9700; Intel(R) Arc(TM) Pro B70 Graphics;
Intel(R) Arc(TM) B580 Graphics; NVIDIA A100-SXM4-80GB MIG 1g.10gb; NVIDIA RTX 5000 Ada Generation; Quadro RTX 6000;
TPU v4 lite; TPU v2; Apple M5; NVIDIA Graphics Device"""


@pytest.mark.parametrize("name", [name.strip() for name in NEIGHBOURS.split(";")])
def test_a_neighbour_of_a_listed_device_is_not_taken_for_it(name):
    with pytest.raises(MachineError, match="unknown machine"):
        find(name)


def test_an_mi350x_is_judged_by_its_own_peak():
    found = find("AMD Instinct MI350X")
    assert 0.205 * found.matrix_peak(Precision.BF16).value / 312e12 == pytest.approx(1.52, abs=0.01)
    assert found.matrix_peak(Precision.BF16).value == pytest.approx(2.3e15, rel=0.005)


def _all_names() -> list[str]:
    return [name for m in all_machines() for name in (m.key, m.name, *m.aliases)]


def test_every_key_name_and_alias_finds_its_machine():
    for m in all_machines():
        for name in (m.key, m.name, *m.aliases, m.name.upper(), m.name.lower(), f"  {m.name} "):
            assert find(name).key == m.key


def test_no_two_machines_share_an_alias():
    owners: dict[str, str] = {}
    for m in all_machines():
        for name in (m.key, m.name, *m.aliases):
            assert owners.setdefault(db.fold(name), m.key) == m.key, name


def test_a_shared_name_is_no_machines_own_and_belongs_to_several():
    known = db.names()
    for name, owners in known.shared.items():
        assert name not in known.exact
        assert len(owners) > 1, name


@given(st.sampled_from(_all_names()), st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_name_never_finds_a_machine_that_is_not_called_so(name, start, length):
    part = name[start : start + length]
    known = db.names()
    try:
        found = find(part)
    except MachineError:
        assert db.fold(part) not in known.exact
    else:
        assert db.fold(part) in {db.fold(n) for n in (found.key, found.name, *found.aliases)}


@pytest.mark.parametrize("name", _all_names())
def test_a_name_with_something_behind_it_is_another_name(name):
    with pytest.raises(MachineError):
        find(f"{name} Laptop GPU")


def test_the_lazy_reading_of_names_agrees_with_a_full_parse():
    known = db.names()
    for path in DATABASE.glob("*.toml"):
        for key, body in tomllib.loads(path.read_text("utf-8")).items():
            if not isinstance(body, dict):
                continue
            assert db.table(key).name == body["name"]
            for name in (key, body["name"], *body.get("aliases", [])):
                assert known.exact[db.fold(name)] == key
            for name in body.get("shared_names", []):
                assert key in known.shared[db.fold(name)]


def test_the_lazy_tables_are_all_tables():
    written = [
        key
        for path in sorted(DATABASE.glob("*.toml"))
        for key, body in tomllib.loads(path.read_text("utf-8")).items()
        if isinstance(body, dict)
    ]
    assert db.device_keys() == written


def test_the_devices_that_were_asked_for_are_there():
    wanted = """v100-sxm2-16gb v100-sxm2-32gb v100-pcie-16gb v100-pcie-32gb t4 a10 a10g a30 a40 a100-sxm-40gb
    a100-sxm-80gb a100-pcie-40gb a100-pcie-80gb a800-sxm-80gb rtx-a4000 rtx-a5000 rtx-a6000 l4 l40 l40s
    rtx-3090 rtx-4080 rtx-4090
    rtx-5080 rtx-5090 rtx-6000-ada rtx-pro-6000-server h100-pcie h100-sxm h100-nvl h800-sxm h20 h200-sxm h200-nvl
    gh200-96gb gh200-144gb b200 b300 gb200 gb300 mi100 mi210 mi250x-gcd mi300a mi300x mi308x mi325x mi350x mi355x
    tpu-v3 tpu-v4 tpu-v5e tpu-v5p tpu-v6e tpu-v7 gaudi2 gaudi3 trainium1-core trainium2-core max-1550-card arc-pro-b60
    apple-m1 apple-m2-max apple-m3-ultra apple-m4-pro"""
    assert set(wanted.split()) <= set(db.device_keys())


def test_importing_the_machines_needs_no_slow_package():
    slow = "torch numpy matplotlib plotly rich jinja2 subprocess difflib"
    code = f"import sys, roofline.machines as m; m.all_machines(); print(set('{slow}'.split()) & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_the_docs_table_is_what_the_database_says():
    text = DOCS.read_text("utf-8")
    assert doc_table.updated(text) == text, "run: python -m roofline.machines.table docs/machines.md"
    assert all(f"| `{m.key}` |" in text for m in all_machines())


def test_the_table_module_rewrites_a_document_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{doc_table.START}\nSTALE\n{doc_table.END}\nafter\n", "utf-8")
    doc_table.main([str(page)])
    text = page.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "STALE" not in text and "`h100-sxm`" in text


def test_a_given_ceiling_replaces_one_and_says_so():
    given_ = override(find("l4"), peak_flops=100e12, peak_bandwidth=250e9, precision=Precision.BF16)
    assert given_.matrix[Precision.BF16] == Ceiling(100e12, "given", "--peak-flops")
    assert given_.dram.origin == "given" and given_.ridge_point(Precision.BF16) == 400
    assert given_.matrix[Precision.FP8] == find("l4").matrix[Precision.FP8]


def test_given_ceilings_alone_make_a_machine():
    unknown = override(None, peak_flops=1e12, peak_bandwidth=100e9, precision=Precision.FP32)
    assert unknown.ridge_point(Precision.FP32) == 10
    with pytest.raises(MachineError, match="no memory bandwidth"):
        _ = override(None, peak_flops=1e12).dram


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_ceiling_that_is_no_positive_number_is_refused(value):
    with pytest.raises(UsageError, match="positive"):
        override(find("l4"), peak_flops=value)


def test_a_machine_file_reads_back_as_it_was_saved(tmp_path):
    path = save_machine(override(find("h100-sxm"), peak_bandwidth=2.84e12), tmp_path / "mine.json")
    assert resolve(str(path)) == override(find("h100-sxm"), peak_bandwidth=2.84e12)
    with pytest.raises(RunFileError, match="can't write"):
        save_machine(find("l4"), tmp_path / "none" / "x.json")


def test_a_toml_file_in_the_form_of_the_database_is_a_machine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[mine]\nname = "Mine"\nmemory = "24 GiB"\n'
        'matrix = { bf16 = "125 TFLOP/s" }\nbandwidth = { dram = "600 GB/s" }\n'
    )
    mine = resolve(str(path))
    assert (mine.key, mine.memory_bytes) == ("mine", 24 * 2**30)
    assert mine.ridge_point(Precision.BF16) == pytest.approx(125e12 / 600e9)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", ""),
        (".json", "{"),
        (".json", "[]"),
        (".json", '{"key": "x"}'),
        (".json", '{"key": "x", "name": "x", "bandwidth": {"dram": [0.0, "given"]}}'),
        (".json", '{"key": "x", "name": "x", "bandwidth": {"dram": {"value": -3e12, "origin": "given"}}}'),
        (".toml", "["),
        (".toml", ""),
        (".toml", '[a]\nname = "A"\n[b]\nname = "B"\n'),
        (".toml", '[a]\nname = "A"\npeak = "3 TFLOP/s"\n'),
        (".toml", '[a]\nname = "A"\nbandwidth = { dram = "3 TB" }\n'),
        (".toml", '[a]\nname = "A"\nbandwidth = { dram = "0 TB/s" }\n'),
        (".toml", '[a]\nname = "A"\nmatrix = { bf17 = "3 TFLOP/s" }\n'),
        (".toml", '[a]\nname = "A"\nmatrix = { int8 = "3 TFLOP/s" }\n'),
    ],
)
def test_a_damaged_machine_file_is_one_plain_error(tmp_path, suffix, text):
    path = tmp_path / f"mine{suffix}"
    path.write_text(text)
    with pytest.raises(UsageError):
        load_machine(path)


def test_a_binary_or_missing_machine_file_is_one_plain_error(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    for name in ("x.toml", "x.json", "none.json"):
        with pytest.raises(MachineError):
            resolve(str(tmp_path / name))


# Case B70: 15.88 TFLOP/s measured on an RTX 2080 Ti, nominal 2 · 4352 · 1.545 GHz.
def test_a_card_above_its_peak_implies_a_clock_above_its_boost():
    nominal = 2 * 4352 * 1.545e9
    card = Machine(key="2080-ti", name="RTX 2080 Ti", boost_hz=1.545e9)
    clock = implied_clock_hz(card, Ceiling(nominal, "datasheet"), 15.88e12)
    assert 15.88e12 / nominal == pytest.approx(1.18, abs=0.005)
    assert clock == pytest.approx(1.824e9, rel=0.001)
    assert implied_clock_hz(card, Ceiling(nominal, "given"), 15.88e12) is None


def test_a_machine_file_with_a_byte_order_mark_is_read_and_one_with_absurd_figures_is_not(tmp_path):
    path = save_machine(find("a10"), tmp_path / "a10.json")
    whole = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + whole)
    assert load_machine(path).dram.value == 600e9
    path.write_bytes(whole.replace(b'"tdp_w": 150', b'"tdp_w": -150'))
    with pytest.raises(MachineError, match="tdp_w is -150"):
        load_machine(path)
    path.write_bytes(whole.replace(b'"value": 600000000000.0', b'"value": 6e300'))
    with pytest.raises(MachineError, match=r"bandwidth\.dram\.value is 6e\+300"):
        load_machine(path)
