import { sql } from "kysely";
import { z } from "zod";
import type { Definition } from "../../economy/definitions/definitions.ts";
import { needsOf } from "../../evaluation/language/document.ts";
import { patternsOf } from "../../evaluation/language/patterns.ts";
import {
  type CompiledMetric,
  compileMetric,
  type CounterState,
  type Metric,
} from "../../evaluation/metrics/compile.ts";
import { foldEvents } from "../../evaluation/metrics/count.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { advanceByCounts } from "../../evaluation/quests/advance.ts";
import { type CompiledQuest, compileQuest } from "../../evaluation/quests/compile.ts";
import type { Quest } from "../../evaluation/quests/quest.ts";
import { isWithinRoom, withoutUnread } from "../../evaluation/turn.ts";
import { DESIGNERS } from "../../kernel/caller.ts";
import { invalid } from "../../kernel/errors.ts";
import { DERIVED_EVENT_TYPES } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { Pace } from "../../kernel/slices.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import { jobKind, queueJob, type Step } from "../../long-work/project-jobs.ts";
import { changePlayers } from "../../progression/change.ts";
import { loadPage } from "../../progression/load-states.ts";
import { lockPlayersById } from "../../progression/load.ts";
import { docPart } from "../../progression/parts/part.ts";
import { findPlan } from "../../progression/plan.ts";
import {
  type HistoryDigest,
  type HistoryEvent,
  NO_EVENTS,
  playerHistory,
  readDigest,
  withEvents,
} from "./history.ts";

/** Number of players per step; their events are not processed meanwhile. */
const PLAYERS_AT_ONCE = 50;
/**
 * Number of events after which a step begins no further player; a longer history continues in the next one.
 */
const EVENTS_AT_ONCE = 10_000;
/** Time of a step, in ms: players are locked meanwhile. */
const STEP_MS = 2_000;
/** Number of events counted between two pauses. */
const EVENTS_PER_REST = 50;
/** Maximum restarts of a player whose history has changed while it was counted in several steps. */
const RESTARTS_MAX = 5;

/** A player whose history is longer than a step: the partial count, and where it continues. */
const Part = z.object({
  playerId: z.string(),
  after: z.string(),
  /** By id of the counter. */
  states: z.record(z.string(), z.unknown()),
  count: z.number(),
  xor: z.number(),
  restarts: z.number(),
});
type Part = z.output<typeof Part>;

/** What a backfill keeps between its steps. */
const State = z.object({
  after: z.string().default(NIL_ID),
  part: Part.optional(),
  unsettled: z.number().default(0),
  full: z.number().default(0),
  players: z.number().default(0),
  changed: z.number().default(0),
  events: z.number().default(0),
  /** Number of players at the start, for the progress; counted up to a bound. */
  total: z.number().optional(),
});

/** Whether a metric counts derived events, which are not stored as tracked events are. */
const countsDerived = ({ eventTypes }: Metric): boolean =>
  [...DERIVED_EVENT_TYPES].some((type) => patternsOf(type).some((pattern) => eventTypes.includes(pattern)));

/** Returns what a backfill has done so far, as its result shows it. */
const resultOf = ({ players, changed, events, unsettled, full }: z.output<typeof State>): Json => ({
  players,
  changed,
  events,
  ...(unsettled > 0 ? { unsettled } : {}),
  ...(full > 0 ? { full } : {}),
});

/** Recounts: what makes the counters, and follows the players whose counters are made. */
type Recounting = {
  /** Undefined where what they belong to does not run any more, as `gone` says. */
  metrics: readonly Metric[] | undefined;
  gone: string;
  /** Called with the players whose counters have been made anew, in the same transaction. */
  follow?(playerIds: readonly string[]): Promise<void>;
};

/**
 * Makes a step of counting what players did before: their counters are made anew from all of their processed
 * events, under their locks. Processed events are counted exactly once, waiting ones are counted when they
 * are processed. Idempotent. A history that is longer than a step is counted in several, and written by the
 * last.
 */
const recountNext = async (
  work: Work,
  { projectId, state: before }: { projectId: string; state: Json },
  recountingOf: (plan: ProjectPlan) => Recounting,
): Promise<Step> => {
  const plan = await findPlan(work, projectId);
  if (!plan) return { result: { note: "the project is gone" } };
  const state = State.parse(before);
  const { metrics, gone, follow } = recountingOf(plan);
  const result = {
    ...resultOf(state),
    notRebuilt: [
      ...new Set((metrics ?? []).filter(countsDerived).map(({ eventTypes }) => eventTypes.join(", "))),
    ],
  };
  if (!metrics) return { result: { ...result, note: gone } };
  const compiled = metrics.filter((metric) => !countsDerived(metric)).map((metric) => compileMetric(metric));
  // Several may read one counter.
  const counters = [...new Map(compiled.map((counter) => [counter.id, counter])).values()];
  const { after, part, players, changed, events, unsettled, full } = state;
  const ids = counters.length === 0 ? [] : await nextPlayers(work, projectId, after);
  if (ids.length === 0) return { result };
  const total = state.total ?? (await countRows(work, sql`players where project_id = ${projectId}`)).total;
  const done = await recount(work, plan, { ids, counters, part });
  await follow?.(firstUpTo(ids, done.last));
  const next = {
    after: done.last ?? after,
    ...(done.left ? { part: done.left } : {}),
    players: players + done.players,
    changed: changed + done.changed,
    events: events + done.events,
    unsettled: unsettled + done.unsettled,
    full: full + done.full,
    total,
  };
  return { state: next, progress: (100 * next.players) / Math.max(total, next.players) };
};

/** Returns the first ids, up to one of them; none without it. */
const firstUpTo = (ids: readonly string[], last: string | undefined): string[] =>
  last === undefined ? [] : ids.slice(0, ids.indexOf(last) + 1);

const nextPlayers = async ({ db }: Work, projectId: string, after: string): Promise<string[]> => {
  const found = await sql<{ id: string }>`
    select id from players where project_id = ${projectId} and id > ${after}::uuid and merged_into is null
    order by id limit ${PLAYERS_AT_ONCE}`.execute(db);
  return found.rows.map(({ id }) => id);
};

type Recount = { ids: readonly string[]; counters: readonly CompiledMetric[]; part: Part | undefined };

const recount = async (work: Work, plan: ProjectPlan, { ids, counters, part }: Recount) => {
  const { projectId } = plan;
  const locked = await lockPlayersById(work, projectId, ids);
  const own = ids.flatMap((id) => locked.get(id) ?? []).filter((player, i, all) => all.indexOf(player) === i);
  const players = await loadPage(work, own, plan, [docPart]);
  const loaded = new Set(players);
  const none = { players: 0, changed: 0, events: 0, unsettled: 0, full: 0 };
  const done = { last: undefined as string | undefined, ...none };
  const pace = new Pace(STEP_MS);
  let left: Part | undefined;
  for (const id of ids) {
    const player = locked.get(id);
    // A player who was merged meanwhile is represented by another one.
    if (player?.id === id) {
      if (!loaded.has(player)) break;
      const begun = part?.playerId === id ? part : undefined;
      const counted = await recountPlayer(work, plan, { player, counters, pace, part: begun });
      done.events += counted.events;
      done.unsettled += Number(counted.isUnsettled === true);
      done.full += Number(counted.isFull === true);
      left = counted.left;
      if (left) break;
    }
    done.last = id;
    done.players++;
    if (done.events >= EVENTS_AT_ONCE || pace.isOver) break;
  }
  const changed = players.filter(({ dirty }) => dirty.doc);
  done.changed = changed.length;
  await saveDocs(work, changed);
  return { ...done, left };
};

type Recounted = {
  player: PlayerState;
  counters: readonly CompiledMetric[];
  pace: Pace;
  part: Part | undefined;
};

/** `events`: number of events read; `left`: where the next step continues with the player. */
type Counted = { events: number; left?: Part; isUnsettled?: boolean; isFull?: boolean };

/**
 * Counts the history of a player within one step. A partial count of earlier steps is reused only if the
 * events so far are unchanged; otherwise it starts over.
 */
const recountPlayer = async (work: Work, plan: ProjectPlan, recounted: Recounted): Promise<Counted> => {
  const { player, counters, pace, part } = recounted;
  const { projectId } = plan;
  const playerId = player.id;
  const begun: Part = part ?? { playerId, after: NIL_ID, states: {}, ...NO_EVENTS, restarts: 0 };
  const states = new Map(Object.entries(begun.states as Record<string, CounterState>));
  const restarts = begun.restarts;
  let digest: HistoryDigest = begun;
  let { after } = begun;
  const read = (): number => digest.count - begun.count;
  for await (const page of playerHistory(work, { projectId, playerId }, { afterId: after })) {
    for (let from = 0; from < page.length; from += EVENTS_PER_REST) {
      if (read() > 0 && (read() >= EVENTS_AT_ONCE || pace.isOver))
        return {
          events: read(),
          left: { playerId, after, states: Object.fromEntries(states), ...digest, restarts },
        };
      const some = page.slice(from, from + EVENTS_PER_REST);
      await count(some, { whose: { player, project: plan }, counters, states, pace });
      digest = withEvents(digest, some);
      after = some.at(-1)!.id;
    }
  }
  if (part && !(await isStill(work, { projectId, playerId, upTo: after }, digest))) {
    if (restarts === RESTARTS_MAX) return { events: read(), isUnsettled: true };
    return { events: read(), left: { ...NOTHING_YET, playerId, restarts: restarts + 1 } };
  }
  return { events: read(), isFull: !keep(plan, player, { counters, states }) };
};

const NOTHING_YET = { after: NIL_ID, states: {}, ...NO_EVENTS };

const isStill = async (
  work: Work,
  upTo: Parameters<typeof readDigest>[1],
  { count: known, xor }: HistoryDigest,
): Promise<boolean> => {
  const now = await readDigest(work, upTo);
  return now.count === known && now.xor === xor;
};

type Counting = {
  whose: { player: PlayerState; project: ProjectPlan };
  counters: readonly CompiledMetric[];
  states: Map<string, CounterState>;
  pace: Pace;
};

const count = async (
  events: readonly HistoryEvent[],
  { whose, counters, states, pace }: Counting,
): Promise<void> => {
  for (const counter of counters) {
    const state = foldEvents(counter, whose, events, { state: states.get(counter.id) });
    if (state !== undefined) states.set(counter.id, state);
    await pace.pause();
  }
};

/** @returns whether the result fits; otherwise the counters stay unchanged */
const keep = (
  plan: ProjectPlan,
  player: PlayerState,
  { counters, states }: Pick<Counting, "counters" | "states">,
): boolean => {
  const kept = { ...player.doc.c };
  let isChanged = false;
  for (const { id } of counters) {
    const state = states.get(id);
    if (JSON.stringify(state) === JSON.stringify(kept[id])) continue;
    if (state === undefined) delete kept[id];
    else kept[id] = state;
    isChanged = true;
  }
  if (!isChanged) return true;
  const counted = { ...player.doc, c: kept };
  const doc = isWithinRoom(counted) ? counted : withoutUnread(plan, counted);
  if (!isWithinRoom(doc)) return false;
  player.doc = doc;
  player.dirty.doc = true;
  return true;
};

/** Saves the players' documents alone: nothing else of them has changed. */
const saveDocs = async ({ db, now }: Work, players: readonly PlayerState[]): Promise<void> => {
  for (const { rows, write } of docPart.arms(players)) {
    if (rows.length === 0) continue;
    await write(sql`${JSON.stringify(rows)}`, sql`${now.toISOString()}::timestamptz`).execute(db);
  }
};

/** Counts what players did before a rule was published: the counters that it reads. See `recountNext`. */
export const backfill = jobKind({
  kind: "BACKFILL",
  access: { scope: "rules:manage", roles: DESIGNERS },
  params: z.object({ ruleId: z.uuid() }),
  step: (work, { params, ...of }) =>
    recountNext(work, of, ({ rules }) => {
      const rule = rules.all.find(({ id }) => id === params.ruleId);
      return { metrics: rule && needsOf(rule.definition).metrics, gone: "the rule does not run any more" };
    }),
});

/**
 * Counts what players did before a quest was published, for its steps of LIFETIME and the counters of its
 * conditions, as `recountNext` does. Who has counted something begins it, if it starts by itself, and who has
 * reached a target has done the step: with rewards, once, as if the counters had known it when it started.
 */
export const questBackfill = jobKind({
  kind: "QUEST_BACKFILL",
  access: { scope: "quests:manage", roles: DESIGNERS },
  params: z.object({ questId: z.uuid() }),
  step: (work, { params, ...of }) =>
    recountNext(work, of, (plan) => {
      const quest = [...plan.quests.byKey.values()].find(({ id }) => id === params.questId);
      const isThere = quest !== undefined && quest.phase !== "ENDED";
      return {
        metrics: isThere ? quest.metrics : undefined,
        gone: "the quest does not run any more",
        follow: (playerIds) => advance(work, plan, { quest: quest!, playerIds }),
      };
    }),
});

/**
 * Queues the backfill of a quest that has just been published. @returns the job's id
 * @throws DomainError VALIDATION_ERROR for a quest that reads no counter; CONFLICT JOB_LIMIT
 */
export const orderQuestBackfill = async (
  work: Work,
  { projectId, quest, createdBy }: { projectId: string; quest: Definition; createdBy: string },
): Promise<string> => {
  const { metrics } = compileQuest({ id: quest.id, definition: quest.definition as unknown as Quest });
  if (metrics.length === 0)
    throw invalid("backfill", "nothing to count: no step has a countFrom of LIFETIME, or reads a counter");
  const job = { kind: questBackfill, params: { questId: quest.id }, createdBy };
  return (await queueJob(work, projectId, job)).id;
};

const advance = async (
  work: Work,
  plan: ProjectPlan,
  { quest, playerIds }: { quest: CompiledQuest; playerIds: readonly string[] },
): Promise<void> => {
  await changePlayers(work, plan.projectId, playerIds, (turn) => {
    const isAdvanced = advanceByCounts(turn, quest);
    // Nothing else has happened to the player.
    if (!isAdvanced) turn.root.isTimeOnly = true;
  });
};
