import type { Command } from "commander";
import { isId } from "../domain/kernel/ids.ts";
import type { Finding } from "../domain/registries/reconcile/finding.ts";
import type { ReconcileOptions, Reconciliation } from "../domain/registries/reconcile/reconcile.ts";
import { count, createProgressLine, percent, type Terminal } from "./progress.ts";

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

type Shown = Finding & { isRepaired: boolean };
type Sum = Reconciliation & { repaired: number; open: number };

/** `stop` ends the line of progress, also when the command fails; `finish` writes the sum. */
type ReconcileReporter = {
  onFinding(finding: Shown): void;
  onProgress: NonNullable<ReconcileOptions["onProgress"]>;
  stop(): void;
  finish(sum: Sum): void;
};

/**
 * Creates a reporter: findings and the sum go to `out`, as JSON lines on request; progress goes to `err`, and
 * not at all with JSON.
 */
const createReconcileReporter = ({ json }: { json: boolean }, { out, err }: Terminal): ReconcileReporter => {
  const line = createProgressLine(err);
  const write = (value: Shown | Sum, text: string): void => {
    line.clear();
    out.write(`${json ? JSON.stringify(value) : text}\n`);
  };
  return {
    onFinding: (finding) => write(finding, findingText(finding)),
    onProgress: ({ players, total }) => {
      if (json || players === total) return;
      line.show(() => `reconcile  ${percent(players, total)}  ${count(players)} of ${count(total)} players`);
    },
    stop: line.clear,
    finish: (sum) => write(sum, sumText(sum)),
  };
};

const findingText = ({ isRepaired, invariant, projectId, playerId, message }: Shown): string =>
  `${isRepaired ? "repaired" : "found   "}  ${invariant}  ${projectId} ${playerId}  ${message}`;

const sumText = ({ players, projects, findings, repaired }: Sum): string =>
  `${players} players of ${projects} projects: ${findings} findings, ${repaired} repaired`;
