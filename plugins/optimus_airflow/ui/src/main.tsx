// One bundle for all places. Airflow takes the component by the app's name, since a second app of the same address is not run anew.
import { type JobsPage, usePolled } from "./api";
import { Text } from "./chakra";
import { ClusterPage } from "./cluster";
import { JobTab } from "./job";

declare const __SOURCES__: string;

const DashboardLine = () => {
  const { data } = usePolled<JobsPage>("jobs?live=true&limit=200", 15);
  if (data === null || data.total === 0) return null;
  const running = data.jobs.filter((job) => job.state === "running").length;
  return <Text id="optimus">Optimus: {data.total} live jobs, {running} of the newest {data.jobs.length} running</Text>;
};

Object.assign(globalThis, {
  "Optimus": ClusterPage,
  "Optimus DAG": JobTab,
  "Optimus run": JobTab,
  "Optimus task": JobTab,
  "Optimus line": DashboardLine,
  "Optimus sources": __SOURCES__,
});
