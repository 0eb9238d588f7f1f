"""The commands of README.md, as they stand there."""

import os
import pathlib
import re
import subprocess

from kube.release import KCAT

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What makes a Kubernetes and gives it the image: done already where these tests run.
DONE_BEFORE = ("make image", "kind create cluster")
COMMAND_S = 200


def commands():
    section = re.search(r"^## On Kubernetes\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if not line.startswith(DONE_BEFORE)]


def test_the_commands_of_the_readme_work_one_after_the_other(kubectl, tmp_path):
    """They name no namespace, so the client's own is set for them; images cannot be pulled here."""
    config = tmp_path / "kubeconfig"
    config.write_text(kubectl("config", "view", "--raw", "--flatten"))
    environment = os.environ | {"KUBECONFIG": str(config)}
    subprocess.run(["kubectl", "config", "set-context", "--current", f"--namespace={kubectl.namespace}"], env=environment, check=True)
    lines = commands()
    assert len(lines) == 11, lines
    for line in lines:
        command = line.replace("edenhill/kcat:1.7.1", KCAT)
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=COMMAND_S)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if line.startswith("kubectl run out"):
            assert "hello" in done.stdout
    assert kubectl.get("clusters.taffrail.dev", "log"), "the cluster outlives the release"
