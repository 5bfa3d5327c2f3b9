"""The API behind the page. Each route asks Airflow for the user and for his right to the DAG; only scripts are open."""

import hashlib
import json
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError

from optimus_airflow.rebalance import DAG_ID
from optimus_airflow.web import beat, page
from optimus_airflow.web.access import editable_job, may, opened, readable_dags, readable_job
from optimus_airflow.web.discreet import discreet
from optimus_airflow.web.schemas import (
    ClusterView,
    Comparison,
    Counts,
    Job,
    JobDetail,
    JobsPage,
    Pin,
    Problem,
    RoundView,
    Started,
    WhatIf,
)
from optimus_core.engine import views
from optimus_core.engine.cluster_view import cluster_view, nodes_of, round_view, summary
from optimus_core.engine.what_if import Change
from optimus_core.engine.what_if import what_if as compare
from optimus_core.errors import OptimusError, StoreError
from optimus_core.store import LIVE, Transaction, changes, is_unreachable
from optimus_core.store.views import Wanted

BUNDLE = pathlib.Path(__file__).parents[1] / "ui" / "bundle" / "optimus.js"
_Text = Annotated[str | None, Query(max_length=600)]
_Id = Annotated[int | None, Query(ge=0, lt=2**31)]
_REFUSALS = {
    400: "The body is no JSON.",
    401: "Nobody is signed in.",
    403: "The user may read the DAG, but not edit it.",
    404: "There is nothing of that name, or the user may not read its DAG.",
    409: "It can't be done as things are; the answer says why.",
    503: "Optimus' store can't be used; the answer says what to run.",
}


def make_app() -> FastAPI:
    """Return the application."""
    app = FastAPI(title="Optimus", version="1", docs_url=None, redoc_url=None, openapi_url=None)
    app.get("/optimus.js", include_in_schema=False)(bundle)
    app.get("/jobs/{name}", response_class=HTMLResponse, include_in_schema=False)(job_page)
    app.get("/api/jobs", response_model=JobsPage, responses=_refusals())(list_jobs)
    app.get("/api/jobs/{name}", response_model=JobDetail, responses=_refusals(404))(job_detail)
    app.get("/api/summary", response_model=Counts, responses=_refusals())(counts)
    app.get("/api/clusters/{cluster}", response_model=ClusterView, responses=_refusals(404, 409))(cluster_detail)
    app.get("/api/clusters/{cluster}/rounds/{round_id}", response_model=RoundView, responses=_refusals(404, 409))(
        round_detail
    )
    app.post("/api/rebalance", responses=_refusals(403, 409))(rebalance)
    app.post("/api/clusters/{cluster}/what-if", responses=_refusals(400, 404, 409))(what_if)
    for act in (stop, pin, unpin):
        app.post(f"/api/jobs/{{name}}/{act.__name__}", responses=_refusals(400, 403, 404, 409))(act)
    app.exception_handler(OptimusError)(_told)
    app.exception_handler(DBAPIError)(_unreachable)
    return app


def _refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem, "description": _REFUSALS[code]} for code in (401, *codes, 503)}


def bundle() -> FileResponse:
    """The scripts: the same for all, with nothing of any job in them."""
    return FileResponse(BUNDLE, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


def job_page(name: str, user: GetUserDep) -> HTMLResponse:
    """One job as a plain page."""
    engine, found = opened(), readable_job(name, user)
    report = engine.job_by_id(found.id)
    told = _told_to(readable_dags(user), {"reason": report.reason, "history": engine.history(found.id)})
    return HTMLResponse(page.job_page(replace(report, reason=told["reason"]), told["history"]), headers=page.HEADERS)


def list_jobs(
    request: Request,
    user: GetUserDep,
    dag_id: _Text = None,
    run_id: _Text = None,
    task_id: _Text = None,
    map_index: Annotated[int | None, Query(ge=-1, lt=2**31)] = None,
    cluster: _Text = None,
    live: bool = False,
    before: _Id = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Jobs of DAGs that the user may read, newest first."""
    wanted = Wanted(dag_id, run_id, task_id, map_index, cluster, LIVE if live else ())
    ctx, dags = opened().ctx, readable_dags(user)
    mark = _mark(lambda tx: changes.of_page(tx, dags, wanted, before=before, limit=limit))
    return _answer(
        request, dags, mark, lambda: JobsPage(**views.list_jobs(ctx, dags, wanted, before=before, limit=limit))
    )


def job_detail(
    name: str,
    request: Request,
    user: GetUserDep,
    points: Annotated[int, Query(ge=4, le=2000)] = 500,
    events_after: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    events: Annotated[int, Query(ge=0, le=1000)] = 500,
) -> Response:
    """Everything of one job."""
    ctx, found = opened().ctx, readable_job(name, user)
    editable = may(user, "PUT", found.dag_id)

    def make() -> JobDetail:
        detail = views.job_detail(ctx, found.id, points=points, events_after=events_after, events=events)
        return JobDetail(**detail, editable=editable)

    mark = _mark(lambda tx: changes.of_job(tx, found.id))
    return _answer(request, readable_dags(user), [found.id, editable, mark], make)


def counts(request: Request, user: GetUserDep) -> Response:
    """How many live jobs there are, in one line."""
    ctx, dags = opened().ctx, readable_dags(user)
    return _answer(request, dags, _mark(lambda tx: changes.of_counts(tx, dags)), lambda: Counts(**summary(ctx, dags)))


def cluster_detail(
    cluster: str, request: Request, user: GetUserDep, hours: Annotated[int, Query(ge=1, le=168)] = 6
) -> Response:
    """A cluster's nodes and queue, and the sizes over the last hours of the jobs that the user may read."""
    ctx, dags, rebalances = opened().ctx, readable_dags(user), beat.may_start(user)
    seen = nodes_of(ctx, cluster)
    mark = [seen, rebalances, _mark(lambda tx: changes.of_cluster(tx, cluster))]
    return _answer(
        request,
        dags,
        mark,
        lambda: ClusterView(**cluster_view(ctx, cluster, dags, seen, hours=hours), may_rebalance=rebalances),
    )


def round_detail(
    cluster: str, round_id: Annotated[int, Path(ge=0, lt=2**31)], request: Request, user: GetUserDep
) -> Response:
    """What a round changed, and what it would have changed but for the cost."""
    dags = readable_dags(user)
    found = RoundView(**round_view(opened().ctx, cluster, round_id, dags))
    return _answer(request, dags, found.model_dump(), lambda: found)


def what_if(cluster: str, change: WhatIf, user: GetUserDep) -> list[Comparison]:
    """The plan that would result beside the present one; changes nothing."""
    dags = readable_dags(user)
    found = compare(opened().ctx, cluster, dags, Change(**change.model_dump()))
    return _told_to(dags, [Comparison(**each) for each in found])


def rebalance(user: GetUserDep) -> Started:
    """Start the rebalance DAG, or name its run that is under way."""
    return Started(dag_id=DAG_ID, run_id=beat.start(user))


def stop(name: str, user: GetUserDep) -> Job:
    """Stop a job."""
    return _job(user, opened().stop(editable_job(name, user).name, user.get_name()))


def pin(name: str, size: Pin, user: GetUserDep) -> Job:
    """Hold a job at a size."""
    report = editable_job(name, user)
    return _job(user, opened().pin(report.name, user.get_name(), workers=size.workers, servers=size.servers))


def unpin(name: str, user: GetUserDep) -> Job:
    """Let the allocation size a job again."""
    return _job(user, opened().unpin(editable_job(name, user).name, user.get_name()))


def _job(user: Any, report: Any) -> Job:
    return _told_to(readable_dags(user), Job(**report.to_dict()))


def _told_to(dags: set[str], answer: Any) -> Any:
    return discreet(opened(), dags, answer)


def _mark(read: Callable[[Transaction], Any]) -> Any:
    with opened().store.transaction() as tx:
        return read(tx)


def _answer(request: Request, dags: set[str], mark: Any, make: Callable[[], BaseModel]) -> Response:
    """Return what ``make`` makes for a reader of ``dags``, or nothing but 304 if the asker has it already.

    ``mark`` is read before it, and differs as soon as the answer would: an older mark on a newer answer is harmless.
    """
    shown = json.dumps([request.url.path, request.url.query, sorted(dags), mark], default=str)
    tag = f'W/"{hashlib.sha256(shown.encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    text = _told_to(dags, make()).model_dump_json()
    return Response(text, media_type="application/json", headers=headers)


async def _told(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, StoreError) else 409)


async def _unreachable(request: Request, error: Exception) -> JSONResponse:
    if not is_unreachable(error):
        raise error
    return JSONResponse({"detail": "Optimus' database can't be used now. Look for why: optimus doctor"}, 503)
