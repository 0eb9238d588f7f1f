package matrix;

import static matrix.Clients.EARLIEST;
import static matrix.Clients.LATEST;
import static matrix.Clients.PARTITIONS;
import static matrix.Rec.bytes;
import static matrix.Rec.header;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.function.LongUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.header.Header;

/** The scenario of the client matrix (../../README.md) for Kafka's Java clients: {@code matrix.Scenario BOOTSTRAP PREFIX}. */
public final class Scenario {

    static final long STEP_TIMEOUT_MS = 15_000;

    final Clients clients;
    final String topic;
    /** Groups made so far; each has a topic of its own name. */
    final List<String> groups = new ArrayList<>();
    /** What the topic must hold, in order of offsets, for each partition. */
    private final List<List<Rec>> expected = IntStream.range(0, PARTITIONS)
        .mapToObj(p -> (List<Rec>) new ArrayList<Rec>())
        .collect(Collectors.toList());
    /** Every record has a time of its own, so that a search by timestamp has one right answer. */
    private long clock = System.currentTimeMillis() - 3_000_000;
    private boolean failed;

    private Scenario(Clients clients, String topic) {
        this.clients = clients;
        this.topic = topic;
    }

    static void check(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    /** Calls the condition until it says yes. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        for (long deadline = System.currentTimeMillis() + STEP_TIMEOUT_MS; System.currentTimeMillis() < deadline; Thread.sleep(20)) {
            if (condition.call()) return;
        }
        throw new AssertionError(what + ": not within " + STEP_TIMEOUT_MS / 1000 + " s");
    }

    Rec record(int partition, byte[] key, byte[] value, Header... headers) {
        clock += 1000;
        return new Rec(partition, key, value, Arrays.asList(headers), clock);
    }

    private Rec record(int partition, String key, String value, Header... headers) {
        return record(partition, bytes(key), bytes(value), headers);
    }

    /** Sends, then reads back from the first new offset, so that a fault shows in the step that made it. */
    private void produce(List<Rec> records, String acks, String codec, boolean idempotent) throws Exception {
        Map<Integer, Long> starts = new HashMap<>();
        for (Rec r : records) starts.putIfAbsent(r.partition(), (long) expected.get(r.partition()).size());
        clients.produce(topic, records, acks, codec, idempotent);
        for (Rec r : records) expected.get(r.partition()).add(r);
        readAndCompare(starts);
    }

    private void produce(Rec... records) throws Exception {
        produce(Arrays.asList(records), "all", "none", false);
    }

    /** Reads from the starts to the expected end of those partitions; offsets must be dense, every byte equal. */
    private void readAndCompare(Map<Integer, Long> starts) throws Exception {
        Map<Integer, Long> position = new HashMap<>(starts);
        try (KafkaConsumer<byte[], byte[]> reader = clients.reader(topic, starts)) {
            until("reading back", () -> {
                for (ConsumerRecord<byte[], byte[]> one : reader.poll(Duration.ofMillis(200))) {
                    int p = one.partition();
                    Rec got = Rec.of(one);
                    check(one.offset() == position.get(p), "partition " + p + ": offset " + one.offset() + ", not " + position.get(p));
                    check(one.offset() < expected.get(p).size(), "more than was produced: " + got);
                    Rec want = expected.get(p).get((int) one.offset());
                    check(got.same(want), "at offset " + one.offset() + ": got " + got + ", produced " + want);
                    position.put(p, one.offset() + 1);
                }
                return position.entrySet().stream().allMatch(e -> e.getValue() == expected.get(e.getKey()).size());
            });
        }
    }

    private void createTopic() throws Exception {
        clients.createTopic(topic);
        until("the created topic is listed", () -> clients.topics().contains(topic));
    }

    private void produceMany(int count, String name, String acks, boolean idempotent) throws Exception {
        List<Rec> records = new ArrayList<>();
        for (int i = 0; i < count; i++) records.add(record(i % PARTITIONS, "key-" + i, name + " value " + i));
        produce(records, acks, "none", idempotent);
    }

    private void codec(String codec) throws Exception {
        List<Rec> records = new ArrayList<>();
        for (int i = 0; i < 200; i++) records.add(record(1, "k" + i, (codec + " " + i + " ").repeat(50)));
        produce(records, "all", codec, false);
    }

    private void headers() throws Exception {
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) all[i] = (byte) i;
        produce(
            record(0, "one", "v", header("a", bytes("1"))),
            record(0, "several", "v", header("empty", bytes("")), header("bytes", all))
        );
    }

    private void headerNull() throws Exception {
        produce(record(0, "null header", "v", header("null", null), header("empty", bytes(""))));
    }

    private void headerSameKey() throws Exception {
        produce(record(0, "same key", "v", header("x", bytes("first")), header("x", bytes("second")), header("x", bytes("first"))));
    }

    private void nulls() throws Exception {
        produce(record(2, null, "null key"), record(2, "null value", null), record(2, "empty value", ""), record(2, "", "empty key"));
    }

    private void nullRecord() throws Exception {
        produce(record(2, (String) null, null));
    }

    private void large() throws Exception {
        Random noise = new Random(7);
        List<Rec> records = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) {
            byte[] value = new byte[900 * 1024];
            noise.nextBytes(value);
            records.add(record(p, bytes("large"), value));
        }
        produce(records, "all", "none", false);
    }

    /** Looks up offsets at a time, compares them, and reads from there. */
    private void readFrom(long at, LongUnaryOperator want) throws Exception {
        Map<Integer, Long> found = clients.offsets(topic, at);
        for (int p = 0; p < PARTITIONS; p++) check(
            found.get(p) != null && found.get(p) == want.applyAsLong(p),
            "offsets at " + at + ": got " + found + ", expected " + want.applyAsLong(p) + " in partition " + p
        );
        readAndCompare(found);
    }

    private void consumeEnd() throws Exception {
        Map<Integer, Long> ends = clients.offsets(topic, LATEST);
        for (int p = 0; p < PARTITIONS; p++) check(ends.get(p) == expected.get(p).size(), "latest offsets " + ends);
        try (KafkaConsumer<byte[], byte[]> reader = clients.reader(topic, ends)) {
            check(reader.poll(Duration.ofMillis(200)).isEmpty(), "records past the end");
        }
        produce(record(0, "end", "the only one"), record(1, "end", "the only one"), record(2, "end", "the only one"));
    }

    private void consumeTimestamp() throws Exception {
        // A time between two records of partition 1, in the middle of its compressed batches.
        long middle =
            expected
                .get(1)
                .get(expected.get(1).size() / 2)
                .timestamp() - 500;
        readFrom(middle, p ->
            expected
                .get((int) p)
                .stream()
                .takeWhile(r -> r.timestamp() < middle)
                .count()
        );
    }

    private void deleteGroup() throws Exception {
        clients.deleteGroups(groups.toArray(new String[0]));
        until("deleted groups are listed no more", () -> clients.groups().stream().noneMatch(groups::contains));
    }

    private void deleteTopic() throws Exception {
        List<String> topics = new ArrayList<>(groups);
        topics.add(topic);
        for (String one : topics) clients.deleteTopic(one);
        until("deleted topics are listed no more", () -> clients.topics().stream().noneMatch(topics::contains));
    }

    /** A step's work, which may throw anything. */
    interface Action {
        void run() throws Exception;
    }

    private void step(String name, Action action) {
        long began = System.nanoTime();
        try {
            action.run();
            System.out.printf("step %s ok %.2f s%n", name, (System.nanoTime() - began) / 1e9);
        } catch (Exception | AssertionError e) {
            failed = true;
            System.out.println("step " + name + " FAIL " + e.toString().replace('\n', ' '));
        }
    }

    private boolean run() {
        GroupSteps group = new GroupSteps(this);
        step("create-topic", this::createTopic);
        // acks=0 last: a broker may still be learning of a new topic, and what it refuses then nobody sends again.
        for (String acks : List.of("all", "1", "0")) step("produce-acks-" + acks, () -> produceMany(30, "acks " + acks, acks, false));
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) step("codec-" + codec, () -> codec(codec));
        step("headers", this::headers);
        step("header-null", this::headerNull);
        step("header-same-key", this::headerSameKey);
        step("nulls", this::nulls);
        step("null-record", this::nullRecord);
        step("large", this::large);
        step("idempotent", () -> produceMany(300, "idempotent", "all", true));
        step("consume-start", () -> readFrom(EARLIEST, p -> 0));
        step("consume-end", this::consumeEnd);
        step("consume-timestamp", this::consumeTimestamp);
        step("group-eager", () -> group.comeAndGo("range"));
        if (Clients.hasAssignor("cooperative-sticky")) step("group-cooperative", () -> group.comeAndGo("cooperative-sticky"));
        else System.out.println("step group-cooperative n/a this version has no cooperative assignor");
        step("list-groups", () -> until(groups + " are listed", () -> clients.groups().containsAll(groups)));
        step("describe-group", group::describe);
        step("delete-group", this::deleteGroup);
        step("delete-topic", this::deleteTopic);
        return !failed;
    }

    public static void main(String[] args) {
        boolean passed;
        try (Clients clients = new Clients(args[0])) {
            passed = new Scenario(clients, args[1]).run();
        }
        System.exit(passed ? 0 : 1);
    }
}
