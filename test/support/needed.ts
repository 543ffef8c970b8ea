import assert from "node:assert/strict";

/**
 * Skips a suite where what it needs is missing, unless everything has to be there: then it fails.
 * @param what names it for the failure, such as `the browser tests need Chromium`
 */
export const skipUnless = (isThere: boolean, context: Mocha.Context, what: string): void => {
  if (isThere) return;
  assert.ok(!process.env["REQUIRE_SERVICES"], what);
  context.skip();
};
