#!/bin/sh
# What the warm-up of CloudSuite's data serving calls, in our own words: the tables, until they are there, then every record.
# ROOT is empty in its image.
if [ "$#" -lt 2 ]; then
  echo "Usage: $0 <server_ip> <record_count> <threads=1>"
  exit 0
fi
servers=$1
until cqlsh -f "$ROOT/setup_tables.txt" "${servers%%,*}"; do
  sleep 5
done
ycsb.sh load cassandra-cql -p "hosts=$servers" -P workloads/workloada -p "recordcount=$2" -s -threads "${3:-1}"
