// Answers of the API, and polling that costs next to nothing while nothing changes.
import { useCallback, useEffect, useRef, useState } from "react";

export type Job = {
  name: string; title: string; cluster: string; dag_id: string | null; run_id: string | null; task_id: string | null;
  state: string; phase: string; servers: number; workers: number; step: number | null; loss: number | null;
  remaining_steps: number | null; predicted_seconds: number | null; reason: string; pinned: Record<string, number> | null;
  attempt: number; checkpoint_step: number | null; created_at: string; stepped_at: string | null;
  deadline: string | null; late_seconds: number | null;
};
export type JobsPage = { jobs: Job[]; total: number; next: number | null };
export type Held = {
  number: number; state: string; servers: number; workers: number; why: string; ended_by: string;
  starting_at: string | null; gone_at: string | null;
};
export type Generation = Held & { attempt: number; wanted_at: string };
export type JobSize = Held & { job: string; name: string; job_state: string };
export type Happening = { id: number; time: string; kind: string; text: string };
export type Series = { name: string; seen: number; points: [number, number][] };
export type Pair = [number, number];
export type Row = (number | null)[];
export type Charts = {
  loss: string | null;
  curve: { rows: Row[]; end: Row; never: boolean; threshold: number | null; criterion: string; prior_share: number } | null;
  earlier: Pair[][];
  speed: { servers: number[]; workers: number[]; rows: number[][]; guessed: boolean } | null;
  predictions: Row[]; finish: Row | null; replica_hours: number;
};
export type Detail = {
  charts: Charts;
  job: Job; editable: boolean; generations: Generation[]; series: Series[];
  estimate: { seconds_saved_by_one_worker?: number | null; seconds_saved_by_one_server?: number | null };
  events: Happening[];
  speeds: { servers: number; workers: number; steps_per_second: number; samples: number }[];
  replicas: { replica: string; generation: number; ended: boolean; node: string | null; steps_per_second: number | null; tail: string }[];
};
export type Amounts = Record<string, number>;
export type Node = { name: string; ready: boolean; allocatable: Amounts; others: Amounts; jobs: Record<string, Amounts> };
export type Waiting = { name: string; title: string; state: string; priority: number; position: number | null; since: string; starts_at: string | null; why: string };
export type Pool = { name: string; guaranteed: Amounts; ceiling: Amounts; held: Amounts; borrowed: Amounts; jobs: number; waiting: number };
export type ClusterView = {
  cluster: string; error: string | null; planned_at: string | null; may_rebalance: boolean; nodes: Node[]; pools: Pool[]; queue: Waiting[];
  sizes: JobSize[]; rounds: { id: number; time: string; changes: number }[];
};
type Size = { servers: number; workers: number };
export type RoundView = { time: string; decisions: { title: string; before: Size; after: Size; changed: boolean; why: string }[] };
export type Counts = { live: number; running: number; waiting: number; late: number; cluster: string; clusters: string[] };
type Decision = Size & { predicted_seconds: number | null; late_seconds: number | null; why: string };
export type Comparison = { name: string; title: string; now: Decision; then: Decision | null };

const address = (path: string) => new URL(`optimus/api/${path}`, document.baseURI).toString();

export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const told = async (answer: Response): Promise<string> => {
  const body = (await answer.json().catch(() => null)) as { detail?: unknown } | null;
  return typeof body?.detail === "string" ? body.detail : `The server answered ${answer.status}.`;
};

export const post = async <T>(path: string, body: unknown = {}): Promise<T> => {
  const answer = await fetch(address(path), {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Refused(answer.status, await told(answer));
  return (await answer.json()) as T;
};

export type Polled<T> = { data: T | null; error: Refused | null; at: number | null; again: () => void };

export const usePolled = <T>(path: string, seconds = 5): Polled<T> => {
  const [state, setState] = useState<Omit<Polled<T>, "again">>({ data: null, error: null, at: null });
  const tag = useRef<string | null>(null);
  const ask = useCallback(async () => {
    try {
      const answer = await fetch(address(path), { headers: tag.current ? { "If-None-Match": tag.current } : {} });
      if (answer.status === 304) return setState((old) => ({ ...old, error: null, at: Date.now() }));
      if (!answer.ok) throw new Refused(answer.status, await told(answer));
      const data = (await answer.json()) as T;
      tag.current = answer.headers.get("etag");
      return setState({ data, error: null, at: Date.now() });
    } catch (problem) {
      const error = problem instanceof Refused ? problem : new Refused(0, "The server can't be reached.");
      return setState((old) => ({ ...old, error }));
    }
  }, [path]);
  useEffect(() => {
    tag.current = null;
    setState({ data: null, error: null, at: null });
    void ask();
    const timer = setInterval(() => document.hidden || void ask(), seconds * 1000);
    return () => clearInterval(timer);
  }, [ask, seconds]);
  return { ...state, again: () => void ask() };
};
