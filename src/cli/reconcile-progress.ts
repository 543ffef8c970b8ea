import { SingleBar } from "cli-progress";
import type { Finding } from "../domain/registries/reconcile/finding.ts";
import type { ReconcileOptions, Reconciliation } from "../domain/registries/reconcile/reconcile.ts";
import { BAR, count, every, LINE_EVERY_MS, percent, type Terminal } from "./import-progress.ts";

type Shown = Finding & { isRepaired: boolean };
type Sum = Reconciliation & { repaired: number; open: number };

/** `stop` ends the bar, also when the command fails; `finish` writes the sum. */
export type ReconcileReporter = {
  onFinding(finding: Shown): void;
  onProgress: NonNullable<ReconcileOptions["onProgress"]>;
  stop(): void;
  finish(sum: Sum): void;
};

/**
 * Creates a reporter: findings and the sum go to `out`, as JSON lines on request; progress goes to `err`, as
 * a bar on a terminal and as periodic lines elsewhere, and not at all with JSON.
 */
export const createReconcileReporter = (
  { json }: { json: boolean },
  { out, err }: Terminal,
): ReconcileReporter => {
  const { onProgress, clear, stop } = json ? NO_PROGRESS : err.isTTY === true ? barOn(err) : linesOn(err);
  const write = (value: Shown | Sum, text: string): void => {
    clear();
    out.write(`${json ? JSON.stringify(value) : text}\n`);
  };
  return {
    onFinding: (finding) => write(finding, findingText(finding)),
    onProgress,
    stop,
    finish: (sum) => write(sum, sumText(sum)),
  };
};

const findingText = ({ isRepaired, invariant, projectId, playerId, message }: Shown): string =>
  `${isRepaired ? "repaired" : "found   "}  ${invariant}  ${projectId} ${playerId}  ${message}`;

const sumText = ({ players, projects, findings, repaired }: Sum): string =>
  `${players} players of ${projects} projects: ${findings} findings, ${repaired} repaired`;

/** `clear` removes what is shown on the current line, before another text is written there. */
type ProgressOutput = Pick<ReconcileReporter, "onProgress" | "stop"> & { clear(): void };

const nothing = (): void => undefined;
const NO_PROGRESS: ProgressOutput = { onProgress: nothing, clear: nothing, stop: nothing };

const barOn = (stream: NodeJS.WritableStream): ProgressOutput => {
  let bar: SingleBar | undefined;
  return {
    onProgress: ({ players, total }) => {
      const payload = { state: `${count(players)} of ${count(total)} players` };
      if (!bar) {
        bar = new SingleBar({ ...BAR, stream, format: "reconcile [{bar}] {percentage} %  {state}" });
        bar.start(total, players, payload);
      }
      bar.setTotal(total);
      bar.update(players, payload);
    },
    clear: () => void (bar?.isActive === true && stream.write("\r\u001b[K")),
    stop: () => bar?.stop(),
  };
};

const linesOn = (stream: NodeJS.WritableStream): ProgressOutput => {
  const isDue = every(LINE_EVERY_MS);
  return {
    ...NO_PROGRESS,
    onProgress: ({ players, total }) => {
      if (players === total || !isDue()) return;
      stream.write(`reconcile  ${percent(players, total)} %  ${count(players)} of ${count(total)} players\n`);
    },
  };
};
