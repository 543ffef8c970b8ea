import type { Graph } from "./import-graph.ts";
import { importsOf, type SourceFile } from "./source-files.ts";

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
