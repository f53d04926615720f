"""`ottla dev`: a cluster in one process."""

import pytest

from servers import eventually, free_port


@pytest.fixture
def dev(servers, program, tmp_path):
    """Starts a cluster of a number of brokers, with `addresses`."""

    def start(brokers, *arguments):
        # Brokers take the ports above the first; two tests that run at once are not worth a better way.
        port = free_port()
        command = [program, "dev", "--brokers", str(brokers), "--port", str(port), *map(str, arguments)]
        server = servers.server(f"dev-{port}", command, lambda server: "stop with Ctrl-C" in server.printed())
        server.addresses = ",".join(f"127.0.0.1:{port + id}" for id in range(brokers))
        return server.start()

    return start


def consumed(tool, address, topic, count):
    read = tool("kafka-console-consumer.sh", "--bootstrap-server", address, "--topic", topic, "--from-beginning", "--max-messages", count)
    assert read.returncode == 0, read.stderr.decode()
    return read.stdout


def test_after_kill_9_it_waits_for_nobody_and_has_everything(dev, tool, tmp_path):
    cluster = dev(1, "--data", tmp_path / "data")
    sent = tool("kafka-console-producer.sh", "--bootstrap-server", cluster.addresses, "--topic", "kept", stdin=b"one\ntwo\n")
    assert sent.returncode == 0, sent.stderr.decode()
    cluster.kill()
    cluster.start()
    assert "waiting for it" not in cluster.printed(), "nobody is left whose session could still live"
    assert consumed(tool, cluster.addresses, "kept", 2) == b"one\ntwo\n"


def test_three_brokers_share_a_topic_and_end_together(dev, tool):
    cluster = dev(3)
    made = tool("kafka-topics.sh", "--bootstrap-server", cluster.addresses, "--create", "--topic", "t", "--partitions", 3, "--replication-factor", 3)
    assert made.returncode == 0, made.stderr.decode()
    sent = tool("kafka-console-producer.sh", "--bootstrap-server", cluster.addresses, "--topic", "t", stdin=b"".join(b"%d\n" % n for n in range(300)))
    assert sent.returncode == 0, sent.stderr.decode()
    assert sorted(map(int, consumed(tool, cluster.addresses, "t", 300).split())) == list(range(300))
    assert cluster.stop() == 143
    eventually(lambda: cluster.process.poll() is not None, "it is gone")
