"""Taffrail's resources, written short: `topic("orders", partitions=3)`."""

API = "taffrail.dev/v1alpha1"


def resource(kind, name, spec, **metadata):
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def cluster(name, **spec):
    return resource("Cluster", name, spec)


def topic(name, cluster="log", **spec):
    return resource("Topic", name, {"clusterRef": {"name": cluster}, **spec})


def consumer_group(name, cluster="log", **spec):
    return resource("ConsumerGroup", name, {"clusterRef": {"name": cluster}, **spec})
