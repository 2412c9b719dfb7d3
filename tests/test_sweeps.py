"""The four experiments: their closed forms, what torch dispatches, what any machine's roof says of them."""

import json
from pathlib import Path

import pytest

from roofline import machines
from roofline.cli.main import run as command_line
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Run
from roofline.errors import UsageError
from roofline.pipeline import count_target
from roofline.sweeps import decode, mlp, op_table, ops, train, vision
from roofline.sweeps.case import Case, result_of
from roofline.sweeps.measure import count_case, measure_case
from roofline.sweeps.precision import of_machine
from roofline.sweeps.settings import Settings
from roofline.sweeps.summary import facts, knee, point
from sweep_cases import A10, WHERE, decode_cases, op_cases

ARTICLE = Settings(precision=Precision.BF16)
# Ops that torch runs as several kernels on a CPU: their closed form is that of the one kernel that a GPU has.
SEVERAL_KERNELS = {"dropout", "rms_norm"}


def counted(case: Case) -> Run:
    from roofline.sweeps.experiments import experiment

    target, options = experiment(case.sweep).program(case)
    return count_target(target, options, A10)


def predicted(case: Case, machine: Machine = A10) -> Run:
    return count_case(case, machine, WHERE)


@pytest.mark.parametrize("name", [op.name for op in op_table.OPS])
def test_the_closed_form_of_every_op_is_what_torch_is_counted_to_do(name: str) -> None:
    (case,) = op_cases(name, size=96)
    parts, run = ops.closed_form(case), counted(case)
    assert run.flops.executed == sum(p.matrix for p in parts)
    if name in SEVERAL_KERNELS:
        assert run.bytes.operator > sum(p.bytes for p in parts)
        return
    # AdamW also counts its step, layer norm writes a mean and a deviation per row: parts in a thousand.
    assert run.flops.vector == pytest.approx(sum(p.vector for p in parts), rel=0.02)
    assert run.bytes.operator == pytest.approx(sum(p.bytes for p in parts), rel=0.1 if name == "adamw" else 0.01)


@pytest.mark.parametrize(
    ("name", "size", "intensity"),
    [
        # The classic table, FP32: s = 4.
        ("add", 1 << 20, 1 / 12),
        ("gelu", 1 << 20, 5 / 8),
        ("sum", 1 << 20, 1 / 4),
        ("gemm", 1024, 1024 / 6),
        ("gemm", 8192, 8192 / 6),
        ("gemv", 4096, 2 * 4096**2 / (4 * (4096**2 + 2 * 4096))),
        ("bmm", 512, 512 / 6),
        ("attention_fused", 2048, 2048 / 4),
        ("attention_math", 2048, 256 * 2048 / (4 * (6 * 2048 + 256))),
        ("adamw", 1 << 20, 14 / 28),
    ],
)
def test_closed_intensities_are_the_classic_ones(name: str, size: int, intensity: float) -> None:
    (case,) = op_cases(name, size=size)
    assert ops.closed_intensity(case) == pytest.approx(intensity, rel=1e-5)


def test_add_is_memory_bound_at_any_size_and_gemm_crosses_the_ridge() -> None:
    for key in ("v100-sxm2-32gb", "a10", "h100-sxm", "b200"):
        machine = machines.resolve(key)
        settings = Settings(precision=of_machine(machine))
        bounds = {
            name: [predicted(case, machine).verdict.bound for case in ops.cases(settings) if case.series == name]
            for name in ("add", "gemm")
        }
        assert set(bounds["add"]) == {Bound.MEMORY}
        assert bounds["gemm"][0] == Bound.MEMORY and bounds["gemm"][-1] == Bound.COMPUTE


def test_fusing_attention_moves_it_from_the_slope_to_the_plateau() -> None:
    cases = {case.series: case for case in ops.cases(ARTICLE) if case.size == 4096}
    written_out, fused = predicted(cases["attention_math"]), predicted(cases["attention_fused"])
    assert written_out.flops.executed == fused.flops.executed
    assert written_out.verdict.bound == Bound.MEMORY and fused.verdict.bound == Bound.COMPUTE


@pytest.mark.parametrize(("params", "hidden"), [(1.44e9, 4096), (2.56e8, 2048), (1e6, 128), (5000, 8)])
def test_the_stand_in_has_about_the_parameters_asked_for(params: float, hidden: int) -> None:
    sizes = mlp.sized(params)
    assert sizes.hidden == hidden  # the power of two nearest to √(P / 48)
    assert sizes.params == pytest.approx(params, rel=0.05 if params <= 1e6 else 0.02)


def test_the_article_s_stand_in_on_an_a10_has_its_ceiling_and_its_critical_batch() -> None:
    cases = decode.cases(ARTICLE)
    found = decode.facts(cases, A10)
    assert found["params"] == pytest.approx(1.44e9, rel=0.002)
    assert round(found["ceiling_tokens_per_s"]) == 208  # 600 GB/s / (2 · 1.44e9 B)
    assert round(found["critical_batch"]) == 208  # 125 TFLOP/s / 600 GB/s


@pytest.mark.parametrize("module", [decode, train])
@pytest.mark.parametrize("size", [1, 3, 32])
def test_what_is_predicted_without_torch_is_what_is_counted_with_it(module: object, size: int) -> None:
    settings = Settings(precision=Precision.FP32, params=2_000_000, sizes=(size,))
    (case,) = module.cases(settings)  # type: ignore[attr-defined]
    without, with_torch = predicted(case), counted(case)
    assert without.flops.executed == with_torch.flops.executed
    assert without.flops.by_precision == with_torch.flops.by_precision
    # Training's loss, a few passes over the last activations, is only in the count.
    assert without.bytes.operator == pytest.approx(with_torch.bytes.operator, rel=1e-9 if module is decode else 0.02)
    assert without.bytes.compulsory == pytest.approx(with_torch.bytes.compulsory, rel=0.02)


def test_training_does_six_p_t_less_the_first_layer_s_input_gradient() -> None:
    settings = Settings(precision=Precision.FP32, params=2_000_000, sizes=(16,))
    (case,) = train.cases(settings)
    sizes = mlp.of(case.settings)
    assert predicted(case).flops.executed == 6 * sizes.params * 16 - 2 * sizes.hidden * sizes.inner * 16


@pytest.mark.parametrize("module", [decode, train])
def test_throughput_rises_with_size_and_flattens_near_the_critical_size(module: object) -> None:
    cases = module.cases(ARTICLE)  # type: ignore[attr-defined]
    points = [point(result_of(case, predicted(case))) for case in cases]
    by_size = {p.size: p for p in points}
    assert by_size[64].items_per_s == pytest.approx(64 * by_size[1].items_per_s, rel=0.01)
    assert by_size[512].items_per_s == pytest.approx(by_size[256].items_per_s, rel=0.01)
    assert by_size[1].bound == Bound.MEMORY and by_size[512].bound == Bound.COMPUTE
    # The ridge is at 208; activations push the crossing up, 128 → 256 is the step that holds it.
    assert 150 < knee(points) < 260


def test_no_knee_is_named_while_throughput_still_rises() -> None:
    points = [point(result_of(case, predicted(case))) for case in decode.cases(ARTICLE) if case.size <= 128]
    assert knee(points) is None
    assert facts("decode", decode.cases(ARTICLE), points, A10)["knee_batch"] is None


def test_fp32_weights_double_the_critical_batch_over_the_ridge() -> None:
    machine = machines.resolve("a100-sxm-80gb")
    settings = Settings(precision=Precision.FP32, params=1e6)
    found = decode.facts(decode.cases(settings), machine)
    # I = 2·B·P / (4·P) = B / 2, so B = 2 · ridge.
    assert found["critical_batch"] == pytest.approx(2 * machine.ridge_point(Precision.FP32))


def test_vision_counts_the_article_s_intensity_of_resnet() -> None:
    settings = Settings(precision=Precision.BF16, models=("resnet50",), modes=("inference",), sizes=(64,))
    (case,) = vision.cases(settings)
    run = count_case(case, A10, WHERE)
    assert run.flops.executed / run.bytes.module == pytest.approx(63, abs=1)


def test_options_of_vision_reach_the_program() -> None:
    settings = Settings(
        precision=Precision.BF16,
        models=("resnet18",),
        modes=("train",),
        sizes=(2,),
        compiled=True,
        channels_last=True,
    )
    (case,) = vision.cases(settings)
    _, options = vision.program(case)
    assert (options.compiled, options.channels_last, options.train, options.batch) == (True, True, True, 2)
    assert "compile=True" in case.key and "channels_last=True" in case.key


@pytest.mark.parametrize(
    ("key", "precision"),
    # V100's tensor cores take FP16 only; a T4 has no BF16 either.
    [("a10", Precision.BF16), ("v100-sxm2-32gb", Precision.FP16), ("t4", Precision.FP16), ("tpu-v4", Precision.BF16)],
)
def test_the_precision_is_the_fast_one_of_the_machine(key: str, precision: Precision) -> None:
    assert of_machine(machines.resolve(key)) == precision


def test_an_unknown_op_is_an_error_with_near_names() -> None:
    with pytest.raises(UsageError, match='no op "gem"') as error:
        op_cases("gem")
    assert "gemm" in error.value.hint


def test_predicting_decode_on_an_a10_gives_the_article_s_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["sweep", "decode", "--predict", "a10", "--params", "1.44e9", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    points = {p["size"]: p for p in document["points"]}
    assert document["schema"] == "roofline.sweep/1" and document["machine"]["key"] == "a10"
    assert round(document["facts"]["ceiling_tokens_per_s"]) == 208
    assert round(points[1]["items_per_s"]) == 208
    assert round(document["facts"]["critical_batch"]) == 208
    assert points[128]["step_s"] / points[1]["step_s"] < 1.2
    assert not points[1]["timed"] and len(document["runs"]) == len(points)


@pytest.mark.parametrize("name", ["ops", "decode", "train"])
def test_a_prediction_of_stand_ins_needs_no_torch(name: str) -> None:
    import subprocess
    import sys

    script = (
        "import sys, contextlib, io\nfrom roofline.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    code = run(['sweep', {name!r}, '--predict', 'h100-sxm'])\n"
        "print(code, 'torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "False"], done.stderr


def test_the_fitted_roof_is_drawn_where_the_machine_has_one() -> None:
    h100 = machines.resolve("h100-sxm")
    for case in decode.cases(ARTICLE)[::4]:
        shown = point(result_of(case, predicted(case, h100)))
        assert shown.fitted_s > shown.roof_s
    assert point(result_of(case, predicted(case, A10))).fitted_s is None


def test_cases_have_one_key_each_and_sizes_don_t_mix() -> None:
    cases = [*ops.cases(ARTICLE), *decode.cases(ARTICLE), *train.cases(ARTICLE), *vision.cases(ARTICLE)]
    assert len({case.key for case in cases}) == len(cases)
    assert decode_cases(1)[0].key != decode.cases(Settings(precision=Precision.FP32, params=4e4, sizes=(1,)))[0].key


TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize("batch", [1, 3])
def test_a_transformers_model_decodes_one_token_against_its_context(batch: int, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY))
    settings = Settings(
        precision=Precision.FP32, device="cpu", model=f"transformers:{config}", context=32, sizes=(batch,)
    )
    (case,) = decode.cases(settings)
    run = count_case(case, A10, WHERE)
    projections = 2 * 64 * (64 + 32 + 32 + 64) + 3 * 2 * 64 * 128
    attention = 4 * 4 * 33 * 16  # 4 heads of 16 against 32 cached tokens and the new one
    assert run.flops.executed == batch * (2 * (projections + attention) + 2 * 64 * 256)
    measured = measure_case(case, WHERE).run
    assert measured is not None and measured.flops == run.flops
    assert measured.workload["items"] == batch


def without_torch(*arguments: str) -> tuple[int, str, str]:
    """Run a command where torch can't be imported."""
    import subprocess
    import sys

    script = (
        "import sys\nsys.modules['torch'] = None\nfrom roofline.cli.main import run\n"
        f"sys.exit(run({list(arguments)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_transformers_model_is_predicted_without_torch_and_does_the_counted_work(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY))
    model = f"transformers:{config}"
    code, out, err = without_torch(
        *["sweep", "decode", "--model", model, "--context", "32", "--batches", "1,3", "--predict", "a10", "--json"]
    )
    assert code == 0, err
    document = json.loads(out)
    for p, run in zip(document["points"], document["runs"], strict=True):
        settings = Settings(precision=Precision.BF16, device="cpu", model=model, context=32, sizes=(p["size"],))
        (case,) = decode.cases(settings)
        found = count_case(case, A10, WHERE)
        assert found.kind == "counted" and p["flops"] == run["flops"]["executed"] == found.flops.executed
        # Ideal kernels move less than those that torch dispatches, and at least the weights and the cache.
        assert 2 * 2 * 2 * 2 * 16 * 32 * p["size"] < run["bytes"]["operator"] < found.bytes.operator
        assert p["mbu_fraction"] == pytest.approx(1, abs=1e-3) and p["items_per_s"] == pytest.approx(
            p["size"] / p["step_s"]
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vision", "--predict", "a10", "--models", "resnet18"], "error: torch is not installed"),
        (["decode", "--predict", "a10", "--model", "transformers:nowhere.json"], "error: can't read nowhere.json"),
        (["decode", "--predict", "a10", "--model", "timm:x"], 'error: --model is "timm:x"'),
    ],
)
def test_what_can_t_be_predicted_without_torch_is_one_line_and_a_way_out(arguments: list[str], said: str) -> None:
    code, out, err = without_torch("sweep", *arguments)
    assert code == 2 and not out
    first, hint = err.splitlines()
    assert first.startswith(said) and hint.startswith("hint: ")


def test_a_family_that_nobody_planned_needs_torch_and_says_so(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**TINY, "model_type": "novel"}))
    code, _, err = without_torch("sweep", "decode", "--predict", "a10", "--model", f"transformers:{config}")
    assert code == 2 and err.startswith("error: torch is not installed") and "Traceback" not in err


@pytest.mark.parametrize("suffix", [".png", ".svg", ".md", ".json"])
def test_a_sweep_is_written_in_every_format(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / f"x{suffix}"
    assert command_line(["sweep", "ops", "--predict", "a10", "--ops", "add,gemm", "-o", str(output)]) == 0
    assert output.stat().st_size > 500
    printed = capsys.readouterr()
    assert f"wrote {output}" in printed.err.replace("\n", "") and "memory" in printed.out
    if suffix == ".md":
        assert "2n/(3s)" in output.read_text()
    if suffix == ".json":
        assert json.loads(output.read_text())["sweep"] == "ops"


def test_predictions_are_kept_for_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.sweeps.results import load

    path = tmp_path / "x.jsonl"
    for _ in range(2):
        assert command_line(["sweep", "decode", "--predict", "a10", "--batches", "1,2", "--results", str(path)]) == 0
    results, warnings = load(path)
    assert [r.case.size for r in results] == [1, 2] and not warnings
    assert all(r.run is not None and r.run.timing is None for r in results)


def test_a_sweep_is_written_to_every_output_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [tmp_path / "x.json", tmp_path / "x.md"]
    command = ["sweep", "ops", "--predict", "a10", "--ops", "add"]
    assert command_line([*command, "-o", str(outputs[0]), "-o", str(outputs[1])]) == 0
    assert all(output.stat().st_size for output in outputs)
    assert capsys.readouterr().err.count("wrote") == 2


@pytest.mark.parametrize("bad", ["x.gif", "nowhere/x.md"])
def test_every_output_is_checked_before_the_work_begins(bad: str, tmp_path: Path) -> None:
    good = tmp_path / "x.md"
    assert command_line(["sweep", "ops", "--predict", "a10", "-o", str(good), "-o", str(tmp_path / bad)]) == 2
    assert not good.exists()


def test_an_output_that_can_t_be_written_takes_nothing_else_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from roofline.cli import sweep_output
    from roofline.core.run import write_whole
    from roofline.errors import RunFileError

    def full(path: Path, data: bytes) -> Path:
        if path.suffix == ".json":
            raise RunFileError("the disk is full", "free some space")
        return write_whole(path, data)

    monkeypatch.setattr(sweep_output, "write_whole", full)
    outputs = ["-o", str(tmp_path / "x.json"), "-o", str(tmp_path / "x.md")]
    assert command_line(["sweep", "ops", "--predict", "a10", "--ops", "add", *outputs]) == 1
    printed = capsys.readouterr()
    assert (tmp_path / "x.md").exists() and "memory" in printed.out and "the disk is full" in printed.err
