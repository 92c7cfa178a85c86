import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * What may be created stands in a file, read anew for each topic, one rule a line: "only NAME NAME ..." settings that
 * may be said, "never NAME VALUE", "most NAME NUMBER", "demand NAME", "replicas NUMBER" at least, "partitions NUMBER" at
 * most, and "mute" for a policy that gives no reason.
 */
public class StatedPolicy implements CreateTopicPolicy {
    private Path file;

    public void configure(Map<String, ?> configuration) {
        file = Path.of((String) configuration.get("test.policy.file"));
    }

    public void validate(RequestMetadata topic) {
        List<String> lines;
        try {
            lines = Files.readAllLines(file);
        } catch (java.io.IOException fault) {
            throw new PolicyViolationException(fault.toString());
        }
        for (String line : lines) {
            String refusal = refusal(line.trim().split(" +"), topic);
            if (refusal != null) {
                throw new PolicyViolationException(lines.contains("mute") ? "not on this cluster" : refusal);
            }
        }
    }

    private static String refusal(String[] rule, RequestMetadata topic) {
        Map<String, String> said = topic.configs();
        switch (rule[0]) {
            case "only":
                List<String> allowed = Arrays.asList(rule).subList(1, rule.length);
                for (String name : said.keySet()) {
                    if (!allowed.contains(name)) {
                        return "Config property '" + name + "' is not allowed to be set, allowed are " + allowed;
                    }
                }
                return null;
            case "never":
                return rule[2].equals(said.get(rule[1])) ? rule[1] + " may not be " + rule[2] : null;
            case "most":
                boolean more = said.containsKey(rule[1]) && Long.parseLong(said.get(rule[1])) > Long.parseLong(rule[2]);
                return more ? rule[1] + " is above " + rule[2] : null;
            case "demand":
                return said.containsKey(rule[1]) ? null : "every topic must have " + rule[1];
            case "replicas":
                return topic.replicationFactor() < Integer.parseInt(rule[1]) ? "replication factor too small" : null;
            case "partitions":
                return topic.numPartitions() > Integer.parseInt(rule[1]) ? "too many partitions" : null;
            default:
                return null;
        }
    }

    public void close() {}
}
