import { expect, test } from "vitest";

import type { Held } from "./api";
import { legend, marks, spans } from "./time";

const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const held = (starts: number | null, ends: number | null, workers = 2): Held => ({
  number: 1, state: "gone", servers: 0, workers, why: "", ended_by: "",
  starting_at: starts === null ? null : at(starts), gone_at: ends === null ? null : at(ends),
});

test.each([
  ["within", held(25, 50), [25, 25]],
  ["cut at both ends", held(-50, 500), [0, 100]],
  ["still held", held(75, null), [75, 25]],
])("a size that lies %s is drawn there", (_, each, [left, width]) => {
  const [span] = spans([each], 0, 100_000, 4);
  expect([span?.left, span?.width, span?.share]).toEqual([left, width, 0.5]);
});

test.each([
  ["never started", held(null, 10)],
  ["was over before", held(-20, -10)],
])("a size that %s is not drawn", (_, each) => expect(spans([each], 0, 100_000, 4)).toEqual([]));

test("what happened has a sign, and the legend counts it", () => {
  const events = ["checkpoint", "running", "checkpoint", "straggler_replaced"].map((kind, i) => ({ id: i, time: at(i), kind, text: "" }));
  expect(marks(events, 0, 10_000).map(({ sign, left }) => [sign, left])).toEqual([["◆", 0], ["◆", 20], ["▼", 30]]);
  expect(legend(events)).toEqual(["◆ checkpoint: 2", "▼ straggler: 1"]);
});
