// Runs tests for whoever changes Laurel: the gate, or what is named of suites, files, folders and options of
// mocha. A lane is one mocha process. What is red runs once more, alone: if that is green it is printed as
// FLAKY, and fails every suite but the gate.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative, resolve } from "node:path";
import { findServices } from "./services.mjs";

/** A lane of the gate takes five minutes on two cores, and one of the other suites half an hour. */
const TIMEOUTS_MS = { gate: 20 * 60_000, other: 60 * 60_000 };
const root = join(import.meta.dirname, "..");
/** Properties try a tenth of their cases in the gate, and all of them in the full suite. */
const hasCases = (file) => readFileSync(join(root, file), "utf8").includes("support/properties.ts");
const inFull = (file) => /^test\/(cli|processes|data|browser|docs)\/|\.full\./.test(file);
const inGate = (file) => !inFull(file) && !/^test\/(faults|sweeps)\/|\.timing\./.test(file);

const SUITES = {
  gate: { has: inGate, atOnce: 2 },
  full: { has: (file) => inFull(file) || (inGate(file) && hasCases(file)), atOnce: 2 },
  sweeps: { has: (file) => file.startsWith("test/sweeps/"), atOnce: 2 },
  faults: { has: (file) => file.startsWith("test/faults/"), atOnce: 1 },
  timing: { has: (file) => file.includes(".timing."), atOnce: 1 },
};

const needsServices = (file) => /^test\/(db|processes|faults)\//.test(file);
/** A process has one server. Each lane costs 15 s of CPU to begin with; both of the gate end together. */
const laneOf = (file) => {
  const [, folder = ""] = /^test\/(\w+)\//.exec(file) ?? [];
  if (folder === "servers") return file;
  if (folder === "http") return /^[bce]/.test(basename(file)) ? "domain" : folder;
  return ["", "db", "rooms"].includes(folder) ? "domain" : folder;
};

const args = process.argv.slice(2);
const isPath = (arg) => !arg.startsWith("-") && (existsSync(arg) || /^test\/|\*|\.ts$/.test(arg));
const paths = args.filter(isPath).map((arg) => relative(root, resolve(arg)));
const suiteName = args.find((arg) => arg in SUITES && !isPath(arg)) ?? (paths.length > 0 ? "files" : "gate");
const options = args.filter((arg) => !isPath(arg) && arg !== suiteName);
const all = globSync("test/**/*.test.ts", { cwd: root }).toSorted();
const named = paths.map((path) => (path.endsWith(".ts") ? path : `${path}/**/*.test.ts`));
const suite = SUITES[suiteName] ?? { has: () => false, atOnce: 1 };
const wanted = [...new Set([...all.filter(suite.has), ...globSync(named, { cwd: root }).toSorted()])];

const { variables, missing } = await findServices();
const left = missing.length > 0 ? wanted.filter(needsServices) : [];
const files = wanted.filter((file) => !left.includes(file));
const env = { ...process.env, ...variables };
if (!env.NODE_V8_COVERAGE) env.NODE_COMPILE_CACHE = join(root, "node_modules/.cache/laurel-compile");
// The gate tries the same cases each time; the other suites try new ones, and have time for whole histories.
if (suiteName !== "gate" && suiteName !== "files") {
  Object.assign(env, { SEED: env.SEED ?? String(Date.now() % 1_000_000), TEST_RUNS: "all" });
  console.log(`SEED=${env.SEED}`);
  options.push("--timeout", "600000");
}

/** One mocha process. @returns the results of the files that ended, and whether that is all of them */
const runFiles = async (lane, laneFiles) => {
  const folder = mkdtempSync(join(tmpdir(), "laurel-tests-"));
  const report = join(folder, "report.ndjson");
  const mocha = ["node_modules/mocha/bin/mocha.js", "--reporter", "scripts/reporter.mjs", ...options];
  if (env.CI) mocha.push("--forbid-only");
  // Counted with the heap, what databases have outside of it does not make V8 collect a large heap for nothing.
  const flags = ["--external-memory-accounted-in-global-limit", ...mocha, ...laneFiles];
  const child = spawn(process.execPath, flags, {
    cwd: root,
    stdio: "inherit",
    timeout: TIMEOUTS_MS[suiteName] ?? TIMEOUTS_MS.other,
    killSignal: "SIGKILL",
    env: { ...env, TEST_REPORT: report, TEST_LANE: files.length === 1 ? "" : lane },
  });
  const [status, signal] = await once(child, "close");
  const text = existsSync(report) ? readFileSync(report, "utf8") : "";
  rmSync(folder, { recursive: true });
  const ended = text.split("\n").flatMap((line) => (line === "" ? [] : JSON.parse(line)));
  const results = ended.filter(({ file }) => file);
  const isWhole = ended.at(-1)?.end === true && (status === 0 || results.some(({ failed }) => failed > 0));
  if (!isWhole) console.log(`The lane ${lane} did not end as it should: ${signal ?? `exit code ${status}`}`);
  return { results, isWhole };
};

/** A lane, and then, each in a process of its own, the files that are red or were not reached. */
const runLane = async ([lane, laneFiles]) => {
  const { results, isWhole } = await runFiles(lane, laneFiles);
  const good = results.filter(({ file, failed }) => failed === 0 && laneFiles.includes(file));
  const isDone = (file) =>
    good.some((one) => one.file === file) || (isWhole && !results.some((one) => one.file === file));
  for (const file of laneFiles.filter((one) => !isDone(one))) {
    console.log(`\nOnce more, alone: ${file}`);
    const again = await runFiles(file, [file]);
    const [second = { file, passed: 0, failed: 1, skipped: 0, cpu: 0 }] = again.results;
    const isGreen = again.isWhole && second.failed === 0;
    good.push({ ...second, failed: isGreen ? 0 : Math.max(second.failed, 1), isFlaky: isGreen });
  }
  // It ended badly although no file did, so that no file can show it again.
  if (!isWhole && results.length > 0 && laneFiles.every((file) => results.some((one) => one.file === file)))
    good.push({ file: lane, passed: 0, failed: 1, skipped: 0, cpu: 0 });
  return good;
};

const lanes = [...Map.groupBy(files, laneOf)];
const done = [];
const takeLanes = async () => {
  for (let lane = lanes.shift(); lane; lane = lanes.shift()) done.push(...(await runLane(lane)));
};
await Promise.all(Array.from({ length: suite.atOnce }, takeLanes));

const sum = (key) => done.reduce((total, result) => total + result[key], 0);
if (left.length > 0) console.log(`\nNot run: ${left.length} files, because ${missing.join(" and ")}.`);
const flaky = done.filter(({ isFlaky }) => isFlaky);
for (const { file } of flaky) console.log(`FLAKY ${file}`);
for (const { file, failed: red } of done) if (red > 0) console.log(`RED ${file}`);
const isGate = suiteName === "gate";
const notRun = isGate && !env.REQUIRE_SERVICES ? 0 : left.length;
const failed = sum("failed") + notRun + (isGate ? 0 : flaky.length) + (done.length === 0 ? 1 : 0);
console.log(`${sum("passed")} passed, ${failed} failed, ${sum("skipped")} skipped`);
process.exit(failed > 0 ? 1 : 0);
