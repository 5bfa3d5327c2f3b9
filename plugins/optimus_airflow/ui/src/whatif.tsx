// What would be if: one change, and the plan that would result beside the present one.
import { useEffect, useState } from "react";

import { type Comparison, type Job, type Node, post } from "./api";
import { Button, HStack, Input, NativeSelect } from "./chakra";
import { duration, late, size } from "./format";
import { Note, Rows } from "./parts";
import { type Address, addressOf, asked, type Choice, chosen, fromField, type Kind, KINDS, toField } from "./question";

type Changed = { target: { value: string } };

const Select = ({ label, value, options, set }: { label: string; value: string; options: [string, string][]; set: (value: string) => void }) => (
  <NativeSelect.Root size="sm" width="auto" maxW="20rem">
    <NativeSelect.Field aria-label={label} value={value} onChange={(e: Changed) => set(e.target.value)}>
      {options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
    </NativeSelect.Field>
  </NativeSelect.Root>
);

const told = (decision: Comparison["then"]) => (decision ? `${duration(decision.predicted_seconds)}${late(decision.late_seconds)}` : "");

export const WhatIf = ({ cluster, nodes, jobs, query, change }: {
  cluster: string; nodes: Node[]; jobs: Job[]; query: URLSearchParams; change: (address: Address) => void;
}) => {
  const choice = chosen(query);
  const { kind, target, value } = choice;
  const [answers, setAnswers] = useState<Record<string, Comparison[] | string>>({});
  const question = asked(kind, target, value);
  const key = JSON.stringify(question);
  const found = answers[key]; // an answer that comes late is never shown under another question
  const ask = () => {
    const keep = (answer: Comparison[] | string) => setAnswers((old) => ({ ...old, [key]: answer }));
    void post<Comparison[]>(`clusters/${encodeURIComponent(cluster)}/what-if`, question).then(keep, (error: Error) => keep(error.message));
  };
  useEffect(() => {
    if (question !== null) ask(); // a link to a question shows its answer
  }, []);
  const choose = (next: Choice) => {
    setAnswers({});
    change(addressOf(next));
  };
  const known: [string, string][] = kind.endsWith("node") ? nodes.map(({ name }) => [name, name]) : jobs.map(({ name, title }) => [name, title.slice(0, 120)]);
  const targets = target === "" || known.some(([name]) => name === target) ? known : [...known, [target, target.slice(0, 120)] as [string, string]];
  return (
    <>
      <HStack wrap="wrap">
        <Select label="What would change" value={kind} options={Object.entries(KINDS)} set={(next) => choose({ kind: next as Kind, target: "", value: "" })} />
        <Select label="Of which" value={target} options={[["", "choose…"], ...targets]} set={(next) => choose({ ...choice, target: next })} />
        {kind === "priority" && <Input size="sm" width="6rem" type="number" aria-label="Priority" value={value} onChange={(e: Changed) => choose({ ...choice, value: e.target.value })} />}
        {kind === "deadline" && <Input size="sm" width="14rem" type="datetime-local" aria-label="Deadline, in your zone" defaultValue={toField(value)} onChange={(e: Changed) => choose({ ...choice, value: fromField(e.target.value) })} />}
        <Button size="sm" disabled={question === null} onClick={ask}>Compare</Button>
      </HStack>
      {kind === "deadline" && <Note status="info">A job that would miss its deadline weighs more in a plan, which is no promise: who would be late all the same is told.</Note>}
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
