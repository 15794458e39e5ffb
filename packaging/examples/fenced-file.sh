#!/bin/sh
# Replaces FILE with its standard input, unless a run with a newer token has already done so. It runs on the host that has
# the file, so that it is not paused together with the job. The text is complete before it is sent, and its size in bytes
# tells whether all of it has come: the job may be killed while it sends.
#   make-report >report.new &&
#       ssh files.example fenced-file.sh /srv/report.txt "$SHEDLOCK_LOCK_TOKEN" "$(wc -c <report.new)" <report.new
set -eu
LC_ALL=C
export LC_ALL

# Prints a token without leading zeros. What is no number is refused: it cannot be compared, and so proves nothing.
number() {
    case $1 in
        '' | *[!0-9]*)
            echo "$file: $2 \`$1\` is no token, nothing is written" >&2
            return 1
            ;;
    esac
    digits=${1#"${1%%[!0]*}"}
    echo "${digits:-0}"
}

# Is the token $1 at least $2? Of any length: test(1) fails beyond 63 bits. An error counts as no.
reaches() {
    [ "$1" = "$2" ] || [ ${#1} -gt ${#2} ] ||
        { [ ${#1} -eq ${#2} ] && [ "$(printf '%s\n' "$1" "$2" | sort | tail -n 1)" = "$1" ]; }
}

file=$1
token=$(number "${2:?there is no token: shedlock-fencing(7) says why}" "the token")
size=${3:?the size of the text is missing}
new=$file.new.$$
trap 'rm -f "$new"' EXIT

# Reads all of the text first, since it may take long to arrive; nothing waits under the lock.
cat >"$new"
if ! [ "$(wc -c <"$new")" -eq "$size" ]; then
    echo "$file: not all of the text has come, nothing is written" >&2
    exit 1
fi
exec 9>>"$file.lock"
flock 9
newest=0
# Only a file that is not there is no token. One that is empty or cannot be read stops every run, until a person has looked.
if [ -e "$file.token" ] || [ -L "$file.token" ]; then
    newest=$(cat "$file.token")
    newest=$(number "$newest" "the content of $file.token")
fi
if ! reaches "$token" "$newest"; then
    echo "$file: token $token is older than $newest, nothing is written" >&2
    exit 1
fi
# Writes the token before the text: if it is interrupted between the two, older runs are already refused.
echo "$token" >"$file.token.new"
mv "$file.token.new" "$file.token"
mv "$new" "$file"
