import { spawn } from "node:child_process";
import { once } from "node:events";
import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { doctorCommand } from "../../../src/cli/doctor.ts";
import type { Check } from "../../../src/cli/doctor-checks.ts";
import { type Env, readConfig } from "../../../src/config.ts";

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

type Report = { ok: boolean; failed: number; warned: number; checks: Check[] };

/** A stream that keeps what is written to it. */
export const collector = () => {
  const parts: string[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      parts.push(chunk.toString());
      done();
    },
  });
  return { stream, text: () => parts.join("") };
};

/** Runs `laurel doctor` with an environment. */
export const runDoctor = async (
  env: Env,
  flags: { json?: boolean } = {},
): Promise<{ code: number; text: string }> => {
  const { stream, text } = collector();
  const code = await doctorCommand(flags, stream, () => readConfig(env));
  return { code, text: text() };
};

/** What it finds. */
export const doctorReport = async (
  env: Env,
): Promise<{ code: number; find: (name: string) => Check; report: Report }> => {
  const { code, text } = await runDoctor(env, { json: true });
  const parsed = JSON.parse(text) as Report;
  const find = (name: string) => {
    const check = parsed.checks.find((one) => one.name === name);
    return check ?? assert.fail(`no check of ${name} in ${text}`);
  };
  return { code, find, report: parsed };
};
