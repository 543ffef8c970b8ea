import { newId } from "../../kernel/ids.ts";
import { write } from "../event-steps.ts";
import type { Turn } from "../turn.ts";
import { grantBundle } from "../rewards/grant-bundle.ts";
import type { CompiledStreak } from "./compile.ts";
import { repairableUntil } from "./repair.ts";
import { firstDate, lastDate, periodName } from "./periods.ts";
import type { ArchivedRun, Step, Streak } from "./state.ts";
import type { Streak as Definition } from "./streak.ts";

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

const publish = ({ player, emit }: Turn, streak: CompiledStreak, step: PublishedStep): void => {
  const { key, period } = streak.definition;
  const subject = { playerId: player.id, externalUserId: player.externalUserId, streakKey: key };
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
      emit("player.streak_frozen", {
        ...subject,
        current,
        period: periodName(period, step.period),
        freezesLeft,
      });
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

const isoOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

const archive = (turn: Turn, streak: CompiledStreak, step: Extract<Step, { kind: "ARCHIVED" }>): void => {
  const { player, emit } = turn;
  const { key } = streak.definition;
  const { id: playerId, externalUserId, projectId } = player;
  const run = runOf(streak.definition, step.run, step.by);
  write(turn, "streakRuns", { id: newId(), projectId, playerId, streakKey: key, ...run });
  if (step.by === "RESET") {
    const { length } = step.run;
    emit("player.streak_broken", { playerId, externalUserId, streakKey: key, length, repairableUntil: null });
  }
};

/** Converts a run to dates. */
export const runOf = <By>(
  { period }: Definition,
  { first, last, length, frozen }: ArchivedRun,
  endedBy: By,
) => ({
  startedOn: firstDate(period, first),
  endedOn: lastDate(period, last),
  length,
  frozenPeriods: frozen.map((one) => periodName(period, one)),
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
    milestones.forEach(({ rewards }, i) => give(turn, { key, name, length, rewards, i }));
  }
  if (reached === before) return;
  const now: Streak = turn.player.streaks.get(key)!;
  const others = won.filter(([run]) => run !== name);
  const remembered = [...others, [name, reached] as const].slice(-RUNS_REMEMBERED);
  turn.player.streaks.set(key, { ...now, doc: { ...now.doc, won: remembered } });
};

type Given = {
  key: string;
  name: string;
  length: number;
  rewards: Definition["milestones"][number]["rewards"];
  i: number;
};

const give = (turn: Turn, { key, name, length, rewards, i }: Given): void => {
  const origin = turn.root.isTracked ? { rootEventId: turn.root.id } : {};
  grantBundle(turn, {
    bundle: rewards,
    cause: { kind: "STREAK", refKey: key, ...origin },
    key: `stk:${key}:${name}:${length}${i === 0 ? "" : `:${i}`}`,
    reason: `streak:${key}:${length}`,
  });
};
