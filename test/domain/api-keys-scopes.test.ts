import assert from "node:assert/strict";
import { SCOPES } from "../../src/domain/kernel/caller.ts";
import { checkCeiling, expandScopes } from "../../src/domain/accounts/api-keys/api-keys.ts";
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

  it("of definitions and of moderation are not a DEVELOPER's to grant", () => {
    const above = [
      "rules:manage",
      "leaderboards:manage",
      "quests:manage",
      "adventures:manage",
      "config:manage",
      "chat:moderate",
    ] as const;
    for (const scope of above) {
      assert.throws(
        () => checkCeiling("DEVELOPER", ["events:write", scope]),
        (error) =>
          error instanceof DomainError &&
          error.reason === "INSUFFICIENT_ROLE" &&
          error.message.includes(scope),
      );
    }
    checkCeiling(
      "DEVELOPER",
      SCOPES.filter((scope) => !above.some((one) => one === scope)),
    );
    checkCeiling("ADMIN", SCOPES);
  });
});
