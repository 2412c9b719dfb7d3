"""Detection: the facts decide between variants, contradict a name, or leave it open; they never make one up."""

import gzip
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from roofline.core.precision import Precision
from roofline.errors import MachineError
from roofline.machines import apple, cpu, detect, identify, smi
from roofline.machines import database as db

TRACES = Path(__file__).parents[1] / "../shared/data/traces"
GIB = 2**30
MIB = 2**20

# Name, memory, multiprocessors, compute capability as devices report them (traces and printed device properties in
# public repositories), and what they are.
REPORTED = [
    ("Tesla V100-DGXS-32GB", 34084028416, 80, "7.0", "v100-dgxs-32gb"),
    ("NVIDIA A100-PG509-200", 42297524224, 108, "8.0", "a100-sxm-40gb"),
    ("NVIDIA H100 80GB HBM3", 85018279936, 132, "9.0", "h100-sxm"),
    ("AMD Instinct MI300X", 206141652992, 304, "9.4", "mi300x"),
    ("AMD Instinct MI300X VF", 206141652992, 304, "9.4", "mi300x"),
    ("AMD Radeon Graphics", 206141652992, 304, "9.4", "mi300x"),
    ("AMD Radeon Graphics", 206141652992, 80, "9.4", "mi308x"),
    ("AMD Radeon Graphics", 68702699520, 110, "9.0", "mi250x-gcd"),
    ("", 206141652992, 304, "9.4", "mi300x"),
    ("NVIDIA A10G", 22587 * MIB, 80, "8.6", "a10g"),
    ("NVIDIA L40S", 45589 * MIB, 142, "8.9", "l40s"),
    ("NVIDIA H20", 97285 * MIB, 78, "9.0", "h20"),
    ("NVIDIA H200", 143156 * MIB, 132, "9.0", "h200-sxm"),
    ("NVIDIA B200", 182642 * MIB, 148, "10.0", "b200"),
    ("NVIDIA B300 SXM6 AC", 275040 * MIB, 148, "10.3", "b300"),
    ("NVIDIA GB300", 284208 * MIB, 152, "10.3", "gb300"),
    ("NVIDIA GH200 144G HBM3e", 153008209920, 132, "9.0", "gh200-144gb"),
    ("NVIDIA GH200 480GB", 97280 * MIB, 132, "9.0", "gh200-96gb"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97250 * MIB, 188, "12.0", "rtx-pro-6000-server"),
    ("Intel(R) Data Center GPU Max 1550", 65536 * MIB, 64, "", "max-1550-tile"),
    ("Intel(R) Data Center GPU Max 1550", 65536 * MIB, 56, "", "max-1550-tile"),
    ("Intel(R) Arc(TM) Pro B60 Graphics", 24480 * MIB, 20, "", "arc-pro-b60"),
    ("NVIDIA H100 NVL", 99456909312, 132, "9.0", "h100-nvl"),
    ("NVIDIA L40S", 47576711168, 142, "8.9", "l40s"),
    ("AMD Instinct MI308X OAM", 206141652992, 80, "9.4", "mi308x"),
]


@pytest.mark.parametrize(("name", "memory", "count", "compute", "key"), REPORTED)
def test_a_device_is_what_its_name_and_facts_say(name, memory, count, compute, key):
    assert identify(name, memory_bytes=memory, multiprocessors=count, compute=compute).key == key


@pytest.mark.parametrize(
    ("name", "gib", "key"),
    [
        ("NVIDIA A100-PG509-200", 40, "a100-sxm-40gb"),
        ("NVIDIA A100-PG509-200", 79.1, "a100-sxm-80gb"),
        ("NVIDIA H100", 93.1, "h100-nvl"),
        ("NVIDIA GH200", 95, "gh200-96gb"),
    ],
)
def test_memory_size_tells_variants_apart(name, gib, key):
    assert identify(name, memory_bytes=round(gib * GIB)).key == key


@pytest.mark.parametrize(
    ("name", "count", "key"), [("NVIDIA H800", 132, "h800-sxm"), ("NVIDIA H800", 114, "h800-pcie")]
)
def test_multiprocessors_tell_variants_apart(name, count, key):
    assert identify(name, multiprocessors=count).key == key


@pytest.mark.parametrize(("clock", "key"), [(2.2e9, "mi350x"), (2.4e9, "mi355x")])
def test_the_clock_tells_variants_apart_where_nothing_else_does(clock, key):
    facts = {"memory_bytes": 309220868096, "multiprocessors": 256, "compute": "9.5"}
    assert identify("AMD Radeon Graphics", **facts, clock_hz=clock).key == key
    with pytest.raises(MachineError, match="ambiguous") as error:
        identify("AMD Radeon Graphics", **facts)
    assert "highest clock" in error.value.hint


def test_an_overclocked_card_is_still_itself():
    assert identify("NVIDIA GeForce RTX 4090", multiprocessors=128, clock_hz=2.85e9).key == "rtx-4090"


def test_an_ambiguous_device_says_who_it_may_be_and_what_would_decide():
    with pytest.raises(MachineError, match="ambiguous") as error:
        identify("NVIDIA A100-PG509-200", multiprocessors=108)
    assert "a100-sxm-40gb" in error.value.message and "a100-sxm-80gb" in error.value.message
    assert "memory size" in error.value.hint


def test_twins_are_ambiguous_but_said_to_have_the_same_ceilings():
    with pytest.raises(MachineError, match=r"mi210.*mi250-gcd") as error:
        identify("AMD Radeon Graphics", memory_bytes=68702699520, multiprocessors=104, compute="9.0")
    assert "rates and bandwidth are the same" in error.value.hint


def test_a_nameless_device_needs_memory_and_multiprocessors():
    for facts in (
        {},
        {"memory_bytes": 80 * GIB},
        {"multiprocessors": 304},
        {"multiprocessors": 304, "memory_bytes": 0},
    ):
        with pytest.raises(MachineError, match="not both known"):
            identify("", **facts)


def test_a_nameless_device_that_fits_nothing_is_refused():
    with pytest.raises(MachineError, match="fits no machine"):
        identify("AMD Radeon Graphics", memory_bytes=16 * GIB, multiprocessors=60)


def test_an_unknown_name_is_not_saved_by_fitting_facts():
    with pytest.raises(MachineError, match="unknown machine"):
        identify("NVIDIA H100 80GB HBM9", memory_bytes=85018279936, multiprocessors=132, compute="9.0")


@pytest.mark.parametrize(
    ("name", "facts", "clash"),
    [
        ("AMD Instinct MI300X", {"multiprocessors": 38}, "38 multiprocessors, not 304"),  # a CPX partition
        ("NVIDIA H100 80GB HBM3", {"memory_bytes": 64 * GIB}, "64.0 GiB of memory, not 80 GiB"),
        ("NVIDIA GB300", {"memory_bytes": 252 * GIB}, "memory, not 279 GiB"),  # the DGX Station's
        ("NVIDIA L40S", {"compute": "8.6"}, "compute capability 8.6, not 8.9"),
    ],
)
def test_facts_that_contradict_a_name_are_an_error(name, facts, clash):
    with pytest.raises(MachineError, match=re.escape(clash)):
        identify(name, **facts)


def test_every_machine_is_identified_by_its_own_figures():
    for key in db.device_keys():
        m, written = db.machine(key), db.table(key)
        name = m.aliases[0] if m.aliases else m.name
        found = identify(
            name, memory_bytes=m.memory_bytes, multiprocessors=m.multiprocessors, compute=written.compute
        )
        assert found == m


# ---- slices and cut-down chips -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count", "eighths"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, 1),
        ("NVIDIA A100 80GB PCIe MIG 1g.10gb", 14, 1),
        ("NVIDIA A100-SXM4-80GB MIG 1g.20gb", 14, 2),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42, 4),
        ("NVIDIA A100-SXM4-40GB MIG 7g.40gb", 98, 8),
        ("NVIDIA A30 MIG 1g.6gb", 14, 2),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 16, 1),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", 16, 4),
        ("NVIDIA H200 MIG 2g.35gb", 32, 2),
        ("NVIDIA H200 MIG 1g.18gb", 16, 1),
        ("NVIDIA B200 MIG 3g.90gb", 64, 4),
        ("NVIDIA GB200 MIG 7g.189gb", 140, 8),
    ],
)
def test_a_mig_slice_has_its_share_of_compute_and_memory(name, count, eighths):
    part, whole = identify(name, multiprocessors=count), identify(name.split(" MIG ")[0])
    assert part.multiprocessors == count
    for rates, full in ((part.matrix, whole.matrix), (part.vector, whole.vector)):
        for precision, ceiling in rates.items():
            assert ceiling.value == pytest.approx(full[precision].value * count / whole.multiprocessors)
    assert part.dram.value == pytest.approx(whole.dram.value * eighths / 8)
    assert part.cache_bytes["l2"] == pytest.approx(whole.cache_bytes["l2"] * eighths / 8, abs=1)
    assert "nvlink" not in part.bandwidth and "MIG slice" in part.notes[-1] and part.key != whole.key


def test_a_mig_slice_of_a_shared_name_is_told_by_its_profile():
    assert identify("NVIDIA A100-PG509-200 MIG 1g.5gb", multiprocessors=14).key == "a100-sxm-40gb-mig-1g.5gb"
    with pytest.raises(MachineError, match="ambiguous"):
        identify("NVIDIA A100-PG509-200 MIG 1g.10gb", multiprocessors=14)


@pytest.mark.parametrize("count", [None, 0, 200])
def test_a_mig_slice_without_a_possible_count_of_multiprocessors_is_refused(count):
    with pytest.raises(MachineError, match="MIG slice"):
        identify("NVIDIA A100-SXM4-40GB MIG 1g.5gb", multiprocessors=count)


@pytest.mark.parametrize("profile", ["1g.5gb", "9g.990gb", "0g.0gb", "7g.40gb", "4g.20gb"])
def test_a_slice_that_the_gpu_does_not_have_is_refused(profile):
    with pytest.raises(MachineError, match="can be cut from"):
        identify(f"NVIDIA A100-SXM4-80GB MIG {profile}", multiprocessors=14)


def test_a_slice_of_an_unknown_gpu_is_unknown():
    with pytest.raises(MachineError, match="unknown machine"):
        identify("NVIDIA X100 MIG 1g.5gb", multiprocessors=14)


def test_a_chip_sold_with_fewer_cores_computes_less_and_streams_the_same():
    full, cut = identify("Apple M1 Max", multiprocessors=32), identify("Apple M1 Max", multiprocessors=24)
    assert cut.vector[Precision.FP32].value == pytest.approx(full.vector[Precision.FP32].value * 24 / 32)
    assert cut.dram == full.dram
    assert identify("Apple M3 Max", multiprocessors=30).dram.value == 300e9
    assert identify("Apple M3 Max", multiprocessors=40).dram.value == 400e9


# ---- readers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:-1", "", "tpu"])
def test_an_unknown_device_is_an_error(device):
    with pytest.raises(MachineError, match="unknown device"):
        detect(device)


def _fake_torch(monkeypatch, seen, *, count=1, hip=None):
    cuda = SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        current_device=lambda: 0,
        get_device_properties=lambda index: seen,
    )
    xpu = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1, get_device_properties=lambda index: seen)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, xpu=xpu, version=SimpleNamespace(hip=hip)))


def _properties(**more):
    plain = {
        "name": "NVIDIA H200",
        "total_memory": 143156 * MIB,
        "multi_processor_count": 132,
        "major": 9,
        "minor": 0,
    }
    return SimpleNamespace(**plain | more)


def test_torch_is_asked_for_a_gpu(monkeypatch):
    _fake_torch(monkeypatch, _properties(clock_rate=1980000))
    assert detect("cuda").key == detect("cuda:0").key == "h200-sxm"
    with pytest.raises(MachineError, match="no device cuda:1, there are 1"):
        detect("cuda:1")


def test_torch_without_a_gpu_says_so(monkeypatch):
    _fake_torch(monkeypatch, None, count=0)
    with pytest.raises(MachineError, match='no "cuda" device'):
        detect("cuda")


def test_an_amd_gpu_without_a_name_is_identified(monkeypatch):
    nameless = _properties(
        name="", total_memory=206141652992, multi_processor_count=304, major=9, minor=4, clock_rate=2100000, uuid="x"
    )
    _fake_torch(monkeypatch, nameless, hip="6.2")
    assert detect("cuda").key == "mi300x"


def test_an_intel_gpu_is_counted_in_xe_cores(monkeypatch):
    tile = SimpleNamespace(
        name="Intel(R) Data Center GPU Max 1550", total_memory=65536 * MIB, gpu_subslice_count=56, gpu_eu_count=448
    )
    _fake_torch(monkeypatch, tile)
    assert detect("xpu").multiprocessors == 56


def _fake_smi(tmp_path, monkeypatch, line):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{line}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


SMI = "NVIDIA H100 80GB HBM3, 81559, 9.0, 450.00, 700.00, 1200, 1980"


def test_a_power_limit_and_a_clock_below_default_are_noted(tmp_path, monkeypatch):
    _fake_smi(tmp_path, monkeypatch, SMI)
    _fake_torch(
        monkeypatch, _properties(name="NVIDIA H100 80GB HBM3", total_memory=85018279936, uuid="4f5e-11", clock_rate=0)
    )
    notes = detect("cuda").notes
    assert "power limit 450 W, below the default 700 W" in notes
    assert "clock set to 1200 MHz, below the default 1980 MHz" in notes


def test_the_driver_is_asked_where_torch_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    _fake_smi(tmp_path, monkeypatch, SMI)
    assert detect("cuda").key == "h100-sxm"
    _fake_smi(tmp_path, monkeypatch, "No devices were found")
    with pytest.raises(MachineError, match='no "cuda" device'):
        detect("cuda")


@pytest.mark.parametrize("text", ["", "a, b", SMI + "\n" + SMI, "No devices were found"])
def test_an_answer_of_the_driver_that_is_none_is_ignored(text):
    assert smi.parse(text) is None


def test_what_a_driver_does_not_support_is_unknown():
    seen = smi.parse("Tesla T4, [N/A], 7.5, [Not Supported], [N/A], [N/A], [N/A]")
    assert seen is not None and seen.memory_bytes is None and smi.below_default(seen) == ()


def test_without_nvidia_smi_there_is_no_reading(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert smi.read("0") is None


def test_a_mac_is_asked_for_its_chip_and_gpu_cores(monkeypatch):
    answers = {"machdep.cpu.brand_string": "Apple M2 Max", "hw.memsize": str(64 * GIB)}
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(apple, "sysctl", lambda name: answers.get(name, ""))
    displays = json.dumps({"SPDisplaysDataType": [{"sppci_cores": "30"}]})
    monkeypatch.setattr(apple, "_displays", lambda: displays)
    found = detect("mps")
    assert (found.key, found.multiprocessors, found.memory_bytes) == ("apple-m2-max", 30, 64 * GIB)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"SPDisplaysDataType": [{}]}', '{"SPDisplaysDataType": null}'])
def test_gpu_cores_that_are_not_reported_are_unknown(text):
    assert apple.gpu_cores(text) is None


def test_mps_elsewhere_than_on_a_mac_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(MachineError, match="no Mac"):
        detect("mps")


# ---- CPU -----------------------------------------------------------------------------------------------------------

CPUINFO = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\ncache size\t: 1 KB\n"
)


def test_a_cpu_is_read_off_proc():
    assert cpu.model_name(CPUINFO) == "Intel(R) Xeon(R) Platinum 8480+"
    assert cpu.model_name("processor\t: 0\nBogoMIPS\t: 2100\n") == ""
    assert cpu.total_memory("MemTotal:       24683656 kB\nMemFree: 1 kB\n") == 24683656 * 1024
    assert cpu.total_memory("") is None


def test_caches_add_up_once_each_and_without_instructions():
    entries = [
        cpu.CacheEntry(1, "Data", 48 * 1024, "0"),
        cpu.CacheEntry(1, "Instruction", 32 * 1024, "0"),
        cpu.CacheEntry(2, "Unified", 2 * MIB, "0"),
        cpu.CacheEntry(3, "Unified", 30 * MIB, "0-1"),
        cpu.CacheEntry(1, "Data", 48 * 1024, "1"),
        cpu.CacheEntry(2, "Unified", 2 * MIB, "1"),
        cpu.CacheEntry(3, "Unified", 30 * MIB, "0-1"),
    ]
    assert cpu.cache_sizes(entries) == {"l1": 96 * 1024, "l2": 4 * MIB, "l3": 30 * MIB}


@pytest.mark.parametrize(("text", "size"), [("48K", 48 * 1024), ("2M", 2 * MIB), ("1G", GIB), ("512", 512), ("?", 0)])
def test_cache_sizes_are_read_as_the_kernel_writes_them(text, size):
    assert cpu.size(text) == size


def test_a_cpu_has_a_key_from_its_name_and_no_ceilings():
    found = cpu.describe("Intel(R) Xeon(R) Platinum 8480+", cores=2, caches={"l3": 30 * MIB}, memory_bytes=GIB)
    assert (found.key, found.kind, found.multiprocessors) == ("intel-xeon-platinum-8480", "cpu", 2)
    assert not found.matrix and not found.vector and not found.bandwidth
    with pytest.raises(MachineError, match="no bf16 peak"):
        found.matrix_peak(Precision.BF16)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_cpu_is_detected():
    found = detect("cpu")
    assert found.kind == "cpu" and found.name and found.key
    assert found.multiprocessors and found.memory_bytes and found.memory_bytes > 2**28


# ---- traces --------------------------------------------------------------------------------------------------------


def test_the_devices_of_real_traces_go_through_the_same_door():
    if not TRACES.exists():
        pytest.skip("shared data absent")
    expected = {
        "triton_example__triton_example.json.gz": "a100-sxm-40gb",
        "h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "h100-sxm",
        "perf_model__normalization__normalization_layer_test.json.gz": "mi300x",
        "9d1ce6a2__resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz": "v100-dgxs-32gb",
    }
    seen = {}
    for path in TRACES.rglob("*.gz"):
        if path.name in expected:
            head = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            found = re.search(r'"deviceProperties":\s*\[\s*(\{.*?\})', head, re.DOTALL)
            assert found
            device = json.loads(found[1])
            seen[path.name] = identify(
                device["name"],
                memory_bytes=device["totalGlobalMem"],
                multiprocessors=device["numSms"],
                compute=f"{device['computeMajor']}.{device['computeMinor']}",
            ).key
    assert seen == {name: expected[name] for name in seen} and seen
