import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative, sep } from "node:path";

const root = join(import.meta.dirname, "../../..");
const SKIPPED_FOLDERS = new Set(["node_modules", ".git", "coverage", ".laurel"]);
const TEXT =
  /\.(ts|mjs|js|json|md|yml|yaml|sh|html|css|sql|txt|ndjson)$|^(run|LICENSE|Dockerfile|\.[a-z]+rc)$/;

export type SourceFile = {
  /** From the root of the repository, with "/". */
  path: string;
  text: string;
};

export type Import = {
  specifier: string;
  /** `import type` and `export type`: gone at run time. */
  isTypeOnly: boolean;
  isReexport: boolean;
  line: number;
};

const walk = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED_FOLDERS.has(entry.name) ? [] : walk(path);
    return TEXT.test(entry.name) ? [path] : [];
  });

/** The text files of the repository. */
export const readSourceFiles = (): SourceFile[] =>
  walk(root)
    .map((path) => ({ path: relative(root, path).replaceAll(sep, "/"), text: readFileSync(path, "utf8") }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));

const COMMENT = /\/\*[\s\S]*?\*\/|(?<![:"'`\\/])\/\/[^\n]*/g;

/**
 * Blanks out comments, keeping every line where it was. A regular expression is enough for formatted code.
 */
export const withoutComments = (text: string): string =>
  text.replaceAll(COMMENT, (comment) => comment.replaceAll(/[^\n]/g, " "));

export const lineAt = (text: string, index: number): number => text.slice(0, index).split("\n").length;

const STATIC_IMPORT = /^(import|export)\s+(type\s)?(?:[\w*\s{},$]*?\sfrom\s*)?["']([^"'\n]+)["']/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*["']([^"'\n]+)["']/g;

/** The imports of a formatted file, re-exports and `import()` included. */
export const importsOf = (source: string): Import[] => {
  const text = withoutComments(source);
  const found = [...text.matchAll(STATIC_IMPORT)].map(
    ({ 1: keyword, 2: type, 3: specifier = "", index }) => ({
      specifier,
      isTypeOnly: type !== undefined,
      isReexport: keyword === "export",
      line: lineAt(text, index),
    }),
  );
  const dynamic = [...text.matchAll(DYNAMIC_IMPORT)].map(({ 1: specifier = "", index }) => ({
    specifier,
    isTypeOnly: false,
    isReexport: false,
    line: lineAt(text, index),
  }));
  return [...found, ...dynamic];
};

/** The path of a relative specifier, from the root; undefined for a package. */
export const resolveImport = (from: string, specifier: string): string | undefined =>
  specifier.startsWith(".") ? posix.normalize(posix.join(dirname(from), specifier)) : undefined;

/** The package of a specifier: `@scope/name/x` is `@scope/name`. */
export const packageOf = (specifier: string): string =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
