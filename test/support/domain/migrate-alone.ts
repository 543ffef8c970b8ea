import { sql } from "kysely";
import { migrations } from "../../../src/domain/registries/migrations/list.ts";
import type { Database } from "../../../src/platform/database.ts";

/** Runs one migration alone, up or down: the code needs what later ones have made. */
export const migrateAlone = async (
  { em }: Database,
  migrationName: string,
  direction: "up" | "down",
): Promise<void> => {
  const { class: Alone } = migrations.find(({ name }) => name === migrationName)!;
  const migration = new Alone(em.getDriver(), em.config);
  migration[direction]();
  await em.fork().transactional(async (own) => {
    for (const query of migration.getQueries()) await sql.raw(query as string).execute(own.getKysely());
  });
};
