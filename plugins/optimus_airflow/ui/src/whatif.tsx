// What would be if: one change, and the plan that would result beside the present one.
import { useState } from "react";

import { type Comparison, type Job, type Node, post } from "./api";
import { Button, HStack, Input, NativeSelect } from "./chakra";
import { duration, late, size } from "./format";
import { Note, Rows } from "./parts";
import { asked, type Kind, KINDS } from "./question";

type Changed = { target: { value: string } };

const Choice = ({ label, value, options, set }: { label: string; value: string; options: [string, string][]; set: (value: string) => void }) => (
  <NativeSelect.Root size="sm" width="auto" maxW="20rem">
    <NativeSelect.Field aria-label={label} value={value} onChange={(e: Changed) => set(e.target.value)}>
      {options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
    </NativeSelect.Field>
  </NativeSelect.Root>
);

const told = (decision: Comparison["then"]) => (decision ? `${duration(decision.predicted_seconds)}${late(decision.late_seconds)}` : "");

export const WhatIf = ({ cluster, nodes, jobs }: { cluster: string; nodes: Node[]; jobs: Job[] }) => {
  const [kind, setKind] = useState<Kind>("without_node");
  const [target, setTarget] = useState("");
  const [value, setValue] = useState("");
  const [found, setFound] = useState<Comparison[] | string | null>(null);
  const targets: [string, string][] = kind.endsWith("node") ? nodes.map(({ name }) => [name, name]) : jobs.map(({ name, title }) => [name, title.slice(0, 120)]);
  const question = asked(kind, target, value);
  const ask = () =>
    void post<Comparison[]>(`clusters/${encodeURIComponent(cluster)}/what-if`, question)
      .then(setFound, (error: Error) => setFound(error.message));
  return (
    <>
      <HStack wrap="wrap">
        <Choice label="What would change" value={kind} options={Object.entries(KINDS)} set={(next) => { setKind(next as Kind); setTarget(""); setFound(null); }} />
        <Choice label="Of which" value={target} options={[["", "choose…"], ...targets]} set={setTarget} />
        {kind === "priority" && <Input size="sm" width="6rem" type="number" aria-label="Priority" value={value} onChange={(e: Changed) => setValue(e.target.value)} />}
        {kind === "deadline" && <Input size="sm" width="14rem" type="datetime-local" aria-label="Deadline, in your zone" value={value} onChange={(e: Changed) => setValue(e.target.value)} />}
        <Button size="sm" disabled={question === null} onClick={ask}>Compare</Button>
      </HStack>
      {kind === "deadline" && <Note status="info">Plans don't depend on deadlines yet: what is told is who would be late.</Note>}
      {typeof found === "string" && <Note status="error">{found}</Note>}
      {Array.isArray(found) && (
        <Rows
          head={["job", "now", "then", "ends in, now", "ends in, then", "why, then"]}
          rows={found.map((f) => [f.title, size(f.now), f.then ? size(f.then) : "gone", told(f.now), told(f.then), f.then?.why ?? ""])}
          empty="No job would be planned."
        />
      )}
    </>
  );
};
