"""What Airflow's API server serves of Optimus. Nothing heavy here: ``app`` is imported in that server only."""
