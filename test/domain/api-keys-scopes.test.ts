import assert from "node:assert/strict";
import { SCOPES } from "../../src/domain/kernel/caller.ts";
import { expandScopes } from "../../src/domain/accounts/api-keys/api-keys.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";

describe("API key scopes", () => {
  it("default to sending events and reading and writing players", () => {
    assert.deepEqual(expandScopes(undefined), ["events:write", "players:read", "players:write"]);
    assert.deepEqual(expandScopes([]), []);
  });

  it("expand stars to the scopes of today, each once", () => {
    assert.deepEqual(expandScopes(["*"]), SCOPES);
    assert.deepEqual(expandScopes(["players:*", "players:read"]), ["players:read", "players:write"]);
  });

  it("name each unknown scope and its place", () => {
    assert.throws(
      () => expandScopes(["events:write", "events:fly", "play*", ":*", "constructor"]),
      (error) =>
        error instanceof DomainError &&
        error.code === "VALIDATION_ERROR" &&
        error.details.map(({ field }) => field).join() === "scopes.1,scopes.2,scopes.3,scopes.4",
    );
  });
});
