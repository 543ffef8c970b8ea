import type { EventData, EventType } from "../kernel/events/domain-events.ts";
import type { BundleGrant } from "./rewards/bundle.ts";
import type { RuleObserver } from "./running/observe.ts";
import type { Effects } from "./effects.ts";
import type { EventAccount, EventAccounts } from "./event-accounts.ts";
import type { Game } from "./game.ts";
import type { PlayerState } from "./player-state.ts";
import type { LoopHit, RuleEvent, RuleStep } from "./rule-event.ts";
import type { SharedCounters } from "./shared-counters.ts";

/** What the passes of one root event share. */
export type Root = {
  /** The tracked event's id; of a change by REST an id of its own. */
  id: string;
  /** Whether `id` is a tracked event's, so that effects are shown with it. */
  isTracked: boolean;
  /** Events that effects brought about, first in first out. */
  derived: RuleEvent[];
  /** Derived events taken up so far. */
  taken: number;
  /** Events sent to other players or to later times so far. */
  spawned: number;
  /** How many times an action was sent so on the way to this root. */
  hop: number;
  /** How often each rule has fired, by its id. */
  firings: Map<string, number>;
  /** Types that the loop guard cut off; empty while it has not. */
  guarded: string[];
  /** Where the loop guard first held a rule. */
  loop: LoopHit | undefined;
  /** What evaluation may take. */
  accounts: EventAccounts;
  /** Whether it was told that something could not be counted. */
  isUncountedTold?: boolean;
  /** The account that pays for what is done now. */
  steps: EventAccount;
  /** The rule whose actions run now: what they bring about comes from it. */
  acting: RuleStep | undefined;
  /** Hears of every rule that is considered. */
  observe: RuleObserver["considered"] | undefined;
  /** When set, rules run in trace mode and leave what they saw here. */
  trace: TraceSink | undefined;
  /** Bundles of rewards that are being given inside one another now, and given so far. */
  bundles?: { depth: number; given: number };
  /** Rows that the outbox had before it. */
  toldBefore: number;
  /** What the player had of what boards show. */
  before: HoldingsBefore;
};

/** What a player had when a turn began, of what boards show. */
export type HoldingsBefore = { values: readonly number[]; ledger: number };

/** Collects what evaluation in trace mode sees; see evaluation/trace/trace.ts. */
export type TraceSink = {
  /** Around the pass of each event. */
  open(turn: Turn): void;
  close(turn: Turn): void;
  /** Runs the rules in the place of `runRules`, and explains them. */
  runRules(turn: Turn): void;
  warn(message: string): void;
};

/** One event's pass over one player. Actions change `player` only through the domain's functions. */
export type Turn = {
  project: Game;
  player: PlayerState;
  event: RuleEvent;
  nowMs: number;
  root: Root;
  effects: Effects;
  /** What the project's players share: global limits, budgets, stock, limited editions. */
  shared: SharedCounters;
  /**
   * Tells something that happened to the player: one outbox row, one line of the player stream, and a
   * derived event where a rule or a metric listens to its type.
   */
  emit<T extends EventType>(type: T, data: EventData<T>): void;
  /** Gives a bundle of rewards now; see evaluation/rewards/give.ts. */
  give(turn: Turn, grant: BundleGrant): void;
  /** Notes for traces, such as a division by zero. */
  warn(message: string): void;
};
