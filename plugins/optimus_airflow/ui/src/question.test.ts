import { expect, test } from "vitest";

import { asked } from "./question";

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
