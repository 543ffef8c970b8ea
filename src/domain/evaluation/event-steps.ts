import { outboxRow } from "../kernel/outbox-row.ts";
import type { Effects } from "./effects.ts";
import type { EventAccount, Spender } from "./event-accounts.ts";
import type { Root, Turn } from "./turn.ts";

/**
 * Steps of writing a row, beside its bytes: a short one of the outbox takes some 30 us to be made, sent and
 * inserted, 0.12 us a step, as the slower ones of evaluation.
 */
const ROW_STEPS = 250;
/** Bytes of a row as JSON that are one step: 1,000 that do not compress take another 30 us. */
const WRITTEN_PER_STEP = 4;

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
