"""What the console tools print, byte for byte: scripts that were written for Kafka's tools parse it.

A transcript is a list of shell lines, each with what it printed on standard output and, if it is not 0, the exit status of its last command.
Reading a transcript's diff is the review. To write it anew from the program under test: WRITE_TRANSCRIPTS=1.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from servers import BIN, DEADLINE_SECONDS

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def masked(printed):
    """Replaces what is different in each run."""
    return re.sub(r"TopicId: [\w-]{22}\t", "TopicId: (22 characters)\t", printed)


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(servers, program, path):
    zookeeper = servers.zookeeper()
    broker = servers.broker(zookeeper)
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}", "OTTLA_BIN": str(program), "BROKER": broker.address, "ZOOKEEPER": zookeeper.address,
    }
    transcript = path.read_text()
    happened = ""
    for line in re.findall(r"^\$ (.*)$", transcript, re.MULTILINE):
        run = subprocess.run(["sh", "-c", line], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=DEADLINE_SECONDS)
        happened += f"$ {line}\n{masked(run.stdout.decode())}"
        if run.returncode:
            happened += f"[exit status {run.returncode}]\n"
    if os.environ.get("WRITE_TRANSCRIPTS"):
        path.write_text(happened)
    assert happened == transcript
