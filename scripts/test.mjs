// Runs the suites, each in a mocha process of its own, and ends with one line of counts over all of them.
// A few run side by side, since each has servers and databases of its own (schedule.mjs).
// Arguments: test files or folders (default: everything) and mocha's own options.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative, resolve, sep } from "node:path";
import { inOrder, runTogether } from "./schedule.mjs";
import { findServices } from "./services.mjs";

const SUITE_TIMEOUT_MS = 35 * 60_000;

/**
 * Each embedded database has 128 MiB outside the heap, half of what makes V8 collect a whole heap that is
 * large by the tests' own modules, again and again: counted with the heap, it does so when both have grown.
 */
const V8_FLAGS = ["--external-memory-accounted-in-global-limit"];

const root = join(import.meta.dirname, "..");
const mocha = join(root, "node_modules/mocha/bin/mocha.js");
const reporter = join(import.meta.dirname, "counting-reporter.mjs");
const isCi = Boolean(process.env.CI);

const allTests = globSync("test/**/*.test.ts", { cwd: root }).toSorted();
const withServices = ["cluster", "kills", "faults", "faults-2", "alone"];
/** Suites whose servers are processes, and embed no database in the tests' own. */
const hasOwnProcesses = new Set([...withServices, "cli"]);
const folders = ["http", "cli", "domain", "cluster", "faults"];
/** Tests that start servers in their own process, which may hold one at a time. */
const hasOwnServer = (file) =>
  /^test.(http|cli)./.test(file) &&
  /\b(shareApp|startTestApp|startServer|billingStage)\b/.test(readFileSync(join(root, file), "utf8"));
/** Sweeps over every operation take as long as all other tests of the API, of which there are two suites. */
const suiteOf = (file) => {
  const [, alone] = /sweep-(access|hostile|idempotency)\.test\.ts$/.exec(file) ?? [];
  if (alone !== undefined) return alone;
  if (hasOwnServer(file)) return "operators";
  if (file.endsWith("webhooks-hostile.test.ts")) return "alone";
  if (/^test.faults.(kill|deadly)-/.test(file)) return "kills";
  if (/^test.faults.[r-z]/.test(file)) return "faults-2";
  if (file.startsWith(join("test", "http", "sweep-"))) return "sweeps";
  if (/^test.(http|domain).*-steps\.test\.ts$/.test(file)) return "steps";
  return /^test.http.[m-z]/.test(file) ? "http-2" : folderOf(file);
};
const folderOf = (file) => folders.find((name) => file.startsWith(join("test", name) + sep)) ?? "embedded";

/** Splits the arguments into test files and options for mocha. */
const readArguments = (args) => {
  const isValue = (index) => index > 0 && args[index - 1].startsWith("-");
  const isSpec = (arg, index) =>
    !arg.startsWith("-") && (existsSync(arg) || (/[/*]|\.ts$/.test(arg) && !isValue(index)));
  const specs = args.filter(isSpec).map((spec) => relative(root, resolve(spec)));
  return { specs, options: args.filter((arg, index) => !isSpec(arg, index)) };
};

const under = (spec) => (file) => file === spec || file.startsWith(spec + sep);

const filesOf = (specs) => {
  if (specs.length === 0) return allTests;
  const found = specs.flatMap((spec) => [...allTests.filter(under(spec)), ...globSync(spec, { cwd: root })]);
  return [...new Set(found)].filter((file) => file.endsWith(".ts"));
};

const readCounts = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined);

const titlesOf = (failedTests) =>
  failedTests.map(({ title, error }) => `\n   ${title}: ${firstLine(error)}`).join("");
const firstLine = (text) => text.split("\n", 1)[0];

/** Of a suite that ended without a report. */
const NO_COUNTS = { passed: 0, failed: 1, skipped: 0, failedTests: [] };

const SLOWEST = 6;

/** The files that took longest, with the seconds that they kept the tests' own process computing. */
const slowestOf = (times) => {
  if (times.length < 2) return "";
  const slowest = times.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST);
  const text = ({ file, seconds: all, cpuSeconds: own, childSeconds: children }) =>
    `${basename(file, ".test.ts")} ${Math.round(all)} (${Math.round(own)}+${Math.round(children)})`;
  return `, the longest: ${slowest.map(text).join(", ")}`;
};

/** The seconds of computing of a suite's own process and of those that it started and that have ended. */
const computedBy = (counts) => {
  if (!counts) return "";
  const { total, times } = counts;
  return `, CPU ${Math.round(total.cpuSeconds)}+${Math.round(total.childSeconds)} s${slowestOf(times)}`;
};

const mochaWith = (options) => [
  mocha,
  "--reporter",
  reporter,
  ...(isCi ? ["--forbid-only"] : []),
  ...options,
];

/**
 * One mocha process, whose output is shown as it comes or, with `isHeld`, when it is over. A process that
 * ends without a report, or badly after a good one, is one failure.
 */
const runSuite = async ({ name, files, variables, isHeld }, options) => {
  const startedAt = Date.now();
  const folder = mkdtempSync(join(tmpdir(), "laurel-counts-"));
  const countsFile = join(folder, "counts.json");
  const held = [];
  const say = (text) => (isHeld ? held.push(text) : process.stdout.write(text));
  say(`\n== ${name} (files: ${files.length})\n`);
  const flags = hasOwnProcesses.has(name) ? [] : V8_FLAGS;
  const child = spawn(process.execPath, [...flags, ...mochaWith(options), ...files], {
    cwd: root,
    stdio: isHeld ? ["ignore", "pipe", "pipe"] : "inherit",
    timeout: SUITE_TIMEOUT_MS,
    killSignal: "SIGKILL",
    env: { ...process.env, ...variables, TEST_COUNTS_FILE: countsFile },
  });
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", say);
  const [status, signal] = await once(child, "close");
  const counts = readCounts(countsFile);
  rmSync(folder, { recursive: true });
  if (!counts) say(`The ${name} suite ended without a report (${signal ?? `exit code ${status}`}).\n`);
  const seconds = (Date.now() - startedAt) / 1000;
  say(`== ${name} took ${Math.round(seconds)} s${computedBy(counts)}\n`);
  const { passed, failed, skipped, failedTests } = counts ?? NO_COUNTS;
  // What a run that is cut off would take along.
  if (isHeld)
    console.log(`== ${name} ended: ${summary({ passed, failed, skipped })}${titlesOf(failedTests)}`);
  const show = () => held.forEach((text) => process.stdout.write(text));
  return { name, passed, skipped, failed: status === 0 ? failed : Math.max(failed, 1), failedTests, show };
};

/** What failed, again and last, where it is seen however long the output was. */
const showFailures = (results) => {
  for (const { name, failed, failedTests } of results.filter((result) => result.failed > 0)) {
    console.log(`\n== failed in ${name}: ${failed}`);
    for (const { title, file, error } of failedTests)
      console.log(`\n  ${title}\n    ${file}\n    ${error.replaceAll("\n", "\n    ")}`);
  }
};

const sum = (results) => {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const result of results) for (const key of Object.keys(total)) total[key] += result[key];
  return total;
};

const summary = ({ passed, failed, skipped }) =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;

const { specs, options } = readArguments(process.argv.slice(2));
const files = filesOf(specs);
const suites = Map.groupBy(files, suiteOf);
const { variables, missing } = await findServices();
const results = [];
const left = [];
const planned = (names) =>
  names
    .filter((name) => {
      const isPossible = missing.length === 0 || !withServices.includes(name);
      if (!isPossible) left.push(name);
      return isPossible;
    })
    .map((name, index) => {
      const needs = withServices.includes(name) ? variables : {};
      return { name, files: suites.get(name), isHeld: index > 0, variables: { ...needs, ...speed(name) } };
    });
/** What is known of modules that were compiled before; coverage would be coarse of code from there. */
const compiled = { NODE_COMPILE_CACHE: join(root, "node_modules/.cache/laurel-compile") };
/**
 * Killed processes write no coverage, collecting it takes several times the CPU that tests of steps bound,
 * and what else these run is covered by the others, in less time.
 */
const uncovered = new Set([...withServices, "steps", "access", "hostile", "idempotency", "sweeps"]);
const speed = (name) => {
  if (uncovered.has(name)) return { ...compiled, NODE_V8_COVERAGE: undefined };
  return process.env.NODE_V8_COVERAGE ? {} : compiled;
};
const plans = new Map(planned(inOrder([...suites.keys()])).map((plan) => [plan.name, plan]));
const done = await runTogether([...plans.keys()], (name) => runSuite(plans.get(name), options));
for (const { show, ...result } of done) {
  show();
  results.push(result);
}

if (left.length > 0) {
  console.log(`\nNot run: ${left.join(", ")}, because ${missing.join(" and ")}.`);
  console.log(
    "To run them: start PostgreSQL 15 and Redis 7, set DATABASE_URL and REDIS_URL, and test again.",
  );
}
const ran = sum(results);
const areServicesWanted = process.env.REQUIRE_SERVICES === "1" || specs.length > 0;
const isNothingRun = ran.passed + ran.failed + ran.skipped === 0;
if (isNothingRun) console.log("\nNo test ran.");
const total = {
  ...ran,
  failed: ran.failed + Math.max(areServicesWanted ? left.length : 0, isNothingRun ? 1 : 0),
};
const { TEST_TOTAL_FILE: totalFile } = process.env;
if (totalFile) writeFileSync(totalFile, JSON.stringify({ ...total, left }));
showFailures(results);
console.log(`\n${summary(total)}`);
process.exit(total.failed > 0 ? 1 : 0);
