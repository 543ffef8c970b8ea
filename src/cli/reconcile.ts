import type { Command } from "commander";
import { isId } from "../domain/kernel/ids.ts";

type Flags = { project?: string; repair?: boolean; json?: boolean };

/** Adds `laurel reconcile`; sets the process's exit code. */
export const addReconcileCommand = (program: Command): void => {
  program
    .command("reconcile")
    .summary("hold players against their ledgers")
    .description(
      "Checks that XP, balances, holds, levels, streams, executions, badges and XP boards are what they\n" +
        "must be, and says where they are not. In cluster mode it may run beside servers; in embedded\n" +
        "mode stop the server first. Exit code 1 when something was found and not repaired.",
    )
    .option("--project <id>", "one project; default: all")
    .option("--repair", "put derived data right from what it is derived from")
    .option("--json", "one JSON object a line: each finding, then the sum; no progress")
    .action(async (flags: Flags, command: Command) => {
      if (flags.project !== undefined && !isId(flags.project))
        command.error("--project must be the UUID of a project", { exitCode: 2 });
      process.exitCode = await run(flags);
    });
};

const run = async ({ project, repair = false, json = false }: Flags) => {
  const { reconcile } = await import("../domain/registries/reconcile/reconcile.ts");
  const { loadCommandConfig, withTransact } = await import("./with-database.ts");
  const { createReconcileReporter } = await import("./reconcile-progress.ts");
  const config = await loadCommandConfig();
  const reporter = createReconcileReporter({ json }, { out: process.stdout, err: process.stderr });
  let open = 0;
  const total = await withTransact(config, (transact) =>
    reconcile(transact, {
      repair,
      ...(project === undefined ? {} : { projectId: project }),
      onFinding: (finding) => {
        const isRepaired = repair && finding.isRepairable;
        if (!isRepaired) open++;
        reporter.onFinding({ ...finding, isRepaired });
      },
      onProgress: reporter.onProgress,
    }),
  ).finally(reporter.stop);
  reporter.finish({ ...total, repaired: total.findings - open, open });
  return open === 0 ? 0 : 1;
};
