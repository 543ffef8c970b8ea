import assert from "node:assert/strict";
import {
  circlesOf,
  districtViolations,
  importGraph,
  impureEvaluation,
  lineAt,
  readSourceFiles,
  type SourceFile,
  withoutComments,
} from "./support/source/source-files.ts";
import { importViolations } from "./support/source/import-rules.ts";

const all = readSourceFiles();
const code = all.filter(({ path }) => /\.(ts|mjs|js)$/.test(path));
const src = code.filter(({ path }) => path.startsWith("src/"));

const none = (violations: string[]): void => {
  if (violations.length > 0) assert.fail(`${violations.length} found:\n${violations.join("\n")}`);
};

/** `path:line rule` wherever the pattern occurs. */
const occurrences = (files: readonly SourceFile[], pattern: RegExp, rule: string): string[] =>
  files.flatMap(({ path, text }) =>
    [...text.matchAll(pattern)].map(
      (match) => `${path}:${lineAt(text, match.index)} ${rule}: ${match[0].trim()}`,
    ),
  );

const stripped = src.map(({ path, text }) => ({ path, text: withoutComments(text) }));

describe("tidiness", () => {
  describe("imports", () => {
    it("go only where the layers allow", () => none(importViolations(src)));

    it("form no circle of files, type imports included", () => {
      const circles = circlesOf(importGraph(src, { types: true }));
      none(circles.map((circle) => `${circle.join(", ")} import one another`));
    });

    it("go only to districts of the domain that stand above, type imports included", () =>
      none(districtViolations(importGraph(src, { types: true }))));

    it("keep databases and transactions out of evaluation", () => none(impureEvaluation(src)));
  });

  describe("code", () => {
    it("reads the environment in src/config.ts only", () => {
      const others = stripped.filter(({ path }) => path !== "src/config.ts");
      none(
        occurrences(
          others,
          /\bprocess\.env\b|["']node:process["']/g,
          "only src/config.ts reads the environment",
        ),
      );
    });

    it("asks no database for the time in a zone: it may not know it, or know it otherwise", () =>
      none(
        occurrences(
          stripped,
          /\bat\s+time\s+zone\b(?!\s+'UTC')|\btimezone\s*\((?!\s*'UTC')/gi,
          "the zone of a statement is UTC",
        ),
      ));
  });

  describe("text", () => {
    const others = all.filter(({ path }) => path !== "test/tidy.test.ts");

    it("names no folder of one machine and no package registry", () => {
      none([
        ...occurrences(others, /(?<![\w.:$}-])\/(?:work|home|root|Users|tmp)\/[\w.-]+/g, "a machine path"),
        ...occurrences(others, /\bregistry\.[\w-]+\.\w+|"resolved": "http/g, "a registry"),
      ]);
    });
  });
});
