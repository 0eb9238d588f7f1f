"""The examples of the pages and of examples/, as an API server takes them."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("page", ["cluster", "topic", "consumergroup"])
def test_the_examples_of_the_pages_are_taken(kubectl, page):
    text = (ROOT / "docs" / f"kubernetes-{page}.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=example)


@pytest.mark.parametrize("file", ["quickstart.yaml", "three-brokers.yaml", "kubernetes.yaml"])
def test_the_example_files_are_taken(kubectl, file):
    kubectl("apply", "--server-side", "--dry-run=server", "-f", ROOT / "examples" / file)
