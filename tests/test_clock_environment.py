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
    assert (
        found["packages"]["torch"] == torch.__version__.partition("+")[0]
        or found["packages"]["torch"] == torch.__version__
    )
    assert found["threads"] == torch.get_num_threads()
    assert datetime.fromisoformat(found["date"]).tzinfo is not None
    assert found["gpu"] is None or "name" in found["gpu"]


def test_it_names_no_host_no_user_and_no_path(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/secret/libjemalloc.so")
    text = json.dumps(environment("cpu"))
    assert str(Path.home()) not in text
    assert "secret" not in text
    assert platform.node() not in text
    assert getpass.getuser() not in text.replace("roofline", "")


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
