import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** The Java consumer as it was in 0.10. Arguments: bootstrap server, topic, how many records. Prints offset, key and value of each. */
public class OldConsumer {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        consumer.assign(Collections.singletonList(partition));
        consumer.seekToBeginning(Collections.singletonList(partition));
        int missing = Integer.parseInt(arguments[2]);
        while (missing > 0) {
            for (ConsumerRecord<String, String> record : consumer.poll(100)) {
                System.out.println(record.offset() + " " + record.key() + " " + record.value());
                missing--;
            }
        }
        consumer.close();
    }
}
