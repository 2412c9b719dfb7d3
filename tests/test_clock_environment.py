"""The environment: enough to repeat a measurement, nothing that names a person or a host."""

import getpass
import json
import platform
from datetime import datetime
from pathlib import Path

import torch

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


def test_a_busy_machine_is_warned_of_with_its_load():
    cores = {"logical_cores": 2}
    assert "load average 1.5 on 2 cores" in busy_warning({"load_average": 1.5, "cpu": cores})
    assert busy_warning({"load_average": 0.1, "cpu": cores}) is None
    assert busy_warning({"load_average": None, "cpu": cores}) is None
