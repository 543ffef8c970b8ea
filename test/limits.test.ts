import assert from "node:assert/strict";
import { limitsOfCallers, listedLimits } from "./support/source/limits.ts";
import { readSourceFiles } from "./support/source/source-files.ts";

/** Limits that are not listed, and why. */
const UNLISTED: ReadonlyMap<string, string> = new Map([
  ["src/domain/accounts/auth/passwords.ts PASSWORD_MAX_BYTES", "of a field: /openapi.json has it"],
  ["src/domain/accounts/auth/tokens.ts TOKEN_MAX_BYTES", "of a token, which the service makes"],
  ["src/domain/evaluation/left-out.ts STORED_MAX_BYTES", "of what is stored already"],
  ["src/domain/kernel/limits.ts PATCH_MORE_BYTES", "beside that of the whole document"],
  ["src/domain/accounts/sso/configuration.ts SSO_DOMAINS_MAX", "of a field: /openapi.json has it"],
  ["src/domain/kernel/limits.ts EXTERNAL_ID_MAX", "of a field: /openapi.json has it"],
  ["src/domain/kernel/limits.ts ROTATION_GRACE_SECONDS", "the default of a field"],
  ["src/domain/kernel/limits.ts ROTATION_GRACE_SECONDS_MAX", "of a field: /openapi.json has it"],
  ["src/domain/kernel/live-rooms.ts ROOM_STATE_MAX_BYTES", "of an answer to super-admins"],
  ["src/domain/rules/lifecycle/duplicate.ts COPIES_MAX", "of names that are tried for a copy"],
  ["src/domain/social/lobbies/limits.ts LOBBY_NAME_MAX", "of a field: /openapi.json has it"],
  ["src/domain/social/lobbies/limits.ts PASSCODE_MAX", "of a field: /openapi.json has it"],
]);

describe("limits of callers", () => {
  const files = readSourceFiles();
  const declared = limitsOfCallers(files);
  const listed = listedLimits(files);

  it("are all listed at GET /limits, by the constants that the code goes by", () => {
    const missing = [...declared].filter((place) => !listed.has(place) && !UNLISTED.has(place));
    assert.deepEqual(missing, [], "add a line in src/http/listed-limits");
  });

  it("are left out on purpose only where they exist and are not listed", () => {
    const idle = [...UNLISTED.keys()].filter((place) => !declared.has(place) || listed.has(place));
    assert.deepEqual(idle, []);
  });
});
