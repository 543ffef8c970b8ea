import { isDeepStrictEqual } from "node:util";
import { audit } from "../../accounts/audit/audit.ts";
import { awaitConfigLane, changeConfig, shareConfig } from "../../kernel/config-lock.ts";
import { changeRunning } from "../../economy/definitions/running.ts";
import { syncDefinitions } from "./definitions.ts";
import { syncReports } from "../../analytics/reports/sync.ts";
import { syncLeaderboards } from "../../leaderboards/sync.ts";
import { getCurve, putCurve } from "../../progression/level-curves.ts";
import type { CurveInput } from "../../evaluation/xp/levels.ts";
import { syncRules } from "../../rules/lifecycle/sync.ts";
import { atProjectTime } from "../../kernel/project-time.ts";
import type { Work } from "../../kernel/work.ts";
import { Project, settingsOf } from "../../accounts/projects/project.ts";
import { lowerLevels } from "../../economy/levels/change-project.ts";
import { forgetProjects } from "../../accounts/projects/resolve.ts";

/** A copy from a project to its sandbox by `actor`. */
export type Sync = { from: string; to: string; actor: string };

/** A definition of the sandbox that stays unchanged, and why. */
export type Skipped = { type: string; key: string; reason: string };

export type Synced = {
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
  const change = { projectId: to, reason: "DEFINITION_LIMIT", copied: from, isLong: true } as const;
  const copied = await changeRunning(work, change, async () => ({
    economy: await syncDefinitions(work, sync),
    leaderboards: await syncLeaderboards(work, sync),
    rules: await syncRules(work, sync),
  }));
  const { counts: definitions, ...others } = copied.economy;
  const { closedPeriodIds, ...boards } = copied.leaderboards;
  const { rules } = copied;
  const reports = await syncReports(work, sync);
  const counts = {
    rules: rules.count,
    leaderboards: boards.count,
    levelCurve,
    analyticsReports: reports.count,
    definitions,
  };
  const skipped = [
    ...others.skipped.map(({ kind: type, ...one }) => ({ type, ...one })),
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

type Pair = { project: Project; sandbox: Project };

const copySettings = async (work: Work, { from, to, actor }: Sync): Promise<Pair> => {
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
