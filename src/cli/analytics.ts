import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import { isId } from "../domain/kernel/ids.ts";
import type { Transact } from "../domain/kernel/work.ts";

type Flags = { project?: string };
/** After which a project that somebody else rolls up is tried again. */
const BUSY_MS = 100;

type Run = (transact: Transact, projectId: string) => Promise<boolean>;

/** Adds `laurel analytics`; sets the process's exit code. */
export const addAnalyticsCommand = (program: Command): void => {
  const analytics = program
    .command("analytics")
    .summary("rollups of analytics: verify, rebuild")
    .description(
      "Rollups are what analytics read in place of events. In cluster mode these commands may run beside\n" +
        "servers; in embedded mode stop the server first.",
    );
  analytics
    .command("verify")
    .summary("hold rollups against events")
    .description("Says where they differ. Exit code 1 when they do.")
    .option("--project <id>", "one project; default: all")
    .action((flags: Flags, command: Command) => runFor(flags, command, verify));
  analytics
    .command("rebuild")
    .summary("build rollups anew from events")
    .description(
      "Forgets the rollups, and builds them from the events that there are. Questions read events\n" +
        "meanwhile, and are slower.",
    )
    .option("--project <id>", "one project; default: all")
    .action((flags: Flags, command: Command) => runFor(flags, command, rebuild));
};

/** Runs for each project; the exit code is 0 when all went well. */
const runFor = async ({ project }: Flags, command: Command, run: Run): Promise<void> => {
  if (project !== undefined && !isId(project))
    command.error("--project must be the UUID of a project", { exitCode: 2 });
  const { loadCommandConfig, withTransact } = await import("./with-database.ts");
  const { listProjectIds } = await import("../domain/analytics/rollups/roll-up.ts");
  const { LONG, withTimeouts } = await import("../domain/kernel/timeouts.ts");
  const config = await loadCommandConfig();
  const isGood = await withTransact(config, (transact) =>
    withTimeouts(LONG, async () => {
      const ids = await transact((work) => listProjectIds(work, project));
      if (project !== undefined && ids.length === 0) throw new Error(`There is no project ${project}`);
      let all = true;
      for (const id of ids) all = (await run(transact, id)) && all;
      return all;
    }),
  );
  process.exitCode = isGood ? 0 : 1;
};

const verify: Run = async (transact, projectId) => {
  const { SNAPSHOT } = await import("../domain/kernel/cursor.ts");
  const { asOneMessage } = await import("../domain/kernel/statements.ts");
  const { verifyRollups } = await import("../domain/analytics/rollups/verify.ts");
  const { events, documents, differences } = await transact(async (work) => {
    await asOneMessage(work.db, SNAPSHOT);
    return verifyRollups(work, projectId);
  });
  for (const { day, eventType, what } of differences) {
    const date = day === null ? "" : ` of ${new Date(day * 86_400_000).toISOString().slice(0, 10)}`;
    console.log(`project ${projectId}: ${eventType || "activity"}${date}: ${what}`);
  }
  console.log(
    `project ${projectId}: ${events} events in ${documents} documents, ${differences.length} differences`,
  );
  return differences.length === 0;
};

const rebuild: Run = async (transact, projectId) => {
  const { forgetRollups, rollUp } = await import("../domain/analytics/rollups/roll-up.ts");
  await transact((work) => forgetRollups(work, projectId));
  // A server's job may be at it, too.
  for (let state; (state = await transact((work) => rollUp(work, projectId))) !== "DONE";)
    if (state === "BUSY") await setTimeout(BUSY_MS);
  console.log(`project ${projectId}: rebuilt`);
  return true;
};
