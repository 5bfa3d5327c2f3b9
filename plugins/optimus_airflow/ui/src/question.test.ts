import { expect, test } from "vitest";

import { addressOf, asked, chosen, fromField, toField } from "./question";

test.each([
  ["without_node", "a", "", { without_node: "a" }],
  ["without_job", "job-1", "", { without_job: "job-1" }],
  ["priority", "job-1", "-3", { priority: { "job-1": -3 } }],
  ["deadline", "job-1", "2030-01-01T00:00Z", { deadline: { "job-1": "2030-01-01T00:00:00.000Z" } }],
] as const)("%s asks the server for that", (kind, target, value, body) => expect(asked(kind, target, value)).toEqual(body));

test.each([
  ["without_node", "", ""],
  ["priority", "job-1", "high"],
  ["priority", "job-1", ""],
  ["deadline", "job-1", "soon"],
] as const)("%s of %o with %o is not complete", (kind, target, value) => expect(asked(kind, target, value)).toBeNull());

test.each([
  { kind: "without_node", target: "", value: "" },
  { kind: "without_job", target: "job-1 & <b>", value: "" },
  { kind: "priority", target: "job-1", value: "-3" },
  { kind: "deadline", target: "job-1", value: "2030-01-01T00:00:00.000Z" },
] as const)("$kind of $target is found again in the address", (choice) => {
  const given = Object.entries(addressOf(choice)).filter((each): each is [string, string] => each[1] !== null);
  expect(chosen(new URLSearchParams(new URLSearchParams(given).toString()))).toEqual(choice);
});

test.each(["", "what=nonsense&which=a", "what=toString&which=a", "which=a&to=3"])("an address of %o holds no choice", (text) =>
  expect(chosen(new URLSearchParams(text))).toEqual({ kind: "without_node", target: "", value: "" }));

test("a moment goes into a field of the reader's zone and comes back", () => {
  expect(fromField(toField("2030-06-01T12:34:00.000Z"))).toBe("2030-06-01T12:34:00.000Z");
  expect([fromField(""), toField("soon")]).toEqual(["", ""]);
});
