// The queue, and the rounds with what each changed and what it would have changed but for its cost.
import { type ClusterView, type RoundView, usePolled, type Waiting } from "./api";
import { Button } from "./chakra";
import { count, moment, size } from "./format";
import { Rows, Shown } from "./parts";

export const Queue = ({ waiting }: { waiting: Waiting[] }) => (
  <Rows
    head={["position", "job", "priority", "waits since", "predicted start", "why"]}
    rows={waiting.map((w) => [w.position ?? "none", w.title.slice(0, 120), w.priority, moment(w.since), w.starts_at ? moment(w.starts_at) : "unknown", w.why.slice(0, 500)])}
    empty="No job waits."
  />
);

const Decisions = ({ cluster, id }: { cluster: string; id: number }) => {
  const polled = usePolled<RoundView>(`clusters/${encodeURIComponent(cluster)}/rounds/${id}`, 3600);
  return (
    <Shown of={polled}>
      {({ time, decisions }) => (
        <Rows
          head={[`round of ${moment(time)}`, "from", "to", "why"]}
          rows={decisions.map((d) => [d.title.slice(0, 120), size(d.before), d.changed ? size(d.after) : "the same: a change would not be worth its cost", d.why])}
          empty="It changed only jobs that you may not see, or none."
        />
      )}
    </Shown>
  );
};

export const Rounds = ({ view, chosen, choose }: { view: ClusterView; chosen: string | null; choose: (id: string | null) => void }) => (
  <>
    <Rows
      head={["round", "what it did"]}
      rows={view.rounds.slice(0, 10).map((r) => [
        moment(r.time),
        <Button key="b" size="xs" variant="outline" aria-expanded={chosen === String(r.id)} onClick={() => choose(chosen === String(r.id) ? null : String(r.id))}>
          {count(r.changes, "change")}
        </Button>,
      ])}
      empty="No round has changed anything yet."
    />
    {chosen !== null && /^\d+$/.test(chosen) && <Decisions cluster={view.cluster} id={Number(chosen)} />}
  </>
);
