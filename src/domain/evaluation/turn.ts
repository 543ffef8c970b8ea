import type { EventData, EventType } from "../kernel/events/domain-events.ts";
import type { Cause } from "../kernel/events/events.ts";
import type { BundleGrant } from "./rewards/bundle.ts";
import type { RuleObserver } from "./running/observe.ts";
import type { Effects } from "./effects.ts";
import type { EventAccount, EventAccounts } from "./event-accounts.ts";
import type { CompiledDefinitions } from "./compiled-definitions.ts";
import type { AdventureRow, PlayerAdventureState } from "./adventures/row.ts";
import type { PlayerState, QuestState } from "./player-state.ts";
import type { PlayerQuestState } from "./quests/row.ts";
import type { LoopHit, RuleEvent, RuleStep } from "./rule-event.ts";
import type { SharedCounters } from "./shared-counters.ts";

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
  /** Budgets of evaluation. */
  accounts: EventAccounts;
  /** Whether it has been reported that something could not be counted. */
  isUncountedReported?: boolean;
  /** The account that is currently charged. */
  steps: EventAccount;
  /** The rule whose actions currently run and cause its effects. */
  acting: RuleStep | undefined;
  /** Whether caps are ignored, by a simulation without limits. */
  ignoresCaps?: boolean;
  /** Called for every rule that is considered. */
  observe: RuleObserver["considered"] | undefined;
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
  stepKey?: string;
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

export const QUEST_REASONS = [
  "COUNTED",
  "PAUSED",
  "NOT_STARTED",
  "NOT_AVAILABLE",
  "LOCKED",
  "NOT_MATCHING",
  "BEFORE_START",
  "STEP_NOT_ACTIVE",
  "PLAYER_INACTIVE",
  "STEPS_EXHAUSTED",
] as const;

/** Whether a quest has counted an event, and if not, why. */
export type QuestVerdict = {
  questKey: string;
  counted: boolean;
  reason: (typeof QUEST_REASONS)[number];
  /** The reason in words. */
  detail?: string;
};

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
