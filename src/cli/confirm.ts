import { createInterface } from "node:readline";

/** Exit code for Ctrl+C at a question. */
const INTERRUPTED_EXIT_CODE = 130;

/** Whether somebody sees a question and can answer it. */
export const canAsk = (): boolean => process.stdin.isTTY && process.stderr.isTTY;

/** Asks on the terminal; anything but y or yes is a no, and so is the end of the input. */
export const confirm = (question: string): Promise<boolean> =>
  new Promise((resolve) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr, historySize: 0 });
    let isYes = false;
    lines.once("SIGINT", () => {
      lines.close();
      process.exit(INTERRUPTED_EXIT_CODE);
    });
    lines.once("close", () => resolve(isYes));
    lines.question(`${question} [y/N] `, (answer) => {
      isYes = /^y(es)?$/i.test(answer.trim());
      lines.close();
    });
  });
