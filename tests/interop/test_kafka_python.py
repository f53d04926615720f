"""kafka-python, a client written from the protocol alone; it can be told to speak as clients did in older years."""

import pytest

from foreign import python_package

python_package("kafka")

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from servers import DEADLINE_SECONDS, eventually

NEWEST = None
AGES = [NEWEST, (2, 5), (1, 0), (0, 11), (0, 10, 2), (0, 10, 0), (0, 9), (0, 8, 2), (0, 8, 0)]
AGE_NAMES = ["newest", *(".".join(map(str, age)) for age in AGES[1:])]


@pytest.fixture
def producer_of(cluster):
    producers = []

    def make(**settings):
        producers.append(KafkaProducer(bootstrap_servers=cluster.broker, **settings))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close(timeout=5)


@pytest.fixture
def read(cluster):
    """Reads a partition of a topic from `offset` (or wherever `seek` goes) until `count` records are there."""

    def read(topic, count, offset=0, partition=0, **settings):
        consumer = KafkaConsumer(bootstrap_servers=cluster.broker, enable_auto_commit=False, **settings)
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, offset)
        records = []

        def enough():
            records.extend(consumer.poll(timeout_ms=100).get(where, []))
            return len(records) >= count

        eventually(enough, f"{count} records of {where}")
        consumer.close()
        return records

    return read


@pytest.fixture
def admin(cluster):
    admin = KafkaAdminClient(bootstrap_servers=cluster.broker)
    yield admin
    admin.close()


def sent(producer, topic, values, **more):
    """Sends the values to partition 0, waits, and returns their offsets."""
    futures = [producer.send(topic, value, partition=0, **more) for value in values]
    return [future.get(DEADLINE_SECONDS).offset for future in futures]


@pytest.mark.parametrize("age", AGES, ids=AGE_NAMES)
def test_speaks_as_in_every_age(topic, producer_of, read, age):
    values = [b"%d" % n for n in range(100)]
    assert sent(producer_of(api_version=age), topic, values) == list(range(100))
    for reader in (age, NEWEST):
        records = read(topic, 100, api_version=reader)
        assert [(record.offset, record.value) for record in records] == list(enumerate(values))


@pytest.mark.parametrize("codec, age", [
    ("gzip", NEWEST), ("gzip", (1, 0)), ("gzip", (0, 10, 0)), ("gzip", (0, 9)),
    ("snappy", NEWEST), ("snappy", (1, 0)), ("snappy", (0, 10, 0)), ("snappy", (0, 9)),
    # The lz4 frames of message format 0 have a header checksum of their own kind, which this client neither writes nor reads.
    ("lz4", NEWEST), ("lz4", (1, 0)), ("lz4", (0, 10, 0)),
    ("zstd", NEWEST), ("zstd", (2, 5)),
], ids=str)
def test_every_codec(topic, producer_of, read, codec, age):
    values = [b"%d " % n * 40 for n in range(100)]
    assert sent(producer_of(api_version=age, compression_type=codec), topic, values) == list(range(100))
    assert [record.value for record in read(topic, 100, api_version=age)] == values
    assert [record.value for record in read(topic, 1, offset=99)] == values[99:]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(topic, producer_of, read, acks):
    assert sent(producer_of(), topic, [b"first"]) == [0]  # makes the topic
    offsets = sent(producer_of(acks=acks, enable_idempotence=False), topic, [b"a", b"b"])
    assert acks == 0 or offsets == [1, 2], "without an answer there is no offset to tell"
    assert [record.value for record in read(topic, 3)] == [b"first", b"a", b"b"]


def test_a_record_keeps_all_its_parts(topic, producer_of, read):
    producer = producer_of()
    headers = [("trace", b"7"), ("trace", b"8"), ("empty", b"")]
    answers = [
        producer.send(topic, key=b"k", value=b"v", headers=headers, timestamp_ms=1_234_567_890_123),
        producer.send(topic, key=b"gone", value=None),
        producer.send(topic, key=None, value=b""),
    ]
    answer = [answer.get(DEADLINE_SECONDS) for answer in answers][0]
    assert (answer.topic, answer.partition, answer.offset, answer.timestamp) == (topic, 0, 0, 1_234_567_890_123)
    first, second, third = read(topic, 3)
    assert (first.key, first.value, list(first.headers), first.timestamp, first.timestamp_type) == (b"k", b"v", headers, 1_234_567_890_123, 0)
    assert (second.key, second.value) == (b"gone", None)
    assert (third.key, third.value, list(third.headers)) == (None, b"", [])


def test_idempotent_producers_number_their_records_from_zero_and_leave_no_gap(topic, producer_of, read):
    values = [b"%d" % n for n in range(1_000)]
    assert sent(producer_of(enable_idempotence=True, batch_size=200), topic, values) == list(range(1_000))
    assert [record.value for record in read(topic, 1_000)] == values


def test_finds_offsets_by_timestamp(cluster, topic, producer_of):
    producer = producer_of()
    for stamp in (1_000, 2_000, 4_000):
        sent(producer, topic, [b"x"], timestamp_ms=stamp)
    consumer = KafkaConsumer(bootstrap_servers=cluster.broker)
    where = TopicPartition(topic, 0)
    for stamp, found in [(1, (0, 1_000)), (1_000, (0, 1_000)), (1_001, (1, 2_000)), (2_001, (2, 4_000)), (4_001, None)]:
        answer = consumer.offsets_for_times({where: stamp})[where]
        assert (answer and (answer.offset, answer.timestamp)) == found, stamp
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 3}
    assert consumer.partitions_for_topic(topic) == {0}
    assert topic in consumer.topics()
    consumer.close()


def test_creates_describes_and_deletes_topics(cluster, topic, admin):
    admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "60000"}}})
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 1}})
    [described] = admin.describe_topics([topic])
    [broker] = admin.describe_cluster()["brokers"]
    assert f"{broker['host']}:{broker['port']}" == cluster.broker
    me = broker["broker_id"]
    assert sorted((p["partition_index"], p["leader_id"], p["replica_nodes"], p["isr_nodes"]) for p in described["partitions"]) == [
        (partition, me, [me], [me]) for partition in range(3)
    ]
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])
