import { derive, publish } from "./emit.ts";
import type { PlayerState } from "./player-state.ts";
import type { RewardBundle } from "./rewards/bundle.ts";
import { grantBundle } from "./rewards/shared-keys.ts";
import { causeOf, type Turn } from "./turn.ts";
import type { EventData, EventType } from "../kernel/events/domain-events.ts";

type Goals = "quests" | "adventures";
type Held<K extends Goals> = PlayerState[K] extends Map<string, infer V> ? V : never;

/** Stores a player's quest or adventure, and remembers what it was when the pass began. */
export const storeGoal = <K extends Goals>(turn: Turn, kind: K, key: string, now: Held<K>): void => {
  const { player, root } = turn;
  const held: Map<string, unknown> = player[kind];
  const before: Map<string, unknown> = (root[kind] ??= new Map());
  if (!before.has(key)) before.set(key, held.get(key));
  held.set(key, now);
  player.dirty[kind].add(key);
};

/** Publishes a change of a goal: its line in the player's stream is written at the end of the pass. */
export const emitGoal = <T extends EventType>(turn: Turn, type: T, data: EventData<T>): void => {
  publish(turn, type, data, { isSilent: true });
  derive(turn, type, data);
};

const KINDS = { QUEST: "q", ADVENTURE: "adv" } as const;

/** What a player's goal gives or takes; `row`: of the player. */
type Giving = { key: string; row: { id: string; again?: number }; what: string };

/** Returns how that stands in the ledger. Its key names the row, which gives it once, and again after a revert. */
export const givenBy = (turn: Turn, kind: keyof typeof KINDS, { key, row, what }: Giving) => ({
  cause: causeOf(turn, kind, key),
  key: `${KINDS[kind]}:${row.id}:${what}${row.again === undefined ? "" : `~${row.again}`}`,
  reason: `${kind.toLowerCase()}:${key}`,
});

/** Grants a bundle of a goal. */
export const giveRewards = (
  turn: Turn,
  kind: keyof typeof KINDS,
  { bundle, ...giving }: Giving & { bundle: RewardBundle },
): void => grantBundle(turn, { bundle, ...givenBy(turn, kind, giving) });
