import type { CompiledAdventure, CompiledItem } from "../../evaluation/adventures/compile.ts";
import { isDone, pointsOfEvent, storeAdventure } from "../../evaluation/adventures/progress.ts";
import {
  type AdventureRow,
  hasJoined,
  type ItemDone,
  notJoined,
  type TierReached,
  type Track,
  wholePoints,
} from "../../evaluation/adventures/row.ts";
import { isInPause, wasPausedAt } from "../../evaluation/live.ts";
import { toSum } from "../../evaluation/metrics/aggregates.ts";
import type { PastEvent } from "../../evaluation/metrics/count.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../../evaluation/project-plan.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import { pastEvent } from "../../evaluation/rule-event.ts";
import type { Steps } from "../../kernel/slices.ts";
import type { QuestsWithout } from "../quests/outcome.ts";
import { remainderOf } from "../read-record.ts";
import type {
  AdventureOutcome,
  CausedEvent,
  PlayerRecord,
  QuestCompletion,
  Reversal,
  RevertedEvent,
} from "../record.ts";
import { publish } from "../../evaluation/emit.ts";
import { showAdventure } from "../../evaluation/adventures/show.ts";

/** What is left of an item, and how many of its completions are lost. */
type ItemLeft = { item: ItemDone | undefined; fewer: number };

const wasPaused = ({ pauses }: CompiledAdventure, atMs: number, by: string | undefined): boolean =>
  by === undefined ? wasPausedAt(pauses, atMs) : isInPause(pauses, by);

/** Returns an item without the completions that are lost. */
const itemWithout = (
  adventure: CompiledAdventure,
  item: ItemDone,
  completions: readonly QuestCompletion[],
): ItemLeft => {
  const counted = completions.filter(
    ({ beforeMs, beforeBy }) => beforeMs >= item.doneMs && !wasPaused(adventure, beforeMs, beforeBy),
  );
  const rest = counted.flatMap(({ id, afterMs, afterBy }) =>
    afterMs === null || wasPaused(adventure, afterMs, afterBy) ? [] : [{ id, afterMs }],
  );
  const fewer = Math.min(item.times, counted.length - rest.length);
  const times = item.times - fewer;
  if (times === 0) return { item: undefined, fewer };
  const isFirst = counted.some(({ beforeMs }) => beforeMs === item.doneMs) && rest.length > 0;
  const doneMs = isFirst ? Math.min(...rest.map(({ afterMs }) => afterMs)) : item.doneMs;
  const isLastLost = counted.some(({ id, afterMs }) => id === item.last && afterMs === null);
  const last = rest.toSorted((a, b) => a.afterMs - b.afterMs).at(-1)?.id ?? "";
  return { item: { doneMs, times, last: isLastLost ? last : item.last }, fewer };
};

/** Returns whether completions have moved out of pauses: a revert gives nothing, so they do not count. */
const wouldCount = (adventure: CompiledAdventure, completions: readonly QuestCompletion[]): boolean =>
  completions.some(
    ({ beforeMs, beforeBy, afterMs, afterBy }) =>
      afterMs !== null && wasPaused(adventure, beforeMs, beforeBy) && !wasPaused(adventure, afterMs, afterBy),
  );

/** What one event has counted for, and emitted about, the player. */
type Part = {
  event: RevertedEvent;
  past: readonly PastEvent[];
  own: { emitted: readonly CausedEvent[] };
};

type Input = {
  plan: ProjectPlan;
  player: PlayerState;
  /** The events that are reverted together. */
  parts: readonly Part[];
  /** What becomes of the player's quests. */
  quests: QuestsWithout;
  nowMs: number;
};

/**
 * Returns what becomes of the adventures that a player has joined. Points of the events, and of completions
 * that are lost, are subtracted; what was reached by them and is not any more, is lost. In pieces.
 */
export function* adventuresWithout(input: Input): Steps<AdventureOutcome[]> {
  const outcomes: AdventureOutcome[] = [];
  for (const adventure of input.plan.adventures.byKey.values()) {
    const row = input.player.adventures.get(adventure.key);
    if (!hasJoined(row)) continue;
    yield;
    const outcome = outcomeOf({ ...input, adventure, row });
    if (outcome) outcomes.push(outcome);
  }
  return outcomes;
}

type Of = Input & { adventure: CompiledAdventure; row: AdventureRow };

/** Points count from the join on; for one by progress all that was ever counted has come since. */
const isCounted = ({ adventure, row }: Of, { event }: Part, { at }: PastEvent): boolean => {
  const { fromMs, endMs, pauses } = adventure;
  const isSinceJoin = row.isAuto === true || event.receivedMs >= row.startedMs!;
  return at >= fromMs && at < endMs && isSinceJoin && !isInPause(pauses, event.id);
};

/** Returns the points that the events have given, by the id of each that has given any. */
const pointsByEvent = (of: Of): Map<string, number> => {
  const points = new Map<string, number>();
  for (const part of of.parts) {
    const { id } = part.event;
    for (const past of part.past) {
      if (of.adventure.sourcesFor(past.type).length === 0 || !isCounted(of, part, past)) continue;
      const given = toSum(pointsOfEvent(of.adventure, pastEvent({ ...past, id })));
      if (given > 0) points.set(id, (points.get(id) ?? 0) + given);
    }
  }
  return points;
};

type Progress = Pick<AdventureRow, "points" | "items">;

type Without = Progress & { by: Set<string>; uncounted: string[] };

/**
 * Returns points and items without the events, with the ids of those that have changed them, and the keys of
 * the quests of which completions would count.
 */
const progressWithout = (of: Of): Without => {
  const { adventure, row, quests } = of;
  const given = pointsByEvent(of);
  const by = new Set(given.keys());
  let points = [...given.values()].reduce((rest, one) => rest - one, row.points);
  const items: Record<string, ItemDone> = { ...row.items };
  const uncounted: string[] = [];
  for (const { quest, rows, completions, by: ids } of quests.outcomes) {
    const item = adventure.items.get(quest.key);
    if (!item || rows.length === 0) continue;
    for (const id of ids) by.add(id);
    if (wouldCount(adventure, completions)) uncounted.push(quest.key);
    const done = row.items[quest.key];
    if (!done) continue;
    const left = itemWithout(adventure, done, completions);
    points -= left.fewer * item.definition.points;
    if (left.item) items[quest.key] = left.item;
    else delete items[quest.key];
  }
  return { points: toSum(Math.max(0, points)), items, by, uncounted };
};

/** A tier on a track whose rewards were granted, and are lost. */
type LostTier = { tier: number; track: Track; bundle: RewardBundle };

const isBelow = (before: Progress, after: Progress, points: number): boolean =>
  wholePoints(before) >= points && wholePoints(after) < points;

const tiersWithout = (
  { adventure, row }: Of,
  after: Progress,
): { tiers: Record<string, TierReached>; fallen: number[]; lost: LostTier[] } => {
  const tiers: Record<string, TierReached> = { ...row.tiers };
  const fallen: number[] = [];
  const lost: LostTier[] = [];
  for (const { tier, points, free = {}, premium = {} } of adventure.definition.tiers) {
    const reached = row.tiers[tier];
    if (!reached || !isBelow(row, after, points)) continue;
    delete tiers[tier];
    fallen.push(tier);
    if (reached.freeMs !== undefined) lost.push({ tier, track: "FREE", bundle: free });
    if (reached.premiumMs !== undefined) lost.push({ tier, track: "PREMIUM", bundle: premium });
  }
  return { tiers, fallen, lost };
};

/** When the items complete the adventure; undefined where its points do. */
const completedBy = ({ definition }: CompiledAdventure, { items }: Progress): number | undefined => {
  const { completion } = definition;
  if (completion.mode === "POINTS") return undefined;
  const those = definition.items.filter(({ optional }) => completion.mode === "COUNT" || !optional);
  const times = those.flatMap(({ questKey }) => items[questKey]?.doneMs ?? []).toSorted((a, b) => a - b);
  return times[(completion.mode === "COUNT" ? completion.value! : those.length) - 1];
};

type Completion = Pick<AdventureRow, "state" | "completedMs" | "claimedMs">;

/** Returns what is left of the completion; one that other items complete later moves to that time. */
const completionWithout = ({ adventure, row, nowMs }: Of, after: Progress): Completion => {
  const { state, completedMs, claimedMs } = row;
  if (completedMs === null) return { state, completedMs, claimedMs };
  if (isDone(adventure, row) && !isDone(adventure, { ...row, ...after }))
    return {
      state: nowMs >= adventure.endMs ? "EXPIRED" : "IN_PROGRESS",
      completedMs: null,
      claimedMs: null,
    };
  const isByItems = completedBy(adventure, row) === completedMs;
  const laterMs = (isByItems ? completedBy(adventure, after) : undefined) ?? completedMs;
  return { state, completedMs: laterMs, claimedMs: claimedMs === completedMs ? laterMs : claimedMs };
};

const isOpenBy = ({ after, definition: { unlock } }: CompiledItem, progress: Progress): boolean =>
  unlock.mode === "POINTS"
    ? wholePoints(progress) >= unlock.points
    : after.every((key) => progress.items[key] !== undefined);

/** Whether a quest has been begun since the player has joined, or done. */
const isBegun = ({ player, quests, row }: Of, { items }: Progress, key: string): boolean => {
  const state = player.quests.get(key);
  const changed = quests.outcomes.find(({ quest }) => quest.key === key)?.rows ?? [];
  const byId = new Map(changed.map((one) => [one.row.id, one.row]));
  const rows = state ? [state.latest, ...state.older].map((one) => byId.get(one.id) ?? one) : [];
  const isHere = rows.some(
    (one) => one.state !== "RESET" && (one.completedMs ?? one.startedMs) >= row.startedMs!,
  );
  return isHere || items[key] !== undefined;
};

/** Returns what stays unlocked: what would not be stays as well where it has been begun. */
const unlockedWithout = (of: Of, after: Progress): { unlocked: string[]; kept: string[] } => {
  const closed = of.row.unlocked.filter((key) => {
    const item = of.adventure.items.get(key);
    return item !== undefined && isOpenBy(item, of.row) && !isOpenBy(item, after);
  });
  const kept = closed.filter((key) => isBegun(of, after, key));
  const gone = new Set(closed.filter((key) => !kept.includes(key)));
  return { unlocked: of.row.unlocked.filter((key) => !gone.has(key)), kept };
};

const emits = ({ parts, adventure }: Of, type: string, tier: number | null): boolean =>
  parts.some(({ own: { emitted } }) =>
    emitted.some(
      (one) =>
        one.type === type &&
        one.data["adventureKey"] === adventure.key &&
        (one.data["tier"] ?? null) === tier,
    ),
  );

/** Types of events by which rewards that are taken back may have given points. */
const GAINS = ["player.xp_granted", "player.currency_granted"];

type Changed = {
  fallen: readonly number[];
  isUndone: boolean;
  kept: readonly string[];
  uncounted: readonly string[];
};

const leftOf = (
  of: Of,
  lost: readonly (Omit<LostTier, "tier" | "track"> & { tier: number | null })[],
  { fallen, isUndone, kept, uncounted }: Changed,
): string[] => {
  const { adventure, plan } = of;
  const parts = lost.flatMap(({ tier, bundle }) =>
    remainderOf(bundle, emits(of, "adventure.claimed", tier)).map((part) => `${part} of its rewards`),
  );
  const hears = (type: string, tier: number | null): boolean =>
    plan.hasListeners(type) && !emits(of, type, tier);
  if (fallen.some((tier) => hears("adventure.tier_reached", tier))) parts.push("what followed its tiers");
  if (isUndone && hears("adventure.completed", null)) parts.push("what followed its completion");
  const isPaidLater = lost.some(
    ({ tier, bundle: { xp, currencies } }) =>
      (xp !== undefined || currencies !== undefined) && !emits(of, "adventure.claimed", tier),
  );
  if (isPaidLater && GAINS.some((type) => plan.adventures.forEvent(type).length > 0))
    parts.push("points for its rewards");
  parts.push(...uncounted.map((key) => `quest ${key}, which would be done later, after a pause`));
  parts.push(...kept.map((key) => `quest ${key}, which it has unlocked`));
  return [...new Set(parts)].map((part) => `adventure ${adventure.key}: ${part}`);
};

const isLeft = (of: Of, after: Progress): boolean =>
  of.row.isAuto !== true ||
  after.points > 0 ||
  [...of.adventure.items.keys()].some((key) => isBegun(of, after, key));

const outcomeOf = (of: Of): AdventureOutcome | undefined => {
  const { adventure, row } = of;
  const { by, uncounted, ...after } = progressWithout(of);
  if (by.size === 0) return undefined;
  const { tiers, fallen, lost } = tiersWithout(of, after);
  const completion = completionWithout(of, after);
  const isUndone = row.completedMs !== null && completion.completedMs === null;
  const isPaid = isUndone && row.claimedMs !== null;
  const whole = isPaid ? [{ tier: null, bundle: adventure.definition.rewards }] : [];
  const { unlocked, kept } = unlockedWithout(of, after);
  const keys = [
    ...lost.map(({ tier, track }) => `adv:${row.id}:t:${tier}:${track}`),
    ...(isPaid ? [`adv:${row.id}:complete`] : []),
  ];
  const again = keys.length === 0 ? {} : { again: (row.again ?? 0) + 1 };
  const without: AdventureRow = { ...row, ...after, ...completion, ...again, tiers, unlocked };
  return {
    adventure,
    by,
    row: isLeft(of, after) ? without : notJoined(without),
    lost: new Set(keys),
    left: leftOf(of, [...lost, ...whole], { fallen, isUndone, kept, uncounted }),
  };
};

/**
 * Takes back what the event has brought in adventures, and names what stays. To be called after quests. In
 * pieces.
 */
export function* reverseAdventures(turn: PlanTurn, { goals }: PlayerRecord, reversal: Reversal): Steps<void> {
  const { id: playerId, externalUserId } = turn.player;
  const now = { ...turn, event: { ...turn.event, at: turn.nowMs } };
  for (const { adventure, row, left } of goals.adventures) {
    yield;
    for (const what of left) reversal.left.add(what);
    storeAdventure(now, adventure, row);
    reversal.adventures.add(adventure.key);
    const shown = showAdventure(now, adventure);
    publish(now, "adventure.updated", { playerId, externalUserId, adventure: shown, change: "PROGRESS" });
  }
}
