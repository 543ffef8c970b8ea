import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { anAddress } from "../http/client.ts";
import { root, textOf } from "./documents.ts";
import { aMailTo, tokenIn } from "../mail/mailbox.ts";

/** A fenced block by the words after its ticks. */
type Block = { info: string; text: string };

export const blocksOf = (text: string): Block[] =>
  [...text.matchAll(/^```([^\n]*)\n([\s\S]*?)^```$/gm)].map(([, info = "", body = ""]) => ({
    info,
    text: body,
  }));

/**
 * A block marked `sh run`, with the `json answer` that follows it, if one does. `sh run refused`: statuses
 * that are no success do not end it. `sh run mailed ADA Verify`: MAILED is the token of the mail to $ADA with
 * that word in its subject. `sh run signed-in`: SIGNED_IN is the code that a browser brought back.
 */
type Step = { script: string; answer: unknown; kind: string; mailed: string[] };

export const stepsOf = (path: string): Step[] =>
  blocksOf(textOf(path)).flatMap(({ info, text }, i, all) => {
    const [shell, run, kind = "", ...mailed] = info.split(" ");
    if (`${shell} ${run}` !== "sh run") return [];
    const next = all[i + 1];
    const answer: unknown = next?.info === "json answer" ? JSON.parse(next.text) : undefined;
    return [{ script: text, answer, kind, mailed }];
  });

/** Holds what a document shows against what came: it may leave fields and the rest of a list out. */
const assertShown = (actual: unknown, shown: unknown, path = "answer"): void => {
  if (shown === null || typeof shown !== "object") return assert.equal(actual, shown, path);
  assert.ok(actual !== null && typeof actual === "object", `${path} is missing`);
  for (const [name, value] of Object.entries(shown)) {
    assertShown((actual as Record<string, unknown>)[name], value, `${path}.${name}`);
  }
};

export type Environment = Record<string, string | undefined>;

/**
 * curl as readers have it, but a status that is no success ends the script, and readers have an address each:
 * one may not register as often as all of them.
 */
const curlWith = (options: string): string =>
  `curl() { command curl --show-error ${options} --max-time 10 -H "X-Forwarded-For: $ADDRESS" "$@"; }\n` +
  "set -a\n";
const PREAMBLE = curlWith("--fail-with-body");
const PREAMBLE_OF_REFUSED = curlWith("");

/** The environment with the token that the step's reader would paste out of a mail. */
const withMailed = async (env: Environment, [name, subject = ""]: string[]): Promise<Environment> => {
  if (name === undefined) return env;
  return { ...env, MAILED: tokenIn(await aMailTo(env[name] ?? "", new RegExp(subject))) };
};

/** Runs one block in bash; variables and functions that it sets are there for the next one. */
const runBlock = async (
  script: string,
  env: Environment,
  folder: string,
): Promise<{ out: string; env: Environment }> => {
  const state = join(folder, "environment");
  const args = ["-euo", "pipefail", "-c", `${script}\nenv -0 > '${state}'`];
  const { stdout } = await promisify(execFile)("bash", args, { cwd: root, env });
  const variables = (await readFile(state, "utf8")).split("\0").filter((line) => line.includes("="));
  const entries = variables.map((line) => [
    line.slice(0, line.indexOf("=")),
    line.slice(line.indexOf("=") + 1),
  ]);
  return { out: stdout, env: Object.fromEntries(entries) as Environment };
};

/** The body of a refusal among what curl says of it. */
const refusalIn = (out: string): string => /^\{.*$/m.exec(out)?.[0] ?? "";

/** What readers do in a browser: signs in, given what they know by then, and returns the code. */
type SignIn = (env: Environment) => Promise<string>;

const noBrowser: SignIn = () => Promise.reject(new Error("this document has readers without a browser"));

/** Runs the blocks of a document as fast as they can be pasted; what a block shows must be there by then. */
export const runSteps = async (
  path: string,
  env: Environment,
  signIn: SignIn = noBrowser,
): Promise<Environment> => {
  const folder = await mkdtemp(join(tmpdir(), "laurel-docs-"));
  let now: Environment = { ADDRESS: anAddress(), ...env };
  try {
    for (const { script, answer, kind, mailed } of stepsOf(path)) {
      const isRefused = kind === "refused";
      if (kind === "signed-in") now = { ...now, SIGNED_IN: await signIn(now) };
      const given = await withMailed(now, mailed);
      const whole = isRefused ? `${PREAMBLE_OF_REFUSED}{ ${script}\n} 2>&1 || true` : `${PREAMBLE}${script}`;
      const done = await runBlock(whole, given, folder);
      if (answer !== undefined) assertShown(JSON.parse(isRefused ? refusalIn(done.out) : done.out), answer);
      now = done.env;
    }
    return now;
  } finally {
    await rm(folder, { recursive: true });
  }
};
