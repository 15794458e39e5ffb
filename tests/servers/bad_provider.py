#!/usr/bin/python3
"""A provider that passes everything on to the example beside it, and misbehaves once, or answers wrongly all the time.

Its URL is exec:/PATH?mode=MODE&op=OP&directory=DIRECTORY: what it does wrong, and with which request. DIRECTORY/../misbehaved says
that it has done so; with `always=1` it does so every time.
"""

import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import urllib.parse

example = subprocess.Popen(
    [str(pathlib.Path(__file__).with_name("example"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
out = sys.stdout.buffer


def say(line):
    out.write(line)
    out.flush()


def ask(request):
    example.stdin.write(json.dumps(request).encode() + b"\n")
    example.stdin.flush()
    return example.stdout.readline()


def is_time(request):
    if request["op"] != op or (mark.exists() and not always):
        return False
    mark.touch()
    return True


def misbehave(request):
    if mode == "dies-before":
        print("no more of this", file=sys.stderr)
        os._exit(3)
    answer = ask(request)
    if mode == "dies-after":
        os._exit(3)
    if mode == "is-killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "is-stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if mode == "half-a-line":
        say(answer[: len(answer) // 2])
        os._exit(0)
    if mode == "late":
        time.sleep(60)
    if mode == "twice":
        say(answer + answer)
        return
    if mode == "no-json":
        say(b"Traceback (most recent call last):\n")
        return
    if mode == "no-utf-8":
        say(b'{"now": "\xff\xfe"}\n')
        return
    if mode == "no-field":
        say(b'{"later": true}\n')
        return
    if mode == "endless-line":
        piece = b"x" * (1 << 20)
        for _ in range(100):
            say(piece)
        return
    if mode == "noisy":
        # Until stdout is closed: nobody reads it then, and this ends by SIGPIPE.
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            while True:
                os.write(2, b"a line that nobody wants\n" * 1000)
        say(answer)
        return
    if mode == "leaves-children":
        # One of its group, and one that has a session of its own and is an orphan: both have all our pipes.
        subprocess.Popen(["sleep", "1000"])
        subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & wait"])
        say(answer)
        return
    if mode == "opens-the-terminal":
        try:
            os.open("/dev/tty", os.O_RDWR)
            mark.with_name("has-terminal").touch()
        except OSError:
            pass
        say(answer)
        return
    sys.exit(f"no such mode: {mode}")


def content(record):
    """A version that repeats, since it is made of the record alone."""
    return "none" if record is None else hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def seen(version, record):
    """The version that this shows for the example's."""
    return {"versions-of-content": content(record), "versions-of-names": "1"}.get(mode, version)


def falsify(request):
    """Answers each request wrongly, in the way of these modes."""
    if mode in ("versions-of-content", "versions-of-names", "compares-nothing") and request["op"] in ("write", "remove"):
        # The example still compares its own version, so that only this one's repeats.
        now = json.loads(ask({"op": "read", "name": request["name"]}))
        is_same = now["version"] is not None and seen(now["version"], now["record"]) == request["version"]
        if is_same or mode == "compares-nothing":
            request = {**request, "version": now["version"]}
    if mode == "removes-nothing" and request["op"] == "remove":
        return say(b'{"removed": true}\n')
    if mode == "fails-mostly" and request["op"] == "read" and random.random() < 0.65:
        return say(b'{"error": "not now", "class": "transient", "sent": false}\n')
    if request["op"] == "list":
        names = 0
        answer = ask(request)
        while b'"name"' in answer:
            names += 1
            if mode != "lists-nothing" and (mode != "lists-half" or names % 2 == 0):
                say(answer)
            answer = example.stdout.readline()
        return say(answer)
    answer = json.loads(ask(request))
    if request["op"] == "read" and answer.get("record"):
        answer["version"] = seen(answer["version"], answer["record"])
        if mode == "drops-set-at":
            answer["record"]["set_at"] = None
    say(json.dumps(answer).encode() + b"\n")


FALSE = ("removes-nothing", "lists-nothing", "lists-half", "drops-set-at", "compares-nothing", "fails-mostly")
FALSE += ("versions-of-content", "versions-of-names")

mode = op = None
for line in sys.stdin.buffer:
    request = json.loads(line)
    if request["op"] == "open":
        query = dict(urllib.parse.parse_qsl(request["url"].partition("?")[2]))
        mode, op, always = query["mode"], query["op"], "always" in query
        directory = query["directory"]
        mark = pathlib.Path(directory).with_name("misbehaved")
        if mode == "never-reads" and is_time({"op": op}):
            time.sleep(60)
        request["url"] = "example:" + directory
        if mode == "other-protocol":
            request["protocol"] = 2
    if mode in FALSE:
        falsify(request)
    elif is_time(request):
        misbehave(request)
    elif request["op"] == "list":
        while True:
            answer = ask(request) if request else example.stdout.readline()
            request = None
            say(answer)
            if b'"name"' not in answer:
                break
    else:
        say(ask(request))

if mode == "ignores-the-end":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
