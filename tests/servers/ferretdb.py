"""Answers as FerretDB 1.24 with its SQLite handler does, as far as a run goes: PORT. It keeps nothing."""

import datetime
import socketserver
import struct
import sys

import bson

HELLO = {
    "ismaster": True,
    "maxBsonObjectSize": 16777216,
    "maxMessageSizeBytes": 48000000,
    "maxWriteBatchSize": 100000,
    "logicalSessionTimeoutMinutes": 30,
    # Every connection has this number.
    "connectionId": 42,
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "readOnly": False,
}
ANSWERS = {
    "buildinfo": {"version": "7.0.42", "ferretdbVersion": "v1.24.2"},
    "find": {"cursor": {"firstBatch": [], "id": bson.Int64(0), "ns": "d.c"}},
    "insert": {"n": 1},
    "update": {"n": 1, "nModified": 1},
}


def answer(command):
    name = next(iter(command)).lower()
    if name in ("ismaster", "hello"):
        found = dict(HELLO, localTime=datetime.datetime.now(datetime.timezone.utc))
    else:
        found = ANSWERS.get(name, {})
    return bson.encode(dict(found, ok=1.0))


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        while len(header := self.rfile.read(16)) == 16:
            length, request, _, operation = struct.unpack("<iiii", header)
            body = self.rfile.read(length - 16)
            if operation == 2004:  # OP_QUERY, only for the first request
                at = body.index(b"\0", 4) + 9
                command = bson.decode(body[at:at + struct.unpack_from("<i", body, at)[0]])
                code, reply = 1, struct.pack("<iqii", 8, 0, 0, 1) + answer(command)
            else:  # OP_MSG, whose first section is the command
                command = bson.decode(body[5:5 + struct.unpack_from("<i", body, 5)[0]])
                code, reply = 2013, struct.pack("<iB", 0, 0) + answer(command)
            self.wfile.write(struct.pack("<iiii", 16 + len(reply), 1, request, code) + reply)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Client).serve_forever()
