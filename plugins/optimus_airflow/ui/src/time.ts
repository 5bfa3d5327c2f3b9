// Where on a line of time things lie, and the marks that stand for what happened.
import type { Happening, Held } from "./api";
import { size } from "./format";

export type Span = { left: number; width: number; share: number; text: string; told: string };

const instant = (iso: string) => new Date(iso).getTime();

/** Returns generations as spans in percent of [from, to]; `most` replicas fill the height. What held no room is left out. */
export const spans = (held: Held[], from: number, to: number, most: number): Span[] =>
  held.flatMap((each) => {
    if (each.starting_at === null) return [];
    const [start, end] = [Math.max(from, instant(each.starting_at)), Math.min(to, each.gone_at === null ? to : instant(each.gone_at))];
    if (end < from || start > to) return [];
    const whole = Math.max(1, to - from);
    return [{
      left: (100 * (start - from)) / whole,
      width: (100 * Math.max(0, end - start)) / whole,
      share: (each.servers + each.workers) / Math.max(1, most),
      text: each.servers ? `${each.servers}+${each.workers}` : String(each.workers),
      told: `${size(each)}, ${new Date(start).toLocaleString()} to ${each.gone_at === null ? "now" : new Date(end).toLocaleString()}: ${each.why}`,
    }];
  });

/** Kind of event -> its sign and what it is called; a sign of its own for each, since colour alone tells nothing. */
const SIGNS: Record<string, [string, string]> = {
  checkpoint: ["◆", "checkpoint"],
  resized: ["↕", "resize"],
  paused: ["‖", "pause"],
  failed: ["✕", "failure"],
  rolled_back: ["↶", "roll-back"],
  retried: ["↻", "retry"],
  memory_grown: ["▲", "more memory"],
  diverged: ["≈", "divergence"],
};
const SLOW: [string, string] = ["▼", "straggler"];

const sign = (kind: string): [string, string] | undefined => (kind.startsWith("straggler") ? SLOW : SIGNS[kind]);

export type Mark = { left: number; sign: string; told: string };

export const marks = (events: Happening[], from: number, to: number): Mark[] =>
  events.flatMap((event) => {
    const [shown] = sign(event.kind) ?? [];
    const at = instant(event.time);
    if (shown === undefined || at < from || at > to) return [];
    return [{ left: (100 * (at - from)) / Math.max(1, to - from), sign: shown, told: `${new Date(at).toLocaleString()}: ${event.kind}. ${event.text}` }];
  });

/** Returns what the signs mean and how many there are, such as "◆ checkpoint: 3". */
export const legend = (events: Happening[]): string[] => {
  const seen = new Map<string, number>();
  for (const { kind } of events) {
    const found = sign(kind);
    if (found) seen.set(found.join(" "), (seen.get(found.join(" ")) ?? 0) + 1);
  }
  return [...seen].map(([what, number]) => `${what}: ${number}`);
};
