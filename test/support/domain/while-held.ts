import type { Transact, Work } from "../../../src/domain/kernel/work.ts";
import { eventually } from "../eventually.ts";

/** Runs `run` while another transaction has done `take` and is not over. */
export const whileTaken = async (
  transact: Transact,
  take: (work: Work) => Promise<unknown>,
  run: () => Promise<void>,
): Promise<void> => {
  const released = Promise.withResolvers<void>();
  let isHeld = false;
  const holder = transact(async (work) => {
    await take(work);
    isHeld = true;
    await released.promise;
  });
  try {
    await Promise.race([holder, eventually(() => isHeld)]);
    await run();
  } finally {
    released.resolve();
    await holder;
  }
};
