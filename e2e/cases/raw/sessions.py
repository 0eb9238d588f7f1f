"""An incremental fetch session (KIP-227), by topic ids, as a consumer keeps one."""

from .client import MAX_BYTES, fetch_partition

FETCH_BY_ID = 17
FULL_EPOCH, NO_SESSION = 0, 0


class FetchSession:
    """Follows the session id and epoch; `fetch` sends only what it is given."""

    def __init__(self, connection, version=FETCH_BY_ID):
        self.connection = connection
        self.version = version
        self.id = NO_SESSION
        self.epoch = FULL_EPOCH

    def fetch(self, wanted=(), forget=(), max_wait_ms=0):
        """`wanted`: (topic id, partition, offset) to add or change; `forget`: (topic id, partition). The whole answer."""
        answer = self.connection.call("Fetch", self.version, **self.fields(wanted, forget, max_wait_ms))
        if answer.error_code == 0:
            self.id = answer.session_id
            self.epoch += 1
        return answer

    def fields(self, wanted, forget, max_wait_ms):
        topics = [{"topic_id": t, "partitions": [fetch_partition(p, offset)]} for t, p, offset in wanted]
        return {
            "max_wait_ms": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": MAX_BYTES,
            "session_id": self.id,
            "session_epoch": self.epoch,
            "topics": topics,
            "forgotten_topics_data": [{"topic_id": t, "partitions": [p]} for t, p in forget],
        }


def partitions_in(answer):
    """{(topic id, partition): entry} of everything that the answer lists."""
    return {(t.topic_id, p.partition_index): p for t in answer.responses for p in t.partitions}
