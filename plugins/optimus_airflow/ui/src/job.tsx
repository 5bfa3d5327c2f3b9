// One job: its state in a sentence, its curve, sizes, speeds, history, and what may be done.
import { useState } from "react";

import { type Detail, type JobsPage, type Row, post, usePolled } from "./api";
import { Badge, Box, Button, Code, Heading, HStack, Input, Text } from "./chakra";
import { LossChart, PredictionChart, SpeedChart } from "./charts";
import { duration, moment, size } from "./format";
import { Curve, Note, Part, Rows, Shown } from "./parts";

const FINAL = ["succeeded", "failed", "stopped"];

const Actions = ({ detail, again }: { detail: Detail; again: () => void }) => {
  const { job } = detail;
  const [workers, setWorkers] = useState(String(job.workers || 1));
  const [asked, setAsked] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  if (!detail.editable || FINAL.includes(job.state)) return null;
  const act = (action: string) => {
    setAsked(null);
    const body = action === "pin" ? { workers: Number(workers), servers: job.servers || null } : {};
    post(`jobs/${encodeURIComponent(job.name)}/${action}`, body).then(
      () => { setProblem(null); again(); },
      (error: Error) => setProblem(error.message),
    );
  };
  return (
    <Part title="Actions">
      {asked === null ? (
        <HStack wrap="wrap">
          <Button size="sm" colorPalette="red" variant="outline" onClick={() => setAsked("stop")}>Stop</Button>
          <Input size="sm" width="5rem" type="number" min={1} value={workers} aria-label="Workers to pin"
            onChange={(e: { target: { value: string } }) => setWorkers(e.target.value)} />
          <Button size="sm" variant="outline" onClick={() => setAsked("pin")}>Pin workers</Button>
          {job.pinned && <Button size="sm" variant="outline" onClick={() => setAsked("unpin")}>Resume automatic</Button>}
        </HStack>
      ) : (
        <HStack role="alertdialog" aria-label="Confirm">
          <Text>Really {asked} this job?</Text>
          <Button size="sm" autoFocus colorPalette="red" onClick={() => act(asked)}>Yes, {asked}</Button>
          <Button size="sm" variant="outline" onClick={() => setAsked(null)}>No</Button>
        </HStack>
      )}
      {problem && <Note status="error">{problem}</Note>}
    </Part>
  );
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
        const loss = detail.series.find((s) => s.name === charts.loss);
        return (
          <Box>
            <Heading as="h1" size="lg">{job.title.slice(0, 200)} <Badge>{job.phase}</Badge></Heading>
            <Text my={2}>{job.reason}</Text>
            <Text>
              {size(job)}{job.pinned && " (pinned)"} · step {job.step ?? "unknown"} · ends in {duration(job.predicted_seconds)} ·
              attempt {job.attempt} · checkpoint at step {job.checkpoint_step ?? "none"}
            </Text>
            <Text>One more worker: {gain(estimate.seconds_saved_by_one_worker)}. One more server: {gain(estimate.seconds_saved_by_one_server)}.</Text>
            <Text>Used so far: {charts.replica_hours.toFixed(2)} replica-hours.{range(charts.finish)}</Text>
            <Actions detail={detail} again={polled.again} />
            <Part title="Loss and its prediction">
              {loss && charts.curve ? <LossChart charts={charts} seen={loss} /> : <Text color="fg.muted">Too few losses were seen to fit a curve.</Text>}
              <PredictionChart charts={charts} />
            </Part>
            <Part title="Metrics">
              {detail.series.length === 0 && <Text color="fg.muted">The job has reported none yet.</Text>}
              {detail.series.map((s) => <Curve key={s.name} name={s.name} points={s.points} />)}
            </Part>
            <Part title="Speed by size">
              <SpeedChart charts={charts} measured={detail.speeds} size={job} />
              <Rows head={["size", "steps per second", "samples"]} empty="No speed has been seen yet."
                rows={detail.speeds.map((s) => [size(s), s.steps_per_second.toFixed(3), s.samples])} />
            </Part>
            <Part title="Sizes over time">
              <Rows head={["wanted at", "size", "state", "why"]} empty="No size has been given yet."
                rows={[...detail.generations].reverse().map((g) => [moment(g.wanted_at), size(g), g.state, g.why])} />
            </Part>
            <Part title="Replicas">
              {detail.replicas.length === 0 && <Text color="fg.muted">None has written anything yet.</Text>}
              {detail.replicas.slice(-20).map((r, i) => (
                <Box key={i} my={2}>
                  <Text fontWeight="bold">{r.replica}, generation {r.generation}</Text>
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
  const [chosen, setChosen] = useState<string | null>(null);
  return (
    <Box p={4} id="optimus">
      <Shown of={jobs}>
        {(page) => {
          const name = chosen ?? page.jobs[0]?.name;
          if (name === undefined) return <Text color="fg.muted">No training job of Optimus here yet.</Text>;
          return (
            <>
              {page.jobs.length > 1 && (
                <HStack wrap="wrap" mb={3}>
                  {page.jobs.slice(0, 20).map((j) => (
                    <Button key={j.name} size="xs" variant="outline" aria-pressed={j.name === name} onClick={() => setChosen(j.name)}>
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
