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
