"""Airflow's regular beat of Optimus: an Airflow DAG that resizes training jobs every ten minutes."""

from optimus_airflow.rebalance import build

dag = build()
