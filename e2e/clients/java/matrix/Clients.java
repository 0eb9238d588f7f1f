package matrix;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Makes the producers and consumers of the scenario, and does what needs an admin. Compiled against each version. */
final class Clients implements AutoCloseable {

    static final int PARTITIONS = 3;
    static final long EARLIEST = -2;
    static final long LATEST = -1;
    static final Map<String, String> ASSIGNORS = Map.of(
        "range",
        "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky",
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    );

    private static final long TIMEOUT_S = 15;
    private final String bootstrap;
    private final AdminClient admin;

    Clients(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = AdminClient.create(properties());
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    static boolean hasAssignor(String name) {
        try {
            Class.forName(ASSIGNORS.get(name));
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    void createTopic(String topic) throws Exception {
        String replicas = System.getenv().getOrDefault("REPLICAS", "1");
        get(admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, Short.parseShort(replicas)))).all());
    }

    void deleteTopic(String topic) throws Exception {
        get(admin.deleteTopics(List.of(topic)).all());
    }

    Set<String> topics() throws Exception {
        return get(admin.listTopics().names());
    }

    /** Sends all and waits for every acknowledgement. */
    void produce(String topic, List<Rec> records, String acks, String codec, boolean idempotent) throws Exception {
        Properties properties = properties();
        properties.put("acks", acks);
        properties.put("compression.type", codec);
        properties.put("enable.idempotence", String.valueOf(idempotent));
        properties.put("linger.ms", "5");
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            List<Future<?>> sent = new ArrayList<>();
            for (Rec record : records) sent.add(producer.send(record.to(topic)));
            producer.flush();
            for (Future<?> one : sent) get(one);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, String> more) {
        Properties properties = properties();
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", "100");
        properties.putAll(more);
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<TopicPartition> partitions(String topic, Collection<Integer> ids) {
        return ids.stream().map(p -> new TopicPartition(topic, p)).collect(Collectors.toList());
    }

    /** Where each partition stands at EARLIEST, LATEST or a timestamp in ms. */
    Map<Integer, Long> offsets(String topic, long at) {
        List<TopicPartition> all = partitions(topic, List.of(0, 1, 2));
        Map<Integer, Long> found = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            if (at == EARLIEST) {
                consumer.beginningOffsets(all).forEach((p, offset) -> found.put(p.partition(), offset));
            } else if (at == LATEST) {
                consumer.endOffsets(all).forEach((p, offset) -> found.put(p.partition(), offset));
            } else {
                Map<TopicPartition, Long> times = all.stream().collect(Collectors.toMap(p -> p, p -> at));
                consumer.offsetsForTimes(times).forEach((p, offset) -> found.put(p.partition(), offset == null ? null : offset.offset()));
            }
        }
        return found;
    }

    KafkaConsumer<byte[], byte[]> reader(String topic, Map<Integer, Long> offsets) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of());
        consumer.assign(partitions(topic, offsets.keySet()));
        offsets.forEach((p, offset) -> consumer.seek(new TopicPartition(topic, p), offset));
        return consumer;
    }

    KafkaConsumer<byte[], byte[]> member(String group, String topic, String assignor) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of(
            "group.id", group,
            "partition.assignment.strategy", ASSIGNORS.get(assignor),
            "heartbeat.interval.ms", "300",
            "session.timeout.ms", "10000"
        ));
        consumer.subscribe(Collections.singletonList(topic));
        return consumer;
    }

    @SuppressWarnings({ "deprecation", "removal" }) // what newer versions have in its place, older ones lack
    Set<String> groups() throws Exception {
        return get(admin.listConsumerGroups().all())
            .stream()
            .map(g -> g.groupId())
            .collect(Collectors.toCollection(TreeSet::new));
    }

    @SuppressWarnings({ "deprecation", "removal" })
    String describeGroup(String group) throws Exception {
        ConsumerGroupDescription described = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
        return described.state() + " with " + described.members().size() + " members";
    }

    void deleteGroups(String... groups) throws Exception {
        get(admin.deleteConsumerGroups(Arrays.asList(groups)).all());
    }

    @Override
    public void close() {
        admin.close();
    }
}
