#!/bin/sh
# The job: writes TOTAL into the report, unless a newer run has written already.
#   shedlock run --name report --at-most 30m --lease 1m -- fenced-report.sh TOTAL
set -eu
: "${SHEDLOCK_LOCK_TOKEN:?there is no token: shedlock-fencing(7) says why}"

# One statement reads and writes the table, so nothing can happen in between. What is no number is an error of psql.
written=$(psql -XqAt -v ON_ERROR_STOP=1 -v total="$1" -v token="$SHEDLOCK_LOCK_TOKEN" "$REPORT_DATABASE" <<'SQL'
UPDATE report SET total = :'total', token = :'token' WHERE id = 1 AND token <= :'token' RETURNING token;
SQL
)
if [ -z "$written" ]; then
    echo "report: token $SHEDLOCK_LOCK_TOKEN is older than that of the report, nothing is written" >&2
    exit 1
fi
