import { sql } from "kysely";
import { dueTier } from "../../evaluation/badges/award.ts";
import type { CompiledBadge } from "../../evaluation/badges/badge.ts";
import { type CompiledMetric, compileMetric } from "../../evaluation/metrics/compile.ts";
import { type CounterState, readCounter } from "../../evaluation/metrics/counters.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Work } from "../../kernel/work.ts";
import { lockPlayersById } from "../../progression/load.ts";
import { loadStates } from "../../progression/load-states.ts";
import { PLAYER_PARTS } from "../../progression/parts/parts.ts";
import { loadPlans, projectPlans } from "../../progression/plan.ts";
import { isAlwaysAvailable, neverFalls } from "../../revert/counters-without.ts";
import { readCounterStarts } from "../../revert/read-record.ts";
import { readOtherTiers } from "../../revert/read-followed.ts";
import { recount } from "../../revert/recount.ts";
import { type Check, type Finding, idsOf, type Page } from "./finding.ts";

/**
 * I14: a badge that follows a counter over all time has the tier whose threshold the counter meets, or one
 * that it has met, or that was awarded otherwise. Badges changed since the player's last progress are left
 * out, and those that are sold out or not available count only where a tier is held.
 */
export const checkBadges: Check = async (work, page) => {
  if (!(await hasFollowers(work, page))) return [];
  const plan = (await loadPlans(work, [page.projectId], projectPlans)).get(page.projectId);
  const followers = plan ? followersOf(plan) : [];
  if (!plan || followers.length === 0) return [];
  const held = await readHeld(work, page, followers);
  const lost = held.filter(
    ({ badge, progress, tier }) => isEarnable(badge) && dueTier(badge.definition, progress) > tier,
  );
  const aboves = held.filter((one) => one.tier > dueBy(one, work.now.getTime()));
  const kept: (Held & { due: number })[] = [];
  for (const [playerId, above] of Map.groupBy(aboves, (one) => one.playerId))
    kept.push(...(await unexplained(work, plan, { playerId, above })));
  const finding = ({ playerId, badge, tier }: Held, due: number): Finding => ({
    invariant: "I14",
    projectId: page.projectId,
    playerId,
    message: `badge ${badge.definition.key}: the tier is ${tier}, the counter says ${due}`,
    isRepairable: false,
  });
  return [
    ...lost.map((one) => finding(one, dueTier(one.badge.definition, one.progress))),
    ...kept.map((one) => finding(one, one.due)),
  ];
};

const hasFollowers = async ({ db }: Work, { projectId }: Page): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from definitions where project_id = ${projectId} and kind = 'badge' and status = 'ACTIVE'
      and definition ? 'progressMetric' limit 1`.execute(db);
  return rows.length > 0;
};

type Follower = { badge: CompiledBadge; metric: CompiledMetric };
type Held = Follower & {
  playerId: string;
  tier: number;
  progress: number;
  counter: CounterState | undefined;
};

/** Aggregates that fall by a negative amount, or by a revert, alone. */
const RISING: ReadonlySet<string> = new Set(["count", "sum", "max", "distinct"]);

const followersOf = ({ badges }: ProjectPlan): Follower[] =>
  [...badges.values()].flatMap((badge) => {
    const { progressMetric } = badge.definition;
    const metric = progressMetric && compileMetric(progressMetric);
    const isForAllTime = metric?.window.type === "LIFETIME" || metric?.window.type === "SINCE";
    return metric && isForAllTime && RISING.has(metric.aggregate) ? [{ badge, metric }] : [];
  });

const isEarnable = (badge: CompiledBadge): boolean =>
  badge.definition.maxAwards === undefined && isAlwaysAvailable(badge);

/** @param atMs now */
const dueBy = ({ badge, metric, counter }: Held, atMs: number): number =>
  dueTier(badge.definition, readCounter(metric, counter, { at: atMs, zone: "UTC" }) ?? 0);

type Row = {
  player_id: string;
  badge_key: string;
  tier: number;
  progress: number;
  counter: CounterState | null;
};

const readHeld = async ({ db }: Work, page: Page, followers: readonly Follower[]): Promise<Held[]> => {
  const byKey = new Map(followers.map((follower) => [follower.badge.definition.key, follower]));
  const wanted = followers.map(({ badge, metric }) => ({ k: badge.definition.key, m: metric.id }));
  const { rows } = await sql<Row>`
    select b.player_id, b.badge_key, b.tier, b.progress, s.doc -> 'c' -> x.m as counter
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(k text, m text)
    join definitions d on d.project_id = ${page.projectId} and d.kind = 'badge' and d.key = x.k
    join player_badges b on b.project_id = d.project_id and b.badge_key = x.k
      and b.player_id = any(${idsOf(page)}::uuid[])
    join players p on p.project_id = b.project_id and p.id = b.player_id and p.status = 'ACTIVE'
    left join player_states s on s.project_id = b.project_id and s.player_id = b.player_id
    where b.revoked_at is null and b.updated_at >= d.updated_at`.execute(db);
  return rows.map(({ player_id: playerId, badge_key: key, tier, progress, counter }) => ({
    ...byKey.get(key)!,
    playerId,
    tier,
    progress,
    counter: counter ?? undefined,
  }));
};

type Above = { playerId: string; above: readonly Held[] };

/** Returns the badges of a player whose tier neither the counter nor another award has given. */
const unexplained = async (
  work: Work,
  plan: ProjectPlan,
  { playerId, above }: Above,
): Promise<(Held & { due: number })[]> => {
  const [player] = (await lockPlayersById(work, plan.projectId, [playerId])).values();
  if (!player) return [];
  const keys = above.map(({ badge }) => badge.definition.key);
  const found = await readOtherTiers(work, plan.projectId, {
    keysOf: new Map([[player.id, keys]]),
    eventIds: [],
  });
  const others = found.get(player.id) ?? new Map<string, number>();
  const doubtful = above.filter(({ badge, tier }) => (others.get(badge.definition.key) ?? 0) < tier);
  const metrics = doubtful.filter((one) => !isSure(one)).map(({ metric }) => metric);
  await loadStates(work, [player], [plan], [...PLAYER_PARTS]);
  const starts =
    metrics.length === 0 ? new Map<string, number>() : await readCounterStarts(work, plan.projectId, plan);
  const recounts = await recount(work, { player, project: plan }, { metrics, starts });
  return doubtful.flatMap((one) => {
    const { key } = one.badge.definition;
    const reached = isSure(one)
      ? dueBy(one, work.now.getTime())
      : recounts.get(one.metric.id)?.due.get(key)?.tier;
    const due = Math.max(reached ?? one.tier, others.get(key) ?? 0);
    return due < one.tier ? [{ ...one, due }] : [];
  });
};

const isSure = ({ metric, badge }: Follower): boolean => neverFalls(metric) && isAlwaysAvailable(badge);
