#!/bin/sh
# What the load of CloudSuite's data serving calls, in our own words: a minute of operations at a rate, unless a number of them is said.
if [ "$#" -lt 3 ]; then
  echo "Usage: $0 <server_ip> <record_count> <target_load> <threads=1> <operation_count=target_load * 60>"
  exit 0
fi
ycsb.sh run cassandra-cql -p "hosts=$1" -P workloads/workloada -p "recordcount=$2" \
  -p "operationcount=${5:-$(($3 * 60))}" -threads "${4:-1}" -target "$3" -s
