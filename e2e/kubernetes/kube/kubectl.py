"""kubectl in one namespace: what a user types, and what the API server answers."""

import json
import subprocess

from raw.wait import eventually

TIMEOUT_S = 60


class Refused(AssertionError):
    """kubectl said no; the text is all that it printed."""


class Kubectl:
    def __init__(self, namespace=None):
        self.namespace = namespace

    def run(self, *arguments, stdin=None, timeout_s=TIMEOUT_S):
        """The finished process, whatever came of it."""
        scope = ["--namespace", self.namespace] if self.namespace else []
        command = ["kubectl", *scope, *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s)

    def __call__(self, *arguments, **options):
        """What it prints when it succeeds."""
        done = self.run(*arguments, **options)
        if done.returncode != 0:
            raise Refused(f"{' '.join(done.args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def apply(self, *resources, **options):
        """Server-side, as GitOps tools do it."""
        return self("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=as_json(resources), **options)

    def refusal(self, *resources):
        """What is said to whoever applies these; fails if they are taken."""
        try:
            taken = self.apply(*resources)
        except Refused as refused:
            return str(refused)
        raise AssertionError(f"nothing was refused: {taken}")

    def get(self, kind, name):
        """The object, or None while there is none."""
        found = self("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def list(self, kind, selector=None):
        return json.loads(self("get", kind, *(["-l", selector] if selector else []), "-o", "json"))["items"]

    def patch(self, kind, name, change, *arguments):
        return self("patch", kind, name, "--type=merge", "-p", json.dumps(change), *arguments)

    def delete(self, kind, *names, wait=True):
        return self("delete", kind, *names, "--ignore-not-found", f"--wait={str(wait).lower()}", timeout_s=180)

    def wait_for(self, condition, kind, name, timeout_s=60):
        """`kubectl wait`, as a user's script does it."""
        return self("wait", f"--for={condition}", kind, name, f"--timeout={timeout_s}s", timeout_s=timeout_s + 10)

    def condition(self, kind, name, type_):
        """A condition of an object, or None while it has none of that type."""
        conditions = ((self.get(kind, name) or {}).get("status") or {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == type_), None)

    def wait_for_condition(self, kind, name, type_, status="True", reason=None, timeout_s=60):
        """The condition, once it has this status (and reason)."""

        def right(condition):
            return condition is not None and condition["status"] == status and reason in (None, condition["reason"])

        return eventually(
            lambda: self.condition(kind, name, type_),
            wanted=right,
            timeout_s=timeout_s,
            poll_s=0.2,
            what=f"{type_}={status} {reason or ''} of {kind} {name}",
        )


def as_json(resources):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(resources)})
