import { expect, test } from "vitest";

import { amount, amounts, duration, late, number, size } from "./format";

test.each([
  [null, "unknown"],
  [Number.NaN, "unknown"],
  [12.4, "12 s"],
  [600, "10 min"],
  [9000, "2.5 h"],
  [3600, "1 h"],
  [259_200, "3 d"],
])("%s seconds read as %s", (seconds, text) => expect(duration(seconds)).toBe(text));

test("amounts have units", () => {
  expect(amount("cpu", 1500)).toBe("1.5 cores");
  expect(amount("memory", 2 ** 30)).toBe("1 GiB");
  expect(amount("nvidia.com/gpu", 2)).toBe("2 nvidia.com/gpu");
});

test("amounts of several resources are one text", () =>
  expect([amounts({ memory: 2 ** 31, cpu: 500 }, "nothing"), amounts({}, "nothing")]).toEqual(["0.5 cores, 2 GiB", "nothing"]));

test.each([
  [{ servers: 0, workers: 3 }, "3 workers"],
  [{ servers: 1, workers: 1 }, "1 server, 1 worker"],
])("the size %o reads as %s", (it, text) => expect(size(it)).toBe(text));

test("who is in time is not said to be late", () => expect([late(null), late(600)]).toEqual(["", ", 10 min late"]));

test.each([
  [0, "0"],
  [0.25, "0.25"],
  [20_000, "20K"],
  [0.0002, "2e-4"],
])("%s stands at the side of a chart as %s", (value, text) => expect(number(value)).toBe(text));
