import { firstZone } from "../../kernel/zones.ts";
import { periodAt, periodStart } from "../streaks/periods.ts";
import { asReceived } from "../pauses.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { EventContext } from "../rule-event.ts";
import type { CompiledAdventure, CompiledItem } from "./compile.ts";
import { type AdventureRow, hasJoined, wholePoints } from "./row.ts";

/** Returns whether an adventure runs at a moment: players can join and get further. */
export const isRunning = ({ phase, fromMs, endMs }: CompiledAdventure, atMs: number): boolean =>
  phase === "RUNNING" && atMs >= fromMs && atMs < endMs;

/** Returns the points that an event gives to players who take part; never less than none. */
export const pointsOfEvent = (adventure: CompiledAdventure, context: EventContext): number => {
  let points = 0;
  for (const { sampleOf, pointsPerUnit } of adventure.sourcesFor(context.event.type)) {
    const sample = sampleOf(context);
    if (typeof sample === "number" && sample > 0) points += sample * pointsPerUnit;
  }
  return points;
};

/** Returns the player's row as it is now. */
export const rowOf = ({ player }: Pick<PlanTurn, "player">, { key }: CompiledAdventure) =>
  player.adventures.get(key);

const DAYS = { unit: "DAY", dayStartsMs: 0 } as const;

/** Returns when an item is unlocked by time alone; Infinity for one that waits for something else. */
export const unlocksMs = (
  { player, project }: Pick<PlanTurn, "player" | "project">,
  { definition: { timezone } }: CompiledAdventure,
  { row, item }: { row: AdventureRow | undefined; item: CompiledItem },
): number => {
  const { unlock } = item.definition;
  if (unlock.mode === "AT_DATE") return item.atMs;
  if (unlock.mode !== "DAY_OFFSET") return Infinity;
  if (unlock.days === 0) return -Infinity;
  if (row?.startedMs === undefined || row.startedMs === null) return Infinity;
  const zone = firstZone(timezone, player.timezone, project.timezone);
  return periodStart(DAYS, zone, periodAt(DAYS, zone, row.startedMs) + unlock.days);
};

const meets = (turn: PlanTurn, adventure: CompiledAdventure, item: CompiledItem): boolean => {
  const row = rowOf(turn, adventure);
  const { unlock } = item.definition;
  if (unlock.mode === "POINTS") return row !== undefined && wholePoints(row) >= unlock.points;
  if (unlock.mode === "AT_DATE" || unlock.mode === "DAY_OFFSET")
    return turn.event.at >= unlocksMs(turn, adventure, { row, item });
  return item.after.every((key) => row?.items[key] !== undefined);
};

/**
 * Returns whether an item is unlocked for the turn's player at its time. Once unlocked, it stays so; what
 * time unlocks follows the event's time, also where a later one was seen already.
 */
export const isUnlocked = (turn: PlanTurn, adventure: CompiledAdventure, item: CompiledItem): boolean => {
  const row = rowOf(turn, adventure);
  const { questKey, unlock } = item.definition;
  const isTimed = unlock.mode === "AT_DATE" || unlock.mode === "DAY_OFFSET";
  if (!isTimed && row?.unlocked.includes(questKey) === true) return true;
  const isClosed = !hasJoined(row) && adventure.definition.join === "MANUAL";
  return !isClosed && meets(turn, adventure, item);
};

/** Returns whether an adventure runs for the turn's player: it is offered, or the player has joined it. */
export const runsFor = (turn: PlanTurn, adventure: CompiledAdventure): boolean =>
  isRunning(adventure, turn.event.at) && (hasJoined(rowOf(turn, adventure)) || adventure.isForPlayer(turn));

/** Steps of asking one adventure. */
const ASK_STEPS = 4;

/**
 * Returns whether adventures let a quest be started: at least one of those it belongs to runs for the player,
 * and each that does has unlocked it. A quest of no adventure is always open.
 */
export const isQuestOpen = (turn: PlanTurn, questKey: string): boolean => {
  const adventures = turn.project.adventures.ofQuest(questKey);
  if (adventures.length === 0) return true;
  turn.root.steps.spend(ASK_STEPS * adventures.length);
  const running = adventures.filter((adventure) => runsFor(turn, asReceived(adventure, turn)));
  return (
    running.length > 0 &&
    running.every((adventure) => isUnlocked(turn, adventure, adventure.items.get(questKey)!))
  );
};

/** Returns the keys of the items that a player has done. */
export const doneItems = ({ items }: CompiledAdventure, row: AdventureRow | undefined): string[] =>
  [...items.keys()].filter((key) => row?.items[key] !== undefined);

/** Returns how many of what completes an adventure a player has, and needs. */
export const completionOf = (
  adventure: CompiledAdventure,
  row: AdventureRow | undefined,
): { has: number; needs: number } => {
  const { completion, items } = adventure.definition;
  if (completion.mode === "POINTS") return { has: row ? wholePoints(row) : 0, needs: completion.value! };
  const done = doneItems(adventure, row);
  if (completion.mode === "COUNT") return { has: done.length, needs: completion.value! };
  const required = items.filter(({ optional }) => !optional).map(({ questKey }) => questKey);
  return { has: required.filter((key) => done.includes(key)).length, needs: required.length };
};
