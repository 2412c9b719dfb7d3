"""MFU conventions by name: what each counts per token, who uses it, and the score that it gives a throughput."""

from roofline.plan.conventions.facts import AttentionLayers as AttentionLayers
from roofline.plan.conventions.facts import ModelFacts as ModelFacts
from roofline.plan.conventions.facts import attended_pairs as attended_pairs
from roofline.plan.conventions.read_off import facts_of as facts_of
from roofline.plan.conventions.recompute import Recompute as Recompute
from roofline.plan.conventions.recompute import recomputations as recomputations
from roofline.plan.conventions.rules import Convention as Convention
from roofline.plan.conventions.rules import Tokens as Tokens
from roofline.plan.conventions.rules import named as named
from roofline.plan.conventions.score import Row as Row
from roofline.plan.conventions.score import Score as Score
from roofline.plan.conventions.score import score as score
from roofline.plan.conventions.table import conventions as conventions
from roofline.plan.conventions.traffic import TokenBytes as TokenBytes
from roofline.plan.conventions.traffic import token_bytes as token_bytes
