import type { Command } from "commander";

type Direction = "up" | "down" | "status";

/** Adds `laurel migrate [up|down|status]`. */
export const addMigrateCommand = (program: Command): void => {
  program
    .command("migrate")
    .argument("[direction]", "up: apply what is pending; down: take the newest back; status: list", "up")
    .description("change or show the database's schema; the server applies pending migrations when it starts")
    .action(async (direction: string) => {
      if (!isDirection(direction)) program.error("direction must be up, down or status", { exitCode: 2 });
      await migrate(direction);
    });
};

const isDirection = (text: string): text is Direction => ["up", "down", "status"].includes(text);

const migrate = async (direction: Direction): Promise<void> => {
  const { loadConfig } = await import("../config.ts");
  const { withDatabase } = await import("./with-database.ts");
  await withDatabase(await loadConfig(), async (database) => {
    if (direction === "status") {
      for (const { name, isApplied, isNewer } of await database.migrationStates()) {
        const state = isApplied ? "applied" : "pending";
        console.log(`${(isNewer ? "newer" : state).padEnd(7)}  ${name}`);
      }
      return;
    }
    const names = direction === "up" ? await database.migrateUp() : await database.migrateDown();
    console.log(
      names.length === 0 ? "nothing to do" : names.map((name) => `${direction}  ${name}`).join("\n"),
    );
  });
};
