"""The console producer and consumer with pipes, signals and wrong addresses."""

import fcntl
import os
import re
import signal
import socket
import struct
import termios
import threading

import pytest

from servers import DEADLINE_SECONDS, eventually


def send(tool, cluster, topic, *more, stdin):
    run = tool("kafka-console-producer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, *more, stdin=stdin)
    assert run.returncode == 0, run.stderr.decode()


def read(tool, cluster, topic, count, *more):
    run = tool("kafka-console-consumer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--from-beginning", "--max-messages", count, *more)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_long_stream_comes_back_whole(cluster, tool, topic, codec):
    text = b"".join(b"%d %s\n" % (n, b"x" * (n % 300)) for n in range(20_000))
    send(tool, cluster, topic, "--compression-codec", codec, stdin=text)
    assert read(tool, cluster, topic, 20_000) == text


def test_bytes_that_are_no_text_stay_as_they_are(cluster, tool, topic):
    lines = bytes(byte for byte in range(256) if byte != ord("\n")) + b"\n" + b"\xff\xfe\n"
    send(tool, cluster, topic, stdin=lines)
    assert read(tool, cluster, topic, 2) == lines


def test_a_last_line_without_its_end_is_sent_too(cluster, tool, topic):
    send(tool, cluster, topic, stdin=b"one\ntwo")
    assert read(tool, cluster, topic, 2) == b"one\ntwo\n"


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_producer_that_is_interrupted_sends_what_it_has_read(cluster, tool, started_tool, topic, by):
    producer = started_tool("kafka-console-producer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--timeout", 60_000)
    text = b"".join(b"line %d\n" % n for n in range(200))
    producer.stdin.write(text)
    producer.stdin.flush()

    def unread():
        return struct.unpack("i", fcntl.ioctl(producer.stdin.fileno(), termios.FIONREAD, b"\0" * 4))[0]

    eventually(lambda: unread() == 0, "the producer has read all")
    producer.send_signal(by)
    producer.wait(DEADLINE_SECONDS)
    assert read(tool, cluster, topic, 200) == text


def test_a_consumer_that_is_interrupted_says_how_many_it_printed(cluster, tool, started_tool, topic):
    send(tool, cluster, topic, stdin=b"one\ntwo\n")
    consumer = started_tool("kafka-console-consumer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--from-beginning")
    assert [consumer.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
    consumer.send_signal(signal.SIGINT)
    assert b"Processed a total of 2 messages" in consumer.stderr.read()


def test_a_consumer_whose_reader_is_gone_ends(cluster, tool, started_tool, topic):
    """As `kafka-console-consumer.sh ... | head -n 1` does."""
    send(tool, cluster, topic, stdin=b"line\n" * 50_000)
    consumer = started_tool("kafka-console-consumer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--from-beginning")
    assert consumer.stdout.readline() == b"line\n"
    consumer.stdout.close()
    consumer.stdout = open(os.devnull, "rb")
    consumer.wait(DEADLINE_SECONDS)
    assert b"panicked" not in consumer.stderr.read()


def test_a_consumer_without_from_beginning_starts_at_the_end(cluster, tool, started_tool, topic):
    send(tool, cluster, topic, stdin=b"old\n")
    consumer = started_tool("kafka-console-consumer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--max-messages", 1)
    stop = threading.Event()

    def keep_sending():
        while not stop.is_set():
            send(tool, cluster, topic, stdin=b"new\n")

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        assert consumer.stdout.readline() == b"new\n"
    finally:
        stop.set()
        sender.join()


def test_a_consumer_with_nothing_to_read_ends_in_time(cluster, tool, topic):
    send(tool, cluster, topic, stdin=b"one\n")
    run = tool("kafka-console-consumer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--from-beginning", "--timeout-ms", 1_000)
    assert run.stdout == b"one\n"
    assert b"Processed a total of 1 messages" in run.stderr


def test_a_key_that_is_missing_is_an_error_with_its_line(cluster, tool, topic):
    run = tool("kafka-console-producer.sh", "--bootstrap-server", cluster.broker, "--topic", topic, "--property", "parse.key=true", stdin=b"k\tv\nno key\n")
    assert run.returncode == 1
    assert b"line number 2" in run.stdout + run.stderr or b"line 2" in run.stdout + run.stderr
    assert read(tool, cluster, topic, 1, "--property", "print.key=true") == b"k\tv\n", "the lines before it are not lost"


# ---- The wrong address. A tool says what it found there, and soon. ----


@pytest.fixture
def port_that():
    """Opens a port that answers each request with the same bytes, or with nothing."""
    servers, threads = [], []

    def serve(server, answer):
        connections = []
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            if answer is not None:
                connection.recv(4_096)
                connection.sendall(answer)
                connection.close()

    def open_port(answer):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threads.append(threading.Thread(target=serve, args=(server, answer), daemon=True))
        threads[-1].start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield open_port
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


TOOLS = [
    ("kafka-topics.sh", "--bootstrap-server", ["--list"]),
    ("kafka-console-producer.sh", "--bootstrap-server", ["--topic", "t"]),
    ("kafka-console-consumer.sh", "--bootstrap-server", ["--topic", "t", "--from-beginning"]),
]

HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x0a"


@pytest.mark.parametrize("script, option, rest", TOOLS, ids=[script for script, _, _ in TOOLS])
@pytest.mark.parametrize("there, said", [
    ("nothing", "refused|nothing listens"),
    ("zookeeper", "ZooKeeper"),
    ("http", "HTTP"),
    ("tls", "TLS|SSL"),
    ("silence", "no answer|not answer|did not answer|timed out"),
    ("no such host", "resolve|lookup|no such host|not known"),
    ("not an address", "host:port|invalid|port"),
])
def test_the_wrong_address(cluster, tool, port_that, script, option, rest, there, said):
    address = {
        "nothing": lambda: "127.0.0.1:1",
        "zookeeper": lambda: cluster.zookeeper,
        "http": lambda: port_that(HTTP),
        "tls": lambda: port_that(TLS_ALERT),
        "silence": lambda: port_that(None),
        "no such host": lambda: "no-such-host.invalid:9092",
        "not an address": lambda: "localhost",
    }[there]()
    run = tool(script, option, address, *rest, stdin=b"x\n", within=40)
    output = (run.stdout + run.stderr).decode()
    assert run.returncode == 1, output
    assert address in output
    assert re.search(said, output, re.IGNORECASE), output
    assert len(output.splitlines()) < 40, "a few lines, not a flood of retries"


@pytest.mark.parametrize("script, rest", [
    ("kafka-list-topic.sh", []),
    ("kafka-create-topic.sh", ["--topic", "t"]),
])
@pytest.mark.parametrize("there", ["nothing", "a broker"])
def test_the_wrong_address_for_zookeeper(cluster, tool, script, rest, there):
    address = "127.0.0.1:1" if there == "nothing" else cluster.broker
    run = tool(script, "--zookeeper", address, *rest, within=40)
    output = (run.stdout + run.stderr).decode()
    assert address in output
    assert not re.search("succeeded|no topics exist", output)


def test_an_advertised_address_that_leads_nowhere_is_named(servers, tool):
    broker = servers.broker(servers.zookeeper(), advertised__listeners="PLAINTEXT://no-such-host.invalid:9092")
    run = tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "t", "--max-block-ms", 3_000, stdin=b"x\n", within=40)
    output = (run.stdout + run.stderr).decode()
    assert "no-such-host.invalid:9092" in output
    assert re.search("advertise", output), output
