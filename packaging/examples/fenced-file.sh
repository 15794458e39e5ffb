#!/bin/sh
# Replaces FILE by what comes on stdin, unless a run with a newer token has done so. It runs on the host that has the
# file, so that it is not paused with the job:
#   make-report | ssh files.example fenced-file.sh /srv/report.txt "$SHEDLOCK_LOCK_TOKEN"
set -eu
file=$1 token=${2:?there is no token: shedlock-fencing(7) says why}
new=$file.new.$$
trap 'rm -f "$new"' EXIT

# First all of the text, which may be long in coming; under the lock nothing is waited for any more.
cat >"$new"
exec 9>>"$file.lock"
flock 9
newest=$(cat "$file.token" 2>/dev/null || echo 0)
if [ "$token" -lt "$newest" ]; then
    echo "$file: token $token is older than $newest, nothing is written" >&2
    exit 1
fi
# The token before the text: whoever is interrupted between the two has refused the older ones.
echo "$token" >"$file.token.new"
mv "$file.token.new" "$file.token"
mv "$new" "$file"
