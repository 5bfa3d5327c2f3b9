// Numbers and times as people read them, with units.
export const duration = (seconds: number | null | undefined): string => {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "unknown";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86_400).toFixed(1)} d`;
};

export const amount = (resource: string, value: number): string => {
  if (resource === "cpu") return `${+(value / 1000).toFixed(2)} cores`;
  if (resource === "memory") return `${+(value / 2 ** 30).toFixed(2)} GiB`;
  return `${value} ${resource}`;
};

/** Returns amounts of several resources as one text, or `none` where there is none. */
export const amounts = (all: Record<string, number>, none: string): string =>
  Object.keys(all).sort().map((name) => amount(name, all[name] ?? 0)).join(", ") || none;

export const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? "" : "s"}`;

export const late = (seconds: number | null | undefined): string => (seconds ? `, ${duration(seconds)} late` : "");

export const size = (it: { servers: number; workers: number }): string =>
  [...(it.servers ? [count(it.servers, "server")] : []), count(it.workers, "worker")].join(", ");

export const moment = (iso: string): string => new Date(iso).toLocaleString();

/** Returns what draws points as a path in a box that shows all of `scale`; what lies outside is cut at its edge. */
export const inBox = (scale: [number, number][], width: number, height: number) => {
  const xs = scale.map(([x]) => x);
  const ys = scale.map(([, y]) => y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const within = (share: number) => Math.min(1, Math.max(0, share));
  return (points: [number, number][]): string =>
    points
      .map(([x, y], i) => `${i ? "L" : "M"}${(within((x - left) / (right - left || 1)) * width).toFixed(1)} ${(height - within((y - low) / (high - low || 1)) * height).toFixed(1)}`)
      .join("");
};

export const path = (points: [number, number][], width: number, height: number): string => inBox(points, width, height)(points);
