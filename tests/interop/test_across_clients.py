"""What each client writes, all read: offsets, keys and values."""

import pytest

from foreign import java, kcat, python_package
from servers import DEADLINE_SECONDS
from test_java_clients import SOURCES

RECORDS = [(f"key {n}", f"value {n}") for n in range(100)]


def kcat_writes(broker, topic, codec):
    lines = "".join(f"{key}|{value}\n" for key, value in RECORDS)
    kcat("-b", broker, "-P", "-t", topic, "-p", 0, "-K", "|", "-z", codec, stdin=lines.encode())


def confluent_kafka_writes(broker, topic, codec):
    producer = python_package("confluent_kafka").Producer({"bootstrap.servers": broker, "compression.type": codec, "linger.ms": 5})
    for key, value in RECORDS:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


def kafka_python_writes(broker, topic, codec):
    producer = python_package("kafka").KafkaProducer(bootstrap_servers=broker, compression_type=None if codec == "none" else codec)
    for answer in [producer.send(topic, value.encode(), key.encode()) for key, value in RECORDS]:
        answer.get(DEADLINE_SECONDS)
    producer.close(timeout=5)


def java_writes(broker, topic, codec):
    java("kafka-clients-4.4.0", SOURCES / "OldProducer.java", broker, topic, len(RECORDS), codec)


def kcat_reads(broker, topic, _count):
    lines = kcat("-b", broker, "-C", "-e", "-q", "-X", "fetch.wait.max.ms=10", "-t", topic, "-o", "beginning", "-f", "%o|%k|%s\n")
    return [(int(offset), key, value) for offset, key, value in (line.split("|") for line in lines.decode().splitlines())]


def confluent_kafka_reads(broker, topic, count):
    confluent_kafka = python_package("confluent_kafka")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": "assigns-itself", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, DEADLINE_SECONDS)
    consumer.close()
    return [(message.offset(), message.key().decode(), message.value().decode()) for message in messages]


def kafka_python_reads(broker, topic, count):
    kafka = python_package("kafka")
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker, consumer_timeout_ms=DEADLINE_SECONDS * 1_000)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    records = [next(consumer) for _ in range(count)]
    consumer.close()
    return [(record.offset, record.key.decode(), record.value.decode()) for record in records]


def java_reads(broker, topic, count):
    lines = java("kafka-clients-3.9.2", SOURCES / "OldConsumer.java", broker, topic, count).decode().splitlines()
    return [(int(offset), f"key {key}", f"value {value}") for offset, _, key, _, value in (line.split(" ") for line in lines)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_each_writes_all_read(cluster, topic, codec):
    expected = []
    for writes in (kcat_writes, confluent_kafka_writes, kafka_python_writes, java_writes):
        writes(cluster.broker, topic, codec)
        expected += [(len(expected) + n, key, value) for n, (key, value) in enumerate(RECORDS)]
    for reads in (kcat_reads, confluent_kafka_reads, kafka_python_reads, java_reads):
        assert reads(cluster.broker, topic, len(expected)) == expected, reads.__name__
