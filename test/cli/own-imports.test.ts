import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const MAIN = join(import.meta.dirname, "../../src/main.ts");

/** Prints what reaches Node's own resolution, which looks at the disk, from modules in src. */
const WATCH = `
  import { registerHooks } from "node:module";
  registerHooks({
    resolve: (specifier, context, next) => {
      if (/\\/src\\/.*\\.ts$/.test(context.parentURL ?? "")) console.log("looked up " + specifier);
      return next(specifier, context);
    },
  });`;

describe("a start of the command line", () => {
  it("looks no own module up on the disk once it has begun to load commands", async () => {
    const watch = `data:text/javascript,${encodeURIComponent(WATCH)}`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--import", watch, MAIN, "--help"]);
    assert.match(stdout, /looked up commander/);
    assert.match(stdout, /Usage: laurel/);
    const own = stdout.match(/(?<=looked up )\.\S+/g) ?? [];
    assert.deepEqual(own.toSorted(), ["./cli/own-imports.ts", "./version.ts"]);
  });
});
