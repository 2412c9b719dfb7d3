"""Does a quoted MFU, HFU, MBU, rate or speed-up add up, and if not, what reproduces it?"""

from roofline.analysis.audit.audit import Audit as Audit
from roofline.analysis.audit.audit import audit as audit
from roofline.analysis.audit.audit import common_conventions as common_conventions
from roofline.analysis.audit.claim import Before as Before
from roofline.analysis.audit.claim import Claim as Claim
from roofline.analysis.audit.claim import Decode as Decode
from roofline.analysis.audit.claim import Gemm as Gemm
from roofline.analysis.audit.claim import Layout as Layout
from roofline.analysis.audit.finding import Explanation as Explanation
from roofline.analysis.audit.finding import Finding as Finding
from roofline.analysis.audit.quoted import Quoted as Quoted
from roofline.analysis.audit.quoted import fraction as fraction
from roofline.analysis.audit.quoted import quantity as quantity
