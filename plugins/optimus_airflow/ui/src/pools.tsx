// Pools: what each is guaranteed, may have at most, holds, and has borrowed of others.
import type { Pool } from "./api";
import { amounts } from "./format";
import { Rows } from "./parts";

export const Pools = ({ pools }: { pools: Pool[] }) => (
  <Rows
    head={["pool", "guaranteed", "at most", "holds", "of it borrowed", "jobs", "waiting"]}
    rows={pools.map((p) => [p.name, amounts(p.guaranteed, "nothing"), amounts(p.ceiling, "no limit"), amounts(p.held, "nothing"), amounts(p.borrowed, "nothing"), p.jobs, p.waiting])}
    empty="No pool is declared."
  />
);
