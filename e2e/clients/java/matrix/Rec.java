package matrix;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** A record as it was sent, or as it came back. Null keys, values and header values are nulls on the wire. */
record Rec(int partition, byte[] key, byte[] value, List<Header> headers, long timestamp) {
    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static Header header(String key, byte[] value) {
        return new RecordHeader(key, value);
    }

    static Rec of(ConsumerRecord<byte[], byte[]> from) {
        List<Header> headers = new ArrayList<>();
        from.headers().forEach(h -> headers.add(new RecordHeader(h.key(), h.value())));
        return new Rec(from.partition(), from.key(), from.value(), headers, from.timestamp());
    }

    ProducerRecord<byte[], byte[]> to(String topic) {
        return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
    }

    boolean same(Rec other) {
        return (
            partition == other.partition &&
            timestamp == other.timestamp &&
            Arrays.equals(key, other.key) &&
            Arrays.equals(value, other.value) &&
            headers.equals(other.headers)
        );
    }

    @Override
    public String toString() {
        String start = value == null ? "null" : new String(value, 0, Math.min(24, value.length), StandardCharsets.UTF_8);
        return (
            partition +
            " key=" +
            (key == null ? "null" : new String(key, StandardCharsets.UTF_8)) +
            " value=" +
            start +
            " (" +
            (value == null ? 0 : value.length) +
            " bytes) headers=" +
            headers +
            " ts=" +
            timestamp
        );
    }
}
