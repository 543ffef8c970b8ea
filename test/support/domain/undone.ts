import assert from "node:assert/strict";
import { STEP, withTimeouts } from "../../../src/domain/kernel/timeouts.ts";
import type { Transact, Work } from "../../../src/domain/kernel/work.ts";
import { leastBlockMs } from "../cpu.ts";

class Undone extends Error {}

/**
 * The least CPU in ms between two turns of the event loop in a few transactions of a step that do the same:
 * each is undone.
 * @param enoughMs it is not done again below this
 */
export const blockOfUndone = (
  transact: Transact,
  change: (work: Work) => Promise<unknown>,
  enoughMs: number,
): Promise<number> => {
  const run = async (): Promise<void> => {
    const changing = transact(async (work) => {
      await change(work);
      throw new Undone();
    });
    await changing.catch((error: unknown) => assert(error instanceof Undone, String(error)));
  };
  return withTimeouts(STEP, () => leastBlockMs(run, enoughMs));
};
