import assert from "node:assert/strict";
import { words } from "../../console/src/format.ts";

describe("words of the console", () => {
  it("are made of names that the API and integrators give", () => {
    const names = ["externalUserId", "IN_PROGRESS", "mfaRequired", "constructor", "toString", "__proto__"];
    assert.deepEqual(names.map(words), [
      "External user ID",
      "In progress",
      "MFA required",
      "Constructor",
      "To string",
      "Proto",
    ]);
  });
});
