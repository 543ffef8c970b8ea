import { outboxRow } from "../kernel/outbox-row.ts";
import type { Effects } from "./effects.ts";
import type { EventAccount, Spender } from "./event-accounts.ts";
import type { Root, Turn } from "./turn.ts";

/**
 * Steps of writing a row, besides its bytes: a short one of the outbox takes some 30 us to be built, sent and
 * inserted, at 0.12 us a step, as the slower ones of evaluation.
 */
const ROW_STEPS = 250;
/** Bytes of a row as JSON per step: 1,000 that do not compress take another 30 us. */
const WRITTEN_PER_STEP = 4;

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

/** Adds a row to the event's effects. It is charged even if it is rolled back later. */
export const write = <K extends keyof Effects>(
  { effects, root }: Pick<Turn, "effects" | "root">,
  kind: K,
  row: Effects[K][number],
): void => {
  root.steps.written.spend(ROW_STEPS + sizeOf(row) / WRITTEN_PER_STEP);
  (effects[kind] as Effects[K][number][]).push(row);
};

/** Runs `run` and charges its steps to `account`. */
export const payBy = <T>(root: Root, account: EventAccount, run: () => T): T => {
  const { steps } = root;
  root.steps = account;
  try {
    return run();
  } finally {
    root.steps = steps;
  }
};

/** Where evaluation ran out of steps: the most expensive single definition. */
export type StepsHit = { projectId: string; rootEventId: string; spender: Spender };

/** Returns the most expensive definition of an exceeded account; undefined while none is. */
export const stepsHitOf = ({ root, project }: Turn): StepsHit | undefined => {
  const { rules, upkeep } = root.accounts;
  const dearest = [rules.written, rules, upkeep].find(({ isSpent }) => isSpent)?.dearest;
  return dearest && { projectId: project.projectId, rootEventId: root.id, spender: dearest.spender };
};

/** Reports, once per root, that its step budget was exceeded. */
export const reportStepsHit = (turn: Turn): void => {
  const { root } = turn;
  const hit = root.accounts.isTold ? undefined : stepsHitOf(turn);
  if (!hit) return;
  root.accounts.isTold = true;
  const data = { ...hit.spender, rootEventId: hit.rootEventId, paused: false };
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(hit.projectId, "event.steps_exhausted", data, options));
};

/** Reports, once per root, that a player's document had no room for the counter of a definition. */
export const reportUncounted = (turn: Turn, spender: Spender | undefined): void => {
  const { root, player } = turn;
  if (root.isUncountedReported || !spender) return;
  root.isUncountedReported = true;
  const data = {
    ...spender,
    rootEventId: root.id,
    playerId: player.id,
    externalUserId: player.externalUserId,
  };
  const options = root.isTracked ? { eventId: root.id } : {};
  write(turn, "outbox", outboxRow(player.projectId, "event.uncounted", data, options));
};
