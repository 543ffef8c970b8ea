import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";

/** Exit code for Ctrl+C at a question. */
const INTERRUPTED_EXIT_CODE = 130;

/** Prompts on the terminal without echoing the input. */
const promptHidden = (question: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
    const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true, historySize: 0 });
    // Only now: from here on the terminal echoes nothing.
    process.stderr.write(question);
    let answer: string | undefined;
    lines.once("SIGINT", () => {
      lines.close();
      process.exit(INTERRUPTED_EXIT_CODE);
    });
    lines.once("line", (line) => {
      answer = line;
      lines.close();
    });
    lines.once("close", () => {
      process.stderr.write("\n");
      if (answer === undefined) reject(new Error("No password was given"));
      else resolve(answer);
    });
  });

/**
 * Reads a new password: typed twice on the terminal, otherwise the first line of standard input.
 * @throws Error when there is none, or the two differ
 */
export const readNewPassword = async (): Promise<string> => {
  if (process.stdin.isTTY) {
    const password = await promptHidden("Password: ");
    if (password === (await promptHidden("Once more: "))) return password;
    throw new Error("The two passwords differ; nothing was changed");
  }
  const [password = ""] = (await text(process.stdin)).split(/\r?\n/, 1);
  if (password !== "") return password;
  throw new Error("Write the password to standard input, or use --generate");
};

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
