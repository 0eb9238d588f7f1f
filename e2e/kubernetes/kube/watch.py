"""What happened to the pods of a cluster, in the order in which the API server told it."""

import json
import subprocess
import threading


def is_ready(pod):
    conditions = (pod.get("status") or {}).get("conditions") or []
    going = "deletionTimestamp" in pod["metadata"]
    return not going and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class PodWatch(threading.Thread):
    """Follows the pods of a selector: how many of each component were away at once, and how many lives each pod had."""

    def __init__(self, kubectl, selector):
        super().__init__(name="pod-watch", daemon=True)
        self.ready = {}
        self.lives = {}
        self.most_away = {}
        command = ["kubectl", "--namespace", kubectl.namespace, "get", "pods", "-l", selector, "--watch", "-o", "json"]
        self.process = subprocess.Popen([*command, "--output-watch-events"], stdout=subprocess.PIPE, text=True)

    def run(self):
        # One event a line.
        for line in self.process.stdout:
            self.take(json.loads(line))

    def take(self, event):
        pod = event["object"]
        name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
        component = labels["app.kubernetes.io/component"]
        self.lives.setdefault(name, {})[pod["metadata"]["uid"]] = labels.get("taffrail.dev/revision")
        self.ready[component, name] = event["type"] != "DELETED" and is_ready(pod)
        away = sum(not ready for (which, _), ready in self.ready.items() if which == component)
        self.most_away[component] = max(self.most_away.get(component, 0), away)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.join(10)
