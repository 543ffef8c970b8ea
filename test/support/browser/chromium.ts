import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import puppeteer, { type Browser } from "puppeteer-core";

const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = PATHS.find((path) => existsSync(path));

/** Skips the tests where there is no Chromium, unless everything that they need has to be there. */
export const needChromium = (context: Mocha.Context): void => {
  if (executablePath !== undefined) return;
  assert.ok(!process.env["REQUIRE_SERVICES"], "the browser tests need Chromium");
  context.skip();
};

export const launchChromium = (): Promise<Browser> => {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return puppeteer.launch({ executablePath: executablePath!, args });
};
