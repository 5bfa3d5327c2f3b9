// Numbers and times as people read them, with units.
export const duration = (seconds: number | null | undefined): string => {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "unknown";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${+(seconds / 3600).toFixed(1)} h` : `${+(seconds / 86_400).toFixed(1)} d`;
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

/** Returns the time of day of a moment in seconds since 1970, in the reader's zone. */
export const clock = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString();

export const moment = (iso: string): string => new Date(iso).toLocaleString();

const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumSignificantDigits: 3 });
const TINY = 1e-3;

/** Returns a number as it stands at the side of a chart. */
export const number = (value: number): string => (value !== 0 && Math.abs(value) < TINY ? value.toExponential() : SHORT.format(value));
