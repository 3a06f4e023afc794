"""psycopg2: changes by its logical replication cursor. Arguments: port, database, name of the slot."""

import sys
import time

import psycopg2
from psycopg2.extras import LogicalReplicationConnection, StopReplication

port, database, slot = sys.argv[1:]
dsn = f"host=127.0.0.1 port={port} dbname={database} user=postgres sslmode=disable"
writer = psycopg2.connect(dsn)
writer.autocommit = True
writes = writer.cursor()
writes.execute("drop table if exists by_python")
writes.execute("create table by_python (id int primary key, text text)")

reader = psycopg2.connect(dsn, connection_factory=LogicalReplicationConnection)
changes = reader.cursor()
changes.create_replication_slot(slot, output_plugin="test_decoding")
changes.start_replication(slot_name=slot, decode=True, options={"include-xids": "0"}, status_interval=1)
for row in range(300):
    writes.execute("insert into by_python values (%s, %s)", (row, "x" * row))
# Longer than any time limit of the pooler.
time.sleep(3)
writes.execute("delete from by_python where id = 7")


def consume(message):
    """Prints a change and confirms it; stops behind the last one."""
    print(message.payload)
    message.cursor.send_feedback(flush_lsn=message.data_start)
    if "DELETE" in message.payload:
        raise StopReplication


try:
    changes.consume_stream(consume)
except StopReplication:
    reader.close()
deadline = time.time() + 30
while True:
    try:
        writes.execute("select pg_drop_replication_slot(%s)", (slot,))
        break
    except psycopg2.errors.ObjectInUse:
        if time.time() > deadline:
            raise
        time.sleep(0.05)
