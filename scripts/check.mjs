// Everything that must hold before a change is merged. All steps run, whatever fails; the last line counts
// the tests, and each other step that failed as one failure.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const coverage = join(root, "coverage");
const totalFile = join(coverage, "total.json");
const rawCoverage = join(coverage, "raw");

const failed = [];
const step = (name, command, args, variables = {}) => {
  const startedAt = Date.now();
  console.log(`\n=== ${name}`);
  const { status } = spawnSync(command, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...variables },
  });
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(1);
  console.log(`=== ${name}: ${status === 0 ? "ok" : "FAILED"} (${seconds} s)`);
  if (status !== 0) failed.push(name);
};
const tool = (name) => join(root, "node_modules/.bin", name);

step("format", tool("oxfmt"), ["--check", "."]);
step("lint", tool("oxlint"), ["--type-aware", "--deny-warnings"]);
step("types", tool("tsc"), ["--noEmit", "--project", "."]);
step("dead code", tool("knip"), []);

rmSync(coverage, { recursive: true, force: true });
mkdirSync(rawCoverage, { recursive: true });
// Node itself writes the coverage of this and of every process of mocha; those that tests start write none.
step("tests", process.execPath, ["scripts/test.mjs", ...process.argv.slice(2)], {
  NODE_V8_COVERAGE: rawCoverage,
  TEST_TOTAL_FILE: totalFile,
});
const noReport = { passed: 0, failed: 1, skipped: 0, left: ["all"] };
const total = existsSync(totalFile) ? JSON.parse(readFileSync(totalFile, "utf8")) : noReport;
const isWhole = total.left.length === 0 && process.argv.length === 2;
step("coverage", tool("c8"), ["report", ...(isWhole ? ["--check-coverage"] : [])]);
if (!isWhole) console.log("The floor of coverage was not checked, because not every suite ran.");

const others = failed.filter((name) => name !== "tests");
console.log(failed.length > 0 ? `\nFailed: ${failed.join(", ")}.` : "\nEverything holds.");
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
console.log(`${total.passed} passed, ${total.failed + others.length} failed${skipped}`);
process.exit(failed.length > 0 ? 1 : 0);
