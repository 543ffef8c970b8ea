import { isDeepStrictEqual } from "node:util";
import { audit } from "../../accounts/audit/audit.ts";
import { forgetProjects, Project, settingsOf } from "../../accounts/projects/project.ts";
import { syncReports } from "../../analytics/reports/saved-reports.ts";
import {
  ARCHIVED_FACTOR,
  Definition,
  type DefinitionKind,
  replaceDefinition,
} from "../../economy/definitions/definitions.ts";
import { adventuresOf, createInUse, itemInUse } from "../../economy/definitions/in-use.ts";
import { movePhases } from "../../economy/definitions/phases.ts";
import {
  type ProjectDefinitions,
  shareDefinitions,
  unshareDefinitions,
} from "../../economy/definitions/references.ts";
import { changeRunning } from "../../economy/definitions/running.ts";
import { lowerLevels } from "../../economy/levels/relevel.ts";
import { type Defined, withPause } from "../../evaluation/live.ts";
import type { CurveInput } from "../../evaluation/xp/levels.ts";
import { conflict, DomainError } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { atProjectTime, awaitConfigLane, changeConfig, shareConfig, type Work } from "../../kernel/work.ts";
import { syncLeaderboards } from "../../leaderboards/sync.ts";
import { getCurve, putCurve } from "../../progression/level-curves.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";
import { syncRules } from "../../rules/lifecycle/sync.ts";

type DefinitionsSync = { from: string; to: string; actor: string };
type SkippedDefinition = { kind: string; key: string; reason: string };

/** Definitions that were created, changed or archived, those that stay as they are, and those still to end. */
type Syncing = { changed: Set<Pair>; skipped: SkippedDefinition[]; ended: OwnPair[] };

type Pair = { kind: DefinitionKind; source: Definition; own: Definition | undefined };
type OwnPair = Pair & { own: Definition };

const isEnded = ({ source }: Pair): boolean => source.status === "ARCHIVED";

/**
 * Copies the definitions of all kinds from one project to another, by key. Definitions that only the target
 * has stay unchanged, and so do those that are archived there, or whose change would contradict players'
 * holdings. Those that are archived in the source are left to `endDefinitions`. Must be called under the
 * config locks of both.
 */
const syncDefinitions = async (work: Work, sync: DefinitionsSync): Promise<Syncing> => {
  const pairs = await readPairs(work, sync);
  const synced: Syncing = { changed: new Set(), skipped: [], ended: [] };
  // New ones first: changed ones may reference them; archived ones come last.
  for (const pair of pairs.filter(({ own }) => !own)) add(work, sync, { pair, synced });
  await work.em.flush();
  const known = pairs.filter((pair): pair is OwnPair => pair.own !== undefined);
  synced.ended = known.filter((pair) => isEnded(pair) && pair.own.status !== "ARCHIVED");
  const definitions = await shareDefinitions(work, sync.to);
  try {
    for (const pair of known.filter((one) => !isEnded(one)))
      await changeDefinition(work, sync, { pair, synced, definitions });
  } finally {
    unshareDefinitions(work, sync.to);
  }
  await work.em.flush();
  await copyPhases(work, sync, { pairs, synced });
  return synced;
};

/**
 * Archives the definitions that are archived in the source, unless rules or adventures that only the target
 * has name them. Must be called when its rules are those of the source.
 * @returns numbers of all that has changed, by the plural of the kind
 * @throws DomainError CONFLICT DEFINITION_LIMIT
 */
const endDefinitions = async (
  work: Work,
  sync: DefinitionsSync,
  synced: Syncing,
): Promise<Record<string, number>> => {
  const { ended, changed } = synced;
  const refuseNamed = ended.length > 0 ? await createInUse(work, sync.to) : undefined;
  const endThese = async (pairs: readonly OwnPair[], refuse?: (pair: OwnPair) => void): Promise<void> => {
    for (const pair of pairs) {
      const problem = await problemOf(async () => {
        if (pair.own.status !== "DRAFT") refuseNamed?.(pair.own);
        refuse?.(pair);
      });
      if (problem === undefined) await end(work, sync, { pair, synced });
      else skip(synced, pair, problem);
    }
    await work.em.flush();
  };
  // Quests last: adventures that end with them are over then.
  await endThese(ended.filter(({ kind }) => kind.kind !== "quest"));
  const quests = ended.filter(({ kind }) => kind.kind === "quest");
  const adventures = await adventuresOf(
    work,
    sync.to,
    quests.map(({ own }) => own.key),
  );
  await endThese(quests, ({ own }) => {
    const inUse = itemInUse(adventures.get(own.key));
    if (inUse) throw inUse;
  });
  for (const kind of DEFINITION_KINDS) await checkRoom(work, sync.to, kind);
  const countOf = ({ kind }: DefinitionKind): number =>
    [...changed].filter((pair) => pair.kind.kind === kind).length;
  return Object.fromEntries(DEFINITION_KINDS.map((kind) => [kind.plural, countOf(kind)]));
};

const skip = ({ skipped }: Syncing, { kind, source }: Pair, reason: string): void =>
  void skipped.push({ kind: kind.kind, key: source.key, reason });

const readPairs = async ({ em }: Work, { from, to }: DefinitionsSync): Promise<Pair[]> => {
  const sources = await em.find(Definition, { projectId: from }, { orderBy: { id: "asc" } });
  const owned = await em.find(Definition, { projectId: to });
  const nameOf = ({ kind, key }: Definition): string => `${kind} ${key}`;
  const byName = new Map(owned.map((one) => [nameOf(one), one]));
  return DEFINITION_KINDS.flatMap((kind) =>
    sources
      .filter((source) => source.kind === kind.kind)
      .map((source) => ({ kind, source, own: byName.get(nameOf(source)) })),
  );
};

type Step = { pair: Pair; synced: Syncing };

const counted = ({ pair, synced: { changed } }: Step): void => void changed.add(pair);

/**
 * Quests and adventures that are paused or ended are so in the target, too, unless adventures that only the
 * target has need the quest.
 */
const copyPhases = async (
  work: Work,
  { to }: DefinitionsSync,
  { pairs, synced }: { pairs: readonly Pair[]; synced: Syncing },
): Promise<void> => {
  const phased = pairs.flatMap(({ source: { kind, key, status, phase } }) =>
    status === "ACTIVE" && phase ? [{ kind, key, phase }] : [],
  );
  const pairOf = ({ kind: name, key }: { kind: string; key: string }): Pair =>
    pairs.find(({ source }) => source.kind === name && source.key === key)!;
  const [quests, others] = [
    phased.filter(({ kind }) => kind === "quest"),
    phased.filter(({ kind }) => kind !== "quest"),
  ];
  const moved = await movePhases(work, to, others);
  const stopping = quests.filter(
    (one) => one.phase === "ENDED" && pairOf(one).own !== undefined && pairOf(one).own!.phase !== "ENDED",
  );
  const adventures = await adventuresOf(
    work,
    to,
    stopping.map(({ key }) => key),
  );
  const kept = new Set(stopping.filter(({ key }) => adventures.has(key)));
  for (const one of kept) skip(synced, pairOf(one), itemInUse(adventures.get(one.key))!.message);
  moved.push(
    ...(await movePhases(
      work,
      to,
      quests.filter((one) => !kept.has(one)),
    )),
  );
  for (const { phase, ...named } of moved) {
    const { key } = named;
    const pair = pairOf(named);
    if (phase === "ENDED") await pair.kind.stopped?.(work, to, [key]);
    counted({ pair, synced });
  }
};

const add = ({ em, now }: Work, { to, actor }: DefinitionsSync, step: Step): void => {
  const { kind, key, name, definition, status } = step.pair.source;
  if (status !== "ACTIVE") return;
  em.create(Definition, {
    id: newId(),
    projectId: to,
    kind,
    key,
    name,
    definition: structuredClone(definition),
    status,
    version: 1,
    createdBy: actor,
    createdAt: now,
    updatedAt: now,
  });
  counted(step);
};

const end = async (work: Work, { to }: DefinitionsSync, step: Step & { pair: OwnPair }): Promise<void> => {
  const { own, kind } = step.pair;
  // What ran is paused until it is restored.
  const pauses =
    own.phase === "RUNNING" ? withPause(own.pauses ?? [], { from: newId(), isEnd: false }) : own.pauses;
  Object.assign(own, { status: "ARCHIVED", pauses, updatedAt: work.now });
  await kind.stopped?.(work, to, [own.key]);
  counted(step);
};

const changeDefinition = async (
  work: Work,
  { to }: DefinitionsSync,
  step: Step & { pair: OwnPair; definitions: ProjectDefinitions },
): Promise<void> => {
  const { kind, source, own } = step.pair;
  // What is not published stays in its project.
  if (source.status === "DRAFT") return;
  if (own.status === "ARCHIVED") return skip(step.synced, step.pair, "it is archived in the sandbox");
  if (own.status === "ACTIVE" && isDeepStrictEqual(own.definition, source.definition)) return;
  const definition = structuredClone(source.definition) as Defined;
  const problem = await problemOf(() => kind.check?.(work, to, definition, own.definition as Defined));
  if (problem !== undefined) return skip(step.synced, step.pair, problem);
  replaceDefinition(own, definition, work.now);
  own.status = "ACTIVE";
  // The next check reads it there.
  const { id, version } = own;
  step.definitions.put(kind.kind, { id, projectId: to, definition, version, status: "ACTIVE" });
  counted(step);
};

const problemOf = async (check: () => Promise<void> | undefined): Promise<string | undefined> => {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.message;
    throw error;
  }
};

const checkRoom = async (
  { em }: Work,
  projectId: string,
  { kind, plural, max }: DefinitionKind,
): Promise<void> => {
  const active = await em.count(Definition, { projectId, kind, status: "ACTIVE" });
  const all = await em.count(Definition, { projectId, kind });
  if (active <= max && all <= max * ARCHIVED_FACTOR) return;
  const limits = `${max} ${plural}, and ${max * ARCHIVED_FACTOR} with archived ones`;
  throw conflict("DEFINITION_LIMIT", `together with its own, the sandbox would have more than ${limits}`);
};

/** A copy from a project to its sandbox by `actor`. */
type Sync = { from: string; to: string; actor: string };

/** A definition of the sandbox that stays unchanged, and why. */
type Skipped = { type: string; key: string; reason: string };

type Synced = {
  /** Number of created or changed definitions. */
  rules: number;
  leaderboards: number;
  levelCurve: number;
  analyticsReports: number;
  /** Of all other kinds, by the plural of the kind. */
  definitions: Record<string, number>;
  skipped: Skipped[];
  /** Periods of boards that have no entries any more: their rank indexes can be dropped. */
  closedPeriodIds: string[];
};

/**
 * Copies the definitions of a project to its sandbox: settings, level curve, definitions of every kind,
 * leaderboards, rules and saved reports, by key. What only the sandbox has stays, as do its players and
 * scores. No batch of the sandbox evaluates meanwhile, and nobody changes the project's definitions: the copy
 * is a consistent snapshot.
 * @throws CONFLICT RULE_LIMIT, LEADERBOARD_LIMIT, DEFINITION_LIMIT, REPORT_LIMIT when the sandbox has too
 * many of its own; EndlessLoops when rules of its own and those of the project could trigger one another
 */
export const syncSandbox = async (outer: Work, sync: Sync): Promise<Synced> => {
  const { from, to } = sync;
  awaitConfigLane(outer, to);
  // In the locking order of batches, to prevent deadlocks.
  for (const id of [from, to].toSorted())
    await (id === to ? changeConfig(outer, id) : shareConfig(outer, [id]));
  const { project, sandbox } = await copySettings(outer, sync);
  const work = atProjectTime(outer, sandbox);
  const levelCurve = await copyCurve(work, sync);
  const change = { projectId: to, reason: "DEFINITION_LIMIT", copied: from } as const;
  const copied = await changeRunning(work, change, async () => {
    const synced = await syncDefinitions(work, sync);
    const first = {
      economy: synced,
      boards: await syncLeaderboards(work, sync),
      rules: await syncRules(work, sync),
    };
    return { ...first, definitions: await endDefinitions(work, sync, synced) };
  });
  const { economy, rules, definitions } = copied;
  const { closedPeriodIds, ...boards } = copied.boards;
  const reports = await syncReports(work, sync);
  const counts = {
    rules: rules.count,
    leaderboards: boards.count,
    levelCurve,
    analyticsReports: reports.count,
    definitions,
  };
  const skipped = [
    ...economy.skipped.map(({ kind: type, ...one }) => ({ type, ...one })),
    ...boards.skipped.map((one) => ({ type: "leaderboard", ...one })),
    ...rules.skipped.map((one) => ({ type: "rule", ...one })),
    ...reports.skipped.map((one) => ({ type: "analytics_report", ...one })),
  ];
  const { tenantId } = project;
  const target = { type: "project", id: to };
  const data = { projectId: from, ...counts, skipped: skipped.length };
  await audit(work, { action: "sandbox.synced", target, tenantId, data });
  work.afterCommit(forgetProjects);
  return { ...counts, skipped, closedPeriodIds };
};

type SandboxPair = { project: Project; sandbox: Project };

const copySettings = async (work: Work, { from, to, actor }: Sync): Promise<SandboxPair> => {
  const { em, now } = work;
  // Read again: the state read before the locks may have changed since.
  const project = await em.findOneOrFail(Project, { id: from }, { refresh: true });
  const sandbox = await em.findOneOrFail(Project, { id: to }, { refresh: true });
  const { timezone, settings, allowedOrigins } = project;
  const couldFall = settingsOf(sandbox).allowLevelDown;
  Object.assign(sandbox, {
    timezone,
    settings: { ...settings },
    allowedOrigins: [...allowedOrigins],
    updatedAt: now,
  } satisfies Partial<Project>);
  await em.flush();
  if (!couldFall && settingsOf(sandbox).allowLevelDown) await lowerLevels(work, to, actor);
  return { project, sandbox };
};

/** Moves players of the sandbox to the levels of the new curve at once, without events. */
const copyCurve = async (work: Work, { from, to, actor }: Sync): Promise<number> => {
  const [{ type, params }, own] = [await getCurve(work, from), await getCurve(work, to)];
  if (isDeepStrictEqual({ type, params }, { type: own.type, params: own.params })) return 0;
  await putCurve(work, to, { curve: { type, params } as CurveInput, recalculate: "SILENT", actor });
  return 1;
};
