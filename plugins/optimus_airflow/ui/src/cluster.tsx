// The cluster: who holds what, the queue, how sizes changed, and what would be if.
import { useState } from "react";
import { useSearchParams } from "react-router-dom";

import { type ClusterView, type Comparison, type JobsPage, type Node, post, usePolled } from "./api";
import { Badge, Box, Button, Flex, Heading, HStack, NativeSelect, Text } from "./chakra";
import { amount, duration, moment, size } from "./format";
import { JobView } from "./job";
import { Note, Part, Rows, Shown } from "./parts";

const SHADES = ["blue.500", "green.500", "orange.500", "purple.500", "teal.500", "pink.500"];

const NodeBar = ({ node }: { node: Node }) => {
  const all = node.allocatable.cpu ?? 0;
  const held: [string, number][] = [
    ...Object.entries(node.jobs).map(([job, amounts]): [string, number] => [job, amounts.cpu ?? 0]),
    ["not of Optimus", node.others.cpu ?? 0],
  ].filter((each): each is [string, number] => Number(each[1]) > 0);
  const free = all - held.reduce((sum, [, cpu]) => sum + cpu, 0);
  return (
    <Box my={2}>
      <Text fontWeight="bold">{node.name} {!node.ready && <Badge colorPalette="red">not ready</Badge>}</Text>
      <Flex height="14px" borderWidth="1px" aria-hidden="true">
        {held.map(([job, cpu], i) => (
          <Box key={job} width={`${all ? (100 * cpu) / all : 0}%`} bg={SHADES[i % SHADES.length]} borderRightWidth="1px" title={job} />
        ))}
      </Flex>
      <Text fontSize="sm">
        {held.map(([job, cpu]) => `${job}: ${amount("cpu", cpu)}`).concat(`free: ${amount("cpu", free)}`).join(" · ")}
      </Text>
    </Box>
  );
};

const WhatIf = ({ cluster, nodes }: { cluster: string; nodes: Node[] }) => {
  const [change, setChange] = useState("");
  const [found, setFound] = useState<Comparison[] | string | null>(null);
  const ask = () => {
    const cut = change.indexOf(":");
    post<Comparison[]>(`clusters/${encodeURIComponent(cluster)}/what-if`, { [change.slice(0, cut)]: change.slice(cut + 1) })
      .then(setFound, (error: Error) => setFound(error.message));
  };
  return (
    <>
      <HStack>
        <NativeSelect.Root maxW="20rem">
          <NativeSelect.Field aria-label="What would change" value={change} onChange={(e: { target: { value: string } }) => setChange(e.target.value)}>
            <option value="">choose a change…</option>
            {nodes.flatMap(({ name }) => [
              <option key={`-${name}`} value={`without_node:${name}`}>without node {name}</option>,
              <option key={`+${name}`} value={`add_like_node:${name}`}>one more node like {name}</option>,
            ])}
          </NativeSelect.Field>
        </NativeSelect.Root>
        <Button size="sm" disabled={!change} onClick={ask}>Compare</Button>
      </HStack>
      {typeof found === "string" && <Note status="error">{found}</Note>}
      {Array.isArray(found) && (
        <Rows
          head={["job", "now", "then", "ends in, now", "ends in, then", "why, then"]}
          rows={found.map((f) => [
            f.title, size(f.now), f.then ? size(f.then) : "gone",
            duration(f.now.predicted_seconds), duration(f.then?.predicted_seconds), f.then?.why ?? "",
          ])}
          empty="No job would be planned."
        />
      )}
    </>
  );
};

export const ClusterPage = () => {
  const [query, setQuery] = useSearchParams();
  const cluster = query.get("cluster") ?? "local";
  const job = query.get("job");
  const live = query.get("all") === null;
  const view = usePolled<ClusterView>(`clusters/${encodeURIComponent(cluster)}`);
  const jobs = usePolled<JobsPage>(`jobs?cluster=${encodeURIComponent(cluster)}&live=${live}&limit=100`);
  const show = (key: string, value: string | null) =>
    setQuery((old: URLSearchParams) => {
      if (value === null) old.delete(key);
      else old.set(key, value);
      return old;
    });
  if (job !== null) {
    return (
      <Box p={4} id="optimus">
        <Button size="sm" variant="outline" onClick={() => show("job", null)}>Back to the cluster</Button>
        <JobView name={job} />
      </Box>
    );
  }
  return (
    <Box p={4} id="optimus">
      <Heading as="h1" size="lg">Optimus: cluster {cluster}</Heading>
      <Part title="Jobs">
        <Button size="xs" variant="outline" aria-pressed={!live} onClick={() => show("all", live ? "1" : null)}>
          {live ? "Show ended jobs too" : "Show live jobs only"}
        </Button>
        <Shown of={jobs}>
          {(page) => (
            <Rows
              head={["job", "state", "size", "ends in", "why"]}
              rows={page.jobs.map((j) => [
                <Button key="b" size="xs" variant="plain" onClick={() => show("job", j.name)}>{j.title.slice(0, 120)}</Button>,
                j.phase, size(j), duration(j.predicted_seconds), j.reason.slice(0, 500),
              ])}
              empty="No job here. A task with OptimusTrainingOperator makes one."
            />
          )}
        </Shown>
      </Part>
      <Shown of={view}>
        {(seen) => (
          <>
            <Part title="Nodes">
              {seen.error && <Note status="warning">{seen.error}</Note>}
              {seen.nodes.map((node) => <NodeBar key={node.name} node={node} />)}
            </Part>
            <Part title="What if"><WhatIf cluster={cluster} nodes={seen.nodes} /></Part>
            <Part title="Sizes over time">
              <Rows
                head={["time", "job", "size", "state", "why"]}
                rows={seen.sizes.slice(-50).reverse().map((s) => [moment(s.wanted_at), s.job, size(s), s.state, s.why])}
                empty="No size has been given yet."
              />
            </Part>
            <Part title="Rounds">
              <Rows head={["time", "changes"]} rows={seen.rounds.map((r) => [moment(r.time), r.changes])} empty="No round has changed anything yet." />
            </Part>
          </>
        )}
      </Shown>
    </Box>
  );
};
