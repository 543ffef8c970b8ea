import { madeOnce } from "../made.ts";
import { startDatabase } from "./services.ts";

/** The domain over a database on PostgreSQL of its own, for the tests of one `describe`. */
export const postgresDomain = (poolMax: number, clock?: () => Date) => {
  const started = madeOnce(
    () => startDatabase(poolMax, clock),
    (made) => made.remove(),
  );
  return { database: madeOnce(() => started.database), domain: madeOnce(() => started.domain) };
};
