"""Apache's own Java clients, from the first to the newest, and the Scala tools of Kafka 0.8.0."""

from pathlib import Path

import pytest

from foreign import java, kcat

SOURCES = Path(__file__).parent / "java"
RECORDS = [f"{n} key {n} value {n}" for n in range(100)]


@pytest.mark.parametrize("version", ["2.0.1", "2.8.2", "3.9.2", "4.4.0"])
def test_kafka_clients(cluster, topic, version):
    codecs = ["none", "gzip", "snappy", "lz4"] + (["zstd"] if version != "2.0.1" else [])
    claims = java(f"kafka-clients-{version}", SOURCES / "RoundTrip.java", cluster.broker, topic, *codecs)
    assert len(claims.splitlines()) == 7 + len(codecs), claims.decode()


def produce(version, cluster, topic, codec="none"):
    offsets = java(f"kafka-clients-{version}", SOURCES / "OldProducer.java", cluster.broker, topic, len(RECORDS), codec)
    assert offsets.decode().split() == [str(n) for n in range(len(RECORDS))]


def consume(version, cluster, topic):
    return java(f"kafka-clients-{version}", SOURCES / "OldConsumer.java", cluster.broker, topic, len(RECORDS)).decode().splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_the_first_java_producer(cluster, topic, codec):
    produce("0.8.2.2", cluster, topic, codec)
    assert consume("0.10.2.2", cluster, topic) == RECORDS


def test_the_clients_of_0_10(cluster, topic):
    produce("0.10.2.2", cluster, topic, "gzip")
    assert consume("0.10.2.2", cluster, topic) == RECORDS
    read = kcat("-b", cluster.broker, "-C", "-e", "-q", "-t", topic, "-o", "beginning", "-f", "%o %k %s\n")
    assert read.decode().splitlines() == RECORDS


def test_newest_records_for_the_client_of_0_10(cluster, topic):
    produce("3.9.2", cluster, topic, "gzip")
    assert consume("0.10.2.2", cluster, topic) == RECORDS


def scala(tool, *arguments, **more):
    return java("kafka-0.8.0", tool, *arguments, **more).decode()


def test_the_tools_of_0_8_0(cluster, topic):
    """Create and list by way of ZooKeeper, produce, and consume as a group that is registered in ZooKeeper."""
    made = scala("kafka.admin.CreateTopicCommand", "--zookeeper", cluster.zookeeper, "--replica", 1, "--partition", 2, "--topic", topic)
    assert made == "creation succeeded!\n"
    listed = scala("kafka.admin.ListTopicCommand", "--zookeeper", cluster.zookeeper, "--topic", topic)
    assert listed.splitlines() == [f"topic: {topic}\tpartition: {p}\tleader: 0\treplicas: 0\tisr: 0" for p in (0, 1)]
    lines = "".join(f"line {n}\n" for n in range(1_000)).encode()
    scala("kafka.producer.ConsoleProducer", "--broker-list", cluster.broker, "--topic", topic, "--request-required-acks", 1, stdin=lines)
    read = scala("kafka.consumer.ConsoleConsumer", "--zookeeper", cluster.zookeeper, "--topic", topic, "--from-beginning", "--max-messages", 1_000)
    assert sorted(read.splitlines()) == sorted(lines.decode().splitlines())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_newest_records_for_the_consumer_of_0_8_0(cluster, topic, codec):
    lines = b"".join(b"line %d\n" % n for n in range(1_000))
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, "-z", codec, "-H", "a=header", stdin=lines)
    read = scala("kafka.consumer.ConsoleConsumer", "--zookeeper", cluster.zookeeper, "--topic", topic, "--from-beginning", "--max-messages", 1_000)
    assert read.encode() == lines
