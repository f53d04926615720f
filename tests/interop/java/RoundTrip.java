import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a Java client from 2.0 on expects of a broker, with exact values. Arguments: bootstrap server, a topic prefix, codecs.
 *
 * Prints each claim once it held; ends with status 1 and a stack trace at the first that does not.
 */
public class RoundTrip {
    static String bootstrap;
    static AdminClient admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String prefix = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        admin = AdminClient.create(settings);

        createsAndDescribes(prefix + "-topics");
        for (int i = 2; i < arguments.length; i++) everyByteComesBack(prefix + "-" + arguments[i], arguments[i]);
        recordsKeepTheirParts(prefix + "-parts");
        acks(prefix + "-acks");
        idempotence(prefix + "-idempotence");
        offsetsByTime(prefix + "-times");
        refusesTooLarge(prefix + "-large");
        deletes(prefix + "-deleted");
        admin.close();
    }

    static void createsAndDescribes(String topic) throws Exception {
        create(topic, 3, Collections.singletonMap("retention.ms", "60000"));
        equal(TopicExistsException.class, refusal(admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all()));
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<PartitionInfo> partitions = consumer.partitionsFor(topic);
            equal(3, partitions.size());
            for (PartitionInfo partition : partitions) {
                equal(broker, partition.leader().id());
                equal(1, partition.replicas().length);
                equal(1, partition.inSyncReplicas().length);
            }
        }
        equal(broker, admin.describeCluster().controller().get().id());
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        equal("60000", config.get("retention.ms").value());
        equal(false, config.get("retention.ms").isDefault());
        equal("delete", config.get("cleanup.policy").value());
        equal(true, config.get("cleanup.policy").isDefault());
        held("creates, describes and configures a topic");
    }

    static void everyByteComesBack(String topic, String codec) throws Exception {
        create(topic, 1, Map.of());
        byte[][] values = new byte[500][];
        for (int i = 0; i < values.length; i++) {
            values[i] = new byte[i];
            for (int j = 0; j < i; j++) values[i][j] = (byte) (i * 31 + j / 7);
        }
        try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec, "linger.ms", "20")) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (byte[] value : values) answers.add(producer.send(new ProducerRecord<>(topic, value)));
            for (int i = 0; i < values.length; i++) equal((long) i, answers.get(i).get().offset());
        }
        List<ConsumerRecord<byte[], byte[]>> records = read(topic, 0, values.length);
        for (int i = 0; i < values.length; i++) {
            equal((long) i, records.get(i).offset());
            equal(new String(values[i], StandardCharsets.ISO_8859_1), new String(records.get(i).value(), StandardCharsets.ISO_8859_1));
        }
        equal(498L, read(topic, 498, 2).get(0).offset());
        held("500 records in " + codec);
    }

    static void recordsKeepTheirParts(String topic) throws Exception {
        create(topic, 1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            ProducerRecord<byte[], byte[]> first = new ProducerRecord<>(topic, 0, 1_234_567_890_123L, bytes("k"), bytes("v"));
            first.headers().add("trace", bytes("7")).add("trace", bytes("8")).add("null", null);
            RecordMetadata answer = producer.send(first).get();
            equal(1_234_567_890_123L, answer.timestamp());
            producer.send(new ProducerRecord<>(topic, 0, bytes("gone"), null)).get();
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[0])).get();
        }
        List<ConsumerRecord<byte[], byte[]>> records = read(topic, 0, 3);
        ConsumerRecord<byte[], byte[]> first = records.get(0);
        equal("k", text(first.key()));
        equal("v", text(first.value()));
        equal(1_234_567_890_123L, first.timestamp());
        equal(TimestampType.CREATE_TIME, first.timestampType());
        equal(3, first.headers().toArray().length);
        equal("7", text(first.headers().toArray()[0].value()));
        equal("8", text(first.headers().lastHeader("trace").value()));
        equal(null, first.headers().lastHeader("null").value());
        equal("gone", text(records.get(1).key()));
        equal(null, records.get(1).value());
        equal(null, records.get(2).key());
        equal("", text(records.get(2).value()));
        held("key, value, headers, timestamp and nulls");
    }

    static void acks(String topic) throws Exception {
        create(topic, 1, Map.of());
        for (String acks : List.of("0", "1", "all")) {
            try (KafkaProducer<byte[], byte[]> producer = producer("acks", acks, "enable.idempotence", "false")) {
                RecordMetadata answer = producer.send(new ProducerRecord<>(topic, bytes(acks))).get();
                equal(!acks.equals("0"), answer.hasOffset());
            }
        }
        List<ConsumerRecord<byte[], byte[]>> records = read(topic, 0, 3);
        equal("0", text(records.get(0).value()));
        equal("1", text(records.get(1).value()));
        equal("all", text(records.get(2).value()));
        held("acks 0, 1 and all");
    }

    static void idempotence(String topic) throws Exception {
        create(topic, 1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = producer("enable.idempotence", "true", "batch.size", "100")) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (int i = 0; i < 1_000; i++) answers.add(producer.send(new ProducerRecord<>(topic, bytes("" + i))));
            for (int i = 0; i < 1_000; i++) equal((long) i, answers.get(i).get().offset());
        }
        List<ConsumerRecord<byte[], byte[]>> records = read(topic, 0, 1_000);
        for (int i = 0; i < 1_000; i++) equal("" + i, text(records.get(i).value()));
        held("1,000 idempotent records in order");
    }

    static void offsetsByTime(String topic) throws Exception {
        create(topic, 1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (long stamp : new long[] {1_000, 2_000, 4_000}) producer.send(new ProducerRecord<>(topic, 0, stamp, null, bytes("x"))).get();
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            equal(0L, consumer.offsetsForTimes(Map.of(partition, 1L)).get(partition).offset());
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, 1_001L)).get(partition);
            equal(1L, found.offset());
            equal(2_000L, found.timestamp());
            equal(null, consumer.offsetsForTimes(Map.of(partition, 4_001L)).get(partition));
            equal(Map.of(partition, 0L), consumer.beginningOffsets(List.of(partition)));
            equal(Map.of(partition, 3L), consumer.endOffsets(List.of(partition)));
        }
        held("offsets by timestamp, first and last");
    }

    static void refusesTooLarge(String topic) throws Exception {
        create(topic, 1, Collections.singletonMap("max.message.bytes", "1000"));
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            equal(RecordTooLargeException.class, refusal(producer.send(new ProducerRecord<>(topic, new byte[5_000]))));
            equal(0L, producer.send(new ProducerRecord<>(topic, bytes("small"))).get().offset());
        }
        held("a record too large is refused, the next one accepted");
    }

    static void deletes(String topic) throws Exception {
        create(topic, 1, Map.of());
        equal(true, admin.listTopics().names().get().contains(topic));
        admin.deleteTopics(List.of(topic)).all().get();
        equal(false, admin.listTopics().names().get().contains(topic));
        equal(UnknownTopicOrPartitionException.class, refusal(admin.deleteTopics(List.of(topic)).all()));
        held("a deleted topic is gone");
    }

    static void create(String topic, int partitions, Map<String, String> config) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(config))).all().get();
    }

    static KafkaProducer<byte[], byte[]> producer(String... settings) {
        return new KafkaProducer<>(properties(settings), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer() {
        return new KafkaConsumer<>(properties(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, long offset, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            long deadline = System.nanoTime() + 30_000_000_000L;
            while (records.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(100)).records(partition).forEach(records::add);
            }
        }
        equal(count, records.size());
        return records;
    }

    static Properties properties(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < settings.length; i += 2) properties.put(settings[i], settings[i + 1]);
        return properties;
    }

    static Class<?> refusal(Future<?> call) throws InterruptedException {
        try {
            call.get();
            return null;
        } catch (ExecutionException refused) {
            return refused.getCause().getClass();
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static void equal(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) throw new AssertionError("expected " + expected + ", got " + actual);
    }

    static void held(String claim) {
        System.out.println(claim);
    }
}
