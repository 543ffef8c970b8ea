import { noEffects } from "../../evaluation/effects.ts";
import { changeEvent, openTurn } from "../../evaluation/evaluate.ts";
import { checkActive, type PlayerState } from "../../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../../evaluation/project-plan.ts";
import { type CompiledQuest, hasPlace, placesKey, startsAtOnce } from "../../evaluation/quests/compile.ts";
import { doneBy } from "../../evaluation/quests/context.ts";
import { settleQuest, type StartProblem } from "../../evaluation/quests/progress.ts";
import {
  doneIn,
  type PlayerQuestState,
  type QuestRow,
  type StartedBy,
  STORED_STATES,
  type StoredState,
} from "../../evaluation/quests/row.ts";
import {
  advanceNow,
  completeNow,
  currentOf,
  cyclesOf,
  endNow,
  type PlayerQuest,
  resetNow,
  showQuest,
  showRow,
  startNow,
  withQuestions,
} from "../../evaluation/quests/show.ts";
import { claimQuest } from "../../evaluation/quests/store.ts";
import { createSharedCounters, type SharedCounters } from "../../evaluation/shared-counters.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { Person } from "../../kernel/events/shapes.ts";
import type { RowOf } from "../../kernel/json.ts";
import { z } from "zod";
import { mapInSlices } from "../../kernel/slices.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import type { Player } from "../../players/player.ts";
import { changePlayer } from "../../progression/change.ts";
import { loadInParts } from "../../progression/load-states.ts";
import { readCounters } from "../../progression/lock-shared-counters.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import { isPlayer, refreshPlayer } from "../../progression/players/players.ts";
import { stateOfPlayer } from "../../progression/load.ts";
import { sql } from "kysely";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import type { Definition } from "../definitions/definitions.ts";
import { draftOf } from "../definitions/drafts.ts";

/** Returns turns in which players of a project can be read as of now; nothing of them is saved. */
export const readTurns = async (
  work: Work,
  projectId: string,
  players: readonly Player[],
): Promise<PlanTurn[]> => {
  const plan = await readPlan(work, projectId, projectPlans);
  const states = players.map(stateOfPlayer);
  await loadInParts(work, states, [plan]);
  const shared = createSharedCounters("FROM_ZERO", await readCounters(work, placesOf(plan)));
  return states.map((player) => turnOf(player, plan, { nowMs: work.now.getTime(), shared }));
};

/** Returns the counters of places in a project's quests. */
export const placesOf = (plan: ProjectPlan) =>
  [...plan.quests.byKey.values()].flatMap((quest) => placesKey(plan.projectId, quest) ?? []);

/** Returns a turn in which a loaded player can be read. */
export const turnOf = (
  player: PlayerState,
  plan: ProjectPlan,
  { nowMs, shared }: { nowMs: number; shared: SharedCounters },
): PlanTurn => {
  const event = changeEvent(newId(), nowMs);
  return openTurn({ plan, player, event, nowMs, effects: noEffects(), shared });
};

/** As `readTurns`, for one player. */
export const readTurn = async (work: Work, player: Player): Promise<PlanTurn> =>
  (await readTurns(work, player.projectId, [player]))[0]!;

/** Whether a quest that starts at once waits for the turn's player to be looked at. */
const isWaiting = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  if (!startsAtOnce(quest.definition)) return false;
  const current = currentOf(turn, quest);
  if (!current || "row" in current || current.next.again?.state === "ABANDONED") return false;
  return quest.mayStart(turn) && hasPlace(turn, quest);
};

/**
 * Returns a turn as `readTurn` does, after the quests have begun that start as soon as a player may start
 * them. Nothing is written where none does.
 */
const readStarted = async (work: Work, player: Player): Promise<PlanTurn> => {
  const turn = await readTurn(work, player);
  if (player.status !== "ACTIVE") return turn;
  const all = [...turn.project.quests.byKey.values()];
  const waiting = (await mapInSlices(all, (quest) => (isWaiting(turn, quest) ? [quest] : []))).flat();
  if (waiting.length === 0) return turn;
  const { projectId, id } = player;
  await changePlayer(work, { projectId, id }, () => () => undefined);
  return readTurn(work, await refreshPlayer(work, projectId, id));
};

/** `state`, `category`, `claimable`: those to be listed; default: all. */
type QuestFilter = {
  state?: PlayerQuestState | undefined;
  category?: string | undefined;
  /** Whether rewards of any cycle wait to be claimed. */
  claimable?: boolean | undefined;
};

const isShown = (quest: CompiledQuest, { state }: PlayerQuest): boolean =>
  state !== "LOCKED" || !quest.definition.hiddenUntilAvailable;

const orderOf = (a: CompiledQuest, b: CompiledQuest): number =>
  a.definition.sortOrder - b.definition.sortOrder || (a.key < b.key ? -1 : 1);

/** Lists a player's quests as of now, those that could be started included, in the order of the project. */
export const listPlayerQuests = async (
  work: Work,
  player: Player,
  filter: QuestFilter = {},
): Promise<PlayerQuest[]> => shownQuests(await readStarted(work, player), filter);

/** Returns the quests of the turn's player, as they are listed. In slices: cycles of schedules are dear. */
export const shownQuests = async (turn: PlanTurn, filter: QuestFilter = {}): Promise<PlayerQuest[]> => {
  const { state, category, claimable } = filter;
  const quests = [...turn.project.quests.byKey.values()]
    .filter(({ definition }) => category === undefined || definition.category === category)
    .toSorted(orderOf);
  const listed = await mapInSlices(quests, (quest): PlayerQuest[] => {
    const shown = showQuest(turn, quest);
    if (!shown || !isShown(quest, shown)) return [];
    if (state !== undefined && shown.state !== state) return [];
    return claimable === undefined || claimable === shown.claimable.length > 0 ? [shown] : [];
  });
  return listed.flat();
};

const INCLUDED_MAX = 100;

/** The first quests of the list, for a player's `include`. */
export const includedQuests = async (turn: PlanTurn): Promise<PlayerQuest[]> =>
  (await shownQuests(turn)).slice(0, INCLUDED_MAX);

/** Finds a quest or an adventure by its UUID or key. @throws DomainError NOT_FOUND */
export const goalOf = <G extends { id: string }>(
  byKey: ReadonlyMap<string, G>,
  ref: string,
  kind: string,
): G => {
  const found = byKey.get(ref) ?? [...byKey.values()].find(({ id }) => id === ref.toLowerCase());
  if (!found) throw notFound(kind);
  return found;
};

export const questOf = ({ quests }: PlanTurn["project"], ref: string): CompiledQuest =>
  goalOf(quests.byKey, ref, "quest");

const rowOf = (turn: PlanTurn, quest: CompiledQuest, key: string): QuestRow => {
  const row = cyclesOf(turn, quest).find(({ cycleKey }) => cycleKey === key);
  if (!row) throw notFound(`cycle ${key}`);
  return row;
};

/**
 * Returns a player's quest: its current cycle, or one that is named, as far as that is the latest or waits to
 * be claimed; with what its quizzes ask.
 * @throws DomainError NOT_FOUND for an unknown quest, one that is not offered, or an unknown cycle
 */
export const readPlayerQuest = async (
  work: Work,
  player: Player,
  { questRef, cycleKey = "current" }: { questRef: string; cycleKey?: string | undefined },
): Promise<PlayerQuest> => {
  const turn = await readStarted(work, player);
  const quest = questOf(turn.project, questRef);
  if (cycleKey !== "current") return withQuestions(quest, showRow(turn, quest, rowOf(turn, quest, cycleKey)));
  const shown = showQuest(turn, quest);
  if (!shown || !isShown(quest, shown)) throw notFound("quest");
  return withQuestions(quest, shown);
};

/** `id`: the UUID, or `ext:` and the integrator's id. */
export type PlayerRef = { projectId: string; id: string };
type Ref = PlayerRef;

/** Changes a quest of a player in memory. @returns the row to show; default: that of the latest cycle */
type Change = (turn: PlanTurn, quest: CompiledQuest) => QuestRow | void;

/** Changes a quest of a player after settling it. */
export const changeQuest = async (
  work: Work,
  player: Ref,
  questRef: string,
  change: Change,
): Promise<PlayerQuest> => {
  const applied = (turn: PlanTurn) => {
    const quest = questOf(turn.project, questRef);
    checkActive(turn.player);
    settleQuest(turn, quest);
    const row = change(turn, quest);
    return () => {
      const cycles = cyclesOf(turn, quest);
      return showRow(turn, quest, cycles.find(({ id }) => id === row?.id) ?? cycles.at(-1)!);
    };
  };
  return (await changePlayer(work, player, applied)).value;
};

/** Throws why a change is not possible, if it is not. */
const refuse = (problem: StartProblem | string | undefined): void => {
  if (typeof problem === "string") throw conflict("INVALID_STATE", problem);
  if (problem) throw conflict(problem.reason, problem.message);
};

/**
 * Starts a quest for a player.
 * @throws DomainError NOT_FOUND; CONFLICT: QUEST_NOT_AVAILABLE, LIMIT_REACHED, INSUFFICIENT_FUNDS,
 * PLAYER_INACTIVE
 */
export const startPlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, startedBy }: { questRef: string; startedBy: StartedBy },
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => refuse(startNow(turn, quest, startedBy)));

/**
 * Adds to what a step of a quest in progress has counted, or sets it.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE
 */
export const advancePlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, ...by }: { questRef: string; stepKey: string } & ({ amount: number } | { set: number }),
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    if (quest.phase === "PAUSED") throw conflict("INVALID_STATE", "the quest is PAUSED");
    refuse(advanceNow(turn, quest, by));
  });

/** Ends a quest in progress at the player's wish. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE */
export const abandonPlayerQuest = (work: Work, player: Ref, questRef: string): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => refuse(endNow(turn, quest)));

/** Why nothing can be claimed: `last` is the last cycle that was asked for. */
const noClaim = (last: QuestRow | undefined, cycleKey: string | undefined): Error => {
  if (last?.state === "CLAIMED") return conflict("ALREADY_CLAIMED", "the rewards have been claimed");
  if (last?.state === "EXPIRED" && last.completedMs !== null)
    return conflict("CLAIM_EXPIRED", "the time to claim the rewards is over");
  const which = cycleKey === undefined ? "the quest" : `the cycle ${cycleKey}`;
  const is = last ? `is ${last.state}` : "has nothing to claim";
  return conflict("INVALID_STATE", `${which} is not completed: it ${is}`);
};

/**
 * Claims the rewards of a completed quest; of several cycles those of the one that is named, or the oldest.
 * @throws DomainError NOT_FOUND; CONFLICT: ALREADY_CLAIMED, CLAIM_EXPIRED, INVALID_STATE
 */
export const claimPlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, cycleKey }: { questRef: string; cycleKey?: string | undefined },
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    const named = cyclesOf(turn, quest).filter((one) => cycleKey === undefined || one.cycleKey === cycleKey);
    const row = named.find((one) => one.state === "COMPLETED");
    if (!row) throw noClaim(named.at(-1), cycleKey);
    claimQuest(turn, doneBy(quest, row), row);
    return row;
  });

/**
 * Puts a quest back, so that it can be started again in its cycle; rewards of steps are not granted again.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE
 */
export const resetPlayerQuest = (work: Work, player: Ref, questRef: string): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => refuse(resetNow(turn, quest)));

/** Ends a quest in progress as FAILED. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE */
export const failPlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, cause }: { questRef: string; cause: Cause },
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => refuse(endNow(turn, quest, cause)));

/**
 * Completes a quest whatever its steps have counted, with all rewards; it is started where it may be.
 * @throws DomainError NOT_FOUND; CONFLICT: QUEST_NOT_AVAILABLE, LIMIT_REACHED
 */
export const completePlayerQuest = (work: Work, player: Ref, questRef: string): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => refuse(completeNow(turn, quest, "API")));

/** `state`, `cycleKey`: those to be listed or counted; default: all. */
type CycleQuery = { state?: StoredState | undefined; cycleKey?: string | undefined };

const rowsOf = ({ projectId, key }: Definition, { state, cycleKey }: CycleQuery) => sql`
  player_quests q where q.project_id = ${projectId} and q.quest_key = ${key}
    and ${state === undefined ? sql`true` : sql`q.state = ${state}`}
    and ${cycleKey === undefined ? sql`true` : sql`q.cycle_key = ${cycleKey}`}`;

export const CycleState = z.enum(STORED_STATES).meta({
  description: "RESET: it was put back, and may be started again in its cycle",
});

export const ParticipantBody = Person.extend({
  id: z.uuid(),
  questVersion: z.int(),
  cycleKey: z.string(),
  state: CycleState,
  percent: z.int(),
  stepsDone: z.array(z.string()).meta({ description: "Keys of the steps that are done" }),
  startedAt: z.iso.datetime(),
  completedAt: z.iso.datetime().nullable(),
  claimedAt: z.iso.datetime().nullable(),
}).meta({ id: "QuestParticipant" });
type Row = Omit<RowOf<z.output<typeof ParticipantBody>>, "stepsDone"> & { doc: Pick<QuestRow, "steps"> };

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

const participantOrder = (query: Ordered<SortOf<typeof PARTICIPANT_ORDERS>>) =>
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
      select q.* from ${listed} order by ${participantOrder(query)}
      limit ${query.limit} offset ${offsetOf(query)}) q
    join players p on p.project_id = q.project_id and p.id = q.player_id
    order by ${participantOrder(query)}`.execute(work.db);
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
