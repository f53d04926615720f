"""docs/walkthrough.md with three brokers: a follower dies, the leader dies, and nothing is lost in a producer and a consumer that keep running."""

import re
import subprocess
import threading

import pytest

from servers import BIN, DEADLINE_SECONDS, eventually, free_port, write_properties

LINE = re.compile(r"topic: 3test\tpartition: 0\tleader: (\d)\treplicas: (\d,\d,\d)\tisr: ([\d,]+)\n")


class Brokers:
    """Brokers 0, 1 and 2, from properties files with the keys of Kafka 0.8."""

    def __init__(self, servers, tmp_path):
        self.zookeeper = servers.zookeeper()
        self.ports = [free_port() for _ in range(3)]
        self.addresses = ",".join(f"localhost:{port}" for port in self.ports)
        self.servers = []
        for id, port in enumerate(self.ports):
            properties = write_properties(tmp_path / f"server-{id}.properties", {
                "broker.id": id, "port": port, "host.name": "localhost", "log.dir": tmp_path / f"kafka-logs-{id}",
                "zookeeper.connect": self.zookeeper.address, "zookeeper.session.timeout.ms": 6000,
            })
            server = servers.server(f"broker-{id}", [BIN / "kafka-server-start.sh", properties], lambda server: f"KafkaServer id={server.id}] started" in server.printed())
            server.id, server.properties = id, properties
            self.servers.append(server)
        for server in self.servers:
            server.launch()
        for server in self.servers:
            eventually(lambda: server.ready(server), f"{server.name} is ready", unless=server.why_ended)

    def pkill(self, id):
        """As the walkthrough kills: by the name of the properties file."""
        subprocess.run(["pkill", "-9", "-f", str(self.servers[id].properties)], check=True)
        self.servers[id].process.wait(DEADLINE_SECONDS)


@pytest.fixture
def brokers(servers, tmp_path):
    return Brokers(servers, tmp_path)


class Conversation:
    """Lines typed into a running producer, and what a running consumer has printed."""

    def __init__(self, producer, consumer):
        self.producer, self.typed, self.seen = producer, [], []
        threading.Thread(target=self.read, args=(consumer,), daemon=True).start()

    def read(self, consumer):
        for line in iter(consumer.stdout.readline, b""):
            self.seen.append(line)

    def say(self, count):
        for _ in range(count):
            line = f"line {len(self.typed)}\n".encode()
            self.producer.stdin.write(line)
            self.producer.stdin.flush()
            self.typed.append(line)

    def arrives(self, when):
        eventually(lambda: len(self.seen) >= len(self.typed), f"what was typed arrives {when}")
        assert self.seen == self.typed, f"each line once and in order {when}"


def test_followers_and_leaders_die_and_nothing_is_lost(brokers, tool, started_tool):
    def listed():
        found = LINE.fullmatch(tool("kafka-list-topic.sh", "--zookeeper", brokers.zookeeper.address, "--topic", "3test").stdout.decode())
        return found and (int(found[1]), found[2], {int(id) for id in found[3].split(",")})

    created = tool("kafka-create-topic.sh", "--zookeeper", brokers.zookeeper.address, "--replica", 3, "--partition", 1, "--topic", "3test")
    assert (created.returncode, created.stdout) == (0, b"creation succeeded!\n")
    leader, replicas, _ = eventually(lambda: (now := listed()) and now[2] == {0, 1, 2} and now, "three replicas are in sync")

    producer = started_tool("kafka-console-producer.sh", "--broker-list", brokers.addresses, "--topic", "3test")
    consumer = started_tool("kafka-console-consumer.sh", "--zookeeper", brokers.zookeeper.address, "--from-beginning", "--topic", "3test")
    lines = Conversation(producer, consumer)
    lines.say(20)
    lines.arrives("with everyone alive")

    follower = next(int(id) for id in replicas.split(",") if int(id) != leader)
    brokers.pkill(follower)
    lines.say(20)
    eventually(lambda: listed() == (leader, replicas, {0, 1, 2} - {follower}), "the dead follower leaves the isr")
    lines.say(20)
    lines.arrives("after a follower was killed")

    brokers.pkill(leader)
    (survivor,) = {0, 1, 2} - {follower, leader}
    lines.say(20)
    eventually(lambda: listed() == (survivor, replicas, {survivor}), "the last replica leads")
    lines.say(20)
    lines.arrives("after the leader was killed")

    for id in (follower, leader):
        brokers.servers[id].start()
    eventually(lambda: listed() == (survivor, replicas, {0, 1, 2}), "the brokers that came back are in sync again")
    lines.say(20)
    lines.arrives("with everyone back")

    producer.stdin.close()
    assert producer.wait(DEADLINE_SECONDS) == 0
    logs = {server.properties.parent.joinpath(f"kafka-logs-{server.id}", "3test-0", f"{0:020}.log").read_bytes() for server in brokers.servers}
    assert len(logs) == 1, "the same bytes on all three"
