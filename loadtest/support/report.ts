import { table } from "../../bench/support/stats.ts";
import type { Summary, Tally } from "./tally.ts";

const EVERY_MS = 1_000;

/** Tells now and then what is being done; a line that stays on a terminal, lines elsewhere. */
export const startProgress = (tally: Tally, out: NodeJS.WriteStream) => {
  const startMs = performance.now();
  let phase = "";
  let counted = "";
  const show = (): void => {
    const seconds = Math.round((performance.now() - startMs) / 1_000);
    const text = `${seconds} s  ${phase}${counted}  ${tally.operations} operations, ${tally.errors} errors`;
    out.write(out.isTTY ? `\r\u001b[2K${text}` : `${text}\n`);
  };
  const timer = setInterval(show, EVERY_MS);
  return {
    say: (now: string): void => {
      phase = now;
      counted = "";
      show();
    },
    count: (done: number, of: number): void => {
      counted = ` ${done} of ${of}`;
    },
    stop: (): void => {
      clearInterval(timer);
      if (out.isTTY) out.write("\r\u001b[2K");
    },
  };
};

/** A summary for people. */
export const summaryText = (summary: Summary): string => {
  const { scenario, clients, seconds, operations, deliveries, errors, isOk } = summary;
  const lines = operations.map(({ name, count, p50, p95, p99, max }) => [
    name,
    ...[count, p50, p95, p99, max].map(String),
  ]);
  const parts = [
    `${scenario}: ${clients} clients, ${seconds} s: ${isOk ? "ok" : "FAILED"}`,
    table(["operation (ms)", "count", "p50", "p95", "p99", "max"], lines),
    ...deliveries.map(({ name, expected, received }) => `${name}: ${received} of ${expected}`),
    ...errors.map(({ message, count }) => `${count} x ${message}`),
  ];
  return `${parts.join("\n")}\n`;
};
