"""Fixtures: kubectl in a namespace of its own, with the resource definitions in place."""

import os
import pathlib
import uuid
from functools import partial

import pytest

from kube.kubectl import Kubectl
from kube.load import load  # noqa: F401
from kube.release import Release, cluster, release  # noqa: F401
from kube.rig import rig  # noqa: F401
from raw.long_forms import pytest_addoption, pytest_collection_modifyitems  # noqa: F401
from raw.wait import eventually

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def pytest_runtest_setup(item):
    """Without a cluster nothing but the chart can be tested: whoever starts pytest by hand is told how."""
    if "kubectl" in item.fixturenames and "KUBECONFIG" not in os.environ:
        pytest.fail("no KUBECONFIG: start the tests with e2e/kubernetes/run")


@pytest.fixture(scope="session")
def crds():
    """The resource definitions, known to the API server, and told of by it: discovery lags behind."""
    cluster = Kubectl()
    cluster("apply", "--server-side", "--force-conflicts", "-f", ROOT / "crds")
    cluster("wait", "--for=condition=Established", "-f", ROOT / "crds", "--timeout=30s")
    for kind in ("clusters", "topics", "consumergroups"):
        explain = partial(cluster, "explain", "--api-version=taffrail.dev/v1alpha1", kind)
        eventually(explain, timeout_s=30, poll_s=0.2, what=f"{kind} in what the API server tells")
    return cluster


@pytest.fixture(scope="module")
def kubectl(crds):
    """kubectl in a namespace that only this module's tests use."""
    cluster, name = Kubectl(), f"test-{uuid.uuid4().hex[:8]}"
    cluster("create", "namespace", name)
    yield Kubectl(name)
    cluster.delete("namespace", name, wait=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What there is to know of a cluster, where a test fails that had one."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for value in item.funcargs.values():
            if isinstance(value, Release):
                report.sections.append(("the cluster", value.diagnosis()))
