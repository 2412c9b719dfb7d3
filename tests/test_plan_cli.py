"""`roofline plan` as a user meets it: in this process, without torch, with errors of one line."""

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from roofline.cli.main import run
from roofline.core.run import Run

ASKED = ["plan", "llama-3-8b", "--machine", "h100-sxm"]


def screen(capsys, *arguments):
    assert run([*arguments]) == 0
    return capsys.readouterr().out


def document(capsys, *arguments):
    return json.loads(screen(capsys, *arguments, "--json"))


def test_a_plan_says_floor_rate_capacity_and_every_op_on_one_screen(capsys):
    out = screen(capsys, *ASKED)
    assert "4.52 ms per step  221 tokens/s" in out
    assert "131 kB per token" in out
    assert "batch 295 for weights" in out
    assert "not modelled" in out
    assert "gate_up_proj" in out
    assert len(out.splitlines()) <= 40
    assert max(map(len, out.splitlines())) <= 110


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize(
    "arguments",
    [
        ASKED,
        ["plan", "deepseek-v3", "--machine", "h100-sxm", "--tp", "8", "--ep", "8", "--draft", "mtp"],
        [*ASKED, "--machine", "a10", "--machine", "mi300x", "--machine", "b200", "--price-per-hour", "2"],
        [*ASKED, "--phase", "train", "--tokens-per-s", "8000"],
        [*ASKED, "--sweep", "batch=1:8", "--sweep", "tp=3,2"],
        [*ASKED, "--sweep", "batch=1:8", "--itl", "1 ms"],
    ],
)
def test_a_plan_keeps_to_the_width_of_the_screen(capsys, monkeypatch, arguments, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(arguments) in (0, 3)
    # Columns of numbers are never cut: below 80 columns tables may be wider.
    assert max(map(len, capsys.readouterr().out.splitlines())) <= max(width, 80)


def test_a_screen_that_is_no_terminal_is_80_wide_and_refusals_are_told(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    out = screen(capsys, *ASKED, "--sweep", "batch=1:8", "--sweep", "tp=3,2")
    assert max(map(len, out.splitlines())) <= 80
    assert "refused (4 of 8 points): --tp 3 does not divide the 32 attention heads" in " ".join(out.split())


def test_a_plan_imports_no_torch_numpy_or_rich():
    code = (
        "import sys; from roofline.cli.main import run; run(sys.argv[1:]); "
        "print(sorted({'torch', 'numpy', 'rich', 'matplotlib', 'transformers'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *ASKED], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_json_is_one_run_with_the_answers_beside_it(capsys):
    found = document(capsys, *ASKED)
    assert found["schema"] == "roofline.run/1"
    assert found["kind"] == "planned"
    answers = found["workload"]["plan"]
    assert answers["roof"]["step_s"] == pytest.approx(4.5207e-3, rel=1e-4)
    assert answers["kv_bytes_per_token"] == 131_072
    assert answers["memory"]["fits"] is True
    assert answers["price_per_million_tokens"] is None
    assert sum(op["roof_s"] for op in found["ops"]) == pytest.approx(answers["roof"]["step_s"])


def test_several_machines_stand_side_by_side(capsys):
    out = screen(capsys, *ASKED, "--machine", "mi300x", "--machine", "b200", "--price-per-hour", "2")
    assert all(name in out for name in ("h100-sxm", "mi300x", "b200", "price per million"))
    found = document(capsys, *ASKED, "--machine", "mi300x")
    assert [r["machine"]["key"] for r in found["runs"]] == ["h100-sxm", "mi300x"]


def test_price_is_of_a_million_tokens(capsys):
    # 2 per hour and device, 221.2 tokens/s: 2 / (221.2 · 3600) · 10⁶.
    answers = document(capsys, *ASKED, "--price-per-hour", "2")["workload"]["plan"]
    assert answers["price_per_million_tokens"] == pytest.approx(2 / (221.2 * 3600) * 1e6, rel=1e-3)


def test_a_sweep_is_a_table_and_a_document(capsys):
    out = screen(capsys, *ASKED, "--sweep", "batch=1:8")
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["1", "2", "4", "8"]
    points = document(capsys, *ASKED, "--sweep", "batch=1:8")["points"]
    assert [p["values"]["batch"] for p in points] == [1, 2, 4, 8]
    assert all(a["step_s"] <= b["step_s"] for a, b in pairwise(points))


def test_a_limit_that_no_batch_keeps_exits_with_3(capsys):
    assert run([*ASKED, "--itl", "1 ms"]) == 3
    assert "no batch" in capsys.readouterr().out
    assert "limit" in screen(capsys, *ASKED, "--itl", "30ms")


def test_a_limit_that_no_point_of_a_sweep_keeps_exits_with_3(capsys):
    # 15.0 GB of weights at 3.35 TB/s take 4.5 ms.
    assert run([*ASKED, "--sweep", "batch=1:8", "--itl", "1 ms"]) == 3
    assert "over limit" in capsys.readouterr().out
    assert "frontier" in screen(capsys, *ASKED, "--sweep", "batch=1:8", "--itl", "9 ms")
    # Five tokens verified at once share the step.
    assert "over" not in screen(capsys, *ASKED, "--sweep", "batch=1", "--itl", "1 ms", "--tokens", "5")


def test_options_that_a_model_has_use_for_are_taken(capsys):
    h100 = ["--machine", "h100-sxm"]
    screen(capsys, "plan", "qwen3-vl-8b", *h100, "--phase", "prefill", "--images", "2")
    screen(capsys, "plan", "whisper-tiny", *h100, "--source", "100")
    screen(capsys, "plan", "deepseek-v2-lite", *h100, "--latent", "expanded", "--ep", "2", "--tp", "2")
    screen(capsys, *ASKED, "--phase", "train", "--zero", "3", "--dp", "2", "--batch", "2", "--recompute", "full")
    screen(capsys, *ASKED, "--draft", "llama-3.2-1b", "--acceptance", "0.9")


def test_the_napkin_needs_no_config(capsys):
    out = screen(capsys, "plan", "--params", "70e9", "--machine", "h100-sxm")
    assert "41.8 ms per step  23.9 tokens/s" in out
    assert "140 GB read per step" in out


def test_narrow_precision_means_weights_and_products(capsys):
    found = document(capsys, *ASKED, "--precision", "fp8")
    layers = [op for op in found["ops"] if op["module"].startswith("layers.") and op["name"] == "linear"]
    assert {op["precision"] for op in layers} == {"fp8"}
    head = next(op for op in found["ops"] if op["module"] == "lm_head")
    assert head["precision"] == "bf16"


def test_a_config_file_its_folder_and_a_report_work(capsys, tmp_path):
    sizes = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    config = {**sizes, "num_attention_heads": 4, "vocab_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    for path in (tmp_path, tmp_path / "config.json"):
        assert tmp_path.name in screen(capsys, "plan", str(path), "--machine", "h100-sxm")
    for name in ("plan.json", "plan.html", "plan.md"):
        assert run(["plan", str(tmp_path), "--machine", "h100-sxm", "-o", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert Run.load(tmp_path / "plan.json").kind == "planned"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plan", "llama-3.1-9b", "--machine", "h100-sxm"], "near names: llama-3.1"),
        (["plan", "--machine", "h100-sxm"], "give a CONFIG"),
        (["plan", "llama-3-8b", "--params", "7e9", "--machine", "h100-sxm"], "give a CONFIG"),
        ([*ASKED, "--tp", "3"], "does not divide the 32 attention heads"),
        ([*ASKED, "--batch", "-1"], "--batch"),
        ([*ASKED, "--weights", "int3"], "no known format"),
        ([*ASKED, "--sweep", "heads=1:2"], "can't vary"),
        ([*ASKED, "--machine", "mi300x", "-o", "x.html"], "several plans"),
        (["plan", "llama-3-8b", "--machine", "h100"], "ambiguous"),
        (["plan", "no/such.json", "--machine", "h100-sxm"], "no config"),
        ([*ASKED, "--phase", "train", "--itl", "3 ms"], "time per token"),
        ([*ASKED, "--phase", "train", "--itl", "3 ms", "--sweep", "batch=1:4"], "time per token"),
        ([*ASKED, "--images", "2", "--phase", "prefill"], "--images changes nothing here: it is for models with"),
        ([*ASKED, "--sweep", "images=1:4"], "--images changes nothing here"),
        (["plan", "qwen3-vl-8b", "--machine", "h100-sxm", "--images", "2"], "which read the images"),
        ([*ASKED, "--source", "9"], "--source changes nothing here: it is for models that read a second sequence"),
        ([*ASKED, "--latent", "expanded"], "--latent changes nothing here: it is for models with latent attention"),
        ([*ASKED, "--ep", "2", "--tp", "2"], "--ep changes nothing here: it is for models with experts"),
        ([*ASKED, "--zero", "3", "--dp", "2"], "--zero changes nothing here: it is for --phase train"),
        ([*ASKED, "--zero", "3", "--phase", "train"], "more than one replica"),
        ([*ASKED, "--recompute", "full"], "--recompute changes nothing here"),
        ([*ASKED, "--chunk", "512"], "--chunk changes nothing here"),
        ([*ASKED, "--phase", "train", "--context", "9"], "--context changes nothing here"),
        ([*ASKED, "--phase", "train", "--kv", "fp8"], "--kv changes nothing here"),
        (["plan", "--params", "7e9", "--context", "9", "--machine", "h100-sxm"], "--context changes nothing here"),
        ([*ASKED, "--acceptance", "0.9"], "--acceptance needs --draft"),
        ([*ASKED, "--num-devices", "2"], "--num-devices needs --tokens-per-s"),
        ([*ASKED, "--itl", "9 ms", "--machine", "mi300x"], "--itl is a question of one plan"),
        ([*ASKED, "--draft", "mtp", "--sweep", "batch=1:4"], "--draft is a question of one plan"),
        ([*ASKED, "--price-per-hour", "nan"], '"nan" is no amount'),
        ([*ASKED, "--price-per-hour", "inf"], '"inf" is no amount'),
        ([*ASKED, "--draft", "mtp", "--acceptance", "nan"], '"nan" is no amount'),
    ],
)
def test_what_is_wrong_is_one_line_and_a_hint(capsys, arguments, says):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("error: ")
    assert "hint: " in error
    assert "Traceback" not in error


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"model_type": "llama", "hidden_size": "x"}', "\x00"])
def test_a_hostile_config_is_one_line(capsys, tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    assert run(["plan", str(path), "--machine", "h100-sxm"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 128,
}


@pytest.mark.parametrize(
    ("field", "spelled"),
    [
        ("hidden_size", "1" + "0" * 400),
        ("hidden_size", "-1" + "0" * 400),
        ("vocab_size", "1e309"),
        ("vocab_size", "NaN"),
        ("num_hidden_layers", "1000000000"),
        ("num_hidden_layers", "1" + "0" * 9000),
        ("num_nextn_predict_layers", "1000000000"),
        ("attention_chunk_size", "-1"),
        ("intermediate_size", "2.5"),
        ("intermediate_size", "true"),
        ("num_attention_heads", "[" * 2000 + "]" * 2000),
    ],
)
def test_a_field_that_is_no_size_is_one_short_line(capsys, tmp_path, field, spelled):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, field: "@"}).replace('"@"', spelled), "utf-8")
    assert run(["plan", str(path), "--machine", "h100-sxm"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 2
    assert "Error" not in error
    assert max(map(len, error.splitlines())) < 300


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"moe_layer_freq": []}, "moe_layer_freq names 0 of 2 layers"),
        ({"num_experts_per_tok": 9}, "a token goes to 9 of 4 experts"),
    ],
)
def test_experts_that_contradict_each_other_are_refused(capsys, tmp_path, changes, says):
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    config = {**LLAMA, "model_type": "deepseek", **experts, **changes}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    assert run(["plan", str(tmp_path), "--machine", "h100-sxm"]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("group", "scale_bits"), [(-1, 16 / 64), (32, 16 / 32)])
def test_a_group_size_of_minus_one_is_a_scale_per_row(capsys, tmp_path, group, scale_bits):
    quantization = {"quant_method": "gptq", "bits": 4, "group_size": group, "sym": True}
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": quantization}), "utf-8")
    found = document(capsys, "plan", str(tmp_path), "--machine", "h100-sxm")
    (product,) = (op for op in found["ops"] if op["module"].endswith("qkv_proj"))
    # 64 inputs, 3 · 64 outputs, per layer; 1 sequence in BF16 in and out.
    moved = 2 * (64 * 192 * (4 + scale_bits) / 8 + 2 * 64 + 2 * 192)
    assert product["bytes"]["operator"] == pytest.approx(moved)


def test_a_measured_decode_rate_becomes_mfu_and_mbu(capsys):
    # gpt-fast style: 100 tokens/s · (15.010 GB + 1025 · 131,072 B) / 3.35 TB/s.
    found = document(capsys, *ASKED, "--tokens-per-s", "100")["workload"]["plan"]["measured"]
    assert found["mbu_fraction"] == pytest.approx(100 * (15.00985e9 + 1025 * 131_072) / 3.35e12, rel=1e-3)
    assert found["mfu_fraction"] == pytest.approx(100 * 15.5467e9 / 989.5e12, rel=1e-3)


def test_a_measured_training_rate_is_per_device_under_every_convention(capsys):
    train = ["--phase", "train", "--tokens", "8192", "--tokens-per-s", "80000", "--num-devices", "8"]
    out = screen(capsys, "plan", "llama-3.1-8b", "--machine", "h100-sxm", *train)
    # PaLM: (6 · 8.030e9 + 12 · 32 · 4096 · 8192) · 10,000 / 989.5e12.
    palm = (6 * 8_030_261_248 + 12 * 32 * 4096 * 8192) * 10_000 / 989.5e12
    assert f"{100 * palm:.1f} %" in next(line for line in out.splitlines() if line.startswith("palm"))
