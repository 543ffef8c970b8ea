import { spawnSync } from "node:child_process";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../..");

/** What stands at the top of the repository; a folder ends with "/". */
const TOP_LEVEL = new Set([
  ".c8rc.json",
  ".ci/",
  ".env.example",
  ".gitignore",
  ".mocharc.json",
  ".npmrc",
  ".oxfmtrc.json",
  ".oxlintrc.json",
  "CHANGELOG.md",
  "LICENSE",
  "README.md",
  "bench/",
  "bin/",
  "docs/",
  "ecosystem.config.js",
  "knip.json",
  "loadtest/",
  "package-lock.json",
  "package.json",
  "scripts/",
  "src/",
  "test/",
  "tsconfig.json",
]);

const topOf = (path: string): string => path.replace(/\/.*$/s, "/");

/** The paths at the top that nobody has listed, such as a database that a program left in its directory. */
export const straysIn = (paths: readonly string[]): string[] =>
  [...new Set(paths.map(topOf))].filter((name) => !TOP_LEVEL.has(name)).toSorted();

/** What is listed and not there. */
export const missingIn = (paths: readonly string[]): string[] => {
  const there = new Set(paths.map(topOf));
  return [...TOP_LEVEL].filter((name) => !there.has(name));
};

/**
 * The files of the repository: those that git knows, and those that the next `git add` would take; undefined
 * where this is no clone.
 */
export const repositoryFiles = (): string[] | undefined => {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const { status, stdout } = spawnSync("git", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 26 });
  return status === 0 && stdout !== "" ? stdout.split("\0").filter(Boolean) : undefined;
};
