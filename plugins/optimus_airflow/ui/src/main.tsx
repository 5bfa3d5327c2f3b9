// One bundle for all places. Airflow takes the component by the app's name, since a second app of the same address is not run anew.
import { Link } from "react-router-dom";

import { type Counts, usePolled } from "./api";
import { Text } from "./chakra";
import { ClusterPage } from "./cluster";
import { count } from "./format";
import { JobTab } from "./job";

declare const __SOURCES__: string;

const DashboardLine = () => {
  const { data } = usePolled<Counts>("summary", 15);
  if (data === null || data.live === 0) return null;
  return (
    <Text id="optimus">
      <Link to="/plugin/optimus" style={{ textDecoration: "underline" }}>Optimus</Link>: {count(data.live, "live job")}: {data.running} running, {data.waiting} waiting, {data.late} late
    </Text>
  );
};

Object.assign(globalThis, {
  "Optimus": ClusterPage,
  "Optimus DAG": JobTab,
  "Optimus run": JobTab,
  "Optimus task": JobTab,
  "Optimus line": DashboardLine,
  "Optimus sources": __SOURCES__,
});
