"""What the console is to show, and ways to it: clients that work, questions without a browser, a proxy under a prefix."""

import contextlib
import http.client
import http.server
import json
import threading
import urllib.parse

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS, QUIET, TRAFFIC = "orders", "audit.quiet", "clicks"
# Of the topic that nothing writes to while tests look.
QUIET_RECORDS = 40
SLOW, QUICK = "billing", "shipping"
DELIVERED_S = 30


class Workload:
    """Topics with known content, and clients that write and read all the time."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.write, self.keep_up, self.fall_behind)]

    def start(self):
        self.create(ORDERS, 6)
        self.create(TRAFFIC, 12)
        self.create(QUIET, 1)
        self.produce(QUIET, [order(number) for number in range(QUIET_RECORDS)])
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(30)

    def create(self, name, partitions, replicas=3):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, replication_factor=replicas)])[name].result(60)

    def produce(self, topic, records, partition=0):
        """Writes records (`key`, `value`, `headers`, and `timestamp` in milliseconds), and waits until they are there."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        failed = []
        for record in records:
            producer.produce(topic, partition=partition, on_delivery=lambda error, _: error and failed.append(error), **record)
        assert producer.flush(DELIVERED_S) == 0 and not failed, failed

    def consumer(self, group, **settings):
        own = {"bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer({**own, **settings})

    def commit(self, group, topic, offset, **settings):
        consumer = self.consumer(group, **settings)
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()

    def write(self):
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        number = 0
        while not self.ends.wait(0.05):
            for _ in range(5):
                number += 1
                producer.produce(ORDERS, **order(number))
                producer.produce(TRAFFIC, key=str(number % 100), value=b"/basket?step=%d" % number)
            producer.poll(0)
        producer.flush(10)

    def keep_up(self):
        with contextlib.closing(self.consumer(QUICK, **{"client.id": "shipping-1"})) as consumer:
            consumer.subscribe([ORDERS])
            while not self.ends.is_set():
                if consumer.consume(500, timeout=0.2):
                    consumer.commit(asynchronous=False)

    def fall_behind(self):
        with contextlib.closing(self.consumer(SLOW, **{"client.id": "billing-1"})) as consumer:
            consumer.subscribe([ORDERS])
            while not self.ends.wait(0.5):
                if consumer.consume(20, timeout=1):
                    consumer.commit(asynchronous=False)


def order(number):
    value = {"order": number, "customer": f"c-{number % 17:04}", "total": 12.5 + number, "currency": "EUR", "lines": [{"sku": "tea", "count": 2}]}
    headers = [("trace", f"{number:032x}"), ("source", "shop")]
    return {"key": f"order-{number}", "value": json.dumps(value), "headers": headers}


def ask(address, path, method="GET", headers=None):
    """Asks without a browser; gives the status, the headers and the body."""
    url = urllib.parse.urlsplit(address)
    with contextlib.closing(http.client.HTTPConnection(url.hostname, url.port, timeout=30)) as connection:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


class Proxy:
    """A proxy that serves the console under a prefix, and nothing else, as one before several services does."""

    def __init__(self, target, prefix):
        self.prefix, outside = prefix, []
        self.outside = outside

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if not self.path.startswith(prefix):
                    outside.append(self.path)
                    self.send_error(404)
                    return
                passed = {name: value for name, value in self.headers.items() if name.lower().startswith(("sec-", "if-"))}
                status, headers, body = ask(target, "/" + self.path.removeprefix(prefix), headers=passed)
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "date", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}{prefix.rstrip('/')}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
