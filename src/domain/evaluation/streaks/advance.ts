import { createTypeIndex } from "../language/patterns.ts";
import type { CompiledDefinitions } from "../project-settings.ts";
import { grantBundle } from "../rewards/shared-keys.ts";
import {
  type ArchivedRun,
  type CompiledStreak,
  type LostRun,
  type Settled,
  type Step,
  type Streak,
  untouched,
  without,
} from "./compile.ts";
import { deadlineAfter, firstDate, lastDate, periodAt, periodName, periodsBetween } from "./periods.ts";
import { completeNow, qualify } from "./qualify.ts";
import { adoptZone, coveredOf, joinRuns, keeping, settle, type ZoneChange } from "./settle.ts";
import type { Streak as Definition } from "./streak.ts";
import { causeOf, playerOf, type Turn, write } from "../turn.ts";
import { newId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { firstZone } from "../../kernel/zones.ts";

const HOUR_MS = 3_600_000;

/** Returns until when a lost run can be repaired, in ms; undefined for never. */
export const repairableUntil = (
  { definition }: CompiledStreak,
  { brokenMs }: Pick<LostRun, "brokenMs">,
): number | undefined =>
  definition.repairWindowHours > 0 ? brokenMs + definition.repairWindowHours * HOUR_MS : undefined;

/** Returns the run that can be repaired at a moment; undefined when there is none. */
export const repairable = (streak: CompiledStreak, { doc }: Streak, atMs: number): LostRun | undefined => {
  const until = doc.lost && repairableUntil(streak, doc.lost);
  return until !== undefined && atMs < until ? doc.lost : undefined;
};

/** Returns the periods between a lost run and the current run, or else the current period. */
export const missedPeriods = (
  { calendar, definition }: CompiledStreak,
  { doc }: Streak,
  { lost, atMs }: { lost: LostRun; atMs: number },
): number[] => {
  if (definition.mode === "CONSECUTIVE") return [];
  return periodsBetween(coveredOf(lost), doc.run?.first ?? periodAt(calendar, doc.zone!, atMs));
};

/**
 * Restores a lost run and joins it with the current one. Periods in between count as frozen; without a
 * current run the player has until the end of the current period.
 */
export const repair = (
  streak: CompiledStreak,
  state: Streak,
  { lost, atMs, by }: { lost: LostRun; atMs: number; by: "PURCHASE" | "ADMIN" },
): Settled => {
  const { doc } = state;
  const bridged = missedPeriods(streak, state, { lost, atMs });
  const isOff = (period: number) => streak.calendar.isOff(period);
  const kept = keeping(
    lost,
    bridged.filter(isOff),
    bridged.filter((one) => !isOff(one)),
  );
  const run = joinRuns(kept, doc.run ?? { first: lost.first, last: lost.last, frozen: [], name: lost.name });
  const current = lost.length + state.current;
  const ownDeadlineMs = () =>
    lost.deadlineMs === null ? null : deadlineAfter(streak.calendar, doc.zone!, coveredOf(run));
  const steps: Step[] = [{ kind: "REPAIRED", current, by }];
  if (doc.run) steps.push({ kind: "REACHED", name: run.name, from: lost.length + 1, to: current });
  const repaired: Streak = {
    ...state,
    current,
    longest: Math.max(state.longest, current),
    deadlineMs: doc.run ? state.deadlineMs : ownDeadlineMs(),
    doc: { ...without(doc, "lost"), run },
  };
  return { state: repaired, steps };
};

/** Ends the current run and removes what could be repaired. Longest and freezes are kept. */
export const reset = (streak: CompiledStreak, state: Streak, atMs: number): Settled => {
  const { doc, current } = state;
  const steps: Step[] = [];
  if (doc.lost) steps.push({ kind: "ARCHIVED", run: doc.lost, by: doc.lost.by });
  if (doc.run) steps.push({ kind: "ARCHIVED", run: { ...doc.run, length: current }, by: "RESET" });
  const { run: _run, lost: _lost, progress: _progress, ...kept } = doc;
  const floor =
    streak.definition.mode === "CONSECUTIVE" ? atMs : periodAt(streak.calendar, doc.zone ?? "UTC", atMs);
  return { state: { ...state, current: 0, deadlineMs: null, doc: { ...kept, floor } }, steps };
};

/** Idle time after which a run that was over when it was written is settled. */
const QUIET_MS = 600_000;
/** Maximum runs whose reached milestones are remembered. */
const RUNS_REMEMBERED = 8;

/**
 * Returns when the sweeper must look at a streak: to warn the player, then to settle it. A run that was over
 * when it was written is imported history, and may be continued by further events.
 */
const dueOf = (streak: CompiledStreak, { deadlineMs, doc }: Streak, nowMs: number): number | undefined => {
  if (deadlineMs === null) return undefined;
  if (deadlineMs <= nowMs) return Math.max(nowMs + QUIET_MS, deadlineMs + streak.graceMs);
  return doc.warned === deadlineMs ? deadlineMs + streak.graceMs : deadlineMs - streak.riskMs;
};

/** Stores a streak in the player's state, to be saved. */
export const storeStreak = ({ player, nowMs }: Turn, streak: CompiledStreak, state: Streak): void => {
  const { key } = streak.definition;
  const { dueMs: _old, ...doc } = state.doc;
  const dueMs = dueOf(streak, state, nowMs);
  player.streaks.set(key, { ...state, doc: dueMs === undefined ? doc : { ...doc, dueMs } });
  player.dirty.streaks.add(key);
};

/** Publishes the changes of a streak, archives finished runs, and grants milestone rewards. */
export const announce = (turn: Turn, streak: CompiledStreak, steps: readonly Step[]): void => {
  for (const step of steps) {
    if (step.kind === "ARCHIVED") archive(turn, streak, step);
    else if (step.kind === "REACHED") reward(turn, streak, step);
    else publish(turn, streak, step);
  }
};

type PublishedStep = Exclude<Step, { kind: "ARCHIVED" | "REACHED" }>;

const subjectOf = (turn: Turn, { definition: { key } }: CompiledStreak) => ({
  ...playerOf(turn),
  streakKey: key,
});

const publish = (turn: Turn, streak: CompiledStreak, step: PublishedStep): void => {
  const { emit } = turn;
  const { period } = streak.definition;
  const subject = subjectOf(turn, streak);
  switch (step.kind) {
    case "EXTENDED": {
      const { current, longest, deadlineMs } = step;
      emit("player.streak_extended", {
        ...subject,
        current,
        longest,
        period: periodName(period, step.period),
        deadlineAt: isoOf(deadlineMs),
        milestone: milestonesAt(streak.definition, current).length > 0 ? current : null,
      });
      break;
    }
    case "FROZEN": {
      const { current, freezesLeft } = step;
      const name = periodName(period, step.period);
      emit("player.streak_frozen", { ...subject, current, period: name, freezesLeft });
      break;
    }
    case "BROKEN": {
      const until = repairableUntil(streak, step.lost) ?? null;
      emit("player.streak_broken", { ...subject, length: step.lost.length, repairableUntil: isoOf(until) });
      break;
    }
    case "REPAIRED":
      emit("player.streak_repaired", { ...subject, current: step.current, by: step.by });
  }
};

const archive = (turn: Turn, streak: CompiledStreak, step: Extract<Step, { kind: "ARCHIVED" }>): void => {
  const { id: playerId, projectId } = turn.player;
  const { key: streakKey } = streak.definition;
  const run = runOf(streak, step.run, step.by);
  write(turn, "streakRuns", { id: newId(), projectId, playerId, streakKey, ...run });
  if (step.by !== "RESET") return;
  const { length } = step.run;
  turn.emit("player.streak_broken", { ...subjectOf(turn, streak), length, repairableUntil: null });
};

/** Converts a run to dates. */
export const runOf = <By>(
  { calendar }: CompiledStreak,
  { first, last, length, frozen }: ArchivedRun,
  endedBy: By,
) => ({
  startedOn: firstDate(calendar, first),
  endedOn: lastDate(calendar, last),
  length,
  frozenPeriods: frozen.map((one) => periodName(calendar.unit, one)),
  endedBy,
});

const milestonesAt = ({ milestones }: Definition, current: number): Definition["milestones"] =>
  milestones.filter(
    ({ length, every }) =>
      length === current || (every !== undefined && current > length && (current - length) % every === 0),
  );

/** Grants the milestones of a run between two lengths, each only once. */
const reward = (
  turn: Turn,
  streak: CompiledStreak,
  { name, from, to }: Extract<Step, { kind: "REACHED" }>,
): void => {
  const { definition } = streak;
  const { key } = definition;
  if (definition.milestones.length === 0) return;
  const state: Streak = turn.player.streaks.get(key)!;
  const won = state.doc.won ?? [];
  const before = won.find(([run]) => run === name)?.[1] ?? 0;
  let reached = before;
  for (let length = Math.max(from, before + 1); length <= to; length++) {
    const milestones = milestonesAt(definition, length);
    if (milestones.length > 0) reached = length;
    milestones.forEach(({ rewards: bundle }, i) =>
      grantBundle(turn, {
        bundle,
        cause: causeOf(turn, "STREAK", key),
        key: `stk:${key}:${name}:${length}${i === 0 ? "" : `:${i}`}`,
        reason: `streak:${key}:${length}`,
      }),
    );
  }
  if (reached === before) return;
  const now: Streak = turn.player.streaks.get(key)!;
  const others = won.filter(([run]) => run !== name);
  const remembered = [...others, [name, reached] as const].slice(-RUNS_REMEMBERED);
  turn.player.streaks.set(key, { ...now, doc: { ...now.doc, won: remembered } });
};

/** Indexes streaks by the event types that they listen to. */
export const indexStreaks = (
  streaks: CompiledDefinitions["streaks"],
): CompiledDefinitions["streaksByEventType"] => {
  const listeners = [...streaks.values()].map((streak) => {
    const { qualify: counts, breakOn } = streak.definition;
    const patterns = counts.parts.flatMap(({ metric }) => metric.eventTypes);
    return { streak, patterns: [...patterns, ...(breakOn?.eventTypes ?? [])] };
  });
  return createTypeIndex(listeners, (found) => found.map(({ streak }) => streak));
};

type PlayerContext = {
  player: Pick<Turn["player"], "timezone" | "zoneChangedMs" | "streaks">;
  project: Pick<Turn["project"], "timezone">;
};

/** Returns the time zone of a player's streak now. */
export const zoneOf = ({ definition }: CompiledStreak, { player, project }: PlayerContext): ZoneChange => {
  if (definition.timezonePolicy === "PROJECT") return { zone: firstZone(project.timezone), changedMs: null };
  return { zone: firstZone(player.timezone, project.timezone), changedMs: player.zoneChangedMs };
};

/** Returns a player's stored streak. */
export const stateOf = (streak: CompiledStreak, { player }: PlayerContext): Streak =>
  player.streaks.get(streak.definition.key) ?? untouched(streak);

/** Returns a player's streak at a moment, in the player's zone. Nothing is saved or published. */
export const settledAt = (streak: CompiledStreak, owner: PlayerContext, atMs: number): Settled => {
  const adopted = adoptZone(streak, stateOf(streak, owner), zoneOf(streak, owner), atMs);
  const { state, steps } = settle(streak, adopted.state, atMs);
  return { state, steps: [...adopted.steps, ...steps] };
};

/** Step 2 of evaluation: settles and extends the streaks that the event's type counts for. */
export const advanceStreaks = (turn: Turn): void => {
  const { project, event } = turn;
  if (project.streaks.size === 0) return;
  for (const streak of project.streaksByEventType(event.type)) advance(turn, streak);
};

const advance = (turn: Turn, streak: CompiledStreak): void => {
  const before = stateOf(streak, turn);
  const { state, steps } = qualify(streak, before, { context: turn, zone: zoneOf(streak, turn) });
  if (state === before) return;
  storeStreak(turn, streak, state);
  announce(turn, streak, steps);
};

/** Days that are off now give a run more time. */
const withDaysOff = ({ calendar }: CompiledStreak, state: Streak): Streak => {
  const { run, zone } = state.doc;
  if (!run || state.deadlineMs === null) return state;
  const deadlineMs = Math.max(state.deadlineMs, deadlineAfter(calendar, zone!, coveredOf(run)));
  return { ...state, deadlineMs };
};

/**
 * Brings a streak that was edited to what it asks now: the period counts if its progress suffices, and the run
 * has the milestones that it has passed, of lengths beyond those that it was given any for.
 */
export const followEdit = (turn: Turn, key: string): void => {
  const streak = turn.project.streaks.get(key);
  if (!streak || turn.player.status !== "ACTIVE" || !turn.player.streaks.has(key)) return;
  const { nowMs } = turn;
  const settled = settledAt(streak, turn, nowMs);
  const { state, steps } = completeNow(streak, withDaysOff(streak, settled.state), nowMs);
  storeStreak(turn, streak, state);
  announce(turn, streak, [...settled.steps, ...steps]);
  const { run } = state.doc;
  if (run) announce(turn, streak, [{ kind: "REACHED", name: run.name, from: 1, to: state.current }]);
};

/**
 * Grants freezes of a streak, up to its maximum.
 * @returns how many were granted, 0 where the streak has none; undefined for an unknown streak
 */
export const grantFreezes = (turn: Turn, streakKey: string, amount: number): number | undefined => {
  const streak = turn.project.streaks.get(streakKey);
  if (!streak) return undefined;
  const { freeze } = streak.definition;
  if (!freeze?.enabled) return 0;
  const { state, steps } = settledAt(streak, turn, turn.event.at);
  const given = Math.max(0, Math.min(amount, freeze.max - state.freezes));
  if (given === 0) return 0;
  // Earlier missed periods stay missed: freezes count from now on.
  storeStreak(turn, streak, { ...state, freezes: state.freezes + given });
  announce(turn, streak, steps);
  return given;
};

export const STREAK_MEASURES = ["current", "longest", "freezes"] as const;
export type StreakMeasure = (typeof STREAK_MEASURES)[number];

/** Returns a streak's measure at the event's time, settled; undefined for an unknown streak. */
export const streakMeasure = (turn: Turn, streakKey: string, measure: StreakMeasure): number | undefined => {
  const streak = turn.project.streaks.get(streakKey);
  return streak && settledAt(streak, turn, turn.event.at).state[measure];
};
