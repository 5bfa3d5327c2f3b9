"""The engine: submit, snapshot, round, reconcile, collect."""
