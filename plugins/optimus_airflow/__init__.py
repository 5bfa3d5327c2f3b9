"""Optimus in Airflow: operator, sensor, trigger, links, plugin."""
