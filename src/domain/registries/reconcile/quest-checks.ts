import { type RawBuilder, sql } from "kysely";
import { dueTier } from "../../evaluation/badges/award.ts";
import type { CompiledBadge } from "../../evaluation/badges/badge.ts";
import {
  type CompiledMetric,
  compileMetric,
  type CounterState,
  readCounter,
} from "../../evaluation/metrics/compile.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { versionOf } from "../../evaluation/quests/compile.ts";
import type { StoredState } from "../../evaluation/quests/row.ts";
import { isComplete } from "../../evaluation/quests/step.ts";
import { OUTBOX_LINES } from "../../kernel/outbox.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { loadStates } from "../../progression/load-states.ts";
import { lockPlayersById } from "../../progression/load.ts";
import { PLAYER_PARTS } from "../../progression/parts/player-parts.ts";
import { findPlan } from "../../progression/plan.ts";
import { type Check, type Finding, findingsOf, idsOf, type Page } from "./finding.ts";
import { isAlwaysAvailable, neverFalls, recount } from "../../revert/counters-without.ts";
import { readOtherTiers } from "../../revert/read-followed.ts";
import { readCounterStarts } from "../../revert/read-record.ts";

/**
 * I14: a badge that follows a counter over all time has the tier whose threshold the counter meets, or one
 * that it has met, or that was awarded otherwise. Badges changed since the player's last progress are left
 * out, and those that are sold out or not available count only where a tier is held.
 */
export const checkBadges: Check = async (work, page) => {
  if (!(await hasFollowers(work, page))) return [];
  const plan = await findPlan(work, page.projectId);
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
  const found = [
    ...lost.map((one) => ({ ...one, due: dueTier(one.badge.definition, one.progress) })),
    ...kept,
  ].map(({ playerId, badge, tier, due }) => {
    return {
      playerId,
      message: `badge ${badge.definition.key}: the tier is ${tier}, the counter says ${due}`,
    };
  });
  return findingsOf("I14", page, found);
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
  dueTier(badge.definition, readCounter(metric, counter, { at: atMs }) ?? 0);

type Row = Omit<Held, keyof Follower | "counter"> & { key: string; counter: CounterState | null };

const readHeld = async ({ db }: Work, page: Page, followers: readonly Follower[]): Promise<Held[]> => {
  const byKey = new Map(followers.map((follower) => [follower.badge.definition.key, follower]));
  const wanted = followers.map(({ badge, metric }) => ({ k: badge.definition.key, m: metric.id }));
  const { rows } = await sql<Row>`
    select b.player_id as "playerId", b.badge_key as key, b.tier, b.progress, s.doc -> 'c' -> x.m as counter
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(k text, m text)
    join definitions d on d.project_id = ${page.projectId} and d.kind = 'badge' and d.key = x.k
    join player_badges b on b.project_id = d.project_id and b.badge_key = x.k
      and b.player_id = any(${idsOf(page)}::uuid[])
    join players p on p.project_id = b.project_id and p.id = b.player_id and p.status = 'ACTIVE'
    left join player_states s on s.project_id = b.project_id and s.player_id = b.player_id
    where b.revoked_at is null and b.updated_at >= d.updated_at`.execute(db);
  return rows.map(({ key, counter, ...held }) => ({
    ...byKey.get(key)!,
    ...held,
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

/** The reward of a completion in the keys of its ledger entries, as the latest revert of a row leaves it. */
const COMPLETION = sql`'q:' || q.id || ':complete'
  || case when q.doc ? 'again' then '~' || (q.doc ->> 'again') else '' end || ':'`;

/** The reward of a step, by its key. */
const stepReward = (key: RawBuilder<unknown>) => sql`'q:' || q.id || ':s:' || ${key}`;

/**
 * I15: a cycle of a quest has the times of its state, and a quest one latest cycle; what completing a cycle
 * gives was given only where it is claimed, and what a step gives only where the cycle says so; what waits
 * for a review is known to both its cycle and the queue; a cycle is completed if and only if its steps
 * complete it; it is what the player was last told of it.
 */
export const checkQuests: Check = async (work, page) => [
  ...(await checkRows(work, page)),
  ...(await checkSteps(work, page)),
  ...(await checkLines(work, page)),
];

const checkRows = async (work: Work, page: Page): Promise<Finding[]> => {
  const { rows } = await sql<{ playerId: string; message: string }>`
    with q as materialized (
      select * from player_quests
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[]))
    select q.player_id as "playerId", format('quest %s, cycle %s: %s at %s percent, completed %s, claimed %s', q.quest_key,
      q.cycle_key, q.state, q.percent, coalesce(q.completed_at::text, 'never'),
      coalesce(q.claimed_at::text, 'never')) as message
    from q
    where (q.state in ('COMPLETED', 'CLAIMED')) and (q.completed_at is null or q.percent <> 100)
      or q.state = 'IN_PROGRESS' and (q.completed_at is not null or q.percent = 100)
      or (q.state = 'CLAIMED') <> (q.claimed_at is not null)
      or q.is_live <> (q.is_latest or q.state = 'COMPLETED')
    union all
    select q.player_id, format('quest %s has %s latest cycles', q.quest_key,
      count(*) filter (where is_latest))
    from q group by q.player_id, q.quest_key having count(*) filter (where is_latest) <> 1
    union all
    select q.player_id, format('quest %s, cycle %s: it is %s, but gave %s', q.quest_key, q.cycle_key, q.state,
      l.idempotency_key)
    from q join ledger_entries l on l.project_id = q.project_id and l.player_id = q.player_id
      and starts_with(l.idempotency_key, ${COMPLETION})
    where q.state <> 'CLAIMED' and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    union all
    select q.player_id, format('quest %s, cycle %s: it gave %s, of which it does not know', q.quest_key,
      q.cycle_key, l.idempotency_key)
    from q join ledger_entries l on l.project_id = q.project_id and l.player_id = q.player_id
      and starts_with(l.idempotency_key, ${stepReward(sql`''`)})
    where l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
      and not exists (select 1 from jsonb_array_elements_text(q.doc -> 'rewarded') as r(k)
        where starts_with(l.idempotency_key, ${stepReward(sql`r.k || ':'`)})
          or starts_with(l.idempotency_key, ${stepReward(sql`r.k || '~'`)}))
    union all
    select coalesce(w.player_id, s.player_id), format('submission %s: %s, but its quest %s',
      coalesce(w.id, s.id),
      coalesce(s.status, 'it is not stored'),
      case when w.id is null then 'does not wait for it' else 'waits for it' end)
    from (
      select q.player_id, p.id::uuid as id
      from q cross join lateral jsonb_each(q.doc -> 'steps') t
      cross join lateral jsonb_array_elements_text(t.value -> 'pending') p(id)
      where q.state = 'IN_PROGRESS' and t.value ? 'pending') w
    full join (
      select * from quest_submissions
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])) s on s.id = w.id
    where (w.id is not null) <> coalesce(s.status = 'PENDING', false)`.execute(work.db);
  return findingsOf("I15", page, rows);
};

type Told = { playerId: string; questKey: string; version: number; isOfPercent: boolean; message: string };

/**
 * Holds cycles against the last line of the player's stream that tells of each. Cycles without one are left
 * out: retention has removed it, the person was erased, or the cycle is of a player who was merged into this
 * one. So is the end of a cycle whose quest was archived, of which nobody is told; and the percent of a quest
 * with a step of LIFETIME, whose counter also goes on while the quest is paused.
 */
const checkLines = async (work: Work, page: Page): Promise<Finding[]> => {
  const { rows } = await sql<Told>`
    with told as materialized (
      select distinct on (player_id, data -> 'quest' ->> 'id') player_id,
        data -> 'quest' ->> 'id' as id, data -> 'quest' ->> 'state' as state,
        data -> 'quest' ->> 'percent' as percent, data -> 'quest' ->> 'questVersion' as version
      from ${OUTBOX_LINES} o
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])
        and player_seq is not null and type = 'quest.updated' and data ? 'quest'
      order by player_id, data -> 'quest' ->> 'id', player_seq desc),
    held as (
      select q.*, t.state as told, t.percent as told_percent, t.version as told_version,
        t.version <> q.quest_version::text
          or t.state <> case q.state when 'RESET' then 'AVAILABLE' else q.state end
            and not (q.state = 'EXPIRED' and t.state in ('IN_PROGRESS', 'COMPLETED')) as is_other
      from player_quests q join told t on t.player_id = q.player_id and t.id = q.id::text
      where q.project_id = ${page.projectId} and q.player_id = any(${idsOf(page)}::uuid[]))
    select player_id as "playerId", quest_key as "questKey", quest_version as version,
      not is_other as "isOfPercent",
      format('quest %s, cycle %s: it is %s at %s percent of version %s, but was told as %s at %s of %s',
        quest_key, cycle_key, state, percent, quest_version, told, told_percent, told_version) as message
    from held where is_other or told_percent <> percent::text
    order by quest_key, cycle_key`.execute(work.db);
  if (rows.length === 0) return [];
  const plan = await findPlan(work, page.projectId);
  const wrong = rows.filter((row) => !row.isOfPercent || (plan !== undefined && isCountedApart(plan, row)));
  return findingsOf("I15", page, wrong);
};

/** Returns the version of a quest by which a cycle is done, if it is kept. */
const keptVersion = ({ quests }: ProjectPlan, { questKey, version }: Pick<Cycle, "questKey" | "version">) => {
  const quest = quests.byKey.get(questKey);
  return quest && versionOf(quest, version);
};

/** Whether the version of a quest is kept, and no counter of the player's whole life is in its percent. */
const isCountedApart = (plan: ProjectPlan, told: Told): boolean =>
  keptVersion(plan, told)?.steps.every(({ lifetime }) => !lifetime) === true;

type Cycle = {
  playerId: string;
  questKey: string;
  cycleKey: string;
  version: number;
  state: StoredState;
  done: string[] | null;
};

/** Holds cycles against the version of the quest by which they are done, as far as it is kept. */
const checkSteps = async (work: Work, page: Page): Promise<Finding[]> => {
  const { rows } = await sql<Cycle>`
    select player_id as "playerId", quest_key as "questKey", cycle_key as "cycleKey",
      quest_version as version, state,
      (select json_agg(t.key) from jsonb_each(doc -> 'steps') t where t.value ? 'doneMs') as done
    from player_quests
    where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])
      and state in ('IN_PROGRESS', 'COMPLETED', 'CLAIMED')
    order by player_id, quest_key, cycle_key`.execute(work.db);
  if (rows.length === 0) return [];
  const plan = await findPlan(work, page.projectId);
  const wrong = await mapInSlices(rows, (cycle) => {
    const { playerId, questKey, cycleKey, state } = cycle;
    const isCompleted = plan && isCompleteBy(plan, cycle);
    if (isCompleted === undefined || isCompleted === (state !== "IN_PROGRESS")) return [];
    const says = isCompleted ? "complete it" : "do not complete it";
    return [
      { playerId, message: `quest ${questKey}, cycle ${cycleKey}: it is ${state}, but its steps ${says}` },
    ];
  });
  return findingsOf("I15", page, wrong.flat());
};

/** Whether the steps that are done complete a cycle; undefined where its version is no longer kept. */
const isCompleteBy = (plan: ProjectPlan, cycle: Cycle): boolean | undefined => {
  const own = keptVersion(plan, cycle);
  return own && isComplete(own.definition, (key) => cycle.done?.includes(key) === true);
};
