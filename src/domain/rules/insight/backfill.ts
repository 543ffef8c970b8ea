import { sql } from "kysely";
import { z } from "zod";
import { DESIGNERS } from "../../access.ts";
import { countRows } from "../../counting.ts";
import { DERIVED_EVENT_TYPES } from "../../events.ts";
import { type CounterState } from "../../metrics/counters.ts";
import { type CompiledMetric, compileMetric, foldEvents, type Metric } from "../../metrics/metric.ts";
import { PacedBudget } from "../../pace.ts";
import { jobKind } from "../../project-jobs/job-kind.ts";
import { loadStates, lockPlayersById } from "../../progression/load.ts";
import { doc as docPart } from "../../progression/parts/doc.ts";
import { changePlans } from "../../progression/change.ts";
import { loadPlans, type ProjectPlan } from "../../progression/plan.ts";
import type { PlayerState } from "../../progression/turn.ts";
import type { Work } from "../../work.ts";
import { playerHistory } from "./history.ts";
import { needsOf } from "../language/needs.ts";
import { patternsOf } from "../language/patterns.ts";

/** Players of one step, who wait for it: their events are not processed meanwhile. */
const PLAYERS_AT_ONCE = 50;
/** Events after which a step takes no further player. */
const EVENTS_AT_ONCE = 10_000;
/** Steps after which a step of the job takes no further player: about 2 s, for which players are locked. */
const STEPS_AT_ONCE = 20_000_000;
/** Events that are counted between two rests. */
const EVENTS_PER_REST = 50;
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

const State = z.object({
  after: z.string().default(FIRST_ID),
  players: z.number().default(0),
  changed: z.number().default(0),
  events: z.number().default(0),
  /** Players when it began, for the progress; counted up to a bound. */
  total: z.number().optional(),
});

/** Whether a metric hears what events bring about, which is not kept as events are. */
const hearsDerived = ({ eventTypes }: Metric): boolean =>
  [...DERIVED_EVENT_TYPES].some((type) => patternsOf(type).some((pattern) => eventTypes.includes(pattern)));

/** The counters that a rule reads, as far as they can be counted from stored events. */
const countersOf = ({ rules }: ProjectPlan, ruleId: string) => {
  const rule = rules.all.find(({ id }) => id === ruleId);
  const metrics = rule ? needsOf(rule.definition).metrics : [];
  return {
    isRunning: rule !== undefined,
    counters: metrics.filter((metric) => !hearsDerived(metric)).map((metric) => compileMetric(metric)),
    notRebuilt: metrics.filter(hearsDerived).map(({ eventTypes }) => eventTypes.join(", ")),
  };
};

/**
 * Counts what players did before a rule was published. A player's counters are made anew from all of the
 * player's processed events, under the player's lock: what is processed is in them once, what waits comes
 * later and counts by itself. Doing it again gives the same.
 */
export const backfill = jobKind({
  kind: "BACKFILL",
  access: { scope: "rules:manage", roles: DESIGNERS },
  params: z.object({ ruleId: z.uuid() }),
  step: async (work, { projectId, params, state }) => {
    const { after, players, changed, events, ...begun } = State.parse(state);
    const plan = (await loadPlans(work, [projectId], changePlans)).get(projectId);
    if (!plan) return { result: { players, changed, note: "the project is gone" } };
    const { isRunning, counters, notRebuilt } = countersOf(plan, params.ruleId);
    const result = { players, changed, events, notRebuilt };
    if (!isRunning) return { result: { ...result, note: "the rule does not run any more" } };
    const ids = counters.length === 0 ? [] : await nextPlayers(work, projectId, after);
    if (ids.length === 0) return { result };
    const total = begun.total ?? (await countRows(work, sql`players where project_id = ${projectId}`)).total;
    const done = await recount(work, plan, { ids, counters });
    const next = {
      after: done.last,
      players: players + done.players,
      changed: changed + done.changed,
      events: events + done.events,
      total,
    };
    return { state: next, progress: (100 * next.players) / Math.max(total, next.players) };
  },
});

const nextPlayers = async ({ db }: Work, projectId: string, after: string): Promise<string[]> => {
  const found = await sql<{ id: string }>`
    select id from players where project_id = ${projectId} and id > ${after}::uuid and merged_into is null
    order by id limit ${PLAYERS_AT_ONCE}`.execute(db);
  return found.rows.map(({ id }) => id);
};

type Recount = { ids: readonly string[]; counters: readonly CompiledMetric[] };

const recount = async (work: Work, plan: ProjectPlan, { ids, counters }: Recount) => {
  const { projectId } = plan;
  const locked = await lockPlayersById(work, projectId, ids);
  const players = [...new Set(locked.values())];
  await loadStates(work, players, [plan], [docPart]);
  const done = { last: ids.at(-1)!, players: 0, changed: 0, events: 0 };
  const steps = new PacedBudget(STEPS_AT_ONCE);
  for (const id of ids) {
    const player = locked.get(id);
    if (player) done.events += await recountPlayer(work, plan, { player, counters, steps });
    done.last = id;
    done.players++;
    if (done.events >= EVENTS_AT_ONCE || steps.isSpent) break;
  }
  const changed = players.filter(({ dirty }) => dirty.doc);
  done.changed = changed.length;
  await saveDocs(work, changed);
  return done;
};

/** @returns how many events were read */
const recountPlayer = async (
  work: Work,
  plan: ProjectPlan,
  {
    player,
    counters,
    steps,
  }: { player: PlayerState; counters: readonly CompiledMetric[]; steps: PacedBudget },
): Promise<number> => {
  const states = new Map<string, CounterState>();
  const whose = { player, project: plan };
  let events = 0;
  for await (const page of playerHistory(work, { projectId: plan.projectId, playerId: player.id })) {
    events += page.length;
    for (let from = 0; from < page.length; from += EVENTS_PER_REST) {
      const some = page.slice(from, from + EVENTS_PER_REST);
      for (const counter of counters) {
        const state = foldEvents(counter, whose, some, { state: states.get(counter.id), steps });
        if (state !== undefined) states.set(counter.id, state);
        await steps.rest();
      }
    }
  }
  const kept = { ...player.doc.c };
  for (const { id } of counters) {
    const state = states.get(id);
    if (JSON.stringify(state) === JSON.stringify(kept[id])) continue;
    if (state === undefined) delete kept[id];
    else kept[id] = state;
    player.dirty.doc = true;
  }
  player.doc = { ...player.doc, c: kept };
  return events;
};

/** The players' documents alone: nothing else of them has changed. */
const saveDocs = async ({ db, now }: Work, players: readonly PlayerState[]): Promise<void> => {
  for (const { rows, write } of docPart.arms(players)) {
    if (rows.length === 0) continue;
    await write(sql`${JSON.stringify(rows)}`, sql`${now.toISOString()}::timestamptz`).execute(db);
  }
};
