import { madeOnce } from "../made.ts";
import { openDomain } from "./domain.ts";
import { openMemoryDatabase } from "./memory-database.ts";

/** The domain over an embedded database of its own, for the tests of one `describe`. */
export const memoryDomain = (clock?: () => Date, mayDie = false) => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  return { database, domain: madeOnce(() => openDomain(database, clock, mayDie)) };
};
