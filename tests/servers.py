"""Servers that tests start: each on ports of its own, in a folder of its own, and gone when its test is.

Two products can stand behind the same tests. Ottla is started by the scripts in bin/. Apache Kafka 3.9 (with its ZooKeeper) is started from
the jars that tests/interop/install.sh fetches; running the tests against it proves the tests.
"""

import contextlib
import ctypes
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
BIN = HOME / "bin"
CACHE = HOME / "tests" / "interop" / ".cache"

# Generous, since only a failure waits this long: a loaded machine must not turn a right answer into a wrong one.
DEADLINE_SECONDS = 60.0


def eventually(condition, what, within=DEADLINE_SECONDS, unless=lambda: None):
    """Returns the first true value of `condition`. Fails with `what` at the deadline, or with the reason that `unless` gives."""
    pause = threading.Event()
    end = time.monotonic() + within
    while True:
        if value := condition():
            return value
        if reason := unless():
            raise AssertionError(f"{what}: {reason}")
        if time.monotonic() > end:
            raise AssertionError(f"not within {within:g} s: {what}")
        pause.wait(0.02)


ports_given = set()


def free_port():
    """A port that nothing listens on and no other caller was given, below the range from which the kernel numbers outgoing connections.

    So no client's connection can sit on it while a server that was killed comes back.
    """
    lowest_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, lowest_ephemeral)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in ports_given:
                ports_given.add(port)
                return port


def dies_with_its_parent():
    """To run in a child before exec: the kernel kills it when the tests end, however they end."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Server:
    """One server process. Its output goes to `output`, over restarts too."""

    def __init__(self, name, command, folder, environment, ready):
        self.name, self.command, self.folder, self.environment, self.ready = name, command, folder, environment, ready
        self.output = folder / f"{name}.out"
        self.process = None

    def start(self):
        """Starts the process and returns once it can serve."""
        self.launch()
        eventually(lambda: self.ready(self), f"{self.name} is ready", unless=self.why_ended)
        return self

    def launch(self):
        self.output_before = self.output.stat().st_size if self.output.exists() else 0
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, preexec_fn=dies_with_its_parent,
            )

    def why_ended(self):
        if self.process.poll() is not None:
            return f"{self.name} ended with status {self.process.returncode}; the end of its output:\n{self.printed()[-2_000:]}"

    def printed(self):
        """What it has printed since its last start."""
        with self.output.open("rb") as output:
            output.seek(self.output_before)
            return output.read().decode(errors="replace")

    def kill(self):
        """kill -9, and waits until it is gone."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self, by=signal.SIGTERM):
        """Asks it to end and returns the exit status as a shell would show it: 128 + the signal if that is what ended it."""
        self.process.send_signal(by)
        status = self.process.wait(DEADLINE_SECONDS)
        return 128 - status if status < 0 else status


def ask(port, request, length=1 << 20):
    """What the port answers within a second, up to a length or the end of the connection; b"" if nothing listens or nothing comes."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read(length)
    return b""


class Ottla:
    """Ottla, started by its own scripts."""

    name = "ottla"

    def __init__(self, program):
        self.environment = os.environ | {"OTTLA_BIN": str(program)}

    def zookeeper(self, properties):
        return [BIN / "zookeeper-server-start.sh", properties]

    def broker(self, properties):
        return [BIN / "kafka-server-start.sh", properties]

    def broker_is_ready(self, server):
        """The line is a promise: whoever reads it may create topics and produce at once."""
        return f"KafkaServer id={server.id}] started" in server.printed()


class Apache:
    """Apache Kafka 3.9.2 with the ZooKeeper 3.8.4 that belongs to it."""

    name = "apache"
    jars = CACHE / "apache-kafka-3.9.2"
    environment = dict(os.environ)

    def java(self, *arguments):
        logging = f"-Dlog4j.configuration=file:{HOME}/tests/interop/log4j.properties"
        return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", logging, "-cp", f"{self.jars}/*", *arguments]

    def zookeeper(self, properties):
        return self.java("org.apache.zookeeper.server.quorum.QuorumPeerMain", properties)

    def broker(self, properties):
        return self.java("kafka.Kafka", properties)

    def broker_is_ready(self, server):
        """It serves before its controller told it of any broker, and then refuses to create topics; so ask for the brokers."""
        metadata_v1_of_no_topic = struct.pack(">hhihi", 3, 1, 0, -1, 0)
        answer = ask(server.port, struct.pack(">i", len(metadata_v1_of_no_topic)) + metadata_v1_of_no_topic, 12)
        return len(answer) == 12 and struct.unpack(">iii", answer)[2] > 0


class Servers:
    """Starts servers of one product below one folder and kills them all in the end."""

    def __init__(self, product, folder):
        self.product, self.folder, self.all = product, Path(folder), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.all):
            server.kill()

    def server(self, name, command, ready):
        environment = self.product.environment | {"LOG_DIR": str(self.folder / "logs")}
        server = Server(name, command, self.folder, environment, ready)
        self.all.append(server)
        return server

    def zookeeper(self, **settings):
        """A ZooKeeper server that is ready, with `address`."""
        port = free_port()
        settings = {
            "dataDir": self.folder / "zookeeper", "clientPort": port, "maxClientCnxns": 0, "tickTime": 500,
            "admin.enableServer": "false", "4lw.commands.whitelist": "*",
        } | settings
        properties = write_properties(self.folder / "zookeeper.properties", settings)
        server = self.server("zookeeper", self.product.zookeeper(properties), lambda server: b"Mode:" in ask(port, b"srvr"))
        server.address = f"127.0.0.1:{port}"
        return server.start()

    def broker(self, zookeeper, id=0, start=True, **settings):
        """A broker that is ready, with `address`. Dots in the names of settings are written as two underscores."""
        port = free_port()
        settings = {
            "broker.id": id, "listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": self.folder / f"kafka-logs-{id}",
            "zookeeper.connect": zookeeper.address, "zookeeper.session.timeout.ms": 6000,
            "offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1, "group.initial.rebalance.delay.ms": 0,
        } | {name.replace("__", "."): value for name, value in settings.items()}
        properties = write_properties(self.folder / f"server-{id}.properties", settings)
        server = self.server(f"broker-{id}", self.product.broker(properties), self.product.broker_is_ready)
        server.address, server.port, server.id, server.logs = f"127.0.0.1:{port}", port, id, Path(settings["log.dirs"])
        return server.start() if start else server


def write_properties(path, settings):
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
