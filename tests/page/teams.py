"""DAGs of two teams; copied into the DAGs folder of an Airflow under the FAB auth manager."""

from airflow.sdk import DAG
from optimus_airflow.operators import AllReduce, OptimusTrainingOperator, Replicas

EDIT, READ = {"can_read", "can_edit"}, {"can_read"}
RIGHTS = {
    "team_a": {"team-a": {"DAGs": EDIT}, "reads-a": {"DAGs": READ}},
    "team_b": {"team-b": {"DAGs": EDIT}},
}

for dag_id, rights in RIGHTS.items():
    with DAG(dag_id, schedule=None, access_control=rights):
        OptimusTrainingOperator(
            task_id="train",
            command=["python", "-c", "pass"],
            strategy=AllReduce(),
            workers=Replicas(cpu="100m", memory="64Mi", min=1, max=2),
        )
