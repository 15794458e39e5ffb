#!/bin/sh
# Replaces FILE with its standard input, unless a run with a newer token has already done so. It runs on the host that has
# the file, so that it is not paused together with the job:
#   make-report | ssh files.example fenced-file.sh /srv/report.txt "$SHEDLOCK_LOCK_TOKEN"
set -eu
file=$1 token=${2:?there is no token: shedlock-fencing(7) says why}
new=$file.new.$$
trap 'rm -f "$new"' EXIT

# Reads all of the text first, since it may take long to arrive; nothing waits under the lock.
cat >"$new"
exec 9>>"$file.lock"
flock 9
newest=$(cat "$file.token" 2>/dev/null || echo 0)
if [ "$token" -lt "$newest" ]; then
    echo "$file: token $token is older than $newest, nothing is written" >&2
    exit 1
fi
# Writes the token before the text: if it is interrupted between the two, older runs are already refused.
echo "$token" >"$file.token.new"
mv "$file.token.new" "$file.token"
mv "$new" "$file"
