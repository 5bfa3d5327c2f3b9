import { expect, test } from "vitest";

import { lineIn, scaleOf, shareOf, ticks } from "./scale";

test.each([
  [[2, 0, 9], true, { low: 0, high: 9, log: false }],
  [[0.1, 2], true, { low: 0.1, high: 2, log: true }],
  [[0.1, 2], false, { low: 0.1, high: 2, log: false }],
  [[1, Number.NaN, Infinity], true, { low: 1, high: 1, log: false }],
  [[], true, { low: 0, high: 1, log: false }],
])("the scale of %o, logarithmic if it may be: %s", (values, mayLog, scale) => expect(scaleOf(values, mayLog)).toEqual(scale));

test.each([
  [{ low: 0, high: 100, log: false }, [0, 20, 40, 60, 80, 100]],
  [{ low: 13, high: 2014, log: false }, [500, 1000, 1500, 2000]],
  [{ low: 0.14, high: 2.1, log: true }, [0.2, 0.5, 1, 2]],
  [{ low: 1e-6, high: 1, log: true }, [1e-6, 1e-4, 1e-2, 1]],
  [{ low: 3, high: 3, log: false }, [3]],
  [{ low: -1, high: 1, log: false }, [-1, -0.5, 0, 0.5, 1]],
])("%o has few round ticks inside it", (scale, wanted) => {
  const found = ticks(scale);
  expect(found.map((each) => +each.toPrecision(6))).toEqual(wanted);
});

test("a curve fills its box, a flat one divides by nothing, and none draws nothing", () => {
  const line = (points: [number, number][]) => lineIn(scaleOf(points.map(([x]) => x)), scaleOf(points.map(([, y]) => y)))(points);
  expect(line([[0, 2], [10, 1]])).toBe("M0.00 0.00L100.00 100.00");
  expect(line([[1, 5]])).toBe("M0.00 100.00");
  expect(line([])).toBe("");
});

test.each([
  [-Infinity, 0],
  [20, 1],
  [Number.NaN, 0],
])("%s lies at the end of a scale", (value, share) => expect(shareOf({ low: 0, high: 10, log: false }, value)).toBe(share));

test("on a scale of logarithms each factor is as wide as another, and zero lies at its low end", () =>
  expect([0, 1, 10, 100].map((value) => shareOf({ low: 1, high: 100, log: true }, value))).toEqual([0, 0, 0.5, 1]));
