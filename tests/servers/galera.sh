#!/bin/sh
# Copies the data of a node of the tests' cluster to another one, as wsrep_sst_rsync does, which is not in the package of the
# server alone.
while [ $# -gt 0 ]; do
    case $1 in
        --role) role=$2 ;;
        --address) address=$2 ;;
        --datadir) data=${2%/} ;;
        --gtid) position=$2 ;;
    esac
    shift
done
if [ "$role" = joiner ]; then
    echo "ready $address$data"
    while ! [ -e "$data/position" ]; do sleep 0.05; done
    cat "$data/position"
    exit
fi
there=/${address#*/}
echo 'flush tables'
while ! [ -e "$data/tables_flushed" ]; do sleep 0.05; done
(cd "$data" && cp -a aria* ibdata1 ib_logfile* mysql performance_schema sys "$there")
rm "$data/tables_flushed"
echo "$position" >"$there/new"
mv "$there/new" "$there/position"
echo "done $position"
