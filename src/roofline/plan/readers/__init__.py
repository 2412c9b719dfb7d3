"""Hugging Face config → Architecture: one reader per family of keys. `READERS` is the table of known families."""

from collections.abc import Callable

from roofline.plan.architecture import Architecture
from roofline.plan.readers import deepseek, diffusion, gpt, llama, recurrent, towers
from roofline.plan.readers.fields import Config

Reader = Callable[[Config, str], Architecture]

READERS: dict[str, Reader] = {
    **dict.fromkeys(llama.STYLES, llama.read),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"), deepseek.read),
    "gpt2": gpt.gpt2,
    "gpt_bigcode": gpt.gpt2,
    "gptj": gpt.gptj,
    "gpt_neox": gpt.gpt_neox,
    "opt": gpt.opt,
    "bloom": gpt.bloom,
    "falcon": gpt.falcon,
    "bert": gpt.bert,
    "mamba": recurrent.mamba,
    "falcon_mamba": recurrent.mamba,
    "mamba2": recurrent.mamba2,
    "nemotron_h": recurrent.nemotron_h,
    "qwen3_next": recurrent.qwen3_next,
    "t5": towers.t5,
    "mt5": towers.t5,
    "whisper": towers.whisper,
    "vit": towers.vit,
    "flux": diffusion.flux,
    "qwen3_vl": towers.qwen3_vl,
    "qwen3_vl_moe": towers.qwen3_vl,
    "llama4": towers.text_only,
    "gemma3": towers.text_only,
    "mistral3": towers.text_only,
    "llava": towers.text_only,
}
