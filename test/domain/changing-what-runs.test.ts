import assert from "node:assert/strict";
import { readSourceFiles } from "../support/source/source-files.ts";

const WRITES =
  /(insert into|update) (definitions|rules|rule_versions)\b|em\.create\((Definition|RuleVersion|Rule),/;

const KNOWN = [
  // Called by `importConfig` and `syncSandbox` within `changeRunning`.
  "src/domain/economy/definitions/phases.ts",
  "src/domain/registries/configuration/import-definitions.ts",
  "src/domain/registries/configuration/import-rules.ts",
  "src/domain/registries/sync/definitions.ts",
  "src/domain/rules/lifecycle/sync.ts",
  // Call it themselves.
  "src/domain/economy/definitions/definitions.ts",
  // Makes drafts, which do not run, and publishes them within it.
  "src/domain/economy/definitions/drafts.ts",
  "src/domain/rules/lifecycle/publishing.ts",
  // Makes drafts, which do not run; pauses rules.
  "src/domain/rules/rules.ts",
  "src/domain/rules/lifecycle/loop-watch.ts",
  // Keeps how far a moved end has come to the players, which changes nothing that runs.
  "src/domain/progression/moved-ends.ts",
];

describe("what changes rules and definitions that run", () => {
  it("is written in places that changeRunning looks at, and in no others", () => {
    const found = readSourceFiles().filter(
      ({ path, text }) =>
        path.startsWith("src/") &&
        !path.includes("/migrations/") &&
        WRITES.test(text.replaceAll(/\s+/g, " ")),
    );
    assert.deepEqual(
      found.map(({ path }) => path),
      KNOWN.toSorted(),
    );
  });
});
