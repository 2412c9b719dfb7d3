"""The environment: enough to repeat a measurement, nothing that names a person or a host."""

import getpass
import json
import platform
from datetime import datetime
from pathlib import Path

import pytest
import torch

from roofline.clock import environment as clock_environment
from roofline.clock.environment import busy_warning, environment


def test_it_is_plain_json_with_versions_threads_and_date():
    found = environment("cpu")
    assert json.loads(json.dumps(found)) == found
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert datetime.fromisoformat(found["date"]).tzinfo is not None
    assert found["gpu"] is None or "name" in found["gpu"]


def values(tree):
    if isinstance(tree, dict):
        return [v for child in tree.values() for v in values(child)]
    return [str(tree)]


def test_no_value_is_a_path_the_host_or_the_user():
    found = values(environment("cpu"))
    assert platform.node() not in found
    assert getpass.getuser() not in found
    assert not [v for v in found if v.startswith(("/", "~")) or str(Path.home()) in v]


def test_variables_that_set_threads_are_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment("cpu")["variables"]["OMP_NUM_THREADS"] == "7"


def test_outside_a_repository_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert environment("cpu")["commit"] is None


def test_a_busy_machine_is_warned_of_with_its_share():
    assert "other programs keep 40.0 % of the cores busy" in busy_warning({"busy_fraction": 0.4})
    assert busy_warning({"busy_fraction": 0.1}) is None
    assert busy_warning({"busy_fraction": None}) is None


def test_work_of_this_process_is_not_taken_for_that_of_others(monkeypatch):
    # Two cores, ten ticks each: 12 of 20 busy, and 7 of these (0.07 s) are our own.
    ticks = iter([(100, 1000), (108, 1020)])
    spent = iter([3.0, 3.07])
    monkeypatch.setattr(clock_environment, "_ticks", lambda: next(ticks))
    monkeypatch.setattr(clock_environment.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(clock_environment.time, "process_time", lambda: next(spent))
    assert clock_environment.busy_fraction() == pytest.approx(5 / 20)
