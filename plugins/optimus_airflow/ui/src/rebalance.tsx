// "Rebalance now": starts the rebalance DAG, for those whom Airflow lets do so.
import { useState } from "react";
import { Link } from "react-router-dom";

import { post } from "./api";
import { Box, HStack } from "./chakra";
import { Confirmed } from "./confirm";
import { Note } from "./parts";

type Started = { dag_id: string; run_id: string };

export const Rebalance = () => {
  const [found, setFound] = useState<Started | string | null>(null);
  const start = () => void post<Started>("rebalance").then(setFound, (error: Error) => setFound(error.message));
  return (
    <Box my={2}>
      <HStack><Confirmed acts={[{ label: "Rebalance now", ask: "Really start the rebalance DAG?", yes: "Yes, rebalance", act: start }]} /></HStack>
      {typeof found === "string" && <Note status="error">{found}</Note>}
      {found !== null && typeof found === "object" && (
        <Note status="info">
          Under way: <Link to={`/dags/${found.dag_id}/runs/${encodeURIComponent(found.run_id)}`} style={{ textDecoration: "underline" }}>{found.run_id}</Link>
        </Note>
      )}
    </Box>
  );
};
