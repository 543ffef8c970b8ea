// What must hold before a change is merged: format, the console, lint, types, dead code and the gate of the
// tests. With --all also every other suite and the tools that read OpenAPI documents. All steps run, whatever
// fails; a table of them comes last, and under it one line that counts the tests and each step that failed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const tool = (name) => join(root, "node_modules/.bin", name);
const tests = (suite) => [process.execPath, "scripts/test.mjs", suite];

const STEPS = {
  format: [tool("oxfmt"), "--check", "."],
  // Before the linter, which reads the types that this step makes.
  console: [process.execPath, "scripts/console.mjs", "--check"],
  lint: [tool("oxlint"), "--type-aware", "--deny-warnings"],
  types: [tool("tsc"), "--noEmit", "--project", "."],
  "dead code": [tool("knip")],
  test: tests("gate"),
};
const MORE_SUITES = ["full", "sweeps", "faults", "timing"];
if (process.argv.includes("--all")) {
  for (const suite of MORE_SUITES) STEPS[`test:${suite}`] = tests(suite);
  STEPS["tools for OpenAPI"] = [process.execPath, "scripts/openapi-tools.mjs"];
}

/** Runs a step whose output is shown as it comes, and reads the counts of tests from its last line. */
const run = async ([name, [command, ...args]]) => {
  console.log(`\n=== ${name}`);
  const startedAt = Date.now();
  const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  let tail = "";
  child.stdout.on("data", (data) => {
    process.stdout.write(data);
    tail = (tail + data).slice(-200);
  });
  const [status] = await once(child, "close");
  const [, passed = 0, failed = 0] = /(\d+) passed, (\d+) failed[^\n]*\n$/.exec(tail) ?? [];
  const minutes = (Date.now() - startedAt) / 60_000;
  return { name, passed: Number(passed), failed: Math.max(Number(failed), status === 0 ? 0 : 1), minutes };
};

const results = [];
for (const step of Object.entries(STEPS)) results.push(await run(step));

console.log("\n| Step | Passed | Failed | Minutes |\n|---|---|---|---|");
for (const { name, passed, failed, minutes } of results)
  console.log(`| ${name} | ${passed} | ${failed} | ${minutes.toFixed(1)} |`);
const sum = (key) => results.reduce((total, result) => total + result[key], 0);
console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
process.exit(sum("failed") > 0 ? 1 : 0);
