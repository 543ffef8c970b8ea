import { threadCpuMs } from "../cpu-clock.ts";
import { PacedBudget } from "../pace.ts";
import { StepBudget } from "../step-budget.ts";
import { outboxRow } from "../work.ts";
import type { Effects } from "./effects.ts";
import type { Heard, PlayerState, Root, RuleEvent, Turn } from "./turn.ts";

/** Steps that the rules which one tracked event sets off may take together, derived events included. */
export const RULE_STEPS_MAX = 250_000;
/** Steps that counters, streaks, segments, badges and leaderboards may take for one tracked event. */
export const UPKEEP_STEPS_MAX = 250_000;
/** Steps that explaining those rules may take beside running them; what is left is not shown. */
export const EXPLAIN_STEPS_MAX = 250_000;
/**
 * Steps of what those rules may write: 500 short rows, or 600 kB in long ones. The rule that crosses it
 * writes to its end, and no further one fires.
 */
export const WRITTEN_STEPS_MAX = 200_000;
/**
 * Steps of writing a row, beside its bytes: a short one of the outbox takes some 30 us to be made, sent and
 * inserted, 0.12 us a step, as the slower ones of evaluation.
 */
const ROW_STEPS = 250;
/** Bytes of a row as JSON that are one step: 1,000 that do not compress take another 30 us. */
const WRITTEN_PER_STEP = 4;

/** A definition of a project that evaluation spends steps on. */
export type Spender = {
  kind: "rule" | "badge" | "streak" | "segment" | "leaderboard";
  id: string;
  key: string;
};

/** A budget of one tracked event, and what has taken the most of it at once. */
class SpenderBudget extends StepBudget {
  dearest: { spender: Spender; steps: number } | undefined;

  /** Notes what was spent on a definition since `before`, the steps that had been spent then. */
  noteSpender(spender: Spender, before: number): void {
    const steps = this.spent - before;
    if (this.dearest === undefined || steps > this.dearest.steps) this.dearest = { spender, steps };
  }
}

/** What part of one event's evaluation may take of the processor, and of the database: `written`. */
export class EventAccount extends SpenderBudget {
  readonly written: SpenderBudget;

  constructor(max: number, writtenMax: number) {
    super(max);
    this.written = new SpenderBudget(writtenMax);
  }

  override get isSpent(): boolean {
    return super.isSpent || this.written.isSpent;
  }
}

/** What evaluation of one tracked event may take: rules cannot starve counters, nor the other way round. */
export type EventAccounts = {
  rules: EventAccount;
  upkeep: EventAccount;
  /** Pays for showing what rules saw, of an event that is explained. */
  explaining: EventAccount;
  isTold: boolean;
};

const accountsOf = (rules: EventAccount): EventAccounts => ({
  rules,
  // Levels and badges come once: what they write is counted, and never keeps the rest from being counted.
  upkeep: new EventAccount(UPKEEP_STEPS_MAX, Infinity),
  explaining: new EventAccount(EXPLAIN_STEPS_MAX, Infinity),
  isTold: false,
});

export const openAccounts = (): EventAccounts =>
  accountsOf(new EventAccount(RULE_STEPS_MAX, WRITTEN_STEPS_MAX));

/** Text up to this length is taken for ASCII: asking takes longer than what comes of it. */
const SHORT_TEXT = 50;
/** Bytes of a number, true, false or null. */
const WORD_BYTES = 5;

/** About the bytes of a value as JSON, for a fifth of what writing it as JSON takes. */
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

/** Adds a row to what the event writes. Whatever is undone later has been paid for all the same. */
export const write = <K extends keyof Effects>(
  { effects, root }: Pick<Turn, "effects" | "root">,
  kind: K,
  row: Effects[K][number],
): void => {
  root.steps.written.spend(ROW_STEPS + sizeOf(row) / WRITTEN_PER_STEP);
  (effects[kind] as Effects[K][number][]).push(row);
};

/**
 * Steps that rules may take for all players whom one transaction changes outside of events: a request, or a
 * page of a job. Rules that hear of the players after that do not fire.
 */
export const CHANGE_STEPS_MAX = 2_000_000;
/** Steps of what those rules may write: as much as 20 effects of each player of a full page. */
export const CHANGE_WRITTEN_STEPS_MAX = 4_000_000;
/** Steps of an event beside what definitions take: of its rows, and of what is loaded with its player. */
export const EVENT_STEPS = 200;
/** Bytes of a player's document, as JSON, that are read and written again in one step. */
const LOADED_PER_STEP = 4;

/** Steps of having a player in hand: of reading what is kept in one document, and of writing it again. */
export const loadSteps = ({ docSize }: Pick<PlayerState, "docSize">): number =>
  docSize.bytes / LOADED_PER_STEP;

/** Steps of changing a player, beside what definitions take. */
export const PLAYER_STEPS = 200;

/**
 * Steps that a millisecond of CPU counts for at least: 2 s for all players, a fifth of the speed at which
 * steps take their time. Only what takes far longer than its steps say comes to it.
 */
const CHANGE_STEPS_PER_MS = 1_000;

/** What the players share whom one transaction changes outside of events. */
export class ChangeBudget extends PacedBudget {
  readonly written = new StepBudget(CHANGE_WRITTEN_STEPS_MAX);
  readonly #cpuMs: () => number;
  #openedMs = 0;

  /** @param cpuMs the CPU that this thread has taken, in ms */
  constructor(cpuMs = threadCpuMs) {
    super(CHANGE_STEPS_MAX);
    this.#cpuMs = cpuMs;
  }

  /** The accounts of the next player; `close` them before those of another are opened. */
  open(): EventAccounts {
    this.#openedMs = this.#cpuMs();
    const { isSpent, left } = this.written;
    const steps = isSpent ? 0 : Math.min(RULE_STEPS_MAX, this.left);
    return accountsOf(new EventAccount(steps, Math.min(WRITTEN_STEPS_MAX, left)));
  }

  /** Counts what a player has taken, and gives way to others. */
  async close(accounts: EventAccounts): Promise<void> {
    const timed = (this.#cpuMs() - this.#openedMs) * CHANGE_STEPS_PER_MS;
    this.spend(PLAYER_STEPS + Math.max(stepsOf(accounts), timed));
    this.written.spend(accounts.rules.written.spent);
    await this.rest();
  }
}

/** Steps that the accounts have spent, without what they write. */
export const stepsOf = ({ rules, upkeep, explaining }: EventAccounts): number =>
  rules.spent + upkeep.spent + explaining.spent;

/** Steps of what both accounts write. */
export const writtenOf = ({ rules, upkeep }: EventAccounts): number =>
  rules.written.spent + upkeep.written.spent;

/** Runs `run` with `account` paying for what is done. */
export const payBy = <T>(root: Root, account: EventAccount, run: () => T): T => {
  const { steps } = root;
  root.steps = account;
  try {
    return run();
  } finally {
    root.steps = steps;
  }
};

/** Where evaluation ran out of steps: the definition that had taken the most at once. */
export type StepsHit = { projectId: string; rootEventId: string; spender: Spender };

/** The dearest definition of the accounts that are spent; undefined while none is. */
export const stepsHitOf = ({ root, project }: Turn): StepsHit | undefined => {
  const { rules, upkeep } = root.accounts;
  const dearest = [rules.written, rules, upkeep].find(({ isSpent }) => isSpent)?.dearest;
  return dearest && { projectId: project.projectId, rootEventId: root.id, spender: dearest.spender };
};

/** Tells, once for a root, that its steps did not suffice. */
export const tellSteps = (turn: Turn): void => {
  const { root } = turn;
  const hit = root.accounts.isTold ? undefined : stepsHitOf(turn);
  if (!hit) return;
  root.accounts.isTold = true;
  const data = { ...hit.spender, rootEventId: hit.rootEventId, paused: false };
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(hit.projectId, "event.steps_exhausted", data, options));
};

/** Tells, once for a root, that a player's document had no room for what a definition counts. */
export const tellUncounted = (turn: Turn, spender: Spender | undefined): void => {
  const { root, player } = turn;
  if (root.isUncountedTold || !spender) return;
  root.isUncountedTold = true;
  const data = { ...spender, rootEventId: root.id, playerId: player.id };
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(player.projectId, "event.uncounted", data, options));
};

/** An event of the past as definitions look at it; what they take is charged to `steps`. */
export const pastEvent = (event: Omit<RuleEvent, "depth">, steps = new StepBudget(Infinity)): Heard => ({
  event: { ...event, depth: 0 },
  root: { steps },
});
