"""confluent-kafka, which is the newest librdkafka."""

import pytest

from foreign import python_package

python_package("confluent_kafka")

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, OffsetSpec, ResourceType

from servers import DEADLINE_SECONDS, eventually


def offset_from_end(count):
    """librdkafka's RD_KAFKA_offset_from_end, which its Python binding leaves out."""
    return -2000 - count


@pytest.fixture
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.broker})


@pytest.fixture
def made_topic(admin, topic):
    """A topic of three partitions."""
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(DEADLINE_SECONDS)
    return topic


@pytest.fixture
def send(cluster):
    """Sends records, waits for all answers and returns (partition, offset) of each, in order."""

    def send(topic, records, **settings):
        answers = []

        def answered(error, message):
            assert error is None, error
            answers.append((message.partition(), message.offset()))

        producer = Producer({"bootstrap.servers": cluster.broker, "linger.ms": 5} | {k.replace("_", "."): v for k, v in settings.items()})
        for record in records:
            producer.produce(topic, on_delivery=answered, **record)
        assert producer.flush(DEADLINE_SECONDS) == 0
        return answers

    return send


@pytest.fixture
def read(cluster):
    """Reads `count` messages of one partition from an offset."""
    consumers = []

    def read(topic, count, partition=0, offset=0, **settings):
        consumer = Consumer(
            {"bootstrap.servers": cluster.broker, "group.id": "assigns-itself", "enable.auto.commit": False, "check.crcs": True}
            | {k.replace("_", "."): v for k, v in settings.items()}
        )
        consumers.append(consumer)
        consumer.assign([TopicPartition(topic, partition, offset)])
        messages = consumer.consume(count, DEADLINE_SECONDS)
        assert [message.error() for message in messages if message.error()] == []
        assert len(messages) == count
        return messages

    yield read
    for consumer in consumers:
        consumer.close()


def values(messages):
    return [message.value() for message in messages]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(made_topic, send, read, codec):
    sent = [b"%d " % n * 50 for n in range(300)]
    assert send(made_topic, [{"value": value, "partition": 0} for value in sent], compression_type=codec) == [(0, n) for n in range(300)]
    messages = read(made_topic, 300)
    assert values(messages) == sent
    assert [message.offset() for message in messages] == list(range(300))


@pytest.mark.parametrize("acks, offsets", [("1", [0, 1, 2]), ("all", [0, 1, 2]), ("0", [None, None, None])])
def test_acks_and_the_offsets_they_tell(made_topic, send, read, acks, offsets):
    sent = [b"a", b"b", b"c"]
    answers = send(made_topic, [{"value": value, "partition": 1} for value in sent], acks=acks)
    assert answers == [(1, offset) for offset in offsets]
    assert values(read(made_topic, 3, partition=1)) == sent


def test_a_record_keeps_all_its_parts(made_topic, send, read):
    headers = [("trace", b"7"), ("trace", b"8"), ("empty", b""), ("null", None)]
    send(made_topic, [
        {"key": b"k", "value": b"v", "partition": 0, "timestamp": 1_234_567_890_123, "headers": headers},
        {"key": None, "value": b"", "partition": 0, "timestamp": 1_234_567_890_000},
        {"key": b"", "value": None, "partition": 0, "timestamp": 1},
    ])
    first, second, third = read(made_topic, 3)
    assert (first.key(), first.value(), first.timestamp(), first.headers()) == (b"k", b"v", (1, 1_234_567_890_123), headers)
    assert (second.key(), second.value(), second.timestamp(), second.headers()) == (None, b"", (1, 1_234_567_890_000), None)
    assert (third.key(), third.value(), third.timestamp()) == (b"", None, (1, 1))


def test_a_key_stays_with_its_partition(made_topic, send):
    records = [{"key": b"key-%d" % (n % 10), "value": b"%d" % n} for n in range(100)]
    partitions = [partition for partition, _ in send(made_topic, records, linger_ms=0)]
    assert len(partitions) == 100
    assert set(partitions) == {0, 1, 2}


def test_idempotent_producers_number_their_records_from_zero_and_leave_no_gap(made_topic, send, read):
    for turn in range(2):  # each with a producer id of its own
        sent = [{"value": b"%d" % n, "partition": 2} for n in range(1_000)]
        assert send(made_topic, sent, enable_idempotence=True, linger_ms=0) == [(2, turn * 1_000 + n) for n in range(1_000)]
    assert values(read(made_topic, 2_000, partition=2)) == [b"%d" % (n % 1_000) for n in range(2_000)]


def test_starts_at_any_offset(made_topic, send, read):
    send(made_topic, [{"value": b"%d" % n, "partition": 0} for n in range(10)])
    assert values(read(made_topic, 3, offset=7)) == [b"7", b"8", b"9"]
    assert values(read(made_topic, 10, offset=OFFSET_BEGINNING)) == [b"%d" % n for n in range(10)]
    assert values(read(made_topic, 2, offset=offset_from_end(2))) == [b"8", b"9"]


def test_finds_offsets_by_timestamp(cluster, admin, made_topic, send):
    send(made_topic, [{"value": b"x", "partition": 0, "timestamp": stamp} for stamp in (1_000, 2_000, 2_000, 4_000)], linger_ms=0)
    consumer = Consumer({"bootstrap.servers": cluster.broker, "group.id": "asks-only"})
    for stamp, offset in [(1, 0), (1_000, 0), (1_001, 1), (2_000, 1), (2_001, 3), (4_000, 3), (4_001, -1)]:
        [found] = consumer.offsets_for_times([TopicPartition(made_topic, 0, stamp)], DEADLINE_SECONDS)
        assert (found.error, found.offset) == (None, offset), stamp
    assert consumer.get_watermark_offsets(TopicPartition(made_topic, 0), DEADLINE_SECONDS) == (0, 4)
    assert consumer.get_watermark_offsets(TopicPartition(made_topic, 1), DEADLINE_SECONDS) == (0, 0)
    consumer.close()
    for spec, offset in [(OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 4), (OffsetSpec.max_timestamp(), 3), (OffsetSpec.for_timestamp(1_500), 1)]:
        partition = TopicPartition(made_topic, 0)
        assert admin.list_offsets({partition: spec})[partition].result(DEADLINE_SECONDS).offset == offset


def test_metadata(cluster, admin, made_topic):
    everything = admin.list_topics(timeout=DEADLINE_SECONDS)
    [broker] = everything.brokers.values()
    assert f"{broker.host}:{broker.port}" == cluster.broker
    assert everything.controller_id == broker.id
    assert made_topic in everything.topics
    partitions = admin.list_topics(made_topic, DEADLINE_SECONDS).topics[made_topic].partitions
    assert {(p.id, p.leader, tuple(p.replicas), tuple(p.isrs), p.error) for p in partitions.values()} == {
        (id, broker.id, (broker.id,), (broker.id,), None) for id in (0, 1, 2)
    }


def test_cluster_and_topic_have_ids(admin, made_topic):
    description = admin.describe_cluster().result(DEADLINE_SECONDS)
    assert len(description.cluster_id) == 22
    assert str(admin.list_topics(timeout=DEADLINE_SECONDS).cluster_id) == description.cluster_id


def refusal(future):
    """The error code with which a call of the admin client is refused."""
    with pytest.raises(KafkaException) as refused:
        future.result(DEADLINE_SECONDS)
    return refused.value.args[0].code()


def test_creates_and_deletes_topics(admin, topic):
    def create(name=topic, partitions=1, replicas=1, **more):
        return admin.create_topics([NewTopic(name, partitions, replicas, **more)])[name]

    def topics():
        return admin.list_topics(timeout=DEADLINE_SECONDS).topics

    create(config={"retention.ms": "60000"}).result(DEADLINE_SECONDS)
    assert topic in topics()
    assert refusal(create()) == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(create("not a name")) == KafkaError.TOPIC_EXCEPTION
    assert refusal(create(f"{topic}-2", replicas=7)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert refusal(create(f"{topic}-2", partitions=0)) == KafkaError.INVALID_PARTITIONS
    assert refusal(create(f"{topic}-2", config={"no.such.key": "1"})) == KafkaError.INVALID_CONFIG
    admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
    assert topic not in topics()
    assert f"{topic}-2" not in topics()
    assert refusal(admin.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_only_checked_is_not_made(admin, topic):
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(DEADLINE_SECONDS)
    assert topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics


def test_a_topic_made_again_is_empty(admin, topic, send, read):
    def created():
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_SECONDS)
        except KafkaException as still_being_deleted:
            assert still_being_deleted.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            return False
        return True

    for text in (b"old", b"new"):
        eventually(created, f"{topic} can be made")
        assert send(topic, [{"value": text, "partition": 0}]) == [(0, 0)]
        assert values(read(topic, 1)) == [text]
        admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)


def test_describes_configs(admin, topic):
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "60000"})])[topic].result(DEADLINE_SECONDS)
    of_topic = ConfigResource(ResourceType.TOPIC, topic)
    of_broker = ConfigResource(ResourceType.BROKER, str(admin.list_topics(timeout=DEADLINE_SECONDS).controller_id))
    topic_config = admin.describe_configs([of_topic])[of_topic].result(DEADLINE_SECONDS)
    broker_config = admin.describe_configs([of_broker])[of_broker].result(DEADLINE_SECONDS)
    assert topic_config["retention.ms"].value == "60000"
    assert topic_config["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert topic_config["cleanup.policy"].value == "delete"
    assert topic_config["cleanup.policy"].source == ConfigSource.DEFAULT_CONFIG.value
    assert topic_config["segment.bytes"].value == str(1 << 30)
    assert broker_config["broker.id"].value == of_broker.name
    assert broker_config["broker.id"].is_read_only
    assert broker_config["log.segment.bytes"].value == str(1 << 30)


def test_oversize_records_are_refused_and_others_live(admin, cluster, topic, send, read):
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "2000"})])[topic].result(DEADLINE_SECONDS)
    errors = []
    producer = Producer({"bootstrap.servers": cluster.broker})
    producer.produce(topic, b"x" * 5_000, partition=0, on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert send(topic, [{"value": b"small", "partition": 0}]) == [(0, 0)]
    assert values(read(topic, 1)) == [b"small"]


def test_a_large_record_comes_back_whole(made_topic, send, read):
    large = bytes(range(256)) * 3_900
    send(made_topic, [{"value": large, "partition": 0}], message_max_bytes=2_000_000)
    assert values(read(made_topic, 1)) == [large]
    # Larger than the client asks for at once: it must be given all the same, or the client would be stuck.
    assert values(read(made_topic, 1, fetch_message_max_bytes=1_000)) == [large]


def test_beyond_the_end_is_an_error_and_auto_reset_heals_it(cluster, made_topic, send, read):
    send(made_topic, [{"value": b"only", "partition": 0}])
    consumer = Consumer({"bootstrap.servers": cluster.broker, "group.id": "g", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(made_topic, 0, 999)])
    assert consumer.poll(DEADLINE_SECONDS).error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()
    assert values(read(made_topic, 1, offset=999, auto_offset_reset="earliest")) == [b"only"]


def test_an_unknown_topic_is_said_so_and_not_made(cluster, admin, topic):
    consumer = Consumer({"bootstrap.servers": cluster.broker, "group.id": "g", "allow.auto.create.topics": False})
    assert consumer.list_topics(topic, DEADLINE_SECONDS).topics[topic].error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()
    assert refusal(admin.describe_topics(TopicCollection([topic]))[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics
