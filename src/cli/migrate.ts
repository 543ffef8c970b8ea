import type { Command } from "commander";
import type { Database } from "../platform/database.ts";
import { canAsk, confirm } from "./ask.ts";

type Direction = "up" | "down" | "status";

/** Adds `laurel migrate [up|down|status]`; sets the process's exit code. */
export const addMigrateCommand = (program: Command): void => {
  program
    .command("migrate")
    .argument("[direction]", "up: apply what is pending; down: take the newest back; status: list", "up")
    .description("change or show the database's schema; the server applies pending migrations when it starts")
    .option("--yes", "take back without a question; needed where there is no terminal")
    .action(async (direction: string, { yes = false }: { yes?: boolean }, command: Command) => {
      if (!isDirection(direction)) command.error("direction must be up, down or status", { exitCode: 2 });
      if (direction === "down" && !yes && !canAsk()) command.error(NOBODY_TO_ASK, { exitCode: 2 });
      process.exitCode = await migrate(direction, yes);
    });
};

const NOBODY_TO_ASK =
  "down loses data, and there is no terminal to ask on: --yes takes the newest migration back all the same";

const isDirection = (text: string): text is Direction => ["up", "down", "status"].includes(text);

const migrate = async (direction: Direction, isAgreed: boolean): Promise<number> => {
  const { loadCommandConfig, withDatabase } = await import("./with-database.ts");
  return withDatabase(await loadCommandConfig(), async (database) => {
    if (direction === "down") return takeBack(database, isAgreed);
    if (direction === "up") tell("up", await database.migrateUp());
    else await list(database);
    return 0;
  });
};

const list = async (database: Database): Promise<void> => {
  for (const { name, isApplied, isNewer } of await database.migrationStates()) {
    const state = isApplied ? "applied" : "pending";
    console.log(`${(isNewer ? "newer" : state).padEnd(7)}  ${name}`);
  }
};

const tell = (direction: Direction, names: readonly string[]): void =>
  console.log(names.length === 0 ? "nothing to do" : names.map((name) => `${direction}  ${name}`).join("\n"));

/** Takes the newest migration back, after a question. @returns the exit code: 1 when it was declined */
const takeBack = async (database: Database, isAgreed: boolean): Promise<number> => {
  const newest = (await database.migrationStates()).findLast(({ isApplied }) => isApplied);
  if (!newest || newest.isNewer || isAgreed) {
    tell("down", newest ? await database.migrateDown(newest.name) : []);
    return 0;
  }
  process.stderr.write(
    `This takes ${newest.name} back. The data in the tables and columns that it brought are lost.\n`,
  );
  if (!(await confirm("Take it back?"))) {
    process.stderr.write("nothing was changed\n");
    return 1;
  }
  tell("down", await database.migrateDown(newest.name));
  return 0;
};
