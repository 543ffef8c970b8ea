import type { EventData } from "../../kernel/events/domain-events.ts";
import { derive, publish } from "../emit.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledAdventure } from "./compile.ts";
import { isRunning, rowOf, unlocksMs } from "./context.ts";
import { type AdventureRow, hasJoined } from "./row.ts";

type AdventureEvent =
  | "adventure.started"
  | "adventure.quest_unlocked"
  | "adventure.tier_reached"
  | "adventure.completed"
  | "adventure.claimed";

/** Fields by which events of adventures name their subject. */
export const subjectOf = ({ player }: PlanTurn, { key }: CompiledAdventure) => ({
  playerId: player.id,
  externalUserId: player.externalUserId,
  adventureKey: key,
});

/** Publishes a change of an adventure: its line in the player's stream is written at the end of the pass. */
export const emitAdventure = <T extends AdventureEvent>(
  turn: PlanTurn,
  type: T,
  data: EventData<T>,
): void => {
  publish(turn, type, data, { isSilent: true });
  derive(turn, type, data);
};

/** Returns when the next item is unlocked by time alone, after the turn's time; Infinity for never. */
const nextUnlockMs = (turn: PlanTurn, adventure: CompiledAdventure, row: AdventureRow): number => {
  if (!hasJoined(row) || !isRunning(adventure, turn.event.at)) return Infinity;
  const times = [...adventure.items.values()]
    .filter(({ definition }) => !row.unlocked.includes(definition.questKey))
    .map((item) => unlocksMs(turn, adventure, { row, item }))
    .filter((ms) => ms > turn.event.at && ms < adventure.endMs);
  return Math.min(Infinity, ...times);
};

const endsMs = ({ endMs, claimMs }: CompiledAdventure, { state }: AdventureRow): number => {
  if (state === "IN_PROGRESS" || state === "WAITING") return endMs;
  return state === "COMPLETED" ? claimMs : Infinity;
};

const dueOf = (turn: PlanTurn, adventure: CompiledAdventure, row: AdventureRow): number | null => {
  if (row.state === "EXPIRED") return null;
  const dueMs = Math.min(endsMs(adventure, row), nextUnlockMs(turn, adventure, row));
  return Number.isFinite(dueMs) ? dueMs : null;
};

/** Stores the player's row, and remembers what it was when the pass began. */
export const storeAdventure = (turn: PlanTurn, adventure: CompiledAdventure, row: AdventureRow): void => {
  const { player, root } = turn;
  const { key, version } = adventure;
  const before = (root.adventures ??= new Map());
  if (!before.has(key)) before.set(key, rowOf(turn, adventure));
  const dueMs = dueOf(turn, adventure, row);
  player.adventures.set(key, { ...row, version, dueMs, isChanged: true });
  player.dirty.adventures.add(key);
};

/** Changes fields of the player's row, which must be there. */
export const updateAdventure = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  fields: Partial<AdventureRow>,
): void => storeAdventure(turn, adventure, { ...rowOf(turn, adventure)!, ...fields });
