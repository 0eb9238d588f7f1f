"""Resources that make no sense, and what the API server says to whoever applies them (K-03).

The texts are all that a user gets to see, so they are compared as they are: the path, the value, what would be right.
"""

from kube.resources import cluster, consumer_group, resource, topic

LONG = "x" * 250
NODE_PORT = {"name": "b", "port": 9094, "type": "NodePort", "advertised": {"host": "b{id}.example.com"}}
WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}


def configured(**config):
    """A topic with these settings; `__` stands for the dots of their names."""
    return topic("bad", config={name.replace("__", "."): value for name, value in config.items()})


def disk(size):
    return cluster("bad", brokers={"storage": {"size": size}})


def controllers_disk(size):
    return cluster("bad", controllers={"storage": {"size": size}})


def listening(*listeners):
    return cluster("bad", listeners=list(listeners))


def resetting(**reset):
    return consumer_group("bad", management="Managed", reset=reset)


def beginning(start, **spec):
    return consumer_group("bad", **{"management": "Managed", "topics": ["orders"], "initialOffsets": {"from": start}, **spec})


# What it is, the resource, what is said.
NEW = [
    # Topics
    ("no partitions", topic("bad", partitions=0),
     "spec.partitions: Invalid value: 0: spec.partitions in body should be greater than or equal to 1"),
    ("partitions below none", topic("bad", partitions=-5),
     "spec.partitions: Invalid value: -5: spec.partitions in body should be greater than or equal to 1"),
    ("partitions as text", topic("bad", partitions="3"),
     ".spec.partitions: expected numeric (int or float), got string"),
    ("partitions beyond 32 bits", topic("bad", partitions=2147483648),
     'spec.partitions: Invalid value: "integer": more than the 10000 partitions that one request may create'),
    ("more partitions than one request makes", topic("bad", partitions=10001),
     'spec.partitions: Invalid value: "integer": more than the 10000 partitions that one request may create'),
    ("partitions with a fraction", topic("bad", partitions=1.5),
     'spec.partitions: Invalid value: "number": spec.partitions in body must be of type integer: "number"'),
    ("no replicas", topic("bad", replicas=0),
     "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"),
    ("99 replicas", topic("bad", replicas=99),
     "spec.replicas: Invalid value: 99: spec.replicas in body should be less than or equal to 32"),
    ("fewer replicas than have to be in sync", topic("bad", replicas=2, config={"min.insync.replicas": 3}),
     'spec: Invalid value: "object": replicas must be at or over config[\'min.insync.replicas\']'),
    ("no spec", resource("Topic", "bad", None),
     'ValidationError(Topic): missing required field "spec"'),
    ("an empty spec", resource("Topic", "bad", {}),
     'ValidationError(Topic.spec): missing required field "clusterRef"'),
    ("a cluster without a name", resource("Topic", "bad", {"clusterRef": {}}),
     'ValidationError(Topic.spec.clusterRef): missing required field "name"'),
    ("a cluster with an empty name", resource("Topic", "bad", {"clusterRef": {"name": ""}}),
     'spec.clusterRef.name: Invalid value: "": spec.clusterRef.name in body should be at least 1 chars long'),
    ("an unknown field", topic("bad", partition=3),
     'ValidationError(Topic.spec): unknown field "partition"'),
    ("an unknown field within a field", resource("Topic", "bad", {"clusterRef": {"name": "log", "kind": "Cluster"}}),
     'ValidationError(Topic.spec.clusterRef): unknown field "kind"'),
    ("an unknown setting", configured(retention__hours=1),
     'ValidationError(Topic.spec.config): unknown field "retention.hours"'),
    ("a setting of brokers", configured(log__retention__ms=1),
     'ValidationError(Topic.spec.config): unknown field "log.retention.ms"'),
    ("a number where a truth belongs", configured(unclean__leader__election__enable=1),
     "ValidationError(Topic.spec.config.unclean.leader.election.enable): invalid type for "
     'dev.taffrail.v1alpha1.Topic.spec.config.unclean.leader.election.enable: got "integer", expected "boolean"'),
    ("a text where a number belongs", configured(retention__ms="a week"),
     'spec.config.retention.ms: Invalid value: "a week": spec.config.retention.ms in body should match \'^-?[0-9]+$\''),
    ("a truth where a number belongs", configured(retention__ms=True),
     'spec.config.retention.ms: Invalid value: "boolean": spec.config.retention.ms in body must be of type '
     'integer,string: "boolean"'),
    ("a number below what is allowed", configured(retention__ms=-2),
     "spec.config.retention.ms: Invalid value: -2: spec.config.retention.ms in body should be greater than or equal "
     "to -1"),
    ("a number beyond what is allowed", configured(max__message__bytes=2147483648),
     "spec.config.max.message.bytes: Invalid value: 2147483648: spec.config.max.message.bytes in body should be less "
     "than or equal to 2147483647"),
    ("nothing where a number belongs", configured(retention__ms=None),
     'spec.config.retention.ms: Invalid value: "null"'),
    ("a word that is none of the known ones", configured(compression__type="brotli"),
     'spec.config.compression.type: Unsupported value: "brotli": supported values: "uncompressed", "zstd", "lz4", '
     '"snappy", "gzip", "producer"'),
    ("an item that is none of the known ones", configured(cleanup__policy="delete,shrink"),
     'spec.config.cleanup.policy: Invalid value: "delete,shrink": spec.config.cleanup.policy in body should match '
     "'^((compact|delete)(, *(compact|delete))*)?$'"),
    ("a list where a text belongs", configured(cleanup__policy=["delete", "compact"]),
     "ValidationError(Topic.spec.config.cleanup.policy): invalid type for "
     'dev.taffrail.v1alpha1.Topic.spec.config.cleanup.policy: got "array", expected "string"'),
    ("a float where a decimal text belongs", configured(min__cleanable__dirty__ratio=0.5),
     ".spec.config.min.cleanable.dirty.ratio: expected string, got &value.valueUnstructured{Value:0.5}"),
    ("a topic named ..", topic("bad", topicName=".."),
     'spec.topicName: Invalid value: "string": topicName cannot be . or ..'),
    ("a topic named .", topic("bad", topicName="."),
     'spec.topicName: Invalid value: "string": topicName cannot be . or ..'),
    ("a topic name with a slash", topic("bad", topicName="a/b"),
     'spec.topicName: Invalid value: "a/b": spec.topicName in body should match \'^[a-zA-Z0-9._-]+$\''),
    ("a topic name of 250 characters", topic("bad", topicName=LONG),
     "spec.topicName: Too long: may not be more than 249 bytes"),
    ("an empty topic name", topic("bad", topicName=""),
     'spec.topicName: Invalid value: "": spec.topicName in body should be at least 1 chars long'),
    ("an unknown way to manage", topic("bad", management="Sometimes"),
     'spec.management: Unsupported value: "Sometimes": supported values: "Managed", "Observe"'),
    ("an unknown policy of deletion", topic("bad", deletionPolicy="Orphan"),
     'spec.deletionPolicy: Unsupported value: "Orphan": supported values: "Retain", "Delete"'),
    ("a partition on no broker", topic("bad", assignment=[{"partition": 0, "brokers": []}]),
     "spec.assignment[0].brokers: Invalid value: 0: spec.assignment[0].brokers in body should have at least 1 items"),
    ("a deadline that is no time", topic("bad", deleteDeadline="tomorrow"),
     'spec.deleteDeadline: Invalid value: "tomorrow": spec.deleteDeadline in body must be of type date-time: '
     '"tomorrow"'),
    # Clusters
    ("no controllers", cluster("bad", controllers={"replicas": 0}),
     'spec.controllers.replicas: Invalid value: "integer": controllers.replicas must be 1, 3 or 5'),
    ("two controllers", cluster("bad", controllers={"replicas": 2}),
     'spec.controllers.replicas: Invalid value: "integer": controllers.replicas must be 1, 3 or 5'),
    ("four controllers", cluster("bad", controllers={"replicas": 4}),
     'spec.controllers.replicas: Invalid value: "integer": controllers.replicas must be 1, 3 or 5'),
    ("brokers below none", cluster("bad", brokers={"replicas": -1}),
     "spec.brokers.replicas: Invalid value: -1: spec.brokers.replicas in body should be greater than or equal to 0"),
    ("a disk without a unit", disk("10"),
     'spec.brokers.storage.size: Invalid value: "": a disk of less than 64Mi holds no log'),
    ("a disk whose size is no size", disk("ten gigabytes"),
     'spec.brokers.storage.size: Invalid value: "": not a quantity such as 10Gi'),
    ("several volumes", cluster("bad", brokers={"storage": {"volumes": [{"id": 0, "size": "1Gi"}]}}),
     'spec.brokers.storage.volumes: Invalid value: "array": several volumes a broker: not yet'),
    ("both ways to know zones", cluster("bad", brokers={"rack": {"zones": ["a"], "topologyKey": "zone"}}),
     'spec.brokers.rack: Invalid value: "object": give either rack.zones or rack.topologyKey'),
    ("no way to know zones", cluster("bad", brokers={"rack": {}}),
     'spec.brokers.rack: Invalid value: "object": give either rack.zones or rack.topologyKey'),
    ("an unknown type of listener", listening({"name": "a", "port": 9092, "type": "Ingress"}),
     'spec.listeners[0].type: Unsupported value: "Ingress": supported values: "Internal", "NodePort", "LoadBalancer"'),
    ("two listeners of one name", listening({"name": "a", "port": 9092}, {"name": "a", "port": 9094}),
     '.spec.listeners: duplicate entries for key [name="a"]'),
    ("two listeners of one port", listening({"name": "a", "port": 9092}, {"name": "b", "port": 9092}),
     'spec.listeners: Invalid value: "array": two listeners cannot have the same port'),
    ("a port beyond all ports", listening({"name": "a", "port": 65536}),
     "spec.listeners[0].port: Invalid value: 65536: spec.listeners[0].port in body should be less than or equal to "
     "65535"),
    ("a listener's name with capitals", listening({"name": "External", "port": 9092}),
     'spec.listeners[0].name: Invalid value: "External": spec.listeners[0].name in body should match \'^[a-z0-9]+$\''),
    ("TLS", listening({"name": "a", "port": 9092, "tls": True}),
     'spec.listeners[0].tls: Invalid value: "boolean": TLS: not yet'),
    ("authentication", listening({"name": "a", "port": 9092, "auth": "ScramSha512"}),
     'spec.listeners[0].auth: Invalid value: "object": authentication: not yet'),
    ("an address that stands for all", listening({"name": "a", "port": 9092, "advertised": {"host": "0.0.0.0"}}),
     'spec.listeners[0].advertised.host: Invalid value: "string": nobody can connect to an address that stands for all'),
    (
        "one address for three brokers",
        cluster("bad", brokers={"replicas": 3}, listeners=[{"name": "a", "port": 9092, "advertised": {"host": "kafka.example.com"}}]),
     'spec: Invalid value: "object": listeners[].advertised needs {id} in host or port, as each broker has an address '
     "of its own"),
    ("fewer replicas by default than have to be in sync",
     cluster("bad", config={"default.replication.factor": 1, "min.insync.replicas": 2}),
     'spec: Invalid value: "object": config[\'default.replication.factor\'] must be at or over '
     "config['min.insync.replicas']"),
    ("an unknown setting of brokers", cluster("bad", config={"log.retention.weeks": 1}),
     'ValidationError(Cluster.spec.config): unknown field "log.retention.weeks"'),
    ("a setting that other fields give", cluster("bad", config={"node.id": 1}),
     'ValidationError(Cluster.spec.config): unknown field "node.id"'),
    ("an unknown reason for a window", cluster("bad", rollout={"windows": [{"cron": "0 2 * * *", "duration": "2h", "reasons": ["Fun"]}]}),
     'spec.rollout.windows[0].reasons[0]: Unsupported value: "Fun": supported values: "Certificate", "Version", '
     '"Config", "OperatorUpgrade", "Rebalance", "Restart"'),
    ("a window of no known length", cluster("bad", rollout={"windows": [{"cron": "0 2 * * *", "duration": "two hours"}]}),
     'spec.rollout.windows[0].duration: Invalid value: "two hours": spec.rollout.windows[0].duration in body should '
     "match '^([0-9]+h)?([0-9]+m)?$'"),
    ("an unknown state of life", cluster("bad", lifecycle="Paused"),
     'spec.lifecycle: Unsupported value: "Paused": supported values: "Running", "Stopped"'),
    # Consumer groups
    ("an empty group id", consumer_group("bad", groupId=""),
     'spec.groupId: Invalid value: "": spec.groupId in body should be at least 1 chars long'),
    ("a reset without an id", resetting(to="Earliest"),
     "spec.reset.requestId: Required value"),
    ("a reset to nowhere", resetting(requestId="1"),
     "spec.reset.to: Required value"),
    ("a reset to an unknown place", resetting(requestId="1", to="Newest"),
     'spec.reset.to: Unsupported value: "Newest": supported values: "Earliest", "Latest", "Timestamp", "Offset", '
     '"ShiftBy"'),
    ("a reset to an offset without one", resetting(requestId="1", to="Offset"),
     'spec.reset: Invalid value: "object": to: Offset needs offset, and only it does'),
    ("a reset to a time without one", resetting(requestId="1", to="Timestamp"),
     'spec.reset: Invalid value: "object": to: Timestamp needs timestamp, and only it does'),
    ("a reset by a shift without one", resetting(requestId="1", to="ShiftBy"),
     'spec.reset: Invalid value: "object": to: ShiftBy needs shiftBy, and only it does'),
    ("a reset to the start and to an offset", resetting(requestId="1", to="Earliest", offset=5),
     'spec.reset: Invalid value: "object": to: Offset needs offset, and only it does'),
    ("a reset below the first offset", resetting(requestId="1", to="Offset", offset=-1),
     "spec.reset.offset: Invalid value: -1: spec.reset.offset in body should be greater than or equal to 0"),
    ("parking nothing", resetting(requestId="1", to="Earliest", ifActive="Park"),
     'spec.reset: Invalid value: "object": ifActive: Park needs workloadRef'),
    ("a warning after the alarm", consumer_group("bad", lag={"warn": 10, "critical": 5}),
     'spec.lag: Invalid value: "object": lag.warn must be at or under lag.critical'),
    ("a start without topics", beginning("Earliest", topics=[]),
     'spec: Invalid value: "object": initialOffsets needs topics: a group that was never used has none'),
    ("a start of a group that is only watched", beginning("Earliest", management="Observe"),
     'spec: Invalid value: "object": initialOffsets needs management: Managed'),
    ("a start at a time without one", beginning("Timestamp"),
     'spec.initialOffsets: Invalid value: "object": from: Timestamp needs timestamp, and only it does'),
    ("a session shorter than a second", consumer_group("bad", groupConfig={"sessionTimeoutMs": 10}),
     "spec.groupConfig.sessionTimeoutMs: Invalid value: 10: spec.groupConfig.sessionTimeoutMs in body should be "
     "greater than or equal to 1000"),
]

# What it is, the resource that exists, what it is changed to, what is said.
CHANGED = [
    ("fewer partitions", topic("was", partitions=6), topic("was", partitions=5),
     'spec.partitions: Invalid value: "integer": partitions cannot be taken away'),
    ("another topic name", topic("was", topicName="Orders"), topic("was", topicName="Payments"),
     'spec.topicName: Invalid value: "string": topicName cannot be changed'),
    ("a topic name given later", topic("was"), topic("was", topicName="Orders"),
     'spec: Invalid value: "object": topicName cannot be changed'),
    ("a topic name taken away", topic("was", topicName="Orders"), topic("was"),
     'spec: Invalid value: "object": topicName cannot be changed'),
    ("another cluster of a topic", topic("was"), topic("was", cluster="other"),
     'spec.clusterRef: Invalid value: "object": clusterRef cannot be changed'),
    ("a smaller disk", disk("10Gi"), disk("5Gi"),
     'spec.brokers.storage.size: Invalid value: "": storage cannot shrink'),
    ("a smaller disk of controllers", controllers_disk("2Gi"), controllers_disk("1Gi"),
     'spec.controllers.storage.size: Invalid value: "": storage cannot shrink'),
    ("another group id", consumer_group("was", groupId="billing"), consumer_group("was", groupId="shipping"),
     'spec.groupId: Invalid value: "string": groupId cannot be changed'),
    ("another cluster of a group", consumer_group("was"), consumer_group("was", cluster="other"),
     'spec.clusterRef: Invalid value: "object": clusterRef cannot be changed'),
    ("another reset of the same id", resetting(requestId="1", to="Earliest"), resetting(requestId="1", to="Latest"),
     'spec: Invalid value: "object": another reset needs another requestId'),
]

# What only the brokers can judge, and what may be left empty, is taken.
TAKEN = [
    ("a topic of defaults", topic("good")),
    ("empty fields", resource("Topic", "good", {"clusterRef": {"name": "log"}, "partitions": None, "replicas": None})),
    ("numbers in quotes", topic("good", replicas=3, config={"retention.ms": "60000", "min.insync.replicas": "2"})),
    ("more replicas than there may be brokers", topic("good", replicas=32)),
    ("a cluster of defaults", cluster("good")),
    ("a cluster with everything that three brokers want",
     cluster("good", brokers={"replicas": 3, "storage": {"size": "10Gi"}, "rack": {"zones": ["a", "b", "c"]}},
             controllers={"replicas": 3}, config={"default.replication.factor": 3, "min.insync.replicas": 2},
             listeners=[{"name": "a", "port": 9092}, NODE_PORT])),
    ("a group of defaults", consumer_group("good")),
    ("a reset that parks", resetting(requestId="1", to="Earliest", ifActive="Park", workloadRef=WORKLOAD)),
]
