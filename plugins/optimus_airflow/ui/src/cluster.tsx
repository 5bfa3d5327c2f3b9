// The cluster: its jobs, the queue, who holds what, how sizes changed, and what would be if.
import { useSearchParams } from "react-router-dom";

import { type ClusterView, type Counts, type JobsPage, usePolled } from "./api";
import { Box, Button, Heading, HStack, NativeSelect, Text } from "./chakra";
import { duration, late, moment, size } from "./format";
import { JobView } from "./job";
import { Nodes } from "./nodes";
import { Note, Part, Rows, Shown } from "./parts";
import { Pools } from "./pools";
import { NO_CHOICE } from "./question";
import { Rebalance } from "./rebalance";
import { Queue, Rounds } from "./rounds";
import { ClusterTimeline } from "./timeline";
import { WhatIf } from "./whatif";

type Change = (address: Record<string, string | null>, replace?: boolean) => void;
const HOURS = ["1", "6", "24", "168"];

const Jobs = ({ page, live, change }: { page: JobsPage; live: boolean; change: Change }) => (
  <>
    <Button size="xs" variant="outline" aria-pressed={!live} onClick={() => change({ all: live ? "1" : null })}>
      {live ? "Show ended jobs too" : "Show live jobs only"}
    </Button>
    <Rows
      head={["job", "state", "size", "ends in", "why"]}
      rows={page.jobs.map((j) => [
        <Button key="b" size="xs" variant="plain" onClick={() => change({ job: j.name })}>{j.title.slice(0, 120)}</Button>,
        j.phase, size(j), `${duration(j.predicted_seconds)}${late(j.late_seconds)}`, j.reason.slice(0, 500),
      ])}
      empty="No job here. A task with OptimusTrainingOperator makes one."
    />
    {page.total > page.jobs.length && <Text color="fg.muted">The newest {page.jobs.length} of {page.total} jobs.</Text>}
  </>
);

const Sizes = ({ view, hours, change }: { view: ClusterView; hours: number; change: Change }) => (
  <>
    <HStack wrap="wrap">
      {HOURS.map((each) => (
        <Button key={each} size="xs" variant="outline" aria-pressed={each === String(hours)} onClick={() => change({ hours: each })}>
          last {duration(Number(each) * 3600)}
        </Button>
      ))}
    </HStack>
    <ClusterTimeline sizes={view.sizes} hours={hours} />
    <Rows
      head={["time", "job", "size", "state", "why"]}
      rows={view.sizes.slice(-20).reverse().map((s) => [s.starting_at ? moment(s.starting_at) : "", s.job, size(s), s.state, s.why])}
      empty="No size has been given yet."
    />
  </>
);

const Cluster = ({ cluster, query, change }: { cluster: string; query: URLSearchParams; change: Change }) => {
  const live = query.get("all") === null;
  const hours = HOURS.includes(query.get("hours") ?? "") ? Number(query.get("hours")) : 6;
  const view = usePolled<ClusterView>(`clusters/${encodeURIComponent(cluster)}?hours=${hours}`);
  const jobs = usePolled<JobsPage>(`jobs?cluster=${encodeURIComponent(cluster)}&live=${live}&limit=100`);
  return (
    <>
      <Part title="Jobs"><Shown of={jobs}>{(page) => <Jobs page={page} live={live} change={change} />}</Shown></Part>
      <Shown of={view}>
        {(seen) => (
          <>
            {seen.may_rebalance && <Rebalance />}
            <Part title="Queue"><Queue waiting={seen.queue} /></Part>
            <Part title="Nodes">
              {seen.error && <Note status="warning">{seen.error}</Note>}
              <Nodes nodes={seen.nodes} />
            </Part>
            {seen.pools.length > 0 && <Part title="Pools"><Pools pools={seen.pools} /></Part>}
            <Part title="Sizes over time"><Sizes view={seen} hours={hours} change={change} /></Part>
            <Part title="What if"><WhatIf key={cluster} cluster={cluster} nodes={seen.nodes} jobs={jobs.data?.jobs ?? []} query={query} change={(address) => change(address, true)} /></Part>
            <Part title="Rounds"><Rounds view={seen} chosen={query.get("round")} choose={(id) => change({ round: id })} /></Part>
          </>
        )}
      </Shown>
    </>
  );
};

export const ClusterPage = () => {
  const [query, setQuery] = useSearchParams();
  const counts = usePolled<Counts>("summary", 30);
  const job = query.get("job");
  const change: Change = (address, replace = false) =>
    setQuery((old: URLSearchParams) => {
      for (const [key, value] of Object.entries(address)) {
        if (value === null) old.delete(key);
        else old.set(key, value);
      }
      return old;
    }, { replace });
  if (job !== null) {
    return (
      <Box p={4} id="optimus">
        <Button size="sm" variant="outline" onClick={() => change({ job: null })}>Back to the cluster</Button>
        <JobView name={job} />
      </Box>
    );
  }
  return (
    <Box p={4} id="optimus">
      <Shown of={counts}>
        {(known) => {
          const cluster = query.get("cluster") ?? known.cluster;
          return (
            <>
              <Heading as="h1" size="lg">Optimus: cluster {cluster}</Heading>
              {known.clusters.length > 1 && (
                <NativeSelect.Root size="sm" maxW="20rem">
                  <NativeSelect.Field aria-label="Cluster" value={cluster} onChange={(e: { target: { value: string } }) => change({ ...NO_CHOICE, round: null, cluster: e.target.value })}>
                    {[...new Set([...known.clusters, cluster])].map((name) => <option key={name} value={name}>{name}</option>)}
                  </NativeSelect.Field>
                </NativeSelect.Root>
              )}
              <Cluster cluster={cluster} query={query} change={change} />
            </>
          );
        }}
      </Shown>
    </Box>
  );
};
