"""The audit on published tables: MosaicML's training runs, gpt-fast's decoding, DeepGEMM's kernels."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofline import machines
from roofline.audit import Audit, Claim, Decode, Gemm, audit, common_conventions, fraction, quantity
from roofline.core.precision import Precision
from roofline.plan import config
from roofline.plan.conventions import AttentionLayers, ModelFacts, Tokens, facts_of

_DATA = Path(__file__).parents[1] / "../shared/data"
_CONFIGS = _DATA / "configs"


def _rows(path: str) -> list[dict[str, str]]:
    table = _DATA / path
    if not table.exists():
        pytest.skip("the public tables are not here")
    with table.open(newline="") as rows:
        return list(csv.DictReader(rows))


_MACHINES = {"a100_80gb": "a100-sxm-80gb", "h100_80gb": "h100-sxm"}


def _mpt_claims() -> Iterator[tuple[dict[str, str], Claim]]:
    """What a reader of llm-foundry's table knows: the model, the machines, the throughput, the claims."""
    for row in _rows("mfu_llm_foundry/mpt_training.csv"):
        layers, width, heads = (int(row[f"arch_{k}"]) for k in ("n_layers", "d_model", "n_heads"))
        table, s = int(row["arch_vocab_size"]) * width, int(row["SeqLen (T)"])
        group = AttentionLayers(layers=layers, heads=heads, qk_head_dim=width // heads, v_head_dim=width // heads)
        facts = ModelFacts(
            parameters=int(row["NumParams"]),
            input_embedding=table,
            output_head=table,
            position_embedding=s * width,
            tied=True,
            attention=(group,),
        )
        yield (
            row,
            Claim(
                machine=machines.find(_MACHINES[row["GPU"]]),
                facts=facts,
                tokens=Tokens(sequence=s),
                devices=int(row["# GPUs"]),
                tokens_per_s=quantity(row["Throughput (T/s)"]),
                mfu=fraction(f"{row['MFU']}%"),
                hfu=fraction(f"{row['HFU']}%"),
            ),
        )


def test_all_rows_of_llm_foundry_come_out_by_one_convention_that_the_audit_finds() -> None:
    audits: list[Audit] = []
    for row, claim in _mpt_claims():
        found = audit(claim)
        assert found.holds, row
        for finding, claimed in zip(found.findings, (float(row["MFU"]), float(row["HFU"])), strict=True):
            assert 100 * finding.explanations[0].value == pytest.approx(claimed, abs=0.02)
            # The table's own column says which runs recompute; the audit is not told.
            again = finding.subject == "hfu" and row["Activation Checkpointing"] == "True"
            assert {e.recompute for e in finding.explanations} == {"full" if again else "none"}
        audits.append(found)
    assert len(audits) == 113
    # palm's formula and llm-foundry's are one; every other convention fails on some row.
    assert common_conventions(audits) == {"palm", "llm-foundry"}


def test_an_hfu_quoted_as_mfu_is_found_out() -> None:
    for row, claim in _mpt_claims():
        if row["Activation Checkpointing"] == "False":
            continue
        quoted = Claim(
            machine=claim.machine,
            facts=claim.facts,
            tokens=claim.tokens,
            devices=claim.devices,
            tokens_per_s=claim.tokens_per_s,
            mfu=claim.hfu,
        )
        (finding,) = audit(quoted).findings
        if finding.status == "holds":
            # Some other convention happens to give the same figure; palm's does not.
            assert "palm" not in {e.convention for e in finding.explanations}
            continue
        assert any("computed twice" in e.fault for e in finding.explanations), row


_LLAMA_405B = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 16384,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "intermediate_size": 53248,
}
_GPT_FAST = {
    "Llama-2-7B": "meta-llama__Llama-2-7b-hf",
    "Llama-2-70B": "meta-llama__Llama-2-70b-hf",
    "Llama-3.1-8B": "meta-llama__Meta-Llama-3.1-8B",
    "Llama-3.1-70B": "meta-llama__Meta-Llama-3.1-70B",
}


def _gpt_fast_facts(model: str) -> ModelFacts:
    if model == "Llama-3.1-405B":
        return facts_of(config.read(_LLAMA_405B, model))
    return facts_of(config.load(str(_CONFIGS / f"{_GPT_FAST[model]}.json")))


def test_the_bytes_per_token_of_gpt_fast_come_from_the_configs() -> None:
    judged = 0
    for row in _rows("mbu_gpt_fast/gpt_fast.csv"):
        if row["Tokens/Second"] == "OOM":
            continue
        amd = "AMD" in row["_section"]
        # The quantised and the 70B runs are on eight GPUs; the others are on one, decoding 200 tokens.
        ranks = 8 if "Quantization" in row["_section"] else 1
        bandwidth = float(row["Memory Bandwidth (GB/s)"])
        machine = machines.find("mi250x-gcd" if amd else "a100-sxm-80gb")
        claim = Claim(
            machine=machine,
            facts=_gpt_fast_facts(row["Model"]),
            devices=ranks,
            tokens_per_s=quantity(row["Tokens/Second"]),
            decode=Decode(bits_per_weight=8 if row["Technique"] == "8-bit" else 16, context=106),
            bytes_per_s=quantity(f"{bandwidth} GB/s", "B/s"),
            mbu=fraction(f"{bandwidth / (machine.dram.value / 1e9)}"),
            tolerance=0.005,
        )
        found = audit(claim)
        assert found.holds, (row["Model"], [f.sentence for f in found.findings])
        per_token = found.findings[0].explanations[0].value / float(row["Tokens/Second"])
        assert per_token == pytest.approx(bandwidth * 1e9 / float(row["Tokens/Second"]), rel=0.005)
        assert found.findings[1].explanations[0].value <= 0.75
        judged += 1
    assert judged == 8


def test_the_bandwidth_of_deepgemm_follows_from_its_rate() -> None:
    rows = _rows("gemm_deepgemm_h800/deepgemm.csv")
    for row in rows:
        gemm = Gemm(m=int(row["M"]), n=int(row["N"]), k=int(row["K"]), in_bytes=1, out_bytes=2)
        claim = Claim(
            machine=machines.find("h800-sxm"),
            precision=Precision.FP8,
            gemm=gemm,
            flops_per_s=quantity(row["Computation"].replace("TFLOPS", "TFLOP/s"), "FLOP/s"),
            bytes_per_s=quantity(row["Memory bandwidth"], "B/s"),
            tolerance=0.005,
        )
        finding, rate = audit(claim).findings
        assert finding.status == "holds", (row, finding.sentence)
        assert rate.status == "holds"
        assert rate.arithmetic[0][0] == "dense FP8 peak"
        m, n, k = gemm.m, gemm.n, gemm.k
        seconds = 2 * m * n * k / (float(row["Computation"].split()[0]) * 1e12)
        assert finding.expected == pytest.approx((m * k + n * k + 2 * m * n) / seconds)
    assert len(rows) == 18
