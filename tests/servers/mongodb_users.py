"""Serves as the only member of a MongoDB replica set, with users: PORT DIRECTORY. `root` has the password `r00t`."""

import signal
import sys

import pymongo
from secantus import SecantusDBServer

port, directory = int(sys.argv[1]), sys.argv[2]
# The first user can only be made where nobody has to log in.
with SecantusDBServer(storage_path=directory) as server:
    users = pymongo.MongoClient(server.uri).admin
    if not users.command("usersInfo", "root")["users"]:
        users.command("createUser", "root", pwd="r00t", roles=["root"])
SecantusDBServer(port=port, storage_path=directory, require_auth=True, durable=True).start()
signal.pause()
