import { spawn } from "node:child_process";
import { once } from "node:events";

const MAIN = new URL("../../../src/main.ts", import.meta.url).pathname;

export type CommandResult = { code: number; text: string };

/** Runs `laurel admin ...` to its end; `input` is its standard input. */
export const laurelAdmin = (
  args: readonly string[],
  env: Record<string, string>,
  input = "",
): Promise<CommandResult> => laurel(["admin", ...args], env, input);

/** Runs `laurel ...` to its end. */
export const laurel = async (
  args: readonly string[],
  env: Record<string, string>,
  input = "",
): Promise<CommandResult> => {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  // A command that needs no input may end before it is read.
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const [code] = (await once(child, "close")) as [number];
  return { code, text };
};
