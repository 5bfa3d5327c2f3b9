// Scales of charts: where values lie, which are written at the sides, and curves drawn by them in a box of 100 by 100.
export type Pair = [number, number];
export type Scale = { low: number; high: number; log: boolean };

const LOG_FROM = 10; // values that differ by more than this factor are shown on a scale of logarithms
const MOST_TICKS = 6;

/** Returns a scale that shows all finite values; by logarithms if `mayLog` and they are far apart and above zero. */
export const scaleOf = (values: number[], mayLog = false): Scale => {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return { low: 0, high: 1, log: false };
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  return { low, high, log: mayLog && low > 0 && high / low > LOG_FROM };
};

/** Returns where a value lies on a scale, from 0 to 1; what lies outside is cut at its end. */
export const shareOf = ({ low, high, log }: Scale, value: number): number => {
  const at = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low || 1);
  return Number.isNaN(at) ? 0 : Math.min(1, Math.max(0, at));
};

const STEPS = [1, 2, 5, 10];

const decades = ({ low, high }: Scale, digits: number[]): number[] => {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1)
    for (const digit of digits) if (digit * 10 ** power >= low && digit * 10 ** power <= high) found.push(digit * 10 ** power);
  return found;
};

/** Returns at most `MOST_TICKS` round values inside a scale; its one value if it has no width. */
export const ticks = (scale: Scale): number[] => {
  const { low, high, log } = scale;
  if (high <= low) return [low];
  if (log) {
    const fine = decades(scale, [1, 2, 5]);
    const chosen = fine.length <= MOST_TICKS ? fine : decades(scale, [1]);
    return chosen.filter((_, i) => i % Math.ceil(chosen.length / MOST_TICKS) === 0);
  }
  const rough = (high - low) / (MOST_TICKS - 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (STEPS.find((each) => each * power >= rough) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
};

/** Returns what draws points as a path in a box of 100 by 100. */
export const lineIn = (across: Scale, up: Scale) => (points: Pair[]): string =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${(100 * shareOf(across, x)).toFixed(2)} ${(100 - 100 * shareOf(up, y)).toFixed(2)}`).join("");
