import java.nio.file.*;
import java.util.*;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Rewrites the golden files beside it with the answers of Apache Kafka's own classes. With the jars of kafka_2.13 3.9
 * and what they depend on in CLASSPATH: java Golden.java
 */
public class Golden {
    public static void main(String[] args) throws Exception {
        Files.write(Path.of("keys.txt"), keys());
        rewrite("listeners.txt", Golden::listeners);
        rewrite("values.txt", Golden::value);
    }

    static List<String> keys() {
        List<String> rows = new ArrayList<>();
        rows.add("# broker or topic | name | type | default | importance | update or broker synonym | internal; from Kafka 3.9.1");
        Map<String, String> modes = kafka.server.DynamicBrokerConfig$.MODULE$.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : new TreeMap<>(KafkaConfig.configDef().configKeys()).values())
            rows.add(row("broker", key, modes.getOrDefault(key.name, "read-only")));
        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configDefCopy().configKeys()).values())
            rows.add(row("topic", key, ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, "-")));
        return rows;
    }

    static String row(String kind, ConfigDef.ConfigKey key, String update) {
        Object value = key.defaultValue;
        if (value instanceof List && key.name.equals("sasl.oauthbearer.expected.audience")) value = null;
        String text = value == null ? "null" : "'" + ConfigDef.convertToString(value, key.type) + "'";
        return String.join(" | ", kind, key.name, key.type.toString(), text, key.importance.toString(), update,
            key.internalConfig ? "internal" : "-");
    }

    interface Answer { String to(String input); }

    static void rewrite(String file, Answer answer) throws Exception {
        List<String> rows = new ArrayList<>();
        for (String row : Files.readAllLines(Path.of(file))) {
            String[] cells = row.split(" \\| ");
            rows.add(row.startsWith("#") ? row : cells[0] + " | " + cells[1] + " | " + answer.to(cells[1]));
        }
        Files.write(Path.of(file), rows);
    }

    /** A row's second cell: key=value, and more of them after blanks; ~ stands for a blank in a value. */
    static KafkaConfig config(String cell) {
        Properties properties = new Properties();
        properties.put("zookeeper.connect", "localhost:2181");
        for (String pair : cell.split(" ")) {
            int cut = pair.indexOf('=');
            if (cut > 0) properties.put(pair.substring(0, cut), pair.substring(cut + 1).replace('~', ' '));
        }
        return KafkaConfig.fromProps(properties);
    }

    static String listeners(String cell) {
        try {
            KafkaConfig config = config(cell);
            return endpoints(config.listeners()) + " ; " + endpoints(config.effectiveAdvertisedBrokerListeners()) + " ; "
                + config.interBrokerListenerName().value();
        } catch (Exception e) {
            return "error " + e.getMessage().replace("\n", " ");
        }
    }

    static String endpoints(scala.collection.Seq<kafka.cluster.EndPoint> endpoints) {
        List<String> all = new ArrayList<>();
        scala.collection.JavaConverters.seqAsJavaList(endpoints.toSeq()).forEach(e -> all.add(e.listenerName().value() + "/"
            + e.securityProtocol().name + "/" + (e.host() == null ? "" : e.host()) + "/" + e.port()));
        return String.join(" ", all);
    }

    /** The value of the row's first key, as DescribeConfigs shows it. */
    static String value(String cell) {
        String key = cell.substring(0, cell.indexOf('='));
        try {
            Object value = config(cell).values().get(key);
            return "value " + ConfigDef.convertToString(value, KafkaConfig.configDef().configKeys().get(key).type);
        } catch (Exception e) {
            return "error " + e.getMessage().replace("\n", " ");
        }
    }
}
