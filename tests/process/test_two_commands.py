"""bin/quickstart.sh and `ottla dev`, the two ways to begin."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from servers import BIN, HOME, eventually, free_port


@pytest.fixture
def quickstart(program, tmp_path):
    def quickstart(*arguments):
        return subprocess.run(
            [BIN / "quickstart.sh", *arguments], cwd="/", env=os.environ | {"OTTLA_BIN": str(program), "TMPDIR": str(tmp_path)},
            capture_output=True, text=True, timeout=100,
        )

    return quickstart


def test_quickstart(quickstart, tmp_path):
    run = quickstart()
    assert run.returncode == 0, run.stdout + run.stderr
    assert "==> all 202 lines came back, every byte the same\n" in run.stdout
    assert "topic: quickstart\tpartition: 0\tleader: 0\treplicas: 0\tisr: 0\n" in run.stdout
    stopped = re.findall(r"==> stopping .* \(process (\d+)\)\n", run.stdout)
    assert len(stopped) == 2
    for process in stopped:
        assert not os.path.exists(f"/proc/{process}")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_quickstart_with_a_file_of_ones_own(quickstart, tmp_path_factory):
    file = tmp_path_factory.mktemp("mine") / "verses.txt"
    file.write_text("Γειά\n\n  two spaces\ttab\n" * 1_000)
    run = quickstart("--file", file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "==> all 3000 lines came back" in run.stdout


def test_quickstart_that_is_told_to_keep_says_how_to_use_and_stop_it(quickstart, tmp_path, tool):
    run = quickstart("--keep")
    assert run.returncode == 0, run.stdout + run.stderr
    stop = re.search(r"to stop it: +(\S+ --stop (\S+))\n", run.stdout)
    processes = Path(stop[2], "processes").read_text().split()
    try:
        broker = re.search(r"bootstrap server (\S+),", run.stdout)[1]
        again = tool("kafka-console-consumer.sh", "--bootstrap-server", broker, "--topic", "quickstart", "--from-beginning", "--max-messages", 202)
        assert again.stdout == (HOME / "LICENSE").read_bytes()
    finally:
        subprocess.run(stop[1].split(), check=True)
    assert len(processes) == 2
    eventually(lambda: not any(os.path.exists(f"/proc/{process}") for process in processes), "both are stopped")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_quickstart_that_left_nothing_running_cannot_stop_it(quickstart, tmp_path):
    run = quickstart("--stop", tmp_path)
    assert (run.returncode, run.stderr) == (1, f"quickstart failed: nothing was left running in {tmp_path}\n")


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--file", "/no/such/file"]])
def test_quickstart_that_cannot_work_says_so_and_leaves_nothing(quickstart, tmp_path, arguments):
    run = quickstart(*arguments)
    assert run.returncode == 1
    assert run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def dev(program, servers, tmp_path):
    """`ottla dev` on a free port, its data in a folder."""
    port = free_port()
    command = [program, "dev", "--data", tmp_path / "data", "--port", str(port)]
    dev = servers.server("dev", command, lambda server: re.search(r"KafkaServer id=\d+\] started", server.printed()))
    dev.address = f"127.0.0.1:{port}"
    return dev


def test_dev_is_all_one_needs_and_keeps_its_data(dev, tool):
    dev.start()
    sent = tool("kafka-console-producer.sh", "--bootstrap-server", dev.address, "--topic", "t", stdin=b"one\ntwo\n")
    assert sent.returncode == 0, sent.stderr.decode()
    for end in (lambda: dev.stop(signal.SIGINT), lambda: dev.kill()):
        end()
        dev.start()
        read = tool("kafka-console-consumer.sh", "--bootstrap-server", dev.address, "--topic", "t", "--from-beginning", "--max-messages", 2)
        assert read.stdout == b"one\ntwo\n", read.stderr.decode()
    assert dev.stop(signal.SIGTERM) == 143
