import assert from "node:assert/strict";
import type { Answer } from "../app/app.ts";

/** An answer is the documented error of this status, with this reason or with none. */
export const assertError = (answer: Answer, status: number, reason?: string): void => {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assert.equal(answer.body.error.reason, reason);
};
