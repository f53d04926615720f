import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import kafka.api.LeaderAndIsr;
import kafka.cluster.*;
import kafka.controller.*;
import kafka.zk.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.Features;
import org.apache.kafka.common.message.AlterPartitionRequestData.BrokerState;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.common.*;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rewrites records.txt with what Apache Kafka's own encoders write. With the jars of kafka_2.13 3.9 and what they depend
 * on in CLASSPATH: java Golden.java
 */
public class Golden {
    static List<String> rows = new ArrayList<>();

    static void row(String name, byte[] bytes) {
        rows.add(name + " | " + new String(bytes, StandardCharsets.UTF_8));
    }

    @SafeVarargs
    static <T> scala.collection.immutable.Seq<T> seq(T... items) {
        return CollectionConverters.asScala(Arrays.asList(items)).toSeq();
    }

    static EndPoint endpoint(String name, SecurityProtocol protocol, String host, int port) {
        return new EndPoint(host, port, new ListenerName(name), protocol);
    }

    static BrokerInfo broker(MetadataVersion version, String rack, EndPoint... endpoints) {
        return BrokerInfo.apply(new Broker(1, seq(endpoints), scala.Option.apply(rack), Features.emptySupportedFeatures()), version, -1);
    }

    /** The timestamp is the clock's. */
    static void broker(String name, MetadataVersion version, String rack, EndPoint... endpoints) {
        String json = new String(broker(version, rack, endpoints).toJsonBytes(), StandardCharsets.UTF_8);
        row(name, json.replaceAll("\"timestamp\":\"\\d+\"", "\"timestamp\":\"1700000000000\"").getBytes());
    }

    static ReplicaAssignment assignment(Integer[] replicas, Integer[] adding, Integer[] removing) {
        return new ReplicaAssignment((scala.collection.Seq) seq(replicas), (scala.collection.Seq) seq(adding), (scala.collection.Seq) seq(removing));
    }

    static LeaderIsrAndControllerEpoch state(int leader, LeaderRecoveryState recovery, Integer... isr) {
        List<BrokerState> members = new ArrayList<>();
        for (int member : isr) members.add(new BrokerState().setBrokerId(member));
        LeaderAndIsr state = new LeaderAndIsr(leader, 3, recovery, CollectionConverters.asScala(members).toList(), 0);
        return new LeaderIsrAndControllerEpoch(state, 5);
    }

    static scala.collection.immutable.Set<TopicPartition> partitions(TopicPartition... all) {
        return CollectionConverters.asScala(new LinkedHashSet<>(Arrays.asList(all))).toSet();
    }

    public static void main(String[] args) throws Exception {
        EndPoint plain = endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "h1", 9092);
        EndPoint internal = endpoint("INT", SecurityProtocol.SSL, "h1", 9093);
        broker("broker v2", MetadataVersion.IBP_0_9_0, null, plain);
        broker("broker v4", MetadataVersion.IBP_2_0_IV0, null, plain);
        broker("broker v5", MetadataVersion.IBP_3_9_IV0, null, plain);
        broker("broker v5 with rack and two listeners", MetadataVersion.IBP_3_9_IV0, "r1", plain, internal);
        broker("broker v5 without plaintext", MetadataVersion.IBP_3_9_IV0, null, internal);
        broker("broker v5 on IPv6", MetadataVersion.IBP_3_9_IV0, null, endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "::1", 9092));

        Uuid id = Uuid.fromString("A1b2C3d4E5f6G7h8I9j0Kw");
        Integer[] none = {};
        TopicPartition t0 = new TopicPartition("t", 0);
        Map<TopicPartition, ReplicaAssignment> one = Map.of(t0, assignment(new Integer[] {1, 2}, none, none));
        row("topic", TopicZNode$.MODULE$.encode(scala.Option.apply(id), CollectionConverters.asScala(one)));
        row("topic without id", TopicZNode$.MODULE$.encode(scala.Option.empty(), CollectionConverters.asScala(one)));
        Map<TopicPartition, ReplicaAssignment> moving = Map.of(t0, assignment(new Integer[] {3, 1, 2}, new Integer[] {3}, new Integer[] {1}));
        row("topic being reassigned", TopicZNode$.MODULE$.encode(scala.Option.apply(id), CollectionConverters.asScala(moving)));

        row("state", TopicPartitionStateZNode$.MODULE$.encode(state(1, LeaderRecoveryState.RECOVERED, 1, 2)));
        row("state without leader", TopicPartitionStateZNode$.MODULE$.encode(state(-1, LeaderRecoveryState.RECOVERED, 2)));
        row("state recovering", TopicPartitionStateZNode$.MODULE$.encode(state(1, LeaderRecoveryState.RECOVERING, 1)));
        row("controller", ControllerZNode$.MODULE$.encode(1, 1700000000000L, -1));
        row("cluster id", ClusterIdZNode$.MODULE$.toJson("vPeOCWypqUOSepEvx0cbog"));

        Properties config = new Properties();
        row("config empty", ConfigEntityZNode$.MODULE$.encode(config));
        config.put("retention.ms", "1000");
        row("config", ConfigEntityZNode$.MODULE$.encode(config));
        config.put("retention.ms", "\u00e9\"\\/\n\t\u0001\u007f\u2028");
        row("config with strange text", ConfigEntityZNode$.MODULE$.encode(config));
        row("config change", ConfigEntityChangeNotificationSequenceZNode$.MODULE$.encode("users/alice/clients/c1"));

        Map<TopicPartition, scala.collection.Seq<Object>> targets = Map.of(t0, (scala.collection.Seq) seq(1, 2));
        row("reassignment", ReassignPartitionsZNode$.MODULE$.encode(CollectionConverters.asScala(targets)));
        row("preferred election", PreferredReplicaElectionZNode$.MODULE$.encode(partitions(t0)));
        row("isr change", IsrChangeNotificationSequenceZNode$.MODULE$.encode(partitions(t0)));
        row("log dir event", LogDirEventNotificationSequenceZNode$.MODULE$.encode(1));
        row("producer id block", ProducerIdBlockZNode.generateProducerIdBlockJson(new ProducerIdsBlock(1, 0, 1000)));
        scala.collection.immutable.Map<String, Object> features = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        row("feature enabled", FeatureZNode.encode(FeatureZNode.apply(MetadataVersion.IBP_3_9_IV0, FeatureZNodeStatus.Enabled$.MODULE$, features)));
        row("feature disabled of old", FeatureZNode.encode(FeatureZNode.apply(MetadataVersion.IBP_2_7_IV0, FeatureZNodeStatus.Disabled$.MODULE$, features)));
        rows.add(0, "# record | as Kafka 3.9.1 writes it; rewritten by Golden.java");
        Files.write(Path.of("records.txt"), rows);
    }
}
