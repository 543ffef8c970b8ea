// Runs the suites, each in a mocha process of its own, and ends with one line of counts over all of them.
// Arguments: test files or folders (default: everything) and mocha's own options.
import { spawnSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve, sep } from "node:path";
import { findServices } from "./services.mjs";

const root = join(import.meta.dirname, "..");
const mocha = join(root, "node_modules/mocha/bin/mocha.js");
const reporter = join(import.meta.dirname, "counting-reporter.mjs");
const isCi = Boolean(process.env.CI);
const isRequired = process.env.REQUIRE_SERVICES === "1";

const allTests = globSync("test/**/*.test.ts", { cwd: root }).toSorted();
const suiteOf = (file) =>
  ["cluster", "faults"].find((name) => file.startsWith(join("test", name) + sep)) ?? "embedded";

/** Splits the arguments into test files and options for mocha. */
const readArguments = (args) => {
  const isSpec = (arg) => !arg.startsWith("-") && (existsSync(arg) || /\.test\.ts$|[*{]/.test(arg));
  const specs = args.filter(isSpec).map((spec) => relative(root, resolve(spec)));
  return { specs, options: args.filter((arg) => !isSpec(arg)) };
};

const under = (spec) => (file) => file === spec || file.startsWith(spec + sep);

const filesOf = (specs) => {
  if (specs.length === 0) return allTests;
  const found = specs.flatMap((spec) => [...allTests.filter(under(spec)), ...globSync(spec, { cwd: root })]);
  return [...new Set(found)].filter((file) => file.endsWith(".ts"));
};

/** One mocha process. A process that ends without a report, or badly after a good one, is one failure. */
const runSuite = (name, files, options, variables) => {
  const folder = mkdtempSync(join(tmpdir(), "laurel-counts-"));
  const countsFile = join(folder, "counts.json");
  console.log(`\n== ${name} (files: ${files.length})`);
  const args = [mocha, "--reporter", reporter, ...(isCi ? ["--forbid-only"] : []), ...options, ...files];
  const { status, signal } = spawnSync(process.execPath, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...variables, TEST_COUNTS_FILE: countsFile },
  });
  const counts = existsSync(countsFile) ? JSON.parse(readFileSync(countsFile, "utf8")) : undefined;
  rmSync(folder, { recursive: true });
  if (!counts) console.log(`The ${name} suite ended without a report (${signal ?? `exit code ${status}`}).`);
  const { passed, failed, skipped } = counts ?? { passed: 0, failed: 1, skipped: 0 };
  return { passed, skipped, failed: status === 0 ? failed : Math.max(failed, 1) };
};

const sum = (results) => {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const result of results) for (const key of Object.keys(total)) total[key] += result[key];
  return total;
};

const { specs, options } = readArguments(process.argv.slice(2));
const files = filesOf(specs);
const suites = Map.groupBy(files, suiteOf);
const { variables, missing } = await findServices();
const results = [];
const left = [];
for (const [name, suiteFiles] of suites) {
  const needsServices = name !== "embedded";
  if (needsServices && missing.length > 0) left.push(name);
  else results.push(runSuite(name, suiteFiles, options, needsServices ? variables : {}));
}

if (left.length > 0) {
  console.log(`\nNot run: ${left.join(", ")}, because ${missing.join(" and ")}.`);
  console.log(
    "To run them: start PostgreSQL 15 and Redis 7, set DATABASE_URL and REDIS_URL, and run the tests again.",
  );
}
if (files.length === 0) console.log(`\nNo test file matches ${specs.join(" ")}.`);
const areServicesWanted = isRequired || specs.length > 0;
const unmet = (left.length > 0 && areServicesWanted ? left.length : 0) + (files.length === 0 ? 1 : 0);
const total = sum([...results, { passed: 0, failed: unmet, skipped: 0 }]);
if (process.env.TEST_TOTAL_FILE)
  writeFileSync(process.env.TEST_TOTAL_FILE, JSON.stringify({ ...total, left }));
console.log(
  `\n${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ""}`,
);
process.exit(total.failed > 0 ? 1 : 0);
