import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The Java producer as it was first released, in 0.8.2. Arguments: bootstrap server, topic, how many records, codec. Prints their offsets. */
public class OldProducer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("compression.type", arguments[3]);
        settings.put("acks", "all");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        for (int i = 0; i < Integer.parseInt(arguments[2]); i++) {
            System.out.println(producer.send(new ProducerRecord<>(arguments[1], "key " + i, "value " + i)).get().offset());
        }
        producer.close();
    }
}
