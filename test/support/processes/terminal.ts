import { spawn } from "node:child_process";
import { once } from "node:events";

const MAIN = new URL("../../../src/main.ts", import.meta.url).pathname;

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/**
 * Runs `laurel` on a terminal, which util-linux's `script` makes, and types `answer` once `question` is
 * there.
 * @returns the exit code, and all that the terminal has shown
 */
export const onTerminal = async (
  args: readonly string[],
  env: Record<string, string>,
  typed: { question: RegExp; answer: string },
): Promise<{ code: number; text: string }> => {
  const command = `exec ${[process.execPath, MAIN, ...args].map(quoted).join(" ")}`;
  const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
    env: { PATH: process.env["PATH"] ?? "", SHELL: "/bin/sh", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let text = "";
  let isTyped = false;
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
    if (isTyped || !typed.question.test(text)) return;
    isTyped = true;
    child.stdin.write(typed.answer);
  });
  const [code] = (await once(child, "close")) as [number];
  return { code, text: text.replaceAll("\r", "") };
};
