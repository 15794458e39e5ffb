"""Carries out requests on a MongoDB for the tests.

Each line of the input is a request, a JSON list; the answer is a line of JSON: the result, or {"error": NAME}. The argument
is the server's address. Times are milliseconds since the epoch.
"""

import datetime
import json
import sys

import pymongo
from bson.codec_options import CodecOptions

client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=25000, socketTimeoutMS=25000, retryWrites=False)
UTC = datetime.timezone.utc
AWARE = CodecOptions(tz_aware=True, tzinfo=UTC)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def collection(database):
    return client.get_database(database, codec_options=AWARE)["shedLock"]


def millis(time):
    return None if time is None else (time - EPOCH) // datetime.timedelta(milliseconds=1)


def date(number):
    return EPOCH + datetime.timedelta(milliseconds=number)


def now():
    return millis(client.admin.with_options(codec_options=AWARE).command("isMaster", codec_options=AWARE)["localTime"])


def get(database, name):
    """The lock, its runs with the newest first, and the time of the server."""
    found = collection(database).find_one({"_id": name})
    if found is None:
        return None
    runs = found.get("shedlock", {}).get("runs", [])
    for run in runs:
        run["started"], run["ended"] = millis(run["started"]), millis(run["ended"])
    lock = [found.get("lockedBy"), millis(found.get("lockedAt")), millis(found.get("lockUntil"))]
    return {"lock": lock, "runs": runs[::-1], "now": now()}


def delete(database, name):
    collection(database).delete_one({"_id": name})
    return True


def write(database, name, owner, since, until):
    lock = {"lockedBy": owner, "lockedAt": date(since), "lockUntil": date(until)}
    collection(database).update_one({"_id": name}, {"$set": lock}, upsert=True)
    return True


def shift(database, name, by):
    """Moves the times of a lock, by milliseconds."""
    found = collection(database).find_one({"_id": name})
    moved = {key: date(millis(found[key]) + by) for key in ["lockedAt", "lockUntil"]}
    if found.get("shedlock", {}).get("until") == found["lockUntil"]:
        moved["shedlock.until"] = moved["lockUntil"]
        if found["shedlock"].get("set") is not None:
            moved["shedlock.set"] = date(millis(found["shedlock"]["set"]) + by)
    collection(database).update_one({"_id": name}, {"$set": moved})
    return True


def steal(database, name, owner):
    held = {"_id": name, "lockUntil": {"$gt": date(now())}}
    return "done" if collection(database).update_one(held, {"$set": {"lockedBy": owner}}).matched_count else ""


def take(database, name, owner, millis):
    """As the Java library takes a lock: an update of what has ended, or an insert."""
    time = now()
    ended = {"_id": name, "lockUntil": {"$lte": date(time)}}
    lock = {"lockUntil": date(time + millis), "lockedAt": date(time), "lockedBy": owner}
    try:
        collection(database).find_one_and_update(ended, {"$set": lock}, upsert=True)
        return True
    except pymongo.errors.DuplicateKeyError:
        return False


def release(database, name, rest):
    """As the Java library gives a lock back: it checks nothing."""
    collection(database).find_one_and_update({"_id": name}, {"$set": {"lockUntil": date(now() + rest)}})
    return True


def command(database, name, value, arguments):
    """Any command, of which the name has to come first."""
    client[database].command(name, value, **arguments)
    return True


def create(database):
    if "shedLock" not in client[database].list_collection_names():
        client[database].create_collection("shedLock")
    return True


def collections(database):
    return sorted(client[database].list_collection_names())


OPERATIONS = {f.__name__: f for f in [get, delete, write, shift, steal, take, release, command, create, collections]}

for line in sys.stdin:
    name, *arguments = json.loads(line)
    try:
        answer = OPERATIONS[name](*arguments)
    except pymongo.errors.PyMongoError as error:
        answer = {"error": type(error).__name__}
    print(json.dumps(answer), flush=True)
