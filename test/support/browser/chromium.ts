import { existsSync } from "node:fs";
import puppeteer, { type Browser } from "puppeteer-core";
import { skipUnless } from "../made.ts";

const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = PATHS.find((path) => existsSync(path));

export const needChromium = (context: Mocha.Context): void =>
  skipUnless(executablePath !== undefined, context, "the browser tests need Chromium");

export const launchChromium = (): Promise<Browser> => {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return puppeteer.launch({ executablePath: executablePath!, args });
};
