import type { CompiledDefinitions } from "../compiled-definitions.ts";
import type { Turn } from "../turn.ts";
import { createTypeIndex } from "../language/patterns.ts";
import { firstZone } from "../../kernel/zones.ts";
import { announce, storeStreak } from "./announce.ts";
import type { CompiledStreak } from "./compile.ts";
import { qualify } from "./qualify.ts";
import { adoptZone, settle, type ZoneChange } from "./settle.ts";
import { type Settled, type Streak, untouched } from "./state.ts";

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
  const { project, event, root } = turn;
  if (project.streaks.size === 0) return;
  const { upkeep } = root.accounts;
  for (const streak of project.streaksByEventType(event.type)) {
    if (upkeep.isSpent)
      return turn.warn(`out of steps: streak ${streak.definition.key} and what follows do not count`);
    const before = upkeep.spent;
    upkeep.spend(streak.steps);
    advance(turn, streak);
    upkeep.recordSpender(streak.spender, before);
  }
};

const advance = (turn: Turn, streak: CompiledStreak): void => {
  const before = stateOf(streak, turn);
  const { state, steps } = qualify(streak, before, { context: turn, zone: zoneOf(streak, turn) });
  if (state === before) return;
  storeStreak(turn, streak, state);
  announce(turn, streak, steps);
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

/** Returns a streak's measure at the event's time, settled; undefined for an unknown streak. */
export const streakMeasure = (
  turn: Turn,
  streakKey: string,
  measure: "current" | "longest" | "freezes",
): number | undefined => {
  const streak = turn.project.streaks.get(streakKey);
  return streak && settledAt(streak, turn, turn.event.at).state[measure];
};
