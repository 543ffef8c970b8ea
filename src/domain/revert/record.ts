import type { Cause, Json } from "../kernel/events/events.ts";
import type { LedgerRow } from "../evaluation/effects.ts";

/** A tracked event that is to be taken back, as evaluation saw it. */
export type RevertedEvent = {
  id: string;
  type: string;
  /** The event's time in ms, no later than its arrival. */
  at: number;
  receivedMs: number;
  properties: Json;
  externalUserId: string;
};

/** A line of the ledger that an event has caused. */
export type CausedLine = Pick<LedgerRow, "id" | "seq" | "asset" | "currencyKey" | "amount" | "key" | "cause">;

/** A line of the log of badges; `isOfEvent`: the event that is taken back caused it. In order of time. */
export type LoggedAward = {
  badgeKey: string;
  tier: number;
  action: "AWARDED" | "REVOKED";
  serialNo: number | null;
  key: string;
  isOfEvent: boolean;
};

export type CausedGrant = {
  id: string;
  rewardKey: string;
  quantity: number;
  status: string;
  key: string;
  code: string | null;
};

/** A firing of a rule, by the version that fired. */
export type CausedFiring = { ruleId: string; ruleVersion: number };

/** What the event has told of the player. */
export type CausedTold = { type: string; data: Json };

/** Everything that one event has caused for one player, as far as it was kept. */
export type PlayerRecord = {
  event: RevertedEvent;
  ledger: readonly CausedLine[];
  awards: readonly LoggedAward[];
  grants: readonly CausedGrant[];
  firings: readonly CausedFiring[];
  told: readonly CausedTold[];
  /** Lengths of the longest runs that are archived, by key of the streak. */
  longestRuns: ReadonlyMap<string, number>;
  /** Boards by id, with the score that the player's other events come to; see read-scores.ts. */
  scores: ReadonlyMap<string, OtherScores>;
  /** Whether the event itself is this player's, and not only an effect of it. */
  isOwn: boolean;
};

/** What a board would hold of the player without the event. Undefined where that cannot be told. */
export type OtherScores = { rankScore: number; rankTie: number; latestUs: number } | undefined;

/** What is taken back, summed over players, and what is not. */
export type Reversal = {
  cause: Cause;
  reason: string;
  xp: number;
  currencies: Record<string, number>;
  lives: number;
  badges: Set<string>;
  scores: Set<string>;
  streaks: Set<string>;
  /** Ids of grants of rewards. */
  grants: string[];
  /** What could not be taken because it was no longer there: `xp`, `lives`, `currency:{key}`. */
  shortfall: Record<string, number>;
  /** What stays as it is, in words. */
  left: Set<string>;
};

export const newReversal = (
  { id }: Pick<RevertedEvent, "id">,
  { reason, actor }: { reason: string; actor: string },
): Reversal => ({
  cause: { kind: "REVERSAL", eventId: id, rootEventId: id, actor, note: reason },
  reason,
  xp: 0,
  currencies: {},
  lives: 0,
  badges: new Set(),
  scores: new Set(),
  streaks: new Set(),
  grants: [],
  shortfall: {},
  left: new Set(),
});

/** Adds to a sum by name. */
export const addTo = (sums: Record<string, number>, name: string, amount: number): void => {
  if (amount !== 0) sums[name] = (Object.hasOwn(sums, name) ? sums[name]! : 0) + amount;
};
