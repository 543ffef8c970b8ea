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

/** Nodes by name, with the names that each points at. */
type Graph = ReadonlyMap<string, readonly string[]>;

/** The imports among files: all of them, or only those that exist at run time. */
export const importGraph = (files: readonly SourceFile[], { types }: { types: boolean }): Graph => {
  const known = new Set(files.map(({ path }) => path));
  return new Map(
    files.map(({ path, text }) => {
      const kept = importsOf(text).filter(({ isTypeOnly }) => types || !isTypeOnly);
      const targets = kept.map(({ specifier }) => resolveImport(path, specifier));
      return [path, [...new Set(targets.filter((to) => to !== undefined && known.has(to)))] as string[]];
    }),
  );
};

/** The graph of groups of nodes: a group points at another when one of its nodes does. */
export const groupGraph = (graph: Graph, groupOf: (node: string) => string | undefined): Graph => {
  const groups = new Map<string, Set<string>>();
  for (const [node, targets] of graph) {
    const from = groupOf(node);
    if (from === undefined) continue;
    const found = groups.get(from) ?? new Set();
    groups.set(from, found);
    for (const to of targets.map(groupOf)) if (to !== undefined && to !== from) found.add(to);
  }
  return new Map([...groups].map(([name, targets]) => [name, [...targets].toSorted()]));
};

/** Strongly connected components of more than one node, the largest first (Tarjan's algorithm). */
export const circlesOf = (graph: Graph): string[][] => {
  const indexes = new Map<string, number>();
  const lows = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const lowOf = (node: string): number => lows.get(node) ?? Infinity;
  const visit = (node: string): void => {
    const index = indexes.size;
    indexes.set(node, index);
    lows.set(node, index);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!indexes.has(next)) visit(next);
      if (stack.includes(next)) lows.set(node, Math.min(lowOf(node), lowOf(next)));
    }
    if (lowOf(node) === index) circles.push(stack.splice(stack.indexOf(node)).toSorted());
  };
  for (const node of graph.keys()) if (!indexes.has(node)) visit(node);
  return circles.filter(({ length }) => length > 1).toSorted((a, b) => b.length - a.length);
};

/**
 * The districts of src/domain, and what each is for. Each imports only itself and those above it, type
 * imports included.
 */
export const DISTRICTS: ReadonlyMap<string, string> = new Map([
  ["kernel", "transactions, ids, errors, limits, events, hostile values, time zones"],
  ["evaluation", "what an event does to a player, in memory: rules, metrics, XP, badges, boards"],
  ["accounts", "tenants, teams, projects, keys, sign-in, mail, limits, audit"],
  ["players", "who a player is"],
  ["long-work", "projects' jobs in steps"],
  ["progression", "plans, locks, loads, saves; batches of events and changes by request"],
  ["tracking", "events taken in, their types, schemas and results"],
  ["economy", "definitions and operations, a folder for each subject"],
  ["leaderboards", "boards, periods, ranks, notices"],
  ["rules", "rules' drafts and versions, simulation, backtests, statistics"],
  ["social", "lobbies and chat"],
  ["delivery", "outbox and webhooks"],
  ["player-lifecycle", "identify, merge, status, export, erase"],
  ["revert", "reverting an event"],
  ["analytics", "what players do, counted: overview, trends, segments, retention, cohorts, funnels"],
  ["registries", "lists of everything: entities, migrations, kinds, configuration, reconciliation"],
]);

const ORDER = [...DISTRICTS.keys()];

/** The only packages that evaluation may know: it works in memory. */
const EVALUATION_PACKAGES = /^(zod|croner|node:.+)$/;

/** The district of a file under src/domain; undefined for every other file. */
export const districtOf = (path: string): string | undefined =>
  /^src\/domain\/([^/]+)\//.exec(path)?.[1] ?? (path.startsWith("src/domain/") ? "" : undefined);

/** `path rule` for each import from a district that stands lower, and each file without a district. */
export const districtViolations = (graph: Graph): string[] =>
  [...graph].flatMap(([path, targets]) => {
    const district = districtOf(path);
    if (district === undefined) return [];
    const place = ORDER.indexOf(district);
    if (place === -1) return [`${path}:1 belongs to no district`];
    return targets
      .filter((target) => ORDER.indexOf(districtOf(target) ?? "") > place)
      .map((target) => `${path}:1 ${district} may not import ${districtOf(target)} (${target})`);
  });

/** `path:line rule` where evaluation knows a database or a transaction. */
export const impureEvaluation = (files: readonly SourceFile[]): string[] =>
  files
    .filter(({ path }) => districtOf(path) === "evaluation")
    .flatMap(({ path, text }) =>
      importsOf(text)
        .filter(({ specifier }) =>
          specifier.startsWith(".")
            ? /\/(work|transact)\.ts$/.test(specifier)
            : !EVALUATION_PACKAGES.test(specifier),
        )
        .map(({ specifier, line }) => `${path}:${line} evaluation may not import ${specifier}`),
    );
