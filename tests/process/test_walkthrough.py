"""docs/walkthrough.md with one broker: the same commands, files changed as a person changes them, the same lines on the screen."""

import re
import shutil
import signal
import subprocess

import pytest

from servers import BIN, DEADLINE_SECONDS, HOME, eventually, free_port


@pytest.fixture
def broker(servers, tmp_path):
    """A broker started from a copy of config/server.properties in which broker.id, port and log.dir are changed."""
    zookeeper = servers.zookeeper()
    port = free_port()
    properties = tmp_path / "server-1.properties"
    shutil.copy(HOME / "config/server.properties", properties)
    text = properties.read_text()
    changes = {"broker.id": 1, "port": port, "log.dir": tmp_path / "kafka-logs-1", "zookeeper.connect": zookeeper.address}
    for name, value in changes.items():
        text, count = re.subn(rf"(?m)^{re.escape(name)}=.*$", f"{name}={value}", text)
        assert count == 1, f"config/server.properties has {name} {count} times"
    properties.write_text(text)
    broker = servers.server("broker-1", [BIN / "kafka-server-start.sh", properties], lambda server: "KafkaServer id=1] started" in server.printed())
    broker.address, broker.zookeeper, broker.properties = f"localhost:{port}", zookeeper, properties
    return broker.start()


def test_create_list_produce_and_consume(broker, tool, started_tool):
    created = tool("kafka-create-topic.sh", "--zookeeper", broker.zookeeper.address, "--replica", 1, "--partition", 1, "--topic", "3test")
    assert (created.returncode, created.stdout) == (0, b"creation succeeded!\n")
    listed = tool("kafka-list-topic.sh", "--zookeeper", broker.zookeeper.address)
    assert (listed.returncode, listed.stdout) == (0, b"topic: 3test\tpartition: 0\tleader: 1\treplicas: 1\tisr: 1\n")

    producer = started_tool("kafka-console-producer.sh", "--broker-list", broker.address, "--topic", "3test")
    consumer = started_tool("kafka-console-consumer.sh", "--zookeeper", broker.zookeeper.address, "--from-beginning", "--topic", "3test")
    for line in (b"hello\n", b"world\n", b"\n", "Γειά σου Όττλα\n".encode()):
        producer.stdin.write(line)
        producer.stdin.flush()
        assert consumer.stdout.readline() == line, "typed into the producer, it appears in the consumer"


def test_pkill_by_the_name_of_the_properties_file(broker, tool):
    killed = subprocess.run(["pkill", "-9", "-f", str(broker.properties)])
    assert killed.returncode == 0, "the process's command line has the file's name"
    assert broker.process.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    broker.start()
    tool("kafka-create-topic.sh", "--zookeeper", broker.zookeeper.address, "--topic", "after")
    eventually(
        lambda: b"leader: 1" in tool("kafka-list-topic.sh", "--zookeeper", broker.zookeeper.address).stdout,
        "the broker that came back leads a new topic",
    )


def test_the_broker_is_registered_as_kafka_registers_it(broker, tool):
    shown = tool("zookeeper-shell.sh", broker.zookeeper.address, "get", "/brokers/ids/1").stdout.decode()
    port = broker.address.split(":")[1]
    assert re.search(
        r'\{"features":\{\},"listener_security_protocol_map":\{"PLAINTEXT":"PLAINTEXT"\},"endpoints":\["PLAINTEXT://[^"]+:' + port + r'"\],"jmx_port":-1,'
        r'"port":' + port + r',"host":"[^"]+","version":5,"timestamp":"\d{13}"\}', shown,
    ), shown
