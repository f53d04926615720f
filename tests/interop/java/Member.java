import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A member of a consumer group as member.py is one. Arguments: bootstrap server, group, topic, settings as name=value. Prints the same lines.
 */
public class Member {
    private static synchronized void tell(String event, String what) {
        System.out.println("[\"" + event + "\", " + System.nanoTime() / 1e9 + ", " + what + "]");
        System.out.flush();
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().map(String::valueOf).collect(Collectors.joining(", ", "[", "]"));
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        for (String setting : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            settings.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        AtomicBoolean ended = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException gone) { }
            ended.set(true);
        });
        input.setDaemon(true);
        input.start();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Collections.singletonList(arguments[2]), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                tell("assigned", numbers(consumer.assignment()));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                tell("revoked", numbers(revoked));
            }
        });
        while (!ended.get()) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                tell("read", record.partition() + ", " + record.offset() + ", \"" + record.value() + "\"");
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            if (!offsets.isEmpty()) {
                try {
                    consumer.commitSync(offsets);
                    offsets.forEach((partition, offset) -> tell("committed", partition.partition() + ", " + offset.offset()));
                } catch (KafkaException refused) {
                    System.err.println(refused);
                }
            }
        }
        consumer.close();
    }
}
