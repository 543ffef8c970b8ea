import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { root } from "../support/documents/documents.ts";

/** Runs a script on this Node. @returns its exit code and what it printed */
const run = (script: string): { status: number | null; text: string } => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], { cwd: root, encoding: "utf8" });
  return { status, text: `${stdout}${stderr}` };
};

describe("the packages that npm start installs", function () {
  it("stay below the limit of `npm run weight`", () => {
    assert.equal(run("scripts/setup.mjs").status, 0);
    const { status, text } = run("scripts/weight.mjs");
    assert.equal(status, 0, text);
    const [, total = "0"] = /([\d.]+) MB {2}in \d+ packages/.exec(text) ?? [];
    assert.ok(Number(total) > 100, text);
  });
});
