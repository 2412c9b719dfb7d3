"""The machine database: find one by its exact name, detect the one at hand, or load one from a file."""

from roofline.machines.clock import implied_clock_hz as implied_clock_hz
from roofline.machines.database import all_machines as all_machines
from roofline.machines.detect import detect as detect
from roofline.machines.detect import unlisted as unlisted
from roofline.machines.find import find as find
from roofline.machines.fits import fits as fits
from roofline.machines.fits import fitted_time as fitted_time
from roofline.machines.given import load_machine as load_machine
from roofline.machines.given import override as override
from roofline.machines.given import resolve as resolve
from roofline.machines.given import save_machine as save_machine
from roofline.machines.identify import identify as identify
