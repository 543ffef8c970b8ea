// Everything that must hold before a change is merged. All steps run, whatever fails; the last line counts
// the tests, and each other step that failed as one failure. With --coverage the tests also say which lines
// they reach, and the floor of that is checked: they take a fifth longer.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");
const coverage = join(root, "coverage");
const totalFile = join(coverage, "total.json");
const rawCoverage = join(coverage, "raw");

const wantsCoverage = process.argv.includes("--coverage");
const tests = process.argv.slice(2).filter((argument) => argument !== "--coverage");
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
/** Runs beside the steps until its result is asked for; what it prints is shown then. */
const beside = (name, args) => {
  const file = join(mkdtempSync(join(tmpdir(), "laurel-check-")), "output");
  const output = openSync(file, "w");
  const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", output, output] });
  const ended = once(child, "close");
  return async () => {
    const [status] = await ended;
    console.log(`\n=== ${name}\n${readFileSync(file, "utf8").trim()}`);
    console.log(`=== ${name}: ${status === 0 ? "ok" : "FAILED"}`);
    rmSync(dirname(file), { recursive: true });
    if (status !== 0) failed.push(name);
  };
};
const tool = (name) => join(root, "node_modules/.bin", name);

const openapiTools = beside("tools for OpenAPI", ["scripts/openapi-tools.mjs"]);
step("format", tool("oxfmt"), ["--check", "."]);
step("lint", tool("oxlint"), ["--type-aware", "--deny-warnings"]);
step("types", tool("tsc"), ["--noEmit", "--project", "."]);
step("dead code", tool("knip"), []);

await openapiTools();

rmSync(coverage, { recursive: true, force: true });
mkdirSync(rawCoverage, { recursive: true });
// Node itself writes the coverage of this and of every process of mocha; those that tests start write none.
step("tests", process.execPath, ["scripts/test.mjs", ...tests], {
  ...(wantsCoverage ? { NODE_V8_COVERAGE: rawCoverage } : {}),
  TEST_TOTAL_FILE: totalFile,
});
const noReport = { passed: 0, failed: 1, skipped: 0, left: ["all"] };
const total = existsSync(totalFile) ? JSON.parse(readFileSync(totalFile, "utf8")) : noReport;
if (wantsCoverage) {
  const isWhole = total.left.length === 0 && tests.length === 0;
  step("coverage", tool("c8"), ["report", ...(isWhole ? ["--check-coverage"] : [])]);
  if (!isWhole) console.log("The floor of coverage was not checked, because not every suite ran.");
}

const others = failed.filter((name) => name !== "tests");
console.log(failed.length > 0 ? `\nFailed: ${failed.join(", ")}.` : "\nEverything holds.");
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
console.log(`${total.passed} passed, ${total.failed + others.length} failed${skipped}`);
process.exit(failed.length > 0 ? 1 : 0);
