import { sql } from "kysely";
import type { AggregateState } from "../evaluation/metrics/aggregates.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import { stateOf } from "../evaluation/streaks/advance.ts";
import type { CompiledStreak } from "../evaluation/streaks/compile.ts";
import { periodAt, periodName } from "../evaluation/streaks/periods.ts";
import { idFloor } from "../kernel/ids.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import type { HistoryEvent } from "../rules/insight/history.ts";
import type { HistoryVisitor } from "./read-history.ts";
import type { CausedEvent, RevertedEvent, StreakDay, StreakDays } from "./record.ts";
import { extensionsOf } from "./reverse-streaks.ts";

/** When streaks were defined, in ms by id: earlier events did not count for them. */
export type StreakStarts = ReadonlyMap<string, number>;

/** Reads when the project's streaks were defined. */
export const readStreakStarts = async (
  { db }: Work,
  { projectId, streaks }: ProjectPlan,
): Promise<StreakStarts> => {
  if (streaks.size === 0) return new Map();
  const found = await sql<{ id: string; at: Date | string }>`
    select id, created_at as at from definitions
    where project_id = ${projectId} and kind = 'streak' and status = 'ACTIVE'`.execute(db);
  return new Map(found.rows.map(({ id, at }) => [id, new Date(at).getTime()]));
};

type StreakPlayer = {
  plan: Pick<ProjectPlan, "streaks" | "timezone">;
  player: PlayerState;
  /** The player's own events that are reverted together. */
  parts: readonly { event: RevertedEvent; own: { emitted: readonly CausedEvent[] } }[];
  starts: StreakStarts;
};

/** Gathers the progress of streaks' periods from a player's other events. */
export type StreakGathering = HistoryVisitor & {
  /** To be called after the last event. By key of the streak and number of the period. */
  result(): Map<string, StreakDays>;
};

type Gathering = {
  streak: CompiledStreak;
  zone: string;
  floorId: string;
  days: Map<number, { states: (AggregateState | null)[]; isExtendedHere: boolean }>;
};

/**
 * Opens the computation of what other events have gathered in the periods that the events count for: of
 * streaks whose latest period is among them. A period that is complete counts no further events, so that its
 * stored progress does not say whether it is complete without some of them. Undefined where there is none.
 */
export const openStreakDays = (whose: StreakPlayer): StreakGathering | undefined => {
  const gatherings = [...whose.plan.streaks.values()].flatMap((streak) => gatheringOf(whose, streak) ?? []);
  if (gatherings.length === 0) return undefined;
  const reverted = new Set(whose.parts.map(({ event }) => event.id));
  return {
    visit: (other, steps) => {
      if (reverted.has(other.id)) return;
      for (const gathering of gatherings) gather(gathering, other, steps);
    },
    result: () =>
      new Map(
        gatherings.map(({ streak, days }) => [streak.definition.key, new Map<number, StreakDay>(days)]),
      ),
  };
};

/** Undefined where the streak loses nothing, or where it is not known what has counted. */
const gatheringOf = (
  { plan, player, parts, starts }: StreakPlayer,
  streak: CompiledStreak,
): Gathering | undefined => {
  const { definition, calendar, graceMs, id } = streak;
  const { run, zone, floor = -Infinity } = stateOf(streak, { player, project: plan }).doc;
  // In the time of grace, the period of an event depends on what had counted before it.
  if (definition.mode !== "PERIODIC" || graceMs > 0 || !run || zone === undefined) return undefined;
  const counted = parts.filter(({ event }) => streak.impactOf(event.type).parts.length > 0);
  const periods = counted.map(({ event }) => periodAt(calendar, zone, event.at));
  if (!periods.includes(run.last)) return undefined;
  const extended = new Set(
    parts
      .flatMap(({ own }) => extensionsOf(own.emitted))
      .filter(({ streakKey }) => streakKey === definition.key)
      .map(({ period }) => period),
  );
  const days: Gathering["days"] = new Map();
  for (const period of periods) {
    if (period <= floor) continue;
    const isExtendedHere = extended.has(periodName(definition.period, period));
    days.set(period, { states: streak.parts.map(() => null), isExtendedHere });
  }
  return { streak, zone, days, floorId: idFloor(starts.get(id) ?? 0) };
};

const gather = (
  { streak, zone, floorId, days }: Gathering,
  { id, type, at, properties }: HistoryEvent,
  steps: StepBudget,
): void => {
  const { parts } = streak.impactOf(type);
  // Ids are in order of arrival.
  if (parts.length === 0 || id < floorId) return;
  steps.spend(streak.steps);
  const day = days.get(periodAt(streak.calendar, zone, at));
  if (!day) return;
  const context = pastEvent({ id, type, at, properties }, steps);
  for (const part of parts) day.states[part] = streak.parts[part]!.add(day.states[part] ?? null, context);
};
