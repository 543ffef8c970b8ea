import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";

/**
 * Skips a suite where what it needs is missing, unless everything has to be there: then it fails.
 * @param what names it for the failure, such as `the browser tests need Chromium`
 */
export const skipUnless = (isThere: boolean, context: Mocha.Context, what: string): void => {
  if (isThere) return;
  assert.ok(!process.env["REQUIRE_SERVICES"], what);
  context.skip();
};

/** Skips a suite that runs commands where one of them is missing. */
export const skipWithout = (context: Mocha.Context, ...commands: readonly string[]): void => {
  const isHere = (command: string) => spawnSync(command, ["--version"]).status === 0;
  if (!commands.every(isHere)) context.skip();
};
