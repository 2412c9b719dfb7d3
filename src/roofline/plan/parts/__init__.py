"""What a layer is made of: attention, its cheaper relatives, feed-forward networks. Sizes only.

Every part knows its weight matrices; parameters, FLOP and bytes all follow from these, so that none is counted in two
ways. `shard(tp)` gives the part that one rank of tensor parallelism holds.
"""

from roofline.plan.parts.attention import Attention as Attention
from roofline.plan.parts.attention import LatentAttention as LatentAttention
from roofline.plan.parts.feedforward import Experts as Experts
from roofline.plan.parts.feedforward import Mlp as Mlp
from roofline.plan.parts.matrix import Matrix as Matrix
from roofline.plan.parts.matrix import Role as Role
from roofline.plan.parts.recurrent import DeltaNet as DeltaNet
from roofline.plan.parts.recurrent import Mamba as Mamba
from roofline.plan.parts.recurrent import Mamba2 as Mamba2
from roofline.plan.parts.streams import DoubleStream as DoubleStream
from roofline.plan.parts.streams import SingleStream as SingleStream

Mixer = Attention | LatentAttention | Mamba | Mamba2 | DeltaNet | DoubleStream | SingleStream
Recurrent = Mamba | Mamba2 | DeltaNet
FeedForward = Mlp | Experts
Part = Mixer | FeedForward
