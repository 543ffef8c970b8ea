// What mocha prints for scripts/test.mjs: with TEST_LANE a line for each file, and what fails at once; else
// mocha's own spec. TEST_REPORT gets a line of JSON for each file, so that what dies leaves what it had done.
import { appendFileSync } from "node:fs";
import { relative } from "node:path";
import Mocha from "mocha";

const { EVENT_SUITE_BEGIN, EVENT_SUITE_END, EVENT_TEST_FAIL, EVENT_TEST_PASS, EVENT_TEST_PENDING } =
  Mocha.Runner.constants;
const { TEST_LANE: lane, TEST_REPORT: report } = process.env;

const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
};

export default class Reporter extends (lane ? Mocha.reporters.Base : Mocha.reporters.Spec) {
  #current;
  #since = { at: performance.now(), cpu: cpuSeconds() };

  constructor(runner, options) {
    super(runner, options);
    const begin = ({ file }) => {
      if (file && file !== this.#current?.path) this.#end(file);
    };
    const count = (key) => (test) => {
      begin(test);
      if (this.#current) this.#current[key]++;
    };
    // Before the hooks of the file, which are its work too.
    runner.on(EVENT_SUITE_BEGIN, begin);
    runner.on(EVENT_TEST_PASS, count("passed"));
    runner.on(EVENT_TEST_PENDING, count("skipped"));
    runner.on(EVENT_TEST_FAIL, (test, error) => {
      count("failed")(test);
      if (lane) console.log(`✘ ${test.fullTitle()}\n${error.stack ?? error}`);
    });
    runner.on(EVENT_SUITE_END, (suite) => suite.root && this.#end());
  }

  /** Writes down the file that has ended, and begins the next. */
  #end(next) {
    const now = { at: performance.now(), cpu: cpuSeconds() };
    if (this.#current) {
      const { path, ...counts } = this.#current;
      const [seconds, cpu] = [(now.at - this.#since.at) / 1_000, now.cpu - this.#since.cpu];
      const file = relative(process.cwd(), path);
      if (report) appendFileSync(report, `${JSON.stringify({ file, ...counts, seconds, cpu })}\n`);
      const word = counts.failed > 0 ? `${counts.failed} FAILED, ` : "";
      if (lane)
        console.log(
          `${file}: ${word}${counts.passed} passed, ${seconds.toFixed(1)} s (CPU ${cpu.toFixed(1)})`,
        );
    }
    this.#current = next && { path: next, passed: 0, failed: 0, skipped: 0 };
    this.#since = now;
  }

  done(failures, finish) {
    if (report) appendFileSync(report, `${JSON.stringify({ end: true })}\n`);
    finish(failures);
  }
}
