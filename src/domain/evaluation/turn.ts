import { z } from "zod";
import type { AdventureRow, PlayerAdventureState } from "./adventures/row.ts";
import { PROJECT_SCOPE } from "./caps/cap.ts";
import type { Effects } from "./effects.ts";
import { type EventCost, ROW_BYTES, type Spender } from "./event-cost.ts";
import {
  type DocSize,
  EDITED_IN_PLACE,
  HOLDING_NAMES,
  type PlayerDoc,
  type PlayerState,
  type QuestState,
} from "./player-state.ts";
import type { CompiledDefinitions } from "./project-settings.ts";
import type { PlayerQuestState } from "./quests/row.ts";
import type { BundleGrant } from "./rewards/bundle.ts";
import type { LoopHit, RuleEvent, RuleStep } from "./rule-event.ts";
import type { RuleObserver } from "./running/outcome.ts";
import type { SharedCounters } from "./shared-counters.ts";
import type { EventData, EventType } from "../kernel/events/domain-events.ts";
import type { Cause } from "../kernel/events/events.ts";
import { PLAYER_STATE_MAX_BYTES } from "../kernel/limits.ts";
import { outboxRow } from "../kernel/outbox.ts";

/** State shared by the turns of one root event: by its pass. */
export type Root = {
  /** The tracked event's id; for a change by REST a new id. */
  id: string;
  /** Whether `id` is a tracked event's, so that effects are shown with it. */
  isTracked: boolean;
  /** Whether nothing has happened but that time went on: no quest starts by itself then. */
  isTimeOnly?: true;
  /** Derived events, first in first out. */
  derived: RuleEvent[];
  /** Number of derived events evaluated so far. */
  taken: number;
  /** Number of events sent to other players or to later times so far. */
  spawned: number;
  /** Number of hops of sent actions that led to this root. */
  hop: number;
  /** Number of firings of each rule, by its id. */
  firings: Map<string, number>;
  /** Types that the loop guard cut off; empty while it has not. */
  guarded: string[];
  /** Where the loop guard first held a rule. */
  loop: LoopHit | undefined;
  cost: EventCost;
  /** Whether it has been reported that something could not be counted. */
  isUncountedReported?: boolean;
  /** The rule whose actions currently run and cause its effects. */
  acting: RuleStep | undefined;
  /** Whether caps are ignored, by a simulation without limits. */
  ignoresCaps?: boolean;
  /** Called for every rule that is considered. */
  observe: RuleObserver | undefined;
  /** When set, rules run in trace mode and record their evaluation here. */
  trace: TraceSink | undefined;
  /** Nesting depth of the bundles currently being granted, and their number so far. */
  bundles?: { depth: number; given: number };
  /** Length of the outbox before this root. */
  outboxBefore: number;
  /** The player's holdings before the turn that boards follow. */
  before: HoldingsBefore;
  /** Reverted gains that are no longer there to take back, by currency key, null for XP: boards lose them too. */
  spentGains?: Map<string | null, number>;
  /** Quests that have changed, by key, as they were before: announced at the end of the pass. */
  quests?: Map<string, QuestState | undefined>;
  /** The same for adventures. */
  adventures?: Map<string, AdventureRow | undefined>;
  /** Quests that were started or completed since adventures last looked. */
  questNews?: QuestNews[];
};

/** A quest that was started or completed. */
export type QuestNews = { questKey: string; playerQuestId: string; isCompleted: boolean };

/** What a rule does to a player's quest or adventure. */
export type QuestOrder = {
  entity: "quest" | "adventure";
  key: string;
  operation: "START" | "ADVANCE" | "COMPLETE" | "FAIL" | "RESET";
  /** ADVANCE: the step, and how much is added to what it has counted, or to the adventure's points. */
  stepKey?: string | undefined;
  amount?: number;
};

/** Where a player stands in a quest. */
export type QuestStanding = { state: PlayerQuestState; percent: number; doneSteps: readonly string[] };

/** Where a player stands in an adventure. */
export type AdventureStanding = { state: PlayerAdventureState; percent: number };

/** A player's holdings when a turn began, as far as boards follow them. */
export type HoldingsBefore = { values: readonly number[]; ledger: number };

/** Collects the evaluation in trace mode; see evaluation/trace/trace.ts. */
export type TraceSink = {
  /** Called around each turn. */
  open(turn: Turn): void;
  close(turn: Turn): void;
  /** Runs and explains the rules instead of `runRules`. */
  runRules(turn: Turn): void;
  /** Called for every quest that counts events of the type. */
  quest(verdict: QuestVerdict): void;
  warn(message: string): void;
};

/** Whether a quest has counted an event, and if not, why; `detail`: in words. */
export const QuestVerdict = z.object({
  questKey: z.string(),
  counted: z.boolean(),
  reason: z.enum([
    "COUNTED",
    "PAUSED",
    "NOT_STARTED",
    "NOT_AVAILABLE",
    "LOCKED",
    "NOT_MATCHING",
    "BEFORE_START",
    "STEP_NOT_ACTIVE",
    "PLAYER_INACTIVE",
  ]),
  detail: z.string().optional(),
});
export type QuestVerdict = z.output<typeof QuestVerdict>;

/**
 * The evaluation of one event for one player. Actions change `player` only through the domain's functions.
 */
export type Turn = {
  project: CompiledDefinitions;
  player: PlayerState;
  event: RuleEvent;
  nowMs: number;
  root: Root;
  effects: Effects;
  /** State shared by the project's players: global limits, budgets, stock, limited editions. */
  shared: SharedCounters;
  /**
   * Publishes an event of the player: one outbox row, one line of the player stream, and a derived event
   * where a rule or a metric listens to its type.
   */
  emit<T extends EventType>(type: T, data: EventData<T>): void;
  /** Grants a bundle of rewards now; see evaluation/rewards/give.ts. */
  give(turn: Turn, grant: BundleGrant): void;
  /** Returns where the player stands in a quest; undefined for an unknown one. */
  questStanding(key: string): QuestStanding | undefined;
  /** Returns whether adventures let a quest be started; one of no adventure always is. */
  isQuestOpen(key: string): boolean;
  /** Returns where the player stands in an adventure; undefined for an unknown one. */
  adventureStanding(key: string): AdventureStanding | undefined;
  /** Gives premium of an adventure. @returns why that is not possible */
  grantPremium(key: string): string | undefined;
  /** Starts, advances, completes, fails or resets a quest. @returns why that is not possible */
  changeQuest(order: QuestOrder, cause: Cause): string | undefined;
  /** Starts, advances, completes or resets an adventure. @returns why that is not possible */
  changeAdventure(order: QuestOrder): string | undefined;
  /** Adds a warning to traces, such as a division by zero. */
  warn(message: string): void;
};

/** Estimated bytes above which a document is measured. */
const MEASURED_FROM = PLAYER_STATE_MAX_BYTES / 2;
/** Bytes above which a document counts as large: half of MEASURED_FROM, so that measuring stays rare. */
const LARGE = PLAYER_STATE_MAX_BYTES / 4;

/** Returns the bytes of a value as JSON; 0 for undefined. Documents contain ASCII only. */
const jsonLength = (value: unknown): number => (value === undefined ? 0 : JSON.stringify(value).length);

/** Returns by how many bytes a document grows with a part of it. @param frame what surrounds a new part */
export const growthOf = (frame: string, old: unknown, next: unknown): number =>
  jsonLength(next) - (old === undefined ? -frame.length : jsonLength(old));

const measure = (player: PlayerState, isPruned: boolean): DocSize => {
  const bytes = jsonLength(player.doc);
  return { bytes, isExact: bytes > LARGE, isPruned };
};

/** Growth of a document in bytes: `most` is an upper bound, and `grown` measures it. */
type Growth = { most: number; grown: () => number };

/**
 * Reserves room in a player's document; returns whether there was enough. A full document first loses what no
 * definition reads any more.
 */
export const reserveRoom = (turn: Turn, { most, grown }: Growth): boolean => {
  const { player } = turn;
  const size = sizeBefore(turn, most);
  if (!size.isExact) {
    player.docSize = { ...size, bytes: size.bytes + most };
    return true;
  }
  const growth = grown();
  if (growth > 0 && size.bytes + growth > PLAYER_STATE_MAX_BYTES && !size.isPruned)
    pruneDoc(turn.project, player);
  const { bytes } = player.docSize;
  const hasRoom = growth <= 0 || bytes + growth <= PLAYER_STATE_MAX_BYTES;
  if (hasRoom) player.docSize = { ...player.docSize, isExact: true, bytes: bytes + growth };
  return hasRoom;
};

const sizeBefore = ({ player }: Turn, most: number): DocSize => {
  const { bytes, isExact, isPruned } = player.docSize;
  if (isExact || bytes + most <= MEASURED_FROM) return player.docSize;
  return (player.docSize = measure(player, isPruned));
};

/** As `reserveRoom`, for data that must be stored in any case: it is bounded by itself. */
export const recordGrowth = (turn: Turn, growth: Growth): void => {
  if (reserveRoom(turn, growth)) return;
  const { docSize } = turn.player;
  turn.player.docSize = { ...docSize, bytes: docSize.bytes + growth.grown() };
};

/** Returns whether a document is within its limit. */
export const isWithinRoom = (doc: PlayerDoc): boolean => jsonLength(doc) <= PLAYER_STATE_MAX_BYTES;

type Readers = Pick<CompiledDefinitions, "metrics" | "rules">;

const keptOf = <V>(values: Readonly<Record<string, V>> = {}, isRead: (id: string) => boolean) =>
  Object.fromEntries(Object.entries(values).filter(([id]) => isRead(id)));

/** Returns a document without unread counters, and without the limits of rules that do not run. */
export const withoutUnread = ({ metrics, rules }: Readers, doc: PlayerDoc): PlayerDoc => {
  const counted = { ...doc, c: keptOf(doc.c, (id) => metrics.byId.has(id)) };
  // Limits of a paused rule are kept where there is room, so that it can resume from them.
  if (isWithinRoom(counted)) return counted;
  const running = new Set(rules.all.map(({ id, isShadow }) => (isShadow ? `~${id}` : id)));
  const isCapped = (scope: string): boolean => scope === PROJECT_SCOPE || running.has(scope);
  return {
    ...counted,
    l: keptOf(doc.l, (id) => running.has(id)),
    ...(doc.g ? { g: keptOf(doc.g, isCapped) } : {}),
  };
};

/** Removes what no definition reads from an oversized document. */
export const shrinkDoc = (readers: Readers, player: PlayerState): void => {
  if (player.docSize.bytes <= PLAYER_STATE_MAX_BYTES) return;
  player.docSize = measure(player, false);
  if (player.docSize.bytes > PLAYER_STATE_MAX_BYTES) pruneDoc(readers, player);
  // The measured size is saved, so that it need not be measured again.
  else player.dirty.doc = true;
};

/** Removes what no definition reads. */
const pruneDoc = (readers: Readers, player: PlayerState): void => {
  player.doc = withoutUnread(readers, player.doc);
  player.docSize = measure(player, true);
  player.dirty.doc = true;
};

/** Maximum length of text assumed to be ASCII: checking would take longer than it saves. */
const SHORT_TEXT = 50;
/** Bytes of a number, true, false or null. */
const WORD_BYTES = 5;

/** Estimates the bytes of a value as JSON, at a fifth of the cost of serialising it. */
const sizeOf = (value: unknown): number => {
  if (typeof value === "string")
    return 2 + (value.length > SHORT_TEXT ? Buffer.byteLength(value) : value.length);
  if (typeof value !== "object" || value === null) return WORD_BYTES;
  let size = 2;
  if (Array.isArray(value)) for (const item of value) size += 1 + sizeOf(item);
  else
    for (const name in value) {
      const part = (value as Record<string, unknown>)[name];
      if (part !== undefined) size += 4 + name.length + sizeOf(part);
    }
  return size;
};

/** Adds a row to the event's effects. It counts even if it is rolled back later. */
export const write = <K extends keyof Effects>(
  { effects, root }: Pick<Turn, "effects" | "root">,
  kind: K,
  row: Effects[K][number],
): void => {
  const bytes = ROW_BYTES + sizeOf(row);
  if (root.acting) root.cost.written.spent += bytes;
  else root.cost.others += bytes;
  (effects[kind] as Effects[K][number][]).push(row);
};

/** Fields by which events name the player. */
export const playerOf = ({ player }: Pick<Turn, "player">) => ({
  playerId: player.id,
  externalUserId: player.externalUserId,
});

/** Returns the cause of what a definition gives or takes. */
export const causeOf = ({ root }: Pick<Turn, "root">, kind: Cause["kind"], refKey: string): Cause => ({
  kind,
  refKey,
  ...(root.isTracked ? { rootEventId: root.id } : {}),
});

/** Where rules took too many steps or wrote too much: the one that took most. */
export type StepsHit = { projectId: string; rootEventId: string; spender: Spender };

/** Returns the rule that took most of an exceeded cost; undefined while none is. */
export const stepsHitOf = ({ root, project }: Turn): StepsHit | undefined => {
  const spender = root.cost.exceededBy;
  return spender && { projectId: project.projectId, rootEventId: root.id, spender };
};

/** Publishes something to the project alone: no line of the player's stream. */
const report = (turn: Turn, type: string, data: object): void => {
  const { root, project } = turn;
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(project.projectId, type, data, options));
};

/** Reports, once per root, that its rules took too much. */
export const reportStepsHit = (turn: Turn): void => {
  const { root } = turn;
  const hit = root.cost.isTold ? undefined : stepsHitOf(turn);
  if (!hit) return;
  root.cost.isTold = true;
  report(turn, "event.steps_exhausted", { ...hit.spender, rootEventId: root.id, paused: false });
};

/** Reports, once per root, that a player's document had no room for the counter of a definition. */
export const reportUncounted = (turn: Turn, what: string, spender: Spender | undefined): void => {
  const { root } = turn;
  turn.warn(`full: ${what} does not count, ${PLAYER_STATE_MAX_BYTES} bytes are kept of a player`);
  if (root.isUncountedReported || !spender) return;
  root.isUncountedReported = true;
  report(turn, "event.uncounted", { ...spender, rootEventId: root.id, ...playerOf(turn) });
};

/** Maximum chain length from a tracked event to a derived event. */
export const DEPTH_MAX = 5;
/** Maximum events derived from one tracked event. */
export const DERIVED_MAX = 100;

/**
 * Approximate maximum of outbox rows of one tracked event, which are saved as one statement, before
 * derivation stops.
 */
export const PUBLISHED_MAX = 10_000;

/** Returns whether the event has published so much that it may cause no more. */
export const isFlooded = ({ root, effects }: Turn): boolean =>
  effects.outbox.length - root.outboxBefore >= PUBLISHED_MAX;

/** Returns whether the next derived event would exceed a limit; the remaining ones are then dropped. */
export const isGuarded = (turn: Turn): boolean => {
  const { root } = turn;
  const next = root.derived[root.taken]!;
  if (next.depth <= DEPTH_MAX && root.taken < DERIVED_MAX && !isFlooded(turn)) return false;
  root.guarded.push(...new Set(root.derived.slice(root.taken).map(({ type }) => type)));
  recordLoop(turn, next.via ?? []);
  return true;
};

/** Records once per root that the rule at the end of `chain` was held. */
export const recordLoop = ({ root, project }: Turn, chain: readonly RuleStep[]): void => {
  if (chain.length > 0) root.loop ??= { projectId: project.projectId, rootEventId: root.id, chain };
};

/** Reports the loop that was held, if any. */
export const reportLoop = (turn: Turn): void => {
  const { root } = turn;
  if (!root.loop) return;
  const { rootEventId, chain } = root.loop;
  const { ruleId, ruleKey } = chain.at(-1)!;
  const keys = chain.map((step) => step.ruleKey);
  report(turn, "rule.loop_detected", { ruleKey, ruleId, rootEventId, chain: keys, paused: false });
};

const copyMap = <K, V>(from: ReadonlyMap<K, V>, to: Map<K, V>): void => {
  to.clear();
  for (const [key, value] of from) to.set(key, value);
};

const savePlayer = (player: PlayerState): (() => void) => {
  const { dirty, ...values } = player;
  const maps = HOLDING_NAMES.map((name) => new Map<string, unknown>(player[name]));
  const doc = { ...player.doc };
  for (const field of EDITED_IN_PLACE) if (doc[field]) Object.assign(doc, { [field]: { ...doc[field] } });
  const flags = { profile: dirty.profile, doc: dirty.doc };
  const sets = HOLDING_NAMES.map((name) => new Set(dirty[name]));
  return () => {
    // The maps themselves are kept, since others refer to them; their contents are restored.
    Object.assign(player, values);
    HOLDING_NAMES.forEach((name, i) => copyMap(maps[i]!, player[name] as Map<string, unknown>));
    player.doc = doc;
    Object.assign(dirty, flags);
    HOLDING_NAMES.forEach((name, i) => (dirty[name] = sets[i]!));
  };
};

const saveEffects = (effects: Effects): (() => void) => {
  const lists = Object.values(effects) as unknown[][];
  const lengths = lists.map(({ length }) => length);
  return () => lists.forEach((list, i) => (list.length = lengths[i]!));
};

/**
 * Saves the current state of a turn.
 * @returns a function that restores player, effects, derived events and shared counters; to be called at most
 * once
 */
export const saveTurn = ({ player, effects, root, shared }: Turn): (() => void) => {
  const restore = [savePlayer(player), saveEffects(effects), shared.save()];
  const derived = root.derived.length;
  const { spawned, bundles, questNews } = root;
  const news = questNews?.slice();
  const given = bundles?.given ?? 0;
  return () => {
    for (const put of restore) put();
    root.derived.length = derived;
    root.spawned = spawned;
    if (root.questNews) root.questNews = news ?? [];
    if (root.bundles) root.bundles.given = given;
  };
};
