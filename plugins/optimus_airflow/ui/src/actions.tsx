// What may be done with a job by those who may edit its DAG.
import { useState } from "react";

import { type Detail, post } from "./api";
import { HStack, Input } from "./chakra";
import { type Act, Confirmed } from "./confirm";
import { Note, Part } from "./parts";

const FINAL = ["succeeded", "failed", "stopped"];

export const Actions = ({ detail, again }: { detail: Detail; again: () => void }) => {
  const { job } = detail;
  const [workers, setWorkers] = useState(String(job.workers || 1));
  const [problem, setProblem] = useState<string | null>(null);
  if (!detail.editable || FINAL.includes(job.state)) return null;
  const doing = (action: string, body = {}) => () => {
    post(`jobs/${encodeURIComponent(job.name)}/${action}`, body).then(
      () => { setProblem(null); again(); },
      (error: Error) => setProblem(error.message),
    );
  };
  const acts: Act[] = [
    { label: "Stop", ask: "Really stop this job?", yes: "Yes, stop", act: doing("stop"), danger: true },
    {
      label: "Pin workers", ask: `Really hold this job at ${workers} workers?`, yes: "Yes, pin",
      act: doing("pin", { workers: Number(workers), servers: job.servers || null }),
    },
    ...(job.pinned ? [{ label: "Resume automatic", ask: "Really let Optimus size this job again?", yes: "Yes, unpin", act: doing("unpin") }] : []),
  ];
  return (
    <Part title="Actions">
      <HStack wrap="wrap">
        <Input size="sm" width="5rem" type="number" min={1} value={workers} aria-label="Workers to pin"
          onChange={(e: { target: { value: string } }) => setWorkers(e.target.value)} />
        <Confirmed acts={acts} />
      </HStack>
      {problem && <Note status="error">{problem}</Note>}
    </Part>
  );
};
