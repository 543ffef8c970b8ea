// Mocha's spec reporter, which also leaves its counts, what failed and why, and the seconds that each file
// took and kept this process and its children computing, in the file named by TEST_COUNTS_FILE.
import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import Mocha from "mocha";

/** Enough of an error to tell a wrong value from a time-out; the whole of it is in the suite's own output. */
const ERROR_CHARS = 1500;

const describe = ({ err, file, ...test }, title) => ({
  title,
  file: file ? relative(process.cwd(), file) : "",
  error: String(err?.stack ?? err ?? test.state).slice(0, ERROR_CHARS),
});

const { EVENT_SUITE_BEGIN, EVENT_SUITE_END } = Mocha.Runner.constants;

/** Ticks a second in which Linux counts a process's time, on every machine that Node runs on. */
const TICKS = 100;

/** Seconds of CPU of all children that have ended, and theirs; 0 where the system does not say. */
const childrenCpu = () => {
  if (process.platform !== "linux") return 0;
  // After the program's name, which may have spaces: the state first, cutime and cstime as 14th and 15th.
  const fields = readFileSync("/proc/self/stat", "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[13]) + Number(fields[14])) / TICKS;
};

const clock = () => {
  const { user, system } = process.cpuUsage();
  const cpuSeconds = (user + system) / 1_000_000;
  return { seconds: performance.now() / 1_000, cpuSeconds, childSeconds: childrenCpu() };
};

export default class CountingReporter extends Mocha.reporters.Spec {
  #files = new Map();

  constructor(runner, options) {
    super(runner, options);
    let begun;
    runner.on(EVENT_SUITE_BEGIN, (suite) => {
      if (suite.parent?.root) begun = clock();
    });
    runner.on(EVENT_SUITE_END, (suite) => {
      if (suite.parent?.root && suite.file) this.#add(relative(process.cwd(), suite.file), begun, clock());
    });
  }

  #add(file, begun, ended) {
    const sum = this.#files.get(file) ?? { seconds: 0, cpuSeconds: 0, childSeconds: 0 };
    for (const key of Object.keys(sum)) sum[key] += ended[key] - begun[key];
    this.#files.set(file, sum);
  }

  done(failures, finish) {
    const { passes: passed, pending: skipped } = this.stats;
    const failedTests = this.failures.map((test) => describe(test, test.fullTitle()));
    const { TEST_COUNTS_FILE: file } = process.env;
    const times = [...this.#files].map(([name, sum]) => ({ file: name, ...sum }));
    if (file)
      writeFileSync(
        file,
        JSON.stringify({ passed, failed: failures, skipped, failedTests, times, total: clock() }),
      );
    finish(failures);
  }
}
