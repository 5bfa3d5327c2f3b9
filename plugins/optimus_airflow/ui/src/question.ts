// The questions that "what if" knows, as the server understands them.
export const KINDS = {
  without_node: "a node fewer",
  add_like_node: "a node more, like",
  without_job: "a job withdrawn",
  priority: "another priority of",
  deadline: "another deadline of",
};
export type Kind = keyof typeof KINDS;

/** Returns what the server is asked; null if something is still missing. */
export const asked = (kind: Kind, target: string, value: string): object | null => {
  if (target === "") return null;
  if (kind === "priority") return /^-?\d+$/.test(value) ? { priority: { [target]: Number(value) } } : null;
  if (kind !== "deadline") return { [kind]: target };
  const moment = new Date(value);
  return Number.isNaN(moment.getTime()) ? null : { deadline: { [target]: moment.toISOString() } };
};

export type Choice = { kind: Kind; target: string; value: string };
/** Keys of the address; null takes one out. */
export type Address = { what: string | null; which: string | null; to: string | null };
export const NO_CHOICE: Address = { what: null, which: null, to: null };

const isKind = (text: string | null): text is Kind => text !== null && Object.hasOwn(KINDS, text);

/** Returns the choice that stands in the address; what is not known there counts as not chosen. */
export const chosen = (query: URLSearchParams): Choice => {
  const kind = query.get("what");
  if (!isKind(kind)) return { kind: "without_node", target: "", value: "" };
  return { kind, target: query.get("which") ?? "", value: query.get("to") ?? "" };
};

/** Returns what stands in the address for a choice, so that `chosen` finds it again. */
export const addressOf = ({ kind, target, value }: Choice): Address => ({ what: kind, which: target || null, to: value || null });

/** Returns a moment in the form of a field of the reader's zone, and back; "" if there is none. */
export const toField = (iso: string): string => {
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};
export const fromField = (local: string): string => {
  const moment = new Date(local);
  return Number.isNaN(moment.getTime()) ? "" : moment.toISOString();
};
