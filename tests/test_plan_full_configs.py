"""Plans of full-size configs against the instrumented count on the meta device: no weights are allocated."""

import csv
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import roofline  # noqa: E402
from roofline.plan.config import read  # noqa: E402
from roofline.plan.phases import step_ops  # noqa: E402
from roofline.plan.setting import setting  # noqa: E402
from roofline.plan.workload import Parallel, Workload  # noqa: E402

CONFIGS = Path(__file__).parents[1] / "../shared/data/configs"
COUNTS = CONFIGS / "PARAM_COUNTS.csv"
ROWS = list(csv.DictReader(COUNTS.read_text("utf-8").splitlines())) if COUNTS.exists() else []
# Recurrent models run a scan that kernels block differently; models of two stacks take more than token ids.
LEFT_OUT = {"mamba", "mamba2", "nemotron_h", "llama4", "qwen3_vl", "t5", "whisper", "bert", "deepseek_v32"}
DECODERS = [row for row in ROWS if row["model_type"] not in LEFT_OUT]
TOKENS = 64


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", DECODERS, ids=[row["config"] for row in DECODERS])
def test_a_full_model_has_the_flop_that_the_counter_sees(row):
    fields = json.loads((CONFIGS / f"{row['config']}.json").read_text("utf-8"))
    # Quantised checkpoints compute the same products.
    fields.pop("quantization_config", None)
    config = transformers.CONFIG_MAPPING[fields["model_type"]].from_dict(fields)
    with torch.device("meta"):
        module = getattr(transformers, row["class"])(config).eval()
    ids = torch.ones(1, TOKENS, dtype=torch.long, device="meta")
    counted = roofline.count(module, keywords={"input_ids": ids, "use_cache": False})
    model = read(fields, row["config"])
    load = Workload(phase="prefill", tokens=TOKENS, context=0, dense=True, all_logits=True, latent="expanded")
    ops = step_ops(model, setting(model, load, Parallel()))
    assert sum(op.matrix for op in ops) == counted.flops.executed
