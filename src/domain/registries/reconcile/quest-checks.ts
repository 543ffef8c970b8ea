import { type RawBuilder, sql } from "kysely";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { versionOf } from "../../evaluation/quests/compile.ts";
import type { StoredState } from "../../evaluation/quests/row.ts";
import { isComplete } from "../../evaluation/quests/step-graph.ts";
import { OUTBOX_LINES } from "../../kernel/outbox-lines.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { loadPlans, projectPlans } from "../../progression/plan.ts";
import { type Check, type Finding, idsOf, type Page } from "./finding.ts";

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
  const { rows } = await sql<{ player_id: string; message: string }>`
    with q as materialized (
      select * from player_quests
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[]))
    select q.player_id, format('quest %s, cycle %s: %s at %s percent, completed %s, claimed %s', q.quest_key,
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
  return rows.map(({ player_id: playerId, message }) => findingOf(page, playerId, message));
};

const findingOf = ({ projectId }: Page, playerId: string, message: string): Finding => ({
  invariant: "I15",
  projectId,
  playerId,
  message,
  isRepairable: false,
});

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
  const plan = (await loadPlans(work, [page.projectId], projectPlans)).get(page.projectId);
  return rows
    .filter((row) => !row.isOfPercent || (plan !== undefined && isCountedApart(plan, row)))
    .map(({ playerId, message }) => findingOf(page, playerId, message));
};

/** Whether the version of a quest is kept, and no counter of the player's whole life is in its percent. */
const isCountedApart = ({ quests }: ProjectPlan, { questKey, version }: Told): boolean => {
  const quest = quests.byKey.get(questKey);
  const own = quest && versionOf(quest, version);
  return own?.steps.every(({ lifetime }) => !lifetime) === true;
};

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
  const plan = (await loadPlans(work, [page.projectId], projectPlans)).get(page.projectId);
  const wrong = await mapInSlices(rows, (cycle) => {
    const { playerId, questKey, cycleKey, state } = cycle;
    const isCompleted = plan && isCompleteBy(plan, cycle);
    if (isCompleted === undefined || isCompleted === (state !== "IN_PROGRESS")) return [];
    const says = isCompleted ? "complete it" : "do not complete it";
    const message = `quest ${questKey}, cycle ${cycleKey}: it is ${state}, but its steps ${says}`;
    return [findingOf(page, playerId, message)];
  });
  return wrong.flat();
};

/** Whether the steps that are done complete a cycle; undefined where its version is no longer kept. */
const isCompleteBy = ({ quests }: ProjectPlan, { questKey, version, done }: Cycle): boolean | undefined => {
  const quest = quests.byKey.get(questKey);
  const own = quest && versionOf(quest, version);
  return own && isComplete(own.definition, (key) => done?.includes(key) === true);
};
