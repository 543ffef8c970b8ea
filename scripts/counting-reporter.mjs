// Mocha's spec reporter, which also leaves its counts in the file named by TEST_COUNTS_FILE.
import { writeFileSync } from "node:fs";
import Mocha from "mocha";

export default class CountingReporter extends Mocha.reporters.Spec {
  done(failures, finish) {
    const { passes, pending } = this.stats;
    const { TEST_COUNTS_FILE: file } = process.env;
    if (file) writeFileSync(file, JSON.stringify({ passed: passes, failed: failures, skipped: pending }));
    finish(failures);
  }
}
