// A job's charts; everything that is drawn was reckoned on the server.
import type { Charts, Row, Series } from "./api";
import { Box, Grid, Text } from "./chakra";
import { clock, duration, number } from "./format";
import { areaOf, lineOf, Plot } from "./plot";
import { lineIn, type Pair, scaleOf } from "./scale";

const known = (value: number | null | undefined): value is number => value !== null && value !== undefined;
const pairs = (rows: Row[], column: number): Pair[] => rows.map((row): Pair => [row[0] ?? 0, row[column] ?? 0]);
const xs = (points: Pair[]) => points.map(([x]) => x);
const ys = (points: Pair[]) => points.map(([, y]) => y);

const ending = ({ never, end: [end, soonest, latest] }: NonNullable<Charts["curve"]>): string => {
  if (never) return "at this pace it never ends";
  if (!known(end)) return "the end can't be known yet";
  const range = known(soonest) && known(latest) && soonest < latest ? ` (${Math.round(soonest)} to ${Math.round(latest)})` : "";
  return `predicted to end at step ${Math.round(end)}${range}`;
};

/** The loss as seen, its fit with the 80 % band, earlier runs behind it, the predicted end and the loss that ends it. */
export const LossChart = ({ charts, seen }: { charts: Charts; seen: Series }) => {
  const { curve, earlier } = charts;
  if (curve === null) return null;
  const [fit, low, high] = [pairs(curve.rows, 1), pairs(curve.rows, 2), pairs(curve.rows, 3)];
  const [end] = curve.end;
  const across = scaleOf([...xs(seen.points), ...xs(fit)]);
  const up = scaleOf([...ys(seen.points), ...ys(fit), ...(known(curve.threshold) ? [curve.threshold] : [])], true);
  const line = lineIn(across, up);
  const behind = earlier.length ? `, ${earlier.length === 1 ? "an earlier run" : `${earlier.length} earlier runs`} (dotted)` : "";
  const told = `${seen.name}, fit (dashed) with its 80 % band${behind}; ${curve.criterion}; ${ending(curve)}`;
  return (
    <Plot told={told} across={{ scale: across, what: "step" }} up={{ scale: up, what: seen.name }}>
      <path d={`${line(low)}${line([...high].reverse()).replace("M", "L")}Z`} style={areaOf("fit")} />
      {earlier.map((run, i) => <path key={i} d={line(run)} style={lineOf("earlier", "1 4")} />)}
      {known(curve.threshold) && <path d={line([[across.low, curve.threshold], [across.high, curve.threshold]])} style={lineOf("mark", "2 2")} />}
      {known(end) && <path d={line([[end, -Infinity], [end, Infinity]])} style={lineOf("mark", "8 3")} />}
      <path d={line(seen.points)} style={lineOf("seen")} />
      <path d={line(fit)} style={lineOf("fit", "5 4")} />
    </Plot>
  );
};

/** A series as it was seen, each number at its step. */
export const Curve = ({ name, points }: { name: string; points: Pair[] }) => {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return null;
  const [across, up] = [scaleOf(xs(points)), scaleOf(ys(points), true)];
  return (
    <Plot told={`${name}: ${first[1].toPrecision(4)} at step ${first[0]}, ${last[1].toPrecision(4)} at step ${last[0]}`}
      across={{ scale: across, what: "step" }} up={{ scale: up, what: name.slice(0, 60) }}>
      <path d={lineIn(across, up)(points)} style={lineOf("seen")} />
    </Plot>
  );
};

type Size = { servers: number; workers: number };

/** Speed by servers (down) and workers (across): darker is faster, a dot was measured, the frame is the size it has. */
export const SpeedChart = ({ charts, measured, size }: { charts: Charts; measured: Size[]; size: Size }) => {
  const { speed } = charts;
  if (speed === null) return null;
  const most = Math.max(...speed.rows.map((row) => row[2] ?? 0), 1e-9);
  const [servers = 0, workers = 0] = speed.rows.find((row) => row[2] === most) ?? [];
  const has = (sizes: Size[], row: Row) => sizes.some((each) => each.servers === row[0] && each.workers === row[1]);
  const byServers = (speed.servers.at(-1) ?? 0) > 0;
  const guessed = "No speed was seen yet; the usual shape is shown. ";
  const told = `${speed.guessed ? guessed : ""}Workers ${speed.workers[0]} to ${speed.workers.at(-1)} across${byServers ? `, servers ${speed.servers[0]} to ${speed.servers.at(-1)} down` : ""}; `
    + "darker is faster, a dot was measured, the frame is the present size. "
    + `Fastest: ${servers ? `${servers} servers, ` : ""}${workers} workers${speed.guessed ? "" : `, ${most.toPrecision(3)} steps per second`}`;
  return (
    <Box my={2} maxW="720px">
      <Grid role="img" aria-label={told} templateColumns={`auto repeat(${speed.workers.length}, minmax(0, 1fr))`} gap="1px" fontSize="xs" color="fg.muted" overflow="hidden">
        {speed.servers.map((down) => [
          <Box key={`${down}`} pr={1} whiteSpace="nowrap">{byServers ? `${down} server${down === 1 ? "" : "s"}` : ""}</Box>,
          ...speed.workers.map((across) => {
            const row = speed.rows.find((each) => each[0] === down && each[1] === across) ?? [down, across, 0];
            return (
              <div key={`${down} ${across}`} title={`${byServers ? `${down} servers, ` : ""}${across} workers: ${number(row[2] ?? 0)} steps per second`}
                style={{ height: 22, textAlign: "center", color: "var(--chakra-colors-fg)", outline: has([size], row) ? "2px solid var(--chakra-colors-fg)" : "none", outlineOffset: -2,
                  background: `color-mix(in srgb, var(--chakra-colors-blue-solid) ${Math.round((90 * (row[2] ?? 0)) / most)}%, transparent)` }}>
                {has(measured, row) ? "●" : ""}
              </div>
            );
          }),
        ])}
        <Box />
        {speed.workers.map((across) => <Box key={across} textAlign="center" overflow="hidden">{across}</Box>)}
      </Grid>
      <Text fontSize="sm" color="fg.muted">{told}</Text>
    </Box>
  );
};

/** How the prediction of the end moved: the predicted end by the time of the prediction. */
export const PredictionChart = ({ charts }: { charts: Charts }) => {
  const ends = charts.predictions.map(([at, left]): Pair => [at ?? 0, (at ?? 0) + (left ?? 0)]);
  const [first, last] = [ends[0], ends.at(-1)];
  if (first === undefined || last === undefined || ends.length < 2) return <Text color="fg.muted">Fewer than two predictions were made yet.</Text>;
  const moved = last[1] - first[1];
  const [across, up] = [scaleOf(xs(ends)), scaleOf(ys(ends))];
  const sides = ({ low, high }: { low: number; high: number }) => (low < high ? [low, high] : [low]);
  const told = `The predicted end moved by ${duration(Math.abs(moved))} ${moved > 0 ? "later" : "earlier"} over ${ends.length} predictions; now ${new Date(last[1] * 1000).toLocaleString()}`;
  return (
    <Plot told={told} across={{ scale: across, what: "time of the prediction", write: clock, at: sides(across) }} up={{ scale: up, what: "predicted end", write: clock, at: sides(up) }}>
      <path d={lineIn(across, up)(ends)} style={lineOf("fit")} />
    </Plot>
  );
};
