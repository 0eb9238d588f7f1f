"""Wrong resources are refused when they are applied, by the API server alone (K-03). No operator has to run."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest

from bad_resources import CHANGED, NEW, TAKEN
from kube.kubectl import Refused

# kubectl takes a quarter of a second of processor for each.
AT_ONCE = 4


def named(resource, number):
    """The resource under a name of its own."""
    other = copy.deepcopy(resource)
    other["metadata"]["name"] = f"{resource['metadata']['name']}-{number}"
    return other


def attempt(kubectl, *steps):
    """What is said to the last of these steps, or None if it is taken; the others have to be."""
    for step in steps[:-1]:
        kubectl.apply(step)
    try:
        kubectl.apply(steps[-1])
    except Refused as refused:
        return str(refused)
    return None


def attempts(kubectl, cases):
    """What is said to each case, all of them tried in one go: they are many, and kubectl is slow to start."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tried = [pool.submit(attempt, kubectl, *(named(step, n) for step in steps)) for n, steps in enumerate(cases)]
        return [future.result() for future in tried]


@pytest.fixture(scope="module")
def answers(kubectl):
    """What it is -> what was said."""
    cases = [(what, (bad,)) for what, bad, _ in NEW]
    cases += [(what, (before, after)) for what, before, after, _ in CHANGED]
    cases += [(what, (good,)) for what, good in TAKEN]
    assert len({what for what, _ in cases}) == len(cases)
    return dict(zip((what for what, _ in cases), attempts(kubectl, [steps for _, steps in cases]), strict=True))


@pytest.mark.parametrize(("what", "says"), [(what, says) for what, _, says in NEW])
def test_nonsense_is_refused_when_it_is_applied(answers, what, says):
    assert answers[what] is not None, "it was taken"
    assert says in answers[what]


@pytest.mark.parametrize(("what", "says"), [(what, says) for what, _, _, says in CHANGED])
def test_changes_that_cannot_be_made_are_refused_when_they_are_applied(answers, what, says):
    assert answers[what] is not None, "it was taken"
    assert says in answers[what]


@pytest.mark.parametrize("what", [what for what, _ in TAKEN])
def test_what_makes_sense_is_taken(answers, what):
    assert answers[what] is None
