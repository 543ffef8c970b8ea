import { sql } from "kysely";
import { doneIn, type QuestRow, type StoredState } from "../../evaluation/quests/row.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { isPlayer } from "../../progression/players/players.ts";
import type { Definition } from "../definitions/definitions.ts";
import { draftOf } from "../definitions/drafts.ts";

/** `state`, `cycleKey`: those to be listed or counted; default: all. */
export type CycleQuery = { state?: StoredState | undefined; cycleKey?: string | undefined };

const rowsOf = ({ projectId, key }: Definition, { state, cycleKey }: CycleQuery) => sql`
  player_quests q where q.project_id = ${projectId} and q.quest_key = ${key}
    and ${state === undefined ? sql`true` : sql`q.state = ${state}`}
    and ${cycleKey === undefined ? sql`true` : sql`q.cycle_key = ${cycleKey}`}`;

type Row = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  id: string;
  questVersion: number;
  cycleKey: string;
  state: StoredState;
  percent: number;
  doc: Pick<QuestRow, "steps">;
  startedAt: Date;
  completedAt: Date | null;
  claimedAt: Date | null;
};

const show = ({ doc, startedAt, completedAt, claimedAt, ...row }: Row) => ({
  ...row,
  stepsDone: doneIn(doc),
  startedAt: startedAt.toISOString(),
  completedAt: isoOf(completedAt),
  claimedAt: isoOf(claimedAt),
});

/** Orders of the list. */
export const PARTICIPANT_ORDERS = {
  by: {
    updatedAt: sql`q.updated_at`,
    startedAt: sql`q.started_at`,
    percent: sql`q.percent`,
  },
  usual: "desc",
} as const;

const orderOf = (query: Ordered<SortOf<typeof PARTICIPANT_ORDERS>>) =>
  orderBy(PARTICIPANT_ORDERS, query, sql`q.id`);

/** `playerId`: `{playerId}` of the only player to be listed. */
type ListParticipants = PageQuery &
  CycleQuery &
  Ordered<SortOf<typeof PARTICIPANT_ORDERS>> & { playerId?: string | undefined };

/**
 * Lists the players who have started a quest, one item for each cycle.
 * @throws DomainError NOT_FOUND for an unknown player
 */
export const listParticipants = async (work: Work, quest: Definition, query: ListParticipants) => {
  const ofPlayer = await isPlayer(work, quest.projectId, sql`q.player_id`, query.playerId);
  const listed = sql`${rowsOf(quest, query)} and ${ofPlayer}`;
  const { rows } = await sql<Row>`
    select q.player_id as "playerId", p.external_user_id as "externalUserId", p.display_name as "displayName",
      q.id, q.quest_version as "questVersion", q.cycle_key as "cycleKey", q.state, q.percent, q.doc,
      q.started_at as "startedAt", q.completed_at as "completedAt", q.claimed_at as "claimedAt"
    from (
      select q.* from ${listed} order by ${orderOf(query)}
      limit ${query.limit} offset ${offsetOf(query)}) q
    join players p on p.project_id = q.project_id and p.id = q.player_id
    order by ${orderOf(query)}`.execute(work.db);
  return { participants: rows.map(show), ...(await countRows(work, listed)) };
};

type StepCounts = { reached: number; done: number; waiting: number; failed: number };

const NOBODY: StepCounts = { reached: 0, done: 0, waiting: 0, failed: 0 };

const countStates = async ({ db }: Work, quest: Definition, query: CycleQuery) => {
  const { rows } = await sql<{ state: string; n: number; seconds: number | null }>`
    select q.state, count(*) as n, sum(extract(epoch from q.completed_at - q.started_at)) as seconds
    from ${rowsOf(quest, query)} group by q.state`.execute(db);
  return rows.map(({ state, n, seconds }) => ({ state, n, seconds: seconds ?? 0 }));
};

const countSteps = async ({ db }: Work, quest: Definition, query: CycleQuery) => {
  const { rows } = await sql<{ key: string } & Record<keyof StepCounts, number>>`
    select s.key, count(*) filter (where s.value ? 'startMs') as reached,
      count(*) filter (where s.value ? 'doneMs') as done,
      count(*) filter (where s.value ? 'pending') as waiting,
      count(*) filter (where s.value ? 'failedMs' and not s.value ? 'doneMs') as failed
    from (select q.doc from ${rowsOf(quest, query)}) q cross join lateral jsonb_each(q.doc -> 'steps') s
    group by s.key`.execute(db);
  return new Map(rows.map(({ key, ...counts }): [string, StepCounts] => [key, counts]));
};

const COMPLETED: ReadonlySet<string> = new Set(["COMPLETED", "CLAIMED"]);

/** Counts how far cycles of a quest have come: a funnel of the steps of the draft. */
export const readQuestStats = async (
  work: Work,
  quest: Definition,
  { cycleKey }: Pick<CycleQuery, "cycleKey">,
) => {
  const states = await countStates(work, quest, { cycleKey });
  const steps = await countSteps(work, quest, { cycleKey });
  const completed = states.filter(({ state }) => COMPLETED.has(state));
  const count = completed.reduce((sum, { n }) => sum + n, 0);
  const seconds = completed.reduce((sum, one) => sum + one.seconds, 0);
  const document = draftOf(quest) as unknown as Quest;
  return {
    questKey: quest.key,
    started: states.reduce((sum, { n }) => sum + n, 0),
    states: Object.fromEntries(states.map(({ state, n }) => [state, n])),
    steps: document.steps.map(({ key: stepKey, name }) => ({
      stepKey,
      name,
      ...(steps.get(stepKey) ?? NOBODY),
    })),
    averageSeconds: count === 0 ? null : Math.round(seconds / count),
  };
};
