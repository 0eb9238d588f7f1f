package matrix;

import static matrix.Clients.PARTITIONS;
import static matrix.Rec.bytes;
import static matrix.Scenario.check;
import static matrix.Scenario.until;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** The steps about consumer groups. */
final class GroupSteps {

    private static final Duration POLL = Duration.ofMillis(50);
    private final Scenario scenario;
    private int serial;

    GroupSteps(Scenario scenario) {
        this.scenario = scenario;
    }

    /** Produces records over all partitions; gives their values, for collect. */
    private Set<String> send(String topic, int count) throws Exception {
        List<Rec> records = new ArrayList<>();
        Set<String> values = new HashSet<>();
        for (int i = 0; i < count; i++) {
            String value = topic + " " + serial++;
            values.add(value);
            records.add(scenario.record(i % PARTITIONS, null, bytes(value)));
        }
        scenario.clients.produce(topic, records, "all", "none", false);
        return values;
    }

    /** Polls the members until all these values have come, each of them once. */
    private void collect(Set<String> values, List<KafkaConsumer<byte[], byte[]>> members) throws Exception {
        Set<String> left = new HashSet<>(values);
        until(values.size() + " records for " + members.size() + " members", () -> {
            for (KafkaConsumer<byte[], byte[]> member : members) {
                for (ConsumerRecord<byte[], byte[]> one : member.poll(POLL)) {
                    check(
                        left.remove(new String(one.value(), StandardCharsets.UTF_8)),
                        "came twice, or is before the committed offset: " + Rec.of(one)
                    );
                }
            }
            return left.isEmpty();
        });
    }

    /** Waits until each member owns partitions and together they own each one once. */
    private void settle(List<KafkaConsumer<byte[], byte[]>> members) throws Exception {
        until(members.size() + " members own the partitions", () -> {
            List<Integer> owned = new ArrayList<>();
            boolean every = true;
            for (KafkaConsumer<byte[], byte[]> member : members) {
                check(member.poll(POLL).isEmpty(), "a record, though all are read and committed");
                every &= !member.assignment().isEmpty();
                member.assignment().forEach(p -> owned.add(p.partition()));
            }
            return (
                every &&
                owned
                    .stream()
                    .sorted()
                    .collect(Collectors.toList())
                    .equals(IntStream.range(0, PARTITIONS).boxed().collect(Collectors.toList()))
            );
        });
    }

    /** Two members share the partitions, one leaves, a later member resumes at the committed offsets. */
    void comeAndGo(String assignor) throws Exception {
        String name = scenario.topic + "-" + assignor;
        scenario.clients.createTopic(name);
        scenario.groups.add(name);
        Set<String> uncommitted;
        try (KafkaConsumer<byte[], byte[]> first = scenario.clients.member(name, name, assignor)) {
            try (KafkaConsumer<byte[], byte[]> second = scenario.clients.member(name, name, assignor)) {
                settle(List.of(first, second));
                collect(send(name, 30), List.of(first, second));
                first.commitSync();
                second.commitSync();
            }
            settle(List.of(first));
            collect(send(name, 30), List.of(first));
            first.commitSync();
            uncommitted = send(name, 9);
            collect(uncommitted, List.of(first));
        }
        try (KafkaConsumer<byte[], byte[]> third = scenario.clients.member(name, name, assignor)) {
            collect(uncommitted, List.of(third));
            third.commitSync();
        }
    }

    void describe() throws Exception {
        String name = scenario.groups.get(0);
        described(name, "Empty with 0 members");
        try (KafkaConsumer<byte[], byte[]> only = scenario.clients.member(name, name, "range")) {
            settle(List.of(only));
            described(name, "Stable with 1 members");
        }
        described(name, "Empty with 0 members");
    }

    private void described(String name, String want) throws Exception {
        until("described as " + want, () -> scenario.clients.describeGroup(name).equals(want));
    }
}
