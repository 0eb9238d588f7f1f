package tools;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/** Runs the very main classes of Kafka's command-line tools, one after the other in one JVM: a JVM a tool would cost a second each. */
final class Tool {

    private Tool() {}

    /** What a tool's call of Exit becomes: some catch it and call Exit again, so the first code is the one that counts. */
    private static final class Ended extends RuntimeException {}

    private static Integer exitCode;

    static {
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
    }

    /** Runs a tool in a JVM of its own, for those that report in a shutdown hook. */
    static String runAlone(String name, String... args) throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classPath = System.getProperty("java.class.path");
        List<String> command = new ArrayList<>(List.of(java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M", "-cp", classPath));
        command.add("org.apache.kafka.tools." + name);
        command.addAll(List.of(args));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) throw new Exception(name + " ended with " + process.exitValue() + ": " + output);
        return output;
    }

    private static void end(int code) {
        if (exitCode == null) exitCode = code;
        throw new Ended();
    }

    /** Runs {@code org.apache.kafka.tools.NAME} with this standard input; gives its output, or throws what it complained of. */
    static String run(String name, String input, String... args) throws Exception {
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        exitCode = null;
        try (
            PrintStream toSaid = new PrintStream(said, true, StandardCharsets.UTF_8);
            PrintStream toComplained = new PrintStream(complained, true, StandardCharsets.UTF_8)
        ) {
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            System.setOut(toSaid);
            System.setErr(toComplained);
            Class.forName("org.apache.kafka.tools." + name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (exitCode == null) throw new Exception(name + ": " + e.getCause(), e.getCause());
        } finally {
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
        }
        String output = said.toString(StandardCharsets.UTF_8);
        int code = exitCode == null ? 0 : exitCode;
        if (code != 0 || output.contains("Error: ") || output.contains("Error while executing")) {
            throw new Exception(name + " ended with " + code + ": " + output + complained.toString(StandardCharsets.UTF_8));
        }
        return output;
    }
}
