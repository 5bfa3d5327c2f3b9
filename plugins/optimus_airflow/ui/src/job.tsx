// One job: its state in a sentence, its curve, sizes, speeds, history, and what may be done.
import { useSearchParams } from "react-router-dom";

import { Actions } from "./actions";
import { type Detail, type Job, type JobsPage, type Row, usePolled } from "./api";
import { Badge, Box, Button, Code, Heading, HStack, Text } from "./chakra";
import { Curve, LossChart, PredictionChart, SpeedChart } from "./charts";
import { duration, late, moment, size } from "./format";
import { Note, Part, Rows, Shown } from "./parts";
import { JobTimeline } from "./timeline";

const FINAL = ["succeeded", "failed", "stopped"];
const FORSAKEN_SECONDS = 180;

/** Says that nobody has looked after a live job for minutes: what is shown of it is old then. */
const Stale = ({ job }: { job: Job }) => {
  const age = job.stepped_at === null ? 0 : (Date.now() - new Date(job.stepped_at).getTime()) / 1000;
  if (FINAL.includes(job.state) || age < FORSAKEN_SECONDS) return null;
  return <Note status="warning">Nobody has looked after this job for {duration(age)}. The rebalance DAG takes over such jobs; does Airflow's triggerer run?</Note>;
};

const ending = ({ state, predicted_seconds: left, late_seconds }: Job) => {
  if (FINAL.includes(state)) return "";
  return `${left === null ? "its end is not known yet" : `ends in ${duration(left)}`}${late(late_seconds)} · `;
};

const gain = (seconds: number | null | undefined) => (seconds ? `${duration(seconds)} sooner` : "no gain known");

const range = (finish: Row | null) =>
  finish?.[1] != null && finish[2] != null && finish[1] < finish[2] ? ` Ends in ${duration(finish[1])} to ${duration(finish[2])} (80 %).` : "";

export const JobView = ({ name }: { name: string }) => {
  const polled = usePolled<Detail>(`jobs/${encodeURIComponent(name)}`);
  return (
    <Shown of={polled}>
      {(detail) => {
        const { job, estimate, charts } = detail;
        const loss = charts.curve === null ? undefined : detail.series.find((s) => s.name === charts.loss);
        const others = detail.series.filter((s) => s !== loss);
        return (
          <Box>
            <Heading as="h1" size="lg">{job.title.slice(0, 200)} <Badge>{job.phase}</Badge></Heading>
            <Text my={2}>{job.reason}</Text>
            <Stale job={job} />
            <Text>
              {size(job)}{job.pinned && " (pinned)"} · {job.step === null ? "no step yet" : `step ${job.step}`} ·
              {" "}{ending(job)}attempt {job.attempt} · {job.checkpoint_step === null ? "no checkpoint yet" : `checkpoint at step ${job.checkpoint_step}`}
            </Text>
            <Text>One more worker: {gain(estimate.seconds_saved_by_one_worker)}. One more server: {gain(estimate.seconds_saved_by_one_server)}.</Text>
            <Text>Used so far: {charts.replica_hours.toFixed(2)} replica-hours.{range(charts.finish)}</Text>
            <Actions detail={detail} again={polled.again} />
            <Part title="Loss and its prediction">
              {loss ? <LossChart charts={charts} seen={loss} /> : <Text color="fg.muted">Too few losses were seen to fit a curve.</Text>}
              <PredictionChart charts={charts} />
            </Part>
            <Part title="Metrics">
              {others.length === 0 && <Text color="fg.muted">The job has reported none yet{loss && " but its loss"}.</Text>}
              {others.map((s) => <Curve key={s.name} name={s.name} points={s.points} />)}
            </Part>
            <Part title="Speed by size">
              <SpeedChart charts={charts} measured={detail.speeds} size={job} />
              <Rows head={["size", "steps per second", "samples"]} empty="No speed has been seen yet."
                rows={detail.speeds.map((s) => [size(s), s.steps_per_second.toFixed(3), s.samples])} />
            </Part>
            <Part title="Sizes over time">
              <JobTimeline generations={detail.generations} events={detail.events} />
              <Rows head={["wanted at", "size", "state", "why"]} empty="No size has been given yet."
                rows={[...detail.generations].reverse().map((g) => [moment(g.wanted_at), size(g), g.state, g.why])} />
            </Part>
            <Part title="Replicas">
              {detail.replicas.length === 0 && <Text color="fg.muted">None has written anything yet.</Text>}
              {detail.replicas.slice(-20).map((r, i) => (
                <Box key={i} my={2}>
                  <Text>
                    <b>{r.replica}</b>, generation {r.generation}{r.node && ` on node ${r.node}`}{r.ended && ", ended"}
                    {r.steps_per_second !== null && `, ${r.steps_per_second.toPrecision(3)} steps per second`}
                  </Text>
                  <Code as="pre" display="block" whiteSpace="pre-wrap" overflowWrap="anywhere" dir="auto">{r.tail.split("\n").slice(-10).join("\n")}</Code>
                </Box>
              ))}
            </Part>
            <Part title="History">
              <Rows head={["time", "event", "what"]} empty="Nothing has happened yet."
                rows={[...detail.events].reverse().slice(0, 100).map((e) => [moment(e.time), e.kind, e.text])} />
            </Part>
          </Box>
        );
      }}
    </Shown>
  );
};

/** The tab on a DAG, run or task instance: the newest job there is, and the others to choose from. */
export const JobTab = (props: { dagId?: string; runId?: string; taskId?: string; mapIndex?: string }) => {
  const given = { dag_id: props.dagId, run_id: props.runId, task_id: props.taskId, map_index: props.mapIndex };
  const query = new URLSearchParams(Object.entries(given).filter((each): each is [string, string] => !!each[1]));
  const jobs = usePolled<JobsPage>(`jobs?${query.toString()}`);
  const [address, setAddress] = useSearchParams();
  return (
    <Box p={4} id="optimus">
      <Shown of={jobs}>
        {(page) => {
          const chosen = page.jobs.find((each) => each.name === address.get("job"));
          const name = (chosen ?? page.jobs[0])?.name;
          if (name === undefined) return <Text color="fg.muted">No training job of Optimus here yet.</Text>;
          return (
            <>
              {page.jobs.length > 1 && (
                <HStack wrap="wrap" mb={3}>
                  {page.jobs.slice(0, 20).map((j) => (
                    <Button key={j.name} size="xs" variant="outline" aria-pressed={j.name === name} onClick={() => setAddress({ job: j.name })}>
                      {j.title.slice(0, 60)}: {j.phase}
                    </Button>
                  ))}
                </HStack>
              )}
              <JobView key={name} name={name} />
            </>
          );
        }}
      </Shown>
    </Box>
  );
};
