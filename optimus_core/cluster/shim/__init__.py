"""The supervisor of one local replica: a process of its own, with the replica's record folder as its only argument.

It uses the standard library only and is started by path with ``python -I -S``, so that nothing of Optimus, Airflow
or site is imported: it is up in some 30 ms and stays small. It detaches, holds the record's lock while it lives,
starts the command, keeps its output, passes a request to stop on, and writes how it all ended. If it is killed, the
kernel kills the command; what else is left is found by ``OPTIMUS_REPLICA_UID`` in its environment.
"""
