#!/usr/bin/env python3
"""Works while it leads, and prints a line of JSON whenever its trust changes.

    leader agent --dev
    python3 worker.py http://127.0.0.1:9467 reports host-1
"""

import json
import os
import signal
import sys
import time

from leader_agent import Candidate, now


def say(**line):
    print(json.dumps(line), flush=True)


def main(agent, group, name, *settings):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # which ends the with statement, and so hands over
    options = {key: int(value) for key, value in (s.split("=") for s in settings)}
    with Candidate(agent, group, name, os.environ.get("LEADER_AGENT_TOKEN"), **options) as candidate:
        say(name=name, stands=group)
        for term in candidate.terms():
            last = 0
            try:
                while term.trusted():
                    at, until = now(), term.until
                    if until > last:
                        say(name=name, term=term.number, at=at, until=until)
                        last = until
                    time.sleep(0.02)  # one step of work
            finally:  # also at a signal: what has begun is finished before another may lead
                say(name=name, term=term.number, stopped=now())


if __name__ == "__main__":
    main(*sys.argv[1:])
