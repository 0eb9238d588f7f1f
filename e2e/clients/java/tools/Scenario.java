package tools;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Kafka's own command-line tools, used as an administrator does: {@code tools.Scenario BOOTSTRAP PREFIX}. */
public final class Scenario {
    private static final String TOPIC_CONFIGS = "--entity-type topics --entity-name $topic";
    private static final String BROKER_CONFIGS = "--entity-type brokers --entity-name ";

    private static final int REPLICAS = Integer.parseInt(System.getenv().getOrDefault("REPLICAS", "1"));
    private final String bootstrap;
    private final String topic;
    private final String group;
    private boolean failed;

    private Scenario(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.topic = prefix;
        this.group = prefix + "-group";
    }

    /** The arguments as an administrator types them; $topic and $group stand for the scenario's own. */
    private String[] arguments(String line) {
        return ("--bootstrap-server " + bootstrap + " " + named(line)).split(" ");
    }

    private String named(String text) {
        return text.replace("$topic", topic).replace("$group", group);
    }

    private String tool(String name, String line) throws Exception {
        return Tool.run(name, "", arguments(line));
    }

    private String topics(String line) throws Exception {
        return tool("TopicCommand", line);
    }

    private String configs(String line) throws Exception {
        return tool("ConfigCommand", line);
    }

    private String consumerGroups(String line) throws Exception {
        return tool("consumer.group.ConsumerGroupCommand", line);
    }

    private String produce(String lines, String line) throws Exception {
        return Tool.run("ConsoleProducer", lines, arguments(line));
    }

    private boolean found(String output, String pattern) {
        return Pattern.compile(named(pattern), Pattern.MULTILINE).matcher(output).find();
    }

    private static String shorten(String output) {
        return output.length() <= 1200 ? output : output.substring(0, 600) + " ... " + output.substring(output.length() - 600);
    }

    private void has(String output, String pattern) {
        if (!found(output, pattern)) throw new AssertionError("no /" + pattern + "/ in: " + shorten(output));
    }

    private void hasNot(String output, String pattern) {
        if (found(output, pattern)) throw new AssertionError("/" + pattern + "/ in: " + shorten(output));
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

    private void createTopic() throws Exception {
        String said = topics("--create --topic $topic --partitions 3 --replication-factor " + REPLICAS
                + " --config max.message.bytes=2000000");
        has(said, "Created topic $topic");
        has(topics("--list"), "^$topic$");
    }

    private void describeTopic() throws Exception {
        String said = topics("--describe --topic $topic");
        has(said, "Topic: $topic\\s+TopicId: \\S{22}\\s+PartitionCount: 3\\s+ReplicationFactor: " + REPLICAS
                + "\\s+Configs: .*max.message.bytes=2000000");
        // The preferred leader leads, and as many brokers keep the partition as were asked for, all of them in sync.
        String others = "(,\\d+){" + (REPLICAS - 1) + "}";
        for (int p = 0; p < 3; p++) {
            has(said, "Partition: " + p + "\\s+Leader: (\\d+)\\s+Replicas: \\1" + others + "\\s+Isr: \\d+" + others + "\\s");
        }
    }

    private void alterTopic() throws Exception {
        topics("--alter --topic $topic --partitions 5");
        has(topics("--describe --topic $topic"), "PartitionCount: 5");
    }

    private void topicConfigs() throws Exception {
        configs("--alter --add-config retention.ms=3600000,cleanup.policy=[compact,delete] " + TOPIC_CONFIGS);
        String said = configs("--describe " + TOPIC_CONFIGS);
        has(said, "retention.ms=3600000 sensitive=false synonyms=\\{DYNAMIC_TOPIC_CONFIG:retention.ms=3600000");
        has(said, "cleanup.policy=compact,delete ");
        configs("--alter --delete-config retention.ms,cleanup.policy " + TOPIC_CONFIGS);
        hasNot(configs("--describe " + TOPIC_CONFIGS), "DYNAMIC_TOPIC_CONFIG:(retention.ms|cleanup.policy)");
        has(configs("--describe --all " + TOPIC_CONFIGS), "retention.ms=604800000 sensitive=false synonyms=\\{");
    }

    private void brokerConfigs() throws Exception {
        Matcher id = Pattern.compile("\\(id: (\\d+) ").matcher(tool("BrokerApiVersionsCommand", ""));
        if (!id.find()) throw new AssertionError("no broker id");
        String broker = BROKER_CONFIGS + id.group(1);
        has(configs("--describe --all " + broker), "log.retention.hours=168 ");
        configs("--alter --add-config message.max.bytes=1048000 " + broker);
        String set = "message.max.bytes=1048000 sensitive=false synonyms=\\{DYNAMIC_BROKER_CONFIG:message.max.bytes=1048000";
        eventually(() -> has(configs("--describe " + broker), set));
        configs("--alter --delete-config message.max.bytes " + broker);
        eventually(() -> hasNot(configs("--describe " + broker), "DYNAMIC_BROKER_CONFIG:message.max.bytes"));
    }

    private void apiVersions() throws Exception {
        String said = tool("BrokerApiVersionsCommand", "");
        for (String key : List.of("Produce(0): 0", "Fetch(1): 4", "ListOffsets(2): 1", "Metadata(3): 0", "DeleteRecords(21): 0")) {
            has(said, Pattern.quote(key) + " to \\d+ \\[usable: \\d+\\]");
        }
    }

    private void consoleRoundTrip() throws Exception {
        String parse = " --reader-property parse.headers=true --reader-property parse.key=true --reader-property headers.delimiter=|"
            + " --reader-property key.separator=| --reader-property null.marker=NULL";
        produce("h:1|k1|v1\nNULL|k2|NULL\nh:1,h:2|NULL|v3\n", "--topic $topic --sync" + parse);
        String print = " --formatter-property print.key=true --formatter-property print.headers=true"
            + " --formatter-property key.separator=| --formatter-property headers.separator=,";
        String said = tool("consumer.ConsoleConsumer", "--topic $topic --group $group --from-beginning --max-messages 3 --timeout-ms 15000" + print);
        for (String line : List.of("NO_HEADERS\\|k2\\|null", "h:1\\|k1\\|v1", "h:1,h:2\\|null\\|v3")) has(said, "^" + line + "$");
        // It commits when it closes: a second consumer of the group gets only what has come since.
        String input = IntStream.range(0, 500).mapToObj(i -> "line " + i + "\n").collect(Collectors.joining());
        produce(input, "--topic $topic --compression-codec zstd");
        String more = tool("consumer.ConsoleConsumer", "--topic $topic --group $group --max-messages 500 --timeout-ms 15000");
        long lines = more.lines().filter(line -> line.startsWith("line ")).distinct().count();
        if (lines != 500) throw new AssertionError("of 500 lines came " + lines);
    }

    private void verifiable() throws Exception {
        String sent = Tool.runAlone("VerifiableProducer", arguments("--topic $topic --max-messages 500 --acks -1"));
        has(sent, "\"name\":\"tool_data\",\"sent\":500,\"acked\":500");
        String all = "--topic $topic --group-id $group-verifiable --max-messages 1003 --reset-policy earliest";
        String read = Tool.runAlone("VerifiableConsumer", arguments(all));
        has(read, "\"name\":\"partitions_assigned\"");
        has(read, "\"success\":true");
        hasNot(read, "\"success\":false");
    }

    private void performance() throws Exception {
        has(tool("ProducerPerformance", "--topic $topic --num-records 5000 --record-size 100 --throughput -1"), "5000 records sent, .* 99.9th");
        has(tool("ConsumerPerformance", "--topic $topic --group $group-perf --num-records 5000 --timeout 15000"), "^\\d{4}-\\d\\d-\\d\\d ");
    }

    private String offsets(String line) throws Exception {
        return tool("GetOffsetShell", line).trim();
    }

    private void getOffsets() throws Exception {
        String said = offsets("--topic $topic");
        long sum = said.lines().mapToLong(line -> Long.parseLong(line.substring(line.lastIndexOf(':') + 1))).sum();
        if (said.lines().count() != 5 || sum != 6003) throw new AssertionError("of 6003 records in 5 partitions: " + said);
        has(offsets("--topic-partitions $topic:0 --time earliest"), "^$topic:0:0$");
    }

    private void groups() throws Exception {
        has(consumerGroups("--list"), "^$group$");
        has(tool("GroupsCommand", "--list"), "$group\\s+Classic\\s+consumer");
        has(consumerGroups("--describe --group $group --state"), "$group\\s+.*\\s+Empty\\s+0");
        has(consumerGroups("--describe --group $group"), "$group\\s+$topic\\s+0\\s+\\d+\\s+\\d+\\s+\\d+\\s+-");
        consumerGroups("--reset-offsets --group $group --topic $topic --to-latest --execute");
        String said = consumerGroups("--describe --group $group");
        for (int p = 0; p < 5; p++) has(said, "$topic\\s+" + p + "\\s+(\\d+)\\s+\\1\\s+0\\s+-");
        consumerGroups("--reset-offsets --group $group --topic $topic:0 --to-earliest --execute");
        has(consumerGroups("--describe --group $group"), "$topic\\s+0\\s+0\\s+(\\d+)\\s+\\1\\s+-");
        has(consumerGroups("--delete-offsets --group $group --topic $topic:1"), "$topic\\s+1\\s+Successful");
        consumerGroups("--delete --group $group --group $group-verifiable --group $group-perf");
        hasNot(consumerGroups("--list"), "^$group");
    }

    private void deleteRecords() throws Exception {
        Path file = Files.createTempFile("delete-records", ".json");
        try {
            String record = "{\"topic\": \"$topic\", \"partition\": %d, \"offset\": %d}";
            Files.writeString(file, named("{\"version\": 1, \"partitions\": [" + record.formatted(0, 1) + ", " + record.formatted(1, -1) + "]}"));
            has(tool("DeleteRecordsCommand", "--offset-json-file " + file), "partition: $topic-0\\s+low_watermark: 1$");
        } finally {
            Files.delete(file);
        }
        has(offsets("--topic-partitions $topic:0 --time earliest"), ":0:1$");
        String end = offsets("--topic-partitions $topic:1 --time latest");
        has(offsets("--topic-partitions $topic:1 --time earliest"), Pattern.quote(end));
    }

    private void logDirs() throws Exception {
        String said = tool("LogDirsCommand", "--describe --topic-list $topic");
        has(said, "\"partition\":\"$topic-0\",\"size\":[1-9]\\d*,\"offsetLag\":0,\"isFuture\":false");
    }

    private void deleteTopic() throws Exception {
        topics("--delete --topic $topic");
        // The broker that is asked next may hear of it a moment later than the one that answered.
        for (int i = 0; i < 10 && found(topics("--list"), "^$topic$"); i++) Thread.sleep(100);
        hasNot(topics("--list"), "^$topic$");
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
