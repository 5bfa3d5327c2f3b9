// A job's charts; everything that is drawn was reckoned on the server.
import type { ReactNode } from "react";

import type { Charts, Pair, Row, Series } from "./api";
import { Box, Text } from "./chakra";
import { duration, inBox } from "./format";

const WIDTH = 600;
const HEIGHT = 160;

const Picture = ({ told, children }: { told: string; children: ReactNode }) => (
  <Box my={2}>
    <svg viewBox={`-4 -4 ${WIDTH + 8} ${HEIGHT + 8}`} width="100%" style={{ maxWidth: 720 }} role="img" aria-label={told}>{children}</svg>
    <Text fontSize="sm" color="fg.muted">{told}</Text>
  </Box>
);

const known = (value: number | null | undefined): value is number => value !== null && value !== undefined;
const pairs = (rows: Row[], column: number): Pair[] => rows.map((row): Pair => [row[0] ?? 0, row[column] ?? 0]);

/** The loss as seen, its fit with the 80 % band, earlier runs behind it, the predicted end and the loss that ends it. */
export const LossChart = ({ charts, seen }: { charts: Charts; seen: Series }) => {
  const { curve, earlier } = charts;
  if (curve === null) return null;
  const [low, high] = [pairs(curve.rows, 2), pairs(curve.rows, 3)];
  const line = inBox([...seen.points, ...pairs(curve.rows, 1), ...low.slice(1), ...high.slice(1)], WIDTH, HEIGHT);
  const [end, soonest, latest] = curve.end;
  const at = curve.never ? "at this pace it never ends"
    : known(end) ? `predicted to end at step ${Math.round(end)}${known(soonest) && known(latest) && soonest < latest ? ` (${Math.round(soonest)} to ${Math.round(latest)})` : ""}`
      : "the end can't be known yet";
  return (
    <Picture told={`${seen.name}, fit (dashed) with its 80 % band${earlier.length ? `, ${earlier.length} earlier runs (dotted)` : ""}; ${curve.criterion}; ${at}`}>
      <path d={`${line(low)}${line([...high].reverse()).replace("M", "L")}Z`} fill="currentColor" opacity="0.12" />
      {earlier.map((run, i) => <path key={i} d={line(run)} fill="none" stroke="currentColor" strokeDasharray="1 4" opacity="0.7" />)}
      {known(curve.threshold) && <path d={line([[0, curve.threshold], [curve.rows.at(-1)?.[0] ?? 0, curve.threshold]])} stroke="currentColor" strokeDasharray="2 2" />}
      {known(end) && <path d={line([[end, -Infinity], [end, Infinity]])} stroke="currentColor" strokeDasharray="8 3" />}
      <path d={line(pairs(curve.rows, 1))} fill="none" stroke="currentColor" strokeDasharray="5 4" />
      <path d={line(seen.points)} fill="none" stroke="currentColor" strokeWidth="1.5" />
    </Picture>
  );
};

/** Speed by servers (down) and workers (across): darker is faster, a dot was measured, the frame is the size it has. */
export const SpeedChart = ({ charts, measured, size }: {
  charts: Charts; measured: { servers: number; workers: number }[]; size: { servers: number; workers: number };
}) => {
  const { speed } = charts;
  if (speed === null) return null;
  const most = Math.max(...speed.rows.map((row) => row[2] ?? 0), 1e-9);
  const [wide, tall] = [WIDTH / speed.workers.length, Math.min(24, HEIGHT / speed.servers.length)];
  const best = speed.rows.find((row) => row[2] === most) ?? [];
  return (
    <Picture told={`${speed.guessed ? "No speed was seen yet; the usual shape is shown. " : ""}Workers ${speed.workers[0]} to ${speed.workers.at(-1)} across${(speed.servers.at(-1) ?? 0) > 0 ? `, servers ${speed.servers[0]} to ${speed.servers.at(-1)} down` : ""}; darker is faster, a dot was measured, the frame is the present size. Fastest: ${best[0] ? `${best[0]} servers, ` : ""}${best[1]} workers${speed.guessed ? "" : `, ${most.toPrecision(3)} steps per second`}`}>
      {speed.rows.map(([servers = 0, workers = 0, value = 0]) => {
        const here = { x: speed.workers.indexOf(workers) * wide, y: speed.servers.indexOf(servers) * tall };
        const was = measured.some((m) => m.servers === servers && m.workers === workers);
        const now = size.servers === servers && size.workers === workers;
        return (
          <g key={`${servers} ${workers}`}>
            <rect {...here} width={wide} height={tall} fill="currentColor" fillOpacity={(0.6 * value) / most} stroke="currentColor" strokeWidth={now ? 3 : 0.2} />
            {was && <circle cx={here.x + wide / 2} cy={here.y + tall / 2} r="3" fill="currentColor" />}
          </g>
        );
      })}
    </Picture>
  );
};

/** How the prediction of the end moved: the predicted end by the time of the prediction. */
export const PredictionChart = ({ charts }: { charts: Charts }) => {
  const ends = charts.predictions.map(([at, left]): Pair => [at ?? 0, (at ?? 0) + (left ?? 0)]);
  const [first, last] = [ends[0], ends.at(-1)];
  if (first === undefined || last === undefined || ends.length < 2) return <Text color="fg.muted">Fewer than two predictions were made yet.</Text>;
  const moved = last[1] - first[1];
  return (
    <Picture told={`The predicted end moved by ${duration(Math.abs(moved))} ${moved > 0 ? "later" : "earlier"} over ${ends.length} predictions; now ${new Date(last[1] * 1000).toLocaleString()}`}>
      <path d={inBox(ends, WIDTH, HEIGHT)(ends)} fill="none" stroke="currentColor" strokeWidth="1.5" />
    </Picture>
  );
};
