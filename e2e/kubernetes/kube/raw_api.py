"""The API server without kubectl's start-up: what is measured is the cluster's time, not the client's."""

import contextlib
import http.client
import json
import subprocess
import threading

GROUP = "/apis/taffrail.dev/v1alpha1"


class RawApi:
    """Calls through `kubectl proxy`; each thread has its connection."""

    def __init__(self, port, namespace):
        self.port, self.namespace = port, namespace
        self.own = threading.local()

    def call(self, method, path, body=None):
        """The answer's JSON, or text where it is none."""
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = None if body is None else json.dumps(body)
        self.own.connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = self.own.connection.getresponse()
        content = answer.read().decode()
        assert answer.status < 300, f"{method} {path}: {answer.status} {content[:400]}"
        return json.loads(content) if content.startswith("{") else content

    def collection(self, kind):
        return f"{GROUP}/namespaces/{self.namespace}/{kind}"

    def create(self, kind, resource):
        return self.call("POST", self.collection(kind), resource)

    def get(self, kind, name):
        return self.call("GET", f"{self.collection(kind)}/{name}")

    def list(self, kind):
        return self.call("GET", f"{self.collection(kind)}?resourceVersion=0")["items"]

    def delete_all(self, kind):
        self.call("DELETE", self.collection(kind))

    def writes(self, resource):
        """Requests of this resource that changed something, since the API server began."""
        total = 0
        for line in self.call("GET", "/metrics").splitlines():
            if line.startswith("apiserver_request_total{") and f'resource="{resource}"' in line:
                labels, _, value = line.rpartition(" ")
                if any(f'verb="{verb}"' in labels for verb in ("APPLY", "PATCH", "PUT", "POST")):
                    total += int(float(value))
        return total


def is_ready(resource):
    conditions = (resource.get("status") or {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextlib.contextmanager
def raw_api(namespace):
    command = ["kubectl", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            port = int(proxy.stdout.readline().strip().rpartition(":")[2])
            yield RawApi(port, namespace)
        finally:
            proxy.terminate()
