"""The examples of the pages and of examples/, as an API server takes them."""

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def resources_of(page):
    """The page's resource, and one for each further example, which says only the part of the spec that it is about."""
    text = (ROOT / "docs" / f"kubernetes-{page}.md").read_text()
    whole, *parts = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    needed = {field: whole["spec"][field] for field in ("clusterRef",) if field in whole["spec"]}
    return [whole, *({**whole, "spec": {**needed, **part["spec"]}} for part in parts)]


@pytest.mark.parametrize("page", ["cluster", "topic", "consumergroup"])
def test_the_examples_of_the_pages_are_taken(kubectl, page):
    for resource in resources_of(page):
        kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(resource))


@pytest.mark.parametrize("file", ["quickstart.yaml", "three-brokers.yaml", "kubernetes.yaml"])
def test_the_example_files_are_taken(kubectl, file):
    kubectl("apply", "--server-side", "--dry-run=server", "-f", ROOT / "examples" / file)
