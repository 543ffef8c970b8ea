// Runs tests for whoever changes Laurel: `node scripts/test.mjs` is the gate; the name of another suite, or
// files, folders and mocha's own options run those instead. Each lane is one mocha process, two run side by
// side. What is red runs once more, alone; what is green then is printed as FLAKY, and fails all but the gate.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { findServices } from "./services.mjs";

const LANE_TIMEOUT_MS = 40 * 60_000;
const root = join(import.meta.dirname, "..");
const isOutside = (file) =>
  /^test\/(cli|processes|data|browser|docs|faults|sweeps)\/|\.(full|timing)\./.test(file);

/** Which files a suite has, and whether its lanes run one at a time. */
const SUITES = {
  gate: { has: (file) => !isOutside(file) },
  full: { has: (file) => /^test\/(cli|processes|data|browser|docs)\/|\.full\./.test(file) },
  faults: { has: (file) => file.startsWith("test/faults/"), isAlone: true },
  sweeps: { has: (file) => file.startsWith("test/sweeps/") },
  timing: { has: (file) => file.includes(".timing."), isAlone: true },
};

const folderOf = (file) => /^test\/(\w+)\//.exec(file)?.[1] ?? "domain";
const needsServices = (file) => ["db", "processes", "faults"].includes(folderOf(file));
/** A process holds one server at a time: tests of `servers` start their own, all others of a lane share one. */
const laneOf = (file) => {
  const folder = folderOf(file);
  return ["db", "rooms"].includes(folder) ? "domain" : folder;
};

/** Splits the arguments into the suite, files and options for mocha. */
const readArguments = (args) => {
  const isFile = (arg) => !arg.startsWith("-") && (existsSync(resolve(arg)) || /\*|\.ts$/.test(arg));
  const paths = args.filter(isFile).map((arg) => relative(root, resolve(arg)));
  const named = args.find((arg) => arg in SUITES && !isFile(arg));
  const all = globSync("test/**/*.test.ts", { cwd: root }).toSorted();
  const under = (path) => [
    ...all.filter((file) => file.startsWith(`${path}/`)),
    ...globSync(path, { cwd: root }),
  ];
  const files =
    paths.length > 0
      ? paths.flatMap(under).filter((file) => file.endsWith(".ts"))
      : all.filter(SUITES[named ?? "gate"].has);
  return {
    suite: paths.length > 0 ? { isSpec: paths.length === 1 } : SUITES[named ?? "gate"],
    isGate: paths.length === 0 && (named ?? "gate") === "gate",
    files: [...new Set(files)],
    options: args.filter((arg) => !isFile(arg) && arg !== named),
  };
};

const { suite, isGate, files, options } = readArguments(process.argv.slice(2));
const { variables, missing } = await findServices();
const left = missing.length > 0 ? files.filter(needsServices) : [];
const env = { ...process.env, ...variables };
// Modules that were compiled before; coverage would be coarse of code from there.
if (!env.NODE_V8_COVERAGE) env.NODE_COMPILE_CACHE = join(root, "node_modules/.cache/laurel-compile");

/**
 * One mocha process over the files of a lane.
 * @returns the results of the files that ended; a process that dies leaves out those it had not ended
 */
const runFiles = async (lane, laneFiles) => {
  const folder = mkdtempSync(join(tmpdir(), "laurel-tests-"));
  const report = join(folder, "report.ndjson");
  const reporter = join(import.meta.dirname, "reporter.mjs");
  const args = [
    "--external-memory-accounted-in-global-limit",
    "node_modules/mocha/bin/mocha.js",
    "--reporter",
    reporter,
  ];
  const child = spawn(
    process.execPath,
    [...args, ...(env.CI ? ["--forbid-only"] : []), ...options, ...laneFiles],
    {
      cwd: root,
      stdio: "inherit",
      timeout: LANE_TIMEOUT_MS,
      killSignal: "SIGKILL",
      env: { ...env, TEST_REPORT: report, TEST_LANE: suite.isSpec ? "" : lane },
    },
  );
  const [status, signal] = await once(child, "close");
  const lines = existsSync(report) ? readFileSync(report, "utf8").trim().split("\n") : [];
  rmSync(folder, { recursive: true });
  const ended = lines.filter(Boolean).map((line) => JSON.parse(line));
  const isWhole = ended.at(-1)?.end === true && (status === 0 || ended.some(({ failed }) => failed > 0));
  if (!isWhole)
    console.log(`The lane ${lane} did not end as it should (${signal ?? `exit code ${status}`}).`);
  return { results: ended.filter(({ file }) => file), isWhole };
};

/** A lane, and then, each in a process of its own, the files that are red or were not reached. */
const runLane = async ([lane, laneFiles]) => {
  const { results, isWhole } = await runFiles(lane, laneFiles);
  const reached = new Set(results.map(({ file }) => file));
  const again = results.filter(({ failed }) => failed > 0).map(({ file }) => file);
  if (!isWhole) again.push(...laneFiles.filter((file) => !reached.has(file)));
  const rest = results.filter(({ file }) => !again.includes(file));
  for (const file of again) {
    console.log(`\nOnce more, alone: ${file}`);
    const {
      results: [second],
      isWhole: isEnded,
    } = await runFiles(file, [file]);
    const isGreen = isEnded && second?.failed === 0;
    rest.push(
      isGreen
        ? { ...second, isFlaky: true }
        : { passed: 0, failed: 1, skipped: 0, ...second, file, isRed: true },
    );
  }
  return rest;
};

const lanes = [
  ...Map.groupBy(
    files.filter((file) => !left.includes(file)),
    laneOf,
  ),
];
const done = [];
const takeLanes = async () => {
  for (let lane = lanes.shift(); lane; lane = lanes.shift()) done.push(...(await runLane(lane)));
};
await Promise.all(suite.isAlone ? [takeLanes()] : [takeLanes(), takeLanes()]);

const sum = (key) => done.reduce((total, result) => total + (result[key] ?? 0), 0);
const slowest = done.toSorted((a, b) => b.cpu - a.cpu).slice(0, 8);
if (done.length > 8)
  console.log(`\nMost CPU: ${slowest.map(({ file, cpu }) => `${file} ${cpu.toFixed(1)} s`).join(", ")}`);
if (left.length > 0) console.log(`\nNot run: ${left.length} files, because ${missing.join(" and ")}.`);
for (const { file } of done.filter(({ isRed }) => isRed)) console.log(`RED ${file}`);
const flaky = done.filter(({ isFlaky }) => isFlaky);
for (const { file } of flaky) console.log(`FLAKY ${file}`);
const unrun = left.length > 0 && (env.REQUIRE_SERVICES || !isGate) ? left.length : 0;
const failed = sum("failed") + unrun + (isGate ? 0 : flaky.length) + (done.length === 0 ? 1 : 0);
console.log(
  `${sum("passed")} passed, ${failed} failed${sum("skipped") > 0 ? `, ${sum("skipped")} skipped` : ""}`,
);
process.exit(failed > 0 ? 1 : 0);
