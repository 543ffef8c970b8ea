import type { Finding } from "../domain/registries/reconcile/finding.ts";
import type { ReconcileOptions, Reconciliation } from "../domain/registries/reconcile/reconcile.ts";
import { count, createProgressLine, percent, type Terminal } from "./progress.ts";

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
export const createReconcileReporter = (
  { json }: { json: boolean },
  { out, err }: Terminal,
): ReconcileReporter => {
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
