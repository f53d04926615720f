"""kcat, which is librdkafka 2.0.2 on Debian 12."""

import json

import pytest

from foreign import kcat

LINES = [b"line %d, which repeats itself, repeats itself, repeats itself" % n for n in range(500)]
TEXT = b"".join(line + b"\n" for line in LINES)

# A client from before ApiVersions: librdkafka then speaks the requests and the message format of 0.9.
AS_0_9 = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0.1"]
AS_0_8_2 = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.8.2.2"]
MODERN = []

# To the end and no further, which kcat learns from an empty fetch: let that one be short.
READ = ["-C", "-e", "-q", "-X", "fetch.wait.max.ms=10"]


@pytest.mark.parametrize("reader", [MODERN, AS_0_9], ids=["modern", "0.9"])
@pytest.mark.parametrize("writer", [MODERN, AS_0_9], ids=["modern", "0.9"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_what_one_age_writes_the_other_reads(cluster, topic, codec, writer, reader):
    kcat("-b", cluster.broker, *writer, "-P", "-t", topic, "-p", 0, "-z", codec, stdin=TEXT)
    read = kcat("-b", cluster.broker, *reader, *READ, "-t", topic, "-o", "beginning", "-f", "%p %o %s\n")
    assert read == b"".join(b"0 %d %s\n" % (offset, line) for offset, line in enumerate(LINES))


def test_zstd(cluster, topic):
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, "-z", "zstd", stdin=TEXT)
    assert kcat("-b", cluster.broker, *READ, "-t", topic, "-o", "beginning") == TEXT


def test_speaks_0_8_2(cluster, topic):
    kcat("-b", cluster.broker, *AS_0_8_2, "-P", "-t", topic, "-p", 0, stdin=TEXT)
    assert kcat("-b", cluster.broker, *AS_0_8_2, *READ, "-t", topic, "-o", "beginning") == TEXT


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(cluster, topic, acks):
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, stdin=b"first\n")  # creates the topic
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, "-X", f"acks={acks}", stdin=TEXT)
    read = kcat("-b", cluster.broker, "-C", "-q", "-t", topic, "-p", 0, "-o", "beginning", "-c", 1 + len(LINES))
    assert read == b"first\n" + TEXT


def test_keys_headers_and_null_values(cluster, topic):
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, "-K", ":", "-Z", "-H", "trace=7", "-H", "flag", stdin=b"a:1\nb:\n:3\n")
    read = kcat("-b", cluster.broker, *READ, "-t", topic, "-o", "beginning", "-f", "%o key %K %k value %S %s headers %h\n")
    assert read.decode().splitlines() == [
        "0 key 1 a value 1 1 headers trace=7,flag=NULL",
        "1 key 1 b value -1  headers trace=7,flag=NULL",
        "2 key -1  value 1 3 headers trace=7,flag=NULL",
    ]


def test_starts_anywhere(cluster, topic):
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, stdin=TEXT)
    for where, expected in [(0, LINES), (499, LINES[499:]), (250, LINES[250:]), (-3, LINES[-3:]), ("end", [])]:
        read = kcat("-b", cluster.broker, *READ, "-t", topic, "-p", 0, "-o", where)
        assert read.splitlines() == expected, where


def test_finds_offsets_by_timestamp(cluster, topic):
    for line in (b"early\n", b"late\n"):
        kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, stdin=line)
    stamps = kcat("-b", cluster.broker, *READ, "-t", topic, "-o", "beginning", "-f", "%T ").split()
    early, late = map(int, stamps)
    assert early < late
    for when, offset in [(early, 0), (early + 1, 1), (late, 1), (-2, 0), (-1, 2)]:
        assert kcat("-b", cluster.broker, "-Q", "-t", f"{topic}:0:{when}").decode().split() == [topic, "[0]", "offset", str(offset)]


def test_metadata(cluster, topic):
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, stdin=TEXT)
    metadata = json.loads(kcat("-b", cluster.broker, "-L", "-J", "-t", topic))
    [broker] = metadata["brokers"]
    assert broker["name"] == cluster.broker
    me = {"id": broker["id"]}
    assert metadata["topics"] == [
        {"topic": topic, "partitions": [{"partition": 0, "leader": me["id"], "replicas": [me], "isrs": [me]}]}
    ]


def test_reads_on_as_records_arrive(cluster, topic):
    kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, stdin=b"0\n")
    for count in (2, 3):
        kcat("-b", cluster.broker, "-P", "-t", topic, "-p", 0, stdin=b"more\n")
        assert len(kcat("-b", cluster.broker, "-C", "-q", "-t", topic, "-p", 0, "-o", "beginning", "-c", count).splitlines()) == count
