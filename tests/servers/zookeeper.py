"""Carries out requests on a ZooKeeper server for the tests.

Each line of the input is a request, a JSON list; the answer is a line of JSON: the result, or {"error": NAME}. A node is
{"data", "version", "mtime", "mzxid"}. The arguments are the server's address and, if there is one, USER:PASSWORD.
"""

import json
import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError, NodeExistsError
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id, make_digest_acl_credential

RETRY = {"max_tries": -1, "delay": 0.02, "max_delay": 0.2}

# Servers come and go here, of which it would tell.
logging.getLogger("kazoo").addHandler(logging.NullHandler())
login = [("digest", word) for word in sys.argv[2:]]
client = KazooClient(
    hosts=sys.argv[1],
    timeout=3.0,
    auth_data=login,
    connection_retry=KazooRetry(**RETRY),
    command_retry=KazooRetry(deadline=25, **RETRY),
)
client.start(timeout=25)


def node(found):
    data, stat = found
    text = None if data is None else data.decode("utf-8", "replace")
    return {"data": text, "version": stat.version, "mtime": stat.mtime, "mzxid": stat.mzxid}


def get(path):
    try:
        return node(client.retry(client.get, path))
    except NoNodeError:
        return None


def children(path):
    try:
        return sorted(client.retry(client.get_children, path))
    except NoNodeError:
        return None


def create(path, data):
    client.ensure_path(path.rpartition("/")[0] or "/")
    try:
        client.retry(client.create, path, data.encode())
        return True
    except NodeExistsError:
        return False


def create_ephemeral(path, data):
    client.retry(client.create, path, data.encode(), ephemeral=True)
    return True


def write(path, data, version):
    return client.retry(client.set, path, data.encode(), version).mtime


def write_all(nodes):
    transaction = client.transaction()
    for path, data, version in nodes:
        transaction.set_data(path, data.encode(), version)
    for answer in transaction.commit():
        if isinstance(answer, Exception):
            raise answer
    return True


def delete(path):
    try:
        client.retry(client.delete, path, recursive=True)
    except NoNodeError:
        pass
    return True


def identity(scheme, who):
    if scheme == "login":
        return Id("digest", make_digest_acl_credential(*who.split(":")))
    return Id(scheme, who)


def protect(path, rights):
    """Gives a node rights: a list of [SCHEME, ID, NUMBER], or ["login", USER:PASSWORD, NUMBER]."""
    client.set_acls(path, [ACL(number, identity(scheme, who)) for scheme, who, number in rights])
    return True


def rights(path):
    return [[acl.id.scheme, acl.id.id, acl.perms] for acl in client.get_acls(path)[0]]


OPERATIONS = {f.__name__: f for f in [get, children, create, create_ephemeral, write, write_all, delete, protect, rights]}

for line in sys.stdin:
    name, *arguments = json.loads(line)
    try:
        answer = OPERATIONS[name](*arguments)
    except KazooException as error:
        answer = {"error": type(error).__name__}
    print(json.dumps(answer), flush=True)
