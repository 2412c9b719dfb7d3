"""Does a quoted MFU, HFU, MBU, rate or speed-up add up, and if not, what reproduces it?"""

from roofline.audit.audit import Audit as Audit
from roofline.audit.audit import audit as audit
from roofline.audit.audit import common_conventions as common_conventions
from roofline.audit.claim import Before as Before
from roofline.audit.claim import Claim as Claim
from roofline.audit.claim import Decode as Decode
from roofline.audit.claim import Gemm as Gemm
from roofline.audit.claim import Layout as Layout
from roofline.audit.finding import Explanation as Explanation
from roofline.audit.finding import Finding as Finding
from roofline.audit.quoted import Quoted as Quoted
from roofline.audit.quoted import fraction as fraction
from roofline.audit.quoted import quantity as quantity
