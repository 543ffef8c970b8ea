// Mocha's spec reporter, which also leaves its counts, and what failed and why, in the file named by
// TEST_COUNTS_FILE.
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import Mocha from "mocha";

/** Enough of an error to tell a wrong value from a time-out; the whole of it is in the suite's own output. */
const ERROR_CHARS = 1500;

const describe = ({ err, file, ...test }, title) => ({
  title,
  file: file ? relative(process.cwd(), file) : "",
  error: String(err?.stack ?? err ?? test.state).slice(0, ERROR_CHARS),
});

export default class CountingReporter extends Mocha.reporters.Spec {
  done(failures, finish) {
    const { passes: passed, pending: skipped } = this.stats;
    const failedTests = this.failures.map((test) => describe(test, test.fullTitle()));
    const { TEST_COUNTS_FILE: file } = process.env;
    if (file) writeFileSync(file, JSON.stringify({ passed, failed: failures, skipped, failedTests }));
    finish(failures);
  }
}
