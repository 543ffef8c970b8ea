import type { CompiledAdventure } from "../evaluation/adventures/compile.ts";
import type { AdventureRow } from "../evaluation/adventures/row.ts";
import type { Board } from "../evaluation/boards/board.ts";
import type { LedgerRow, RecordedScore } from "../evaluation/effects.ts";
import type { AggregateState } from "../evaluation/metrics/aggregates.ts";
import type { CounterState } from "../evaluation/metrics/compile.ts";
import type { StepCount } from "../evaluation/player-state.ts";
import type { CompiledQuest } from "../evaluation/quests/compile.ts";
import type { QuestRow } from "../evaluation/quests/row.ts";
import type { Cause, Json } from "../kernel/events/events.ts";

/** A tracked event to revert, as evaluation saw it. */
export type RevertedEvent = {
  id: string;
  /** The event that has sent it, or itself. */
  rootId: string;
  type: string;
  /** The event's time in ms, no later than its arrival. */
  at: number;
  receivedMs: number;
  properties: Json;
  externalUserId: string;
};

/** A ledger entry that an event has caused. */
export type CausedLine = Pick<LedgerRow, "id" | "seq" | "asset" | "currencyKey" | "amount" | "key" | "cause">;

/** An entry of the badge log; `isOfEvent`: the reverted event caused it. In order of time. */
export type LoggedAward = {
  eventId: string | null;
  badgeKey: string;
  tier: number;
  action: "AWARDED" | "REVOKED";
  serialNo: number | null;
  key: string;
  isOfEvent: boolean;
  /** Whether the badge was awarded by the counter that it follows. */
  isByCounter: boolean;
  /** Whether a revert has revoked the badge. */
  isReversal: boolean;
  /** Of an award by something else: how many such there are, by the counter or otherwise. Otherwise 0. */
  others: number;
};

export type CausedGrant = {
  id: string;
  rewardKey: string;
  quantity: number;
  status: string;
  key: string;
  code: string | null;
};

/** A firing of a rule, with the version that fired. */
export type CausedFiring = {
  ruleId: string;
  ruleVersion: number;
  /** Scores that it has submitted; null where that was not recorded. */
  scores: readonly RecordedScore[] | null;
};

/** Scores submitted for the event on one list. */
export type SubmittedScores = {
  listId: string;
  /** Undefined for a board that is not active. */
  board: Board | undefined;
  scores: readonly RecordedScore[];
  /** The entry without them; null for none, absent where other scores are not known. */
  other?: OtherScores;
};

/** An event about the player that the reverted event has emitted. */
export type CausedEvent = { type: string; data: Json };

/** What a badge that follows a counter has without the event. */
export type FollowedBadge = {
  tier: number;
  progress: number;
  /** How often it is awarded; as before where that is not known. */
  times: number;
};

/** What other events have given at a time for tiers of badges that are lost; in ms. */
export type LostRewards = { atMs: number; ledger: readonly CausedLine[] };

/** A period of a streak as the player's other events have made it. */
export type StreakDay = {
  states: readonly (AggregateState | null)[];
  /** Whether an event that is reverted has completed the period. */
  isExtendedHere: boolean;
};

/** By number of the period. */
export type StreakDays = ReadonlyMap<number, StreakDay>;

/** What events that are reverted together share for one player. */
export type RevertedTogether = {
  /** Awards by any of the events. */
  awards: readonly LoggedAward[];
  /** Keys of awards that were taken back so far. */
  taken: Set<string>;
  /** Awards whose rewards are taken back, as `awardName` names them. */
  lost: Set<string>;
  /** Badges that follow counters of any of the events, by key. */
  followed: ReadonlyMap<string, FollowedBadge>;
};

/** What a player's quest is without events that are reverted together. */
export type QuestOutcome = {
  quest: CompiledQuest;
  /** Ids of the events that are taken back. */
  by: ReadonlySet<string>;
  /** The cycles that differ, as they are to be stored, with what their steps have counted. */
  rows: readonly { row: QuestRow; counts: Readonly<Record<string, StepCount>> | undefined }[];
  /** The counters of LIFETIME steps without the events, by id of the metric. */
  counters: ReadonlyMap<string, CounterState | undefined>;
  /** The row by which the quest goes on; undefined: by the one that is the latest. */
  latest: QuestRow | undefined;
  /** How many completions are lost, and when the last of the others was, as far as it is known. */
  fewer: number;
  lastCompletedMs: number | null;
  /** The cycles that were completed. */
  completions: readonly QuestCompletion[];
  /** Keys of the rewards that are taken back, as `rewardOfGoal` names them. */
  lost: ReadonlySet<string>;
  /** What stays, in words. */
  left: readonly string[];
};

/** When a cycle was completed with the reverted events, and without them; null for never. In ms. */
export type QuestCompletion = {
  id: string;
  beforeMs: number;
  afterMs: number | null;
  /** Ids of the events that have completed it; undefined where something else has. */
  beforeBy: string | undefined;
  afterBy: string | undefined;
};

/** What a player's adventure is without events that are reverted together. */
export type AdventureOutcome = {
  adventure: CompiledAdventure;
  /** Ids of the events that are taken back. */
  by: ReadonlySet<string>;
  /** As it is to be stored. */
  row: AdventureRow;
  /** Keys of the rewards that are taken back, as `rewardOfGoal` names them. */
  lost: ReadonlySet<string>;
  /** What stays, in words. */
  left: readonly string[];
};

/** What becomes of a player's quests and adventures. */
export type GoalsOfRecord = {
  /** Of the quests that the event has changed, each once. */
  outcomes: readonly QuestOutcome[];
  /** Keys of the quests of which it is known what they are without the events. */
  known: ReadonlySet<string>;
  /** Keys of the quests of cycles at the times of the events, by the id of the row. */
  keys: ReadonlyMap<string, string>;
  /** Of the adventures that the event has changed, each once. */
  adventures: readonly AdventureOutcome[];
  /** Rewards that are taken back, as `rewardOfGoal` names them. */
  lost: ReadonlySet<string>;
};

/** Everything that one event has caused for one player, as far as it was stored. */
export type PlayerRecord = {
  event: RevertedEvent;
  ledger: readonly CausedLine[];
  awards: readonly LoggedAward[];
  together: RevertedTogether;
  grants: readonly CausedGrant[];
  firings: readonly CausedFiring[];
  emitted: readonly CausedEvent[];
  /** Lengths of the longest archived runs, by key of the streak. */
  longestRuns: ReadonlyMap<string, number>;
  /** Periods without the reverted events, where known, by key of the streak; see read-submitted.ts. */
  days: ReadonlyMap<string, StreakDays>;
  /** Counters that a sample cannot be subtracted from, without the event, by id of the metric. */
  recounted: ReadonlyMap<string, CounterState | undefined>;
  /** Badges that follow the event's counters, by key. */
  followed: ReadonlyMap<string, FollowedBadge>;
  lost: readonly LostRewards[];
  /** The score of the player's other events by list, where it is known; see read-groups.ts. */
  scores: ReadonlyMap<string, OtherScores>;
  submitted: readonly SubmittedScores[];
  goals: GoalsOfRecord;
  /** Whether the player has XP that something else has given or taken. */
  hasOtherXp: boolean;
  /** Whether the event itself is this player's, and not only an effect of it. */
  isOwn: boolean;
};

/** The player's entry on a list without the event; null for none. */
export type OtherScores = { rankScore: number; rankTie: number; latestUs: number } | null;

/** What is reverted, summed over players, and what is not. */
export type Reversal = {
  cause: Cause;
  reason: string;
  xp: number;
  currencies: Record<string, number>;
  lives: number;
  badges: Set<string>;
  scores: Set<string>;
  /** Keys of the quests whose progress has been taken back. */
  quests: Set<string>;
  /** Keys of the adventures whose progress has been taken back. */
  adventures: Set<string>;
  streaks: Set<string>;
  /** Grants of rewards. */
  grants: { playerId: string; id: string }[];
  /** Amounts that were no longer there to take back: `xp`, `lives`, `currency:{key}`. */
  shortfall: Record<string, number>;
  /** Effects that remain, in words. */
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
  quests: new Set(),
  adventures: new Set(),
  streaks: new Set(),
  grants: [],
  shortfall: {},
  left: new Set(),
});

/** Adds to a sum by name. */
export const addTo = (sums: Record<string, number>, name: string, amount: number): void => {
  if (amount !== 0) sums[name] = (Object.hasOwn(sums, name) ? sums[name]! : 0) + amount;
};

/** An award as the keys of its rewards name it. */
type AwardOfKey = { badgeKey: string; times: number; tier: number };

const BADGE_KEY = /^bdg:([^:]+):(\d+):(\d+)/;
/** Keys of awards end with the same numbers as those of their rewards. */
const NUMBERS = /:(\d+):(\d+)$/;

/** Returns the award whose reward a ledger, award or grant key belongs to. */
export const awardOfKey = (key: string): AwardOfKey | undefined => {
  const [, badgeKey, times, tier] = BADGE_KEY.exec(key) ?? [];
  return badgeKey === undefined ? undefined : { badgeKey, times: Number(times), tier: Number(tier) };
};

/** Names an award of an event. */
const awardName = (eventId: string, { badgeKey, times, tier }: AwardOfKey): string =>
  `${eventId} ${badgeKey}:${times}:${tier}`;

const nameOf = (eventId: string, { badgeKey, tier, key }: LoggedAward): string =>
  awardName(eventId, { badgeKey, tier, times: Number(NUMBERS.exec(key)?.[1] ?? 0) });

/** Returns the awards that a badge is based on: those since it was last revoked. */
export const standing = <T extends LoggedAward>(log: readonly T[]): T[] =>
  log.slice(log.findLastIndex(({ action }) => action === "REVOKED") + 1);

/** Returns the awards that raised the tier, in the order of time. */
const raises = (awards: readonly LoggedAward[]): LoggedAward[] => {
  let highest = 0;
  return awards.filter(({ tier }) => {
    if (tier <= highest) return false;
    highest = tier;
    return true;
  });
};

/** Returns how often awards have awarded the badge: raising a tier that is held is none. */
export const timesOf = (awards: readonly LoggedAward[]): number => {
  const read = awards.filter(({ others }) => others === 0).length;
  const countOf = (isByCounter: boolean): number =>
    awards.find((one) => one.others > 0 && one.isByCounter === isByCounter)?.others ?? 0;
  const all = read + countOf(true) + countOf(false);
  return all === 0 ? 0 : all - (raises(awards).length - 1);
};

/**
 * Returns the tiers on the way to one of the awards whose rewards an award of another event has given, which
 * was reverted: without that, this award would have given them.
 * @param counted the tier that the counter gives, wherever it found it held
 */
const givenOnTheWay = (awards: readonly LoggedAward[], counted: number): Set<number> => {
  const tiers = new Set<number>();
  let highest = 0;
  for (const { tier } of raises(awards)) {
    for (let below = highest + 1; below < tier; below++) tiers.add(below);
    highest = tier;
  }
  for (let below = highest + 1; below <= counted; below++) tiers.add(below);
  return tiers;
};

/** Returns the awards that are left of a badge without some. */
const without = <T extends LoggedAward>(awards: readonly T[], followed: FollowedBadge | undefined): T[] =>
  awards.filter(({ isOfEvent, isByCounter, tier }) =>
    followed && isByCounter ? tier <= followed.tier : !isOfEvent,
  );

type Following = { followed: FollowedBadge | undefined; held: number };

/** What awards give without those of the events. */
type LostAwards = {
  /** Awards of the events whose rewards are taken back, as `awardName` names them. */
  lost: ReadonlySet<string>;
  /** Tiers whose rewards events have given that were reverted before, and that nothing needs any more. */
  tiers: readonly number[];
};

/**
 * Determines which awards of a badge lose their rewards with the events: all that these have given, but for
 * tiers that others would have given on the way to theirs.
 * @param log of one badge
 */
export const lostAwards = (log: readonly LoggedAward[], { followed, held }: Following): LostAwards => {
  const awards = standing(log);
  const before = givenOnTheWay(awards, followed ? held : 0);
  const after = givenOnTheWay(without(awards, followed), followed?.tier ?? 0);
  const needed = new Set([...after].filter((tier) => !before.has(tier)));
  const lost = new Set<string>();
  for (const award of awards) {
    if (!award.isOfEvent || (followed && award.isByCounter)) continue;
    if (!needed.delete(award.tier)) lost.add(nameOf(award.eventId!, award));
  }
  return { lost, tiers: [...before].filter((tier) => !after.has(tier)) };
};

/** Whether the rewards of an event's award are taken back. */
export const isLost = (
  eventId: string,
  award: AwardOfKey,
  { lost, followed }: Pick<RevertedTogether, "lost" | "followed">,
): boolean => {
  if (lost.has(awardName(eventId, award))) return true;
  const { tier, times } = followed.get(award.badgeKey) ?? { tier: Infinity, times: Infinity };
  return award.tier > tier || award.times > times;
};

/** Keeps the rewards of awards that were themselves rewards of something that is kept. */
export const keepAwards = (
  awards: readonly LoggedAward[],
  lost: Set<string>,
  isKept: (key: string, eventId: string) => boolean,
): void => {
  for (const award of awards)
    if (award.isOfEvent && isKept(award.key, award.eventId!)) lost.delete(nameOf(award.eventId!, award));
};
