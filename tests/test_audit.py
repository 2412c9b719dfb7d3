"""The audit finds what is wrong with a claim, and lets a right one pass."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import machines
from roofline.audit import (
    Before,
    Claim,
    Decode,
    Finding,
    Layout,
    Quoted,
    audit,
    fraction,
    quantity,
)
from roofline.cli.main import run
from roofline.core.machine import Machine
from roofline.errors import UsageError
from roofline.plan.conventions import AttentionLayers, ModelFacts, Tokens, named

_LLAMA = ModelFacts(
    name="Llama-3.1-8B",
    parameters=8_030_261_248,
    input_embedding=525_336_576,
    output_head=525_336_576,
    attention=(AttentionLayers(layers=32, heads=32, qk_head_dim=128, v_head_dim=128),),
    kv_bytes_per_token=131_072,
)
_S = 8192
_PALM = 6 * 8_030_261_248 + 12 * 32 * 32 * 128 * _S


def _only(claim: Claim) -> Finding:
    (finding,) = audit(claim).findings
    return finding


def _training(figure: float, *, devices: int = 64, layout: Layout | None = None, **claims: object) -> Claim:
    """A run on H100s whose MFU by palm's convention is `figure`."""
    machine = machines.find("h100-sxm")
    per_device = figure * 989.5e12 / _PALM
    return Claim(
        machine=machine,
        facts=_LLAMA,
        tokens=Tokens(sequence=_S),
        devices=devices,
        tokens_per_s=Quoted(per_device * devices),
        layout=layout or Layout(),
        **claims,  # type: ignore[arg-type]
    )


def test_a_figure_is_as_exact_as_it_is_written() -> None:
    assert fraction("45%") == Quoted(0.45, pytest.approx(0.005))
    assert fraction("~45.0 %") == Quoted(pytest.approx(0.45), pytest.approx(0.0005))
    assert fraction("0.45") == Quoted(0.45, pytest.approx(0.005))
    assert quantity("66,523") == Quoted(66523, pytest.approx(0.5))
    assert quantity("700k") == Quoted(700e3, pytest.approx(500))
    assert quantity("1.5x") == Quoted(1.5, pytest.approx(0.05))
    assert quantity("420 TFLOP/s", "FLOP/s") == Quoted(420e12, pytest.approx(0.5e12))


@pytest.mark.parametrize("text", ["45", "-3%", "0%", "much", ""])
def test_a_ratio_without_its_sign_or_without_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        fraction(text)


@given(st.decimals(min_value="0.1", max_value="999", places=2))
def test_half_a_unit_of_the_last_digit_is_the_slack(number: object) -> None:
    assert quantity(str(number)).slack == pytest.approx(0.005)


def test_a_right_claim_adds_up_by_its_convention() -> None:
    finding = _only(_training(0.45, mfu=fraction("45.00%")))
    assert finding.status == "holds"
    assert {e.convention for e in finding.explanations} >= {"palm"}
    assert finding.explanations[0].value == pytest.approx(0.45)


def test_flash_attention_s_rate_and_its_share_of_the_peak_agree() -> None:
    # flash-attention, training/README.md: "189 TFLOPs/sec per A100 (60.6% model FLOPs utilization)".
    claim = Claim(
        machine=machines.find("a100-sxm-80gb"),
        flops_per_s=quantity("189 TFLOP/s", "FLOP/s"),
        mfu=fraction("60.6%"),
    )
    finding = _only(claim)
    assert finding.status == "holds"
    assert finding.expected == pytest.approx(189 / 312)


@pytest.mark.parametrize(
    ("claimed", "status", "fault"),
    [
        ("42.4%", "holds", ""),
        ("21.2%", "fault", "sparse"),
        ("84.9%", "fault", "half the dense"),
        ("50.0%", "unexplained", ""),
    ],
)
def test_a_share_of_the_wrong_peak_of_an_h200_is_found_out(claimed: str, status: str, fault: str) -> None:
    # Case B64: 420 TFLOP/s of 989.5.
    claim = Claim(
        machine=machines.find("h200-sxm"),
        flops_per_s=quantity("420 TFLOP/s", "FLOP/s"),
        mfu=fraction(claimed),
    )
    finding = _only(claim)
    assert finding.status == status
    assert fault in finding.sentence
    assert finding.expected == pytest.approx(420 / 989.5)


def test_an_a100_peak_taken_for_an_unknown_gpu_is_found_out() -> None:
    # Case B66: an MI350X judged by an A100's peak, 7.4 times too low.
    claim = Claim(
        machine=machines.find("mi350x"), flops_per_s=quantity("474 TFLOP/s", "FLOP/s"), mfu=fraction("152%")
    )
    finding = _only(claim)
    assert "A100" in finding.sentence
    assert "above 100 %" in finding.sentence
    assert finding.expected == pytest.approx(474 / 2307, rel=1e-3)


def test_the_work_of_all_devices_over_the_peak_of_one_is_found_out() -> None:
    # Case B62: 45.5 % printed, 2.84 % per GPU on 16 GPUs.
    honest = 0.455 / 16
    assert honest == pytest.approx(0.0284, abs=5e-5)
    finding = _only(_training(honest, devices=16, mfu=fraction("45.5%")))
    assert finding.status == "fault"
    assert "all 16 devices" in finding.explanations[0].fault
    assert _only(_training(honest, devices=16, mfu=fraction("2.84%"))).status == "holds"


@pytest.mark.parametrize(
    ("layout", "factor", "fault"),
    [
        (Layout(accumulation=40), 1 / 40, "one micro-step"),
        (Layout(pipeline=4), 1 / 4, "stage of the pipeline"),
        (Layout(sequence=16), 1 / 16, "a second time"),
        (Layout(tensor=4), 4, "tensor-parallel ranks work on the same tokens"),
        (Layout(), 1 / 64, "again"),
    ],
)
def test_tokens_counted_wrongly_are_found_out(layout: Layout, factor: float, fault: str) -> None:
    # Cases B49 and B62: right are the tokens of the timed window ÷ ranks, whatever the layout.
    honest = 0.2 if factor > 1 else 0.5
    claimed = honest * factor
    finding = _only(_training(honest, layout=layout, mfu=fraction(f"{100 * claimed:.5f}%")))
    assert finding.status == "fault"
    assert any(fault in e.fault for e in finding.explanations)
    right = _only(_training(honest, layout=layout, mfu=fraction(f"{100 * honest:.3f}%")))
    assert right.status == "holds"


def test_recomputation_belongs_in_an_hfu_and_not_in_an_mfu() -> None:
    claimed = 0.45 * 4 / 3
    wrong = _only(_training(0.45, mfu=Quoted(claimed, 1e-5)))
    assert wrong.status == "fault"
    assert "computed twice" in wrong.sentence
    right = _only(_training(0.45, hfu=Quoted(claimed, 1e-5)))
    assert right.status == "holds"
    assert right.explanations[0].recompute == "full"


def test_an_hfu_of_a_run_that_recomputes_nothing_must_be_its_mfu() -> None:
    finding = _only(_training(0.45, hfu=Quoted(0.45 * 4 / 3, 1e-5), recompute="none"))
    assert finding.status == "fault"
    assert 'recomputes "none"' in finding.explanations[0].fault


def test_all_experts_counted_for_a_token_are_found_out() -> None:
    # Case B43: 6 · total is 3.63 times too much for Mixtral 8x7B.
    mixtral = ModelFacts(
        parameters=46_702_792_704,
        active=12_879_925_248,
        input_embedding=131_072_000,
        output_head=131_072_000,
        attention=(AttentionLayers(layers=32, heads=32, qk_head_dim=128, v_head_dim=128),),
    )
    tokens = Tokens(sequence=4096)
    rate = 4000.0
    total = named("moe-total").flops_per_token(mixtral, tokens)
    claim = Claim(
        machine=machines.find("h100-sxm"),
        facts=mixtral,
        tokens=tokens,
        tokens_per_s=Quoted(rate),
        mfu=Quoted(total * rate / 989.5e12, 1e-5),
    )
    finding = _only(claim)
    assert any("counts every expert" in e.fault for e in finding.explanations)


def test_full_training_flops_of_a_lora_run_are_found_out() -> None:
    facts = ModelFacts(parameters=8_000_000_000, adapters=20_000_000)
    full = 6 * 8e9 * 1000 / 989.5e12
    claim = Claim(
        machine=machines.find("h100-sxm"),
        facts=facts,
        tokens=Tokens(sequence=2048),
        tokens_per_s=Quoted(1000),
        mfu=Quoted(full, 1e-6),
    )
    lora = (4 * 8e9 + 6 * 2e7) * 1000 / 989.5e12
    assert named("lora").flops_per_token(facts, Tokens(sequence=2048)) * 1000 / 989.5e12 == pytest.approx(lora)
    finding = _only(claim)
    assert finding.status == "fault"
    assert "frozen weights" in finding.explanations[0].fault


def test_a_speed_up_and_an_mfu_that_contradict_each_other() -> None:
    # The article: 45 % on A100, 1.5 times as fast on H100. That is 21 %, not 32 %, which would be 2.25 times.
    claim = Claim(
        machine=machines.find("h100-sxm"),
        mfu=fraction("~32%"),
        speedup=quantity("1.5x"),
        before=Before(machine=machines.find("a100-sxm-80gb"), mfu=fraction("~45%")),
    )
    finding = _only(claim)
    assert finding.status == "unexplained"
    assert "21.28 %, not 32.00 %" in finding.sentence
    assert finding.expected == pytest.approx(0.32 / 0.45 * 989.5 / 312)
    assert finding.expected == pytest.approx(2.25, abs=0.01)


@pytest.mark.parametrize("mfu", ["21%", "21.3%"])
def test_a_speed_up_that_agrees_with_its_mfu_passes(mfu: str) -> None:
    claim = Claim(
        machine=machines.find("h100-sxm"),
        mfu=fraction(mfu),
        speedup=quantity("1.5x"),
        before=Before(machine=machines.find("a100-sxm-80gb"), mfu=fraction("45%")),
    )
    assert _only(claim).status == "holds"


def test_a_speed_up_with_a_sparse_peak_after_it_is_found_out() -> None:
    claim = Claim(
        machine=machines.find("h100-sxm"),
        mfu=fraction("14.2%"),
        speedup=quantity("2.00x"),
        before=Before(machine=machines.find("a100-sxm-80gb"), mfu=fraction("45.0%")),
    )
    finding = _only(claim)
    assert finding.status == "fault"
    assert "sparse" in finding.sentence


@given(before=st.floats(0.05, 0.9), speedup=st.floats(0.2, 10), old=st.integers(1, 64), new=st.integers(1, 64))
def test_a_speed_up_is_judged_alike_from_either_side(before: float, speedup: float, old: int, new: int) -> None:
    small, large = machines.find("a100-sxm-80gb"), machines.find("h100-sxm")
    after = before * speedup * 312 * old / (989.5 * new)
    claim = Claim(
        machine=large,
        devices=new,
        mfu=Quoted(after),
        speedup=Quoted(speedup),
        before=Before(machine=small, mfu=Quoted(before), devices=old),
    )
    finding = _only(claim)
    assert finding.status == "holds"
    assert finding.expected == pytest.approx(speedup)


@given(st.floats(0.01, 0.99))
def test_any_honest_mfu_adds_up(figure: float) -> None:
    finding = _only(_training(figure, mfu=Quoted(figure, 1e-5)))
    assert finding.status == "holds"
    assert "palm" in {e.convention for e in finding.explanations}


def test_a_rate_above_the_peak_is_impossible() -> None:
    # Case B02: 322 TFLOP/s on a card of 312, with causal attention counted full.
    finding = _only(Claim(machine=machines.find("a100-sxm-80gb"), flops_per_s=quantity("322 TFLOP/s", "FLOP/s")))
    assert finding.status == "unexplained"
    assert "causal attention counted full" in finding.sentence
    assert "103.2 %" in finding.sentence


def test_a_bandwidth_above_the_memory_s_is_impossible_and_one_below_is_a_share_of_it() -> None:
    # Case B72: a kernel whose data fits into the cache.
    card = machines.find("rtx-5090")
    high = _only(Claim(machine=card, bytes_per_s=quantity("5019 GB/s", "B/s")))
    assert high.status == "unexplained"
    assert "cache" in high.sentence
    low = _only(Claim(machine=card, bytes_per_s=quantity("896 GB/s", "B/s")))
    assert low.status == "holds"
    assert "50.00 % of the memory bandwidth" in low.sentence


def test_an_mbu_that_counts_all_devices_is_found_out() -> None:
    machine = machines.find("h100-sxm")
    bytes_per_token = 2 * (8_030_261_248 - 525_336_576) + 1000 * 131_072
    honest = bytes_per_token * 100 / 2 / machine.dram.value
    claim = Claim(
        machine=machine,
        facts=_LLAMA,
        devices=2,
        tokens_per_s=Quoted(100),
        decode=Decode(context=1000),
        mbu=Quoted(2 * honest, 1e-6),
    )
    finding = _only(claim)
    assert finding.status == "fault"
    assert "all 2 devices" in finding.sentence
    assert finding.expected == pytest.approx(honest)


def test_a_claim_with_nothing_to_judge_it_by_says_what_is_missing(toy: Machine) -> None:
    with pytest.raises(UsageError, match="MFU needs a rate"):
        audit(Claim(machine=toy, mfu=fraction("45%")))
    with pytest.raises(UsageError, match="MBU needs a bandwidth"):
        audit(Claim(machine=toy, mbu=fraction("45%")))
    with pytest.raises(UsageError, match="nothing to audit"):
        audit(Claim(machine=toy))
    with pytest.raises(UsageError, match="over what"):
        audit(Claim(machine=toy, speedup=quantity("2x")))


def test_the_command_shows_the_arithmetic_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["audit", "--machine", "h200-sxm", "--flops-per-s", "420 TFLOP/s", "--mfu", "84.9%"])
    shown = capsys.readouterr().out
    assert code == 0
    assert "NO MFU 84.90 %" in shown
    assert "420.0 TFLOP/s ÷ 494.8 TFLOP/s" in shown
    assert len(shown.splitlines()) < 24


def test_strict_exits_with_3_only_where_a_figure_does_not_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["audit", "--machine", "h200-sxm", "--flops-per-s", "420 TFLOP/s", "--strict"]
    assert run([*base, "--mfu", "21.2%"]) == 3
    assert run([*base, "--mfu", "42.4%"]) == 0
    capsys.readouterr()


def test_the_command_takes_a_model_as_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    # The first row of llm-foundry's table: MPT-70B on 64 H100, 42.57 %, 56.76 % with its recomputation.
    words = "audit --params 64862437376 --layers 80 --hidden 8192 --embedding-params 412614656 --tied"
    words += " --machine h100-sxm --devices 64 --sequence 2048 --tokens-per-s 66523 --mfu 42.57% --hfu 56.76% --json"
    assert run(words.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] is True
    mfu, hfu = answer["findings"]
    assert mfu["status"] == hfu["status"] == "holds"
    assert {e["recompute"] for e in hfu["explanations"]} == {"full"}
    assert answer["score"]["mfu_fraction"] < 0.4257
    assert mfu["arithmetic"][0]["what"] == "convention"


def test_a_step_time_and_a_rate_per_device_are_the_same_throughput(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["audit", "--params", "8e9", "--machine", "h100-sxm", "--devices", "8", "--sequence", "4096", "--json"]
    answers = []
    for throughput in (
        ["--tokens-per-s", "80000"],
        ["--tokens-per-s-per-device", "10000"],
        ["--step-time", "2 s", "--tokens-per-step", "160000"],
    ):
        assert run([*base, *throughput]) == 0
        answers.append(json.loads(capsys.readouterr().out)["score"])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--mfu 45", "'--mfu': \"45\" is no ratio"),
        ("--hfu x", "'--hfu': \"x\" is no ratio above 0; write it like 45%"),
        ("--mfu=", "'--mfu': \"\" is no ratio"),
        ("--from-mfu 0%", "'--from-mfu'"),
        ("--step-time 3B", "'--step-time': \"3B\" is not a quantity in s"),
        ("--flops-per-s 1e999", "'--flops-per-s'"),
        ("--tolerance 40", "'--tolerance'"),
        ("--from-precision half", "'--from-precision'"),
        ("--weights int3", "'--weights': \"int3\" is no known format"),
        ("--context nan", "'--context': \"nan\" is no amount"),
        ("--gemm 1,2,0", "'--gemm'"),
        ("--layers 3 --mfu 45%", "--layers describes --params"),
        ("llama-3-8b --tied --mfu 45%", "--tied describes --params"),
        ("--lora-params 1e6 --mfu 45%", "--lora-params are adapters"),
        ("--precision fp4 --mfu 45% --flops-per-s 4T", '--peak-flops "bf16=125 TFLOP/s"'),
        ("--mfu 45% --tokens-per-s 1 --step-time 1s", "the same thing"),
        ("--step-time 1s", "belong together"),
        ("--params 8e9 --layers 3 --tokens-per-s 5", "--layers and --hidden"),
        ("--precision fp3 --mfu 45%", "'fp3' is not one of"),
        ("--gemm 1,2 --flops-per-s 1T", "3 whole numbers"),
        ("--speedup 2x --from-machine a100-sxm-80gb", "belong together"),
        ("--documents 5,x --mfu 45%", "whole numbers"),
        ("--documents 5,6 --sequence 12 --mfu 45%", "hold 11 tokens"),
        ("--params 1e9 --embedding-params 2e9 --tokens-per-s 5", "more than all"),
        ("no-such-model --mfu 45%", "no model"),
        ("--tokens-per-s -5 --params 1e9", "not a quantity"),
    ],
)
def test_bad_input_is_one_clear_line(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--machine", "h100-sxm", *words.split()]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error: ")
    assert len(said.splitlines()) <= 2


def test_two_given_ceilings_stand_for_an_unlisted_machine(capsys: pytest.CaptureFixture[str]) -> None:
    claim = ["audit", "--flops-per-s", "50 TFLOP/s", "--mfu", "50%", "--strict"]
    ceilings = ["--peak-flops", "100 TFLOP/s", "--peak-bandwidth", "1 TB/s"]
    assert run([*claim, *ceilings]) == 0
    assert "100.0 TFLOP/s, dense BF16 peak of given machine" in capsys.readouterr().out
    assert run([*claim, *ceilings[:2]]) == 2
    assert "--machine is missing" in capsys.readouterr().err
    # FP4 of an H100, which has none: its hint can be followed.
    fp4 = ["--machine", "h100-sxm", "--precision", "fp4", "--peak-flops", "fp4=100 TFLOP/s"]
    assert run([*claim, *fp4]) == 0


def test_the_audits_in_the_documentation_are_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    document = (Path(__file__).parents[1] / "docs/mfu.md").read_text("utf-8")
    shown = re.findall(r"```\n\$ roofline ((?:.*\\\n)*.*)\n((?:.*\n)*?)```", document)
    assert len(shown) == 3
    for words, output in shown:
        assert run(shlex.split(words.replace("\\\n", " "))) == 0
        assert capsys.readouterr().out == output
