"""How a broker starts, refuses to start, ends and comes back."""

import signal
import socket

import pytest

from servers import DEADLINE_SECONDS, eventually


@pytest.fixture
def zookeeper(servers):
    return servers.zookeeper()


@pytest.mark.parametrize("setting, value, said", [
    ("broker.id", "one", ["broker.id", "one"]),
    ("broker.id", "-7", ["broker.id", "-7"]),
    ("listeners", "PLAINTEXT://127.0.0.1:99999", ["listeners", "99999"]),
    ("listeners", "MYSTERY://127.0.0.1:1234", ["MYSTERY"]),
    ("num.partitions", "0", ["num.partitions", "0"]),
    ("log.retention.hours", "a week", ["log.retention.hours", "a week"]),
    ("log.segment.bytes", "1", ["log.segment.bytes", "1"]),
    ("auto.create.topics.enable", "maybe", ["auto.create.topics.enable", "maybe"]),
    ("compression.type", "rar", ["compression.type", "rar"]),
    ("inter.broker.protocol.version", "7.7", ["inter.broker.protocol.version", "7.7"]),
])
def test_a_bad_value_stops_the_start_and_is_named(zookeeper, servers, setting, value, said):
    broker = servers.broker(zookeeper, start=False, **{setting.replace(".", "__"): value})
    broker.launch()
    assert broker.process.wait(DEADLINE_SECONDS) == 1
    for word in said:
        assert word in broker.printed()
    assert "panicked" not in broker.printed()


def test_no_such_file(tool):
    run = tool("kafka-server-start.sh", "no-such.properties")
    assert run.returncode == 1
    assert b"no-such.properties" in run.stdout + run.stderr


def test_without_zookeeper_connect(tool, tmp_path):
    (tmp_path / "empty.properties").write_text("broker.id=0\n")
    run = tool("kafka-server-start.sh", "empty.properties")
    assert run.returncode == 1
    assert b"zookeeper.connect" in run.stdout + run.stderr


def test_no_zookeeper_where_it_should_be(servers):
    class Nowhere:
        address = "127.0.0.1:1"

    broker = servers.broker(Nowhere, start=False, zookeeper__connection__timeout__ms=1_000)
    broker.launch()
    assert broker.process.wait(DEADLINE_SECONDS) == 1
    assert "127.0.0.1:1" in broker.printed()


def test_a_port_that_is_taken_is_named(zookeeper, servers):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = servers.broker(zookeeper, start=False, listeners=f"PLAINTEXT://127.0.0.1:{port}")
        broker.launch()
        assert broker.process.wait(DEADLINE_SECONDS) == 1
        assert str(port) in broker.printed()


def test_a_folder_that_another_broker_uses_is_named(zookeeper, servers):
    first = servers.broker(zookeeper, id=0)
    second = servers.broker(zookeeper, id=1, start=False, log__dirs=first.logs)
    second.launch()
    assert second.process.wait(DEADLINE_SECONDS) == 1
    assert str(first.logs) in second.printed()
    assert first.process.poll() is None


def test_the_folder_of_another_broker_id_is_refused(zookeeper, servers):
    first = servers.broker(zookeeper, id=0)
    assert first.stop() == 143
    second = servers.broker(zookeeper, id=1, start=False, log__dirs=first.logs)
    second.launch()
    assert second.process.wait(DEADLINE_SECONDS) == 1
    assert "meta.properties" in second.printed()


def test_a_key_that_nobody_knows_is_named_and_does_not_stop_the_start(zookeeper, servers):
    broker = servers.broker(zookeeper, no__such__key=1)
    assert "no.such.key" in broker.printed()


def ids(tool, zookeeper):
    """The brokers that ZooKeeper has registered, as the last line of its shell shows them."""
    return tool("zookeeper-shell.sh", zookeeper.address, "ls", "/brokers/ids").stdout.decode().splitlines()[-1]


@pytest.mark.parametrize("by, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_clean_shutdown_leaves_at_once_and_completely(zookeeper, servers, tool, by, status):
    broker = servers.broker(zookeeper)
    assert ids(tool, zookeeper) == "[0]"
    assert broker.stop(by) == status
    assert ids(tool, zookeeper) == "[]"
    assert "controller" not in tool("zookeeper-shell.sh", zookeeper.address, "ls", "/").stdout.decode().splitlines()[-1].replace("controller_epoch", "")
    assert (broker.logs / ".kafka_cleanshutdown").exists()


def lines(count):
    return b"".join(b"line %d\n" % n for n in range(count))


def consumed(tool, broker, topic, count):
    run = tool("kafka-console-consumer.sh", "--bootstrap-server", broker.address, "--topic", topic, "--from-beginning", "--max-messages", count)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@pytest.mark.parametrize("end", ["kill -9", "SIGTERM"])
def test_what_was_acknowledged_is_there_after_a_restart(zookeeper, servers, tool, end):
    broker = servers.broker(zookeeper)
    for turn in (1, 2, 3):
        sent = tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "kept", stdin=lines(2_000))
        assert sent.returncode == 0, sent.stderr.decode()
        broker.kill() if end == "kill -9" else broker.stop()
        broker.start()
        assert consumed(tool, broker, "kept", 2_000 * turn) == lines(2_000) * turn


def test_a_broker_that_was_killed_takes_its_place_again_while_its_old_session_lasts(zookeeper, servers, tool):
    broker = servers.broker(zookeeper, zookeeper__session__timeout__ms=6_000)
    broker.kill()
    assert ids(tool, zookeeper) == "[0]", "the old session is not over"
    broker.start()
    assert ids(tool, zookeeper) == "[0]"
    sent = tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "after", stdin=lines(10))
    assert sent.returncode == 0, sent.stderr.decode()


def test_a_torn_tail_is_cut_and_the_rest_kept(zookeeper, servers, tool):
    broker = servers.broker(zookeeper)
    tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "torn", stdin=lines(500))
    broker.kill()
    log = broker.logs / "torn-0" / f"{0:020}.log"
    whole = log.stat().st_size
    with log.open("ab") as file:
        file.write(log.read_bytes()[:90])  # as if the machine had died in the middle of the next append
    broker.start()
    assert log.stat().st_size == whole
    tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "torn", stdin=b"next\n")
    assert consumed(tool, broker, "torn", 501) == lines(500) + b"next\n"


def test_zookeeper_comes_and_goes_and_clients_notice_nothing(zookeeper, servers, tool):
    broker = servers.broker(zookeeper)
    tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "steady", stdin=lines(10))
    zookeeper.kill()
    sent = tool("kafka-console-producer.sh", "--bootstrap-server", broker.address, "--topic", "steady", stdin=lines(10))
    assert sent.returncode == 0, sent.stderr.decode()
    assert consumed(tool, broker, "steady", 20) == lines(10) * 2
    zookeeper.start()
    eventually(lambda: ids(tool, zookeeper) == "[0]", "the broker is registered")
    made = eventually(
        lambda: (run := tool("kafka-topics.sh", "--bootstrap-server", broker.address, "--create", "--topic", "later")).returncode == 0 and run,
        "topics can be made again",
    )
    assert made.stdout == b"Created topic later.\n"
