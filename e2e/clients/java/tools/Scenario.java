package tools;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Kafka's own command-line tools, used as an administrator does: {@code tools.Scenario BOOTSTRAP PREFIX}. */
public final class Scenario {
    private final String bootstrap;
    private final String topic;
    private final String group;
    private boolean failed;

    private Scenario(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.topic = prefix;
        this.group = prefix + "-group";
    }

    /** Runs a tool that takes --bootstrap-server. */
    private String tool(String name, String... args) throws Exception {
        return withInput(name, "", args);
    }

    private String withInput(String name, String input, String... args) throws Exception {
        List<String> all = new ArrayList<>(List.of("--bootstrap-server", bootstrap));
        all.addAll(Arrays.asList(args));
        return Tool.run(name, input, all.toArray(new String[0]));
    }

    private static String shorten(String output) {
        return output.length() <= 1200 ? output : output.substring(0, 600) + " ... " + output.substring(output.length() - 600);
    }

    private static void has(String output, String pattern) {
        if (!Pattern.compile(pattern, Pattern.MULTILINE).matcher(output).find()) throw new AssertionError("no /" + pattern + "/ in: " + shorten(output));
    }

    private static void hasNot(String output, String pattern) {
        if (Pattern.compile(pattern, Pattern.MULTILINE).matcher(output).find()) throw new AssertionError("/" + pattern + "/ in: " + shorten(output));
    }

    /** Repeats what needs a moment, as a broker applies a configuration after the controller has answered. */
    private static void eventually(Action claim) throws Exception {
        for (long deadline = System.currentTimeMillis() + 10_000; ; Thread.sleep(50)) {
            try {
                claim.run();
                return;
            } catch (AssertionError e) {
                if (System.currentTimeMillis() > deadline) throw e;
            }
        }
    }

    private String topics(String... args) throws Exception {
        return tool("TopicCommand", args);
    }

    private String consumerGroups(String... args) throws Exception {
        return tool("consumer.group.ConsumerGroupCommand", args);
    }

    private void createTopic() throws Exception {
        has(topics("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1", "--config", "max.message.bytes=2000000"), "Created topic " + topic);
        has(topics("--list"), "^" + topic + "$");
    }

    private void describeTopic() throws Exception {
        String described = topics("--describe", "--topic", topic);
        has(described, "Topic: " + topic + "\\s+TopicId: \\S{22}\\s+PartitionCount: 3\\s+ReplicationFactor: 1\\s+Configs: .*max.message.bytes=2000000");
        for (int p = 0; p < 3; p++) has(described, "Partition: " + p + "\\s+Leader: (\\d+)\\s+Replicas: \\1\\s+Isr: \\1\\b");
    }

    private void alterTopic() throws Exception {
        topics("--alter", "--topic", topic, "--partitions", "5");
        has(topics("--describe", "--topic", topic), "PartitionCount: 5");
    }

    private String configs(String... args) throws Exception {
        return tool("ConfigCommand", args);
    }

    private void topicConfigs() throws Exception {
        configs("--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=3600000,cleanup.policy=[compact,delete]");
        String described = configs("--describe", "--entity-type", "topics", "--entity-name", topic);
        has(described, "retention.ms=3600000 sensitive=false synonyms=\\{DYNAMIC_TOPIC_CONFIG:retention.ms=3600000");
        has(described, "cleanup.policy=compact,delete ");
        configs("--alter", "--entity-type", "topics", "--entity-name", topic, "--delete-config", "retention.ms,cleanup.policy");
        hasNot(configs("--describe", "--entity-type", "topics", "--entity-name", topic), "DYNAMIC_TOPIC_CONFIG:(retention.ms|cleanup.policy)");
        has(configs("--describe", "--all", "--entity-type", "topics", "--entity-name", topic), "retention.ms=604800000 sensitive=false synonyms=\\{");
    }

    private void brokerConfigs() throws Exception {
        Matcher id = Pattern.compile("\\(id: (\\d+) ").matcher(tool("BrokerApiVersionsCommand"));
        if (!id.find()) throw new AssertionError("no broker id");
        String broker = id.group(1);
        has(configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", broker), "log.retention.hours=168 ");
        configs("--alter", "--entity-type", "brokers", "--entity-name", broker, "--add-config", "message.max.bytes=1048000");
        eventually(() -> has(configs("--describe", "--entity-type", "brokers", "--entity-name", broker), "message.max.bytes=1048000 sensitive=false synonyms=\\{DYNAMIC_BROKER_CONFIG:message.max.bytes=1048000"));
        configs("--alter", "--entity-type", "brokers", "--entity-name", broker, "--delete-config", "message.max.bytes");
        eventually(() -> hasNot(configs("--describe", "--entity-type", "brokers", "--entity-name", broker), "DYNAMIC_BROKER_CONFIG:message.max.bytes"));
    }

    private void apiVersions() throws Exception {
        String said = tool("BrokerApiVersionsCommand");
        for (String key : List.of("Produce\\(0\\): 0 to 13", "Fetch\\(1\\): 4 to", "ListOffsets\\(2\\): 1 to", "Metadata\\(3\\): 0 to", "JoinGroup\\(11\\): 0 to", "DeleteRecords\\(21\\): 0 to")) has(said, key);
    }

    private void consoleRoundTrip() throws Exception {
        withInput("ConsoleProducer", "h:1|k1|v1\nNULL|k2|NULL\nh:1,h:2|NULL|v3\n", "--topic", topic, "--sync", "--reader-property", "parse.headers=true", "--reader-property", "parse.key=true",
            "--reader-property", "headers.delimiter=|", "--reader-property", "key.separator=|", "--reader-property", "null.marker=NULL");
        String[] print = {"--from-beginning", "--max-messages", "3", "--timeout-ms", "15000", "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
            "--formatter-property", "key.separator=|", "--formatter-property", "headers.separator=,", "--topic", topic, "--group", group};
        List<String> said = tool("consumer.ConsoleConsumer", print).lines().sorted().collect(Collectors.toList());
        List<String> want = List.of("NO_HEADERS|k2|null", "h:1|k1|v1", "h:1,h:2|null|v3");
        if (!said.equals(want.stream().sorted().collect(Collectors.toList()))) throw new AssertionError("console consumer: " + said);
        // Auto-commit on close: a second consumer of the group gets only what came since.
        String lines = IntStream.range(0, 500).mapToObj(i -> "line " + i).collect(Collectors.joining("\n"));
        withInput("ConsoleProducer", lines + "\n", "--topic", topic, "--compression-codec", "zstd");
        String again = tool("consumer.ConsoleConsumer", "--max-messages", "500", "--timeout-ms", "15000", "--topic", topic, "--group", group);
        if (again.lines().filter(l -> l.startsWith("line ")).distinct().count() != 500) throw new AssertionError("of 500 lines came " + again.lines().count());
    }

    private void verifiable() throws Exception {
        String sent = Tool.runAlone("VerifiableProducer", "--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "500", "--acks", "-1");
        has(sent, "\"name\":\"tool_data\",\"sent\":500,\"acked\":500");
        String read = Tool.runAlone("VerifiableConsumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group + "-verifiable", "--max-messages", "1003", "--reset-policy", "earliest");
        has(read, "\"name\":\"partitions_assigned\"");
        has(read, "\"success\":true");
        hasNot(read, "\"success\":false");
    }

    private void performance() throws Exception {
        has(tool("ProducerPerformance", "--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"), "5000 records sent, .* 99.9th");
        has(tool("ConsumerPerformance", "--topic", topic, "--group", group + "-perf", "--num-records", "5000", "--timeout", "15000"), "^\\d{4}-\\d\\d-\\d\\d ");
    }

    private void getOffsets() throws Exception {
        String said = tool("GetOffsetShell", "--topic", topic);
        long sum = said.lines().mapToLong(l -> Long.parseLong(l.substring(l.lastIndexOf(':') + 1))).sum();
        if (said.lines().count() != 5 || sum != 6003) throw new AssertionError("of 6003 records in 5 partitions: " + said);
        has(tool("GetOffsetShell", "--topic-partitions", topic + ":0", "--time", "earliest"), "^" + topic + ":0:0$");
    }

    private void groups() throws Exception {
        has(consumerGroups("--list"), "^" + group + "$");
        has(tool("GroupsCommand", "--list"), group + "\\s+Classic\\s+consumer");
        has(consumerGroups("--describe", "--group", group, "--state"), group + "\\s+.*\\s+Empty\\s+0");
        has(consumerGroups("--describe", "--group", group), group + "\\s+" + topic + "\\s+0\\s+\\d+\\s+\\d+\\s+\\d+\\s+-");
        consumerGroups("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute");
        for (int p = 0; p < 5; p++) has(consumerGroups("--describe", "--group", group), topic + "\\s+" + p + "\\s+(\\d+)\\s+\\1\\s+0\\s+-");
        consumerGroups("--reset-offsets", "--group", group, "--topic", topic + ":0", "--to-earliest", "--execute");
        has(consumerGroups("--describe", "--group", group), topic + "\\s+0\\s+0\\s+(\\d+)\\s+\\1\\s+-");
        has(consumerGroups("--delete-offsets", "--group", group, "--topic", topic + ":1"), topic + "\\s+1\\s+Successful");
        consumerGroups("--delete", "--group", group, "--group", group + "-verifiable", "--group", group + "-perf");
        hasNot(consumerGroups("--list"), "^" + group);
    }

    private void deleteRecords() throws Exception {
        Path file = Files.createTempFile("delete-records", ".json");
        try {
            Files.writeString(file, "{\"version\": 1, \"partitions\": [{\"topic\": \"" + topic + "\", \"partition\": 0, \"offset\": 1}, {\"topic\": \"" + topic + "\", \"partition\": 1, \"offset\": -1}]}");
            has(tool("DeleteRecordsCommand", "--offset-json-file", file.toString()), "partition: " + topic + "-0\\s+low_watermark: 1$");
        } finally {
            Files.delete(file);
        }
        has(tool("GetOffsetShell", "--topic-partitions", topic + ":0", "--time", "earliest"), ":0:1$");
        String end = tool("GetOffsetShell", "--topic-partitions", topic + ":1", "--time", "latest");
        has(tool("GetOffsetShell", "--topic-partitions", topic + ":1", "--time", "earliest"), Pattern.quote(end.trim()));
    }

    private void logDirs() throws Exception {
        has(tool("LogDirsCommand", "--describe", "--topic-list", topic), "\"partition\":\"" + topic + "-0\",\"size\":[1-9]\\d*,\"offsetLag\":0,\"isFuture\":false");
    }

    private void deleteTopic() throws Exception {
        topics("--delete", "--topic", topic);
        hasNot(topics("--list"), "^" + topic + "$");
    }

    /** A step's work, which may throw anything. */
    private interface Action {
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

    public static void main(String[] args) {
        Scenario s = new Scenario(args[0], args[1]);
        s.step("topics-create", s::createTopic);
        s.step("topics-describe", s::describeTopic);
        s.step("topics-alter", s::alterTopic);
        s.step("configs-topic", s::topicConfigs);
        s.step("configs-broker", s::brokerConfigs);
        s.step("broker-api-versions", s::apiVersions);
        s.step("console-producer-consumer", s::consoleRoundTrip);
        s.step("verifiable-producer-consumer", s::verifiable);
        s.step("perf-test", s::performance);
        s.step("get-offsets", s::getOffsets);
        s.step("consumer-groups", s::groups);
        s.step("delete-records", s::deleteRecords);
        s.step("log-dirs", s::logDirs);
        s.step("topics-delete", s::deleteTopic);
        System.out.flush();
        Runtime.getRuntime().halt(s.failed ? 1 : 0); // a tool's threads must not keep the JVM alive
    }
}
