import { hostname } from "node:os";
import { fnv1a } from "../kernel/ids.ts";

/** Transactions of a process that count at once without meeting. */
const LANES = 8;
/** Of them, those of groups; the others count single requests within larger transactions. */
const GROUP_LANES = 4;
/** Processes that never meet, as far as their numbers differ: those of one machine mostly do. */
const PROCESSES = 32;

const first = 1 + ((fnv1a(hostname()) + process.pid) % PROCESSES) * LANES;
let turn = 0;

/** Returns the slot of a lane; at most one transaction at a time should count in each. */
export const groupSlot = (lane: number): number => first + (lane % GROUP_LANES);

/** Returns a slot for a transaction that knows nothing of others. */
export const singleSlot = (): number => {
  turn = (turn + 1) % (LANES - GROUP_LANES);
  return first + GROUP_LANES + turn;
};
