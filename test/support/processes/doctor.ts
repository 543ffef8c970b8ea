import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { doctorCommand } from "../../../src/cli/doctor.ts";
import type { Check } from "../../../src/cli/doctor-checks.ts";
import { type Env, readConfig } from "../../../src/config.ts";

type Report = { ok: boolean; failed: number; warned: number; checks: Check[] };

/** Runs `laurel doctor` with an environment. */
export const runDoctor = async (
  env: Env,
  flags: { json?: boolean } = {},
): Promise<{ code: number; text: string }> => {
  const parts: string[] = [];
  const out = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      parts.push(chunk.toString());
      done();
    },
  });
  const code = await doctorCommand(flags, out, () => readConfig(env));
  return { code, text: parts.join("") };
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
