import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { anAddress } from "../http/client.ts";
import { aMailTo, tokenIn } from "../mail/mailbox.ts";

export const root = join(import.meta.dirname, "../../..");
export const textOf = (path: string): string => readFileSync(join(root, path), "utf8");

/** What stands between a heading and the next one of any level. @throws Error without the heading */
const sectionOf = (path: string, heading: string): string => {
  const found = new RegExp(`^#+ ${heading}\\n([\\s\\S]*?)(?=^#|(?![\\s\\S]))`, "m").exec(textOf(path));
  if (!found) throw new Error(`${path} has no heading ${heading}`);
  return found[1]!;
};

const isRule = (line: string): boolean => /^\|[-|: ]+\|$/.test(line);

/** The cells of every table row of a Markdown text, without the heads of the tables. */
export const rowsIn = (text: string): string[][] =>
  text
    .split("\n")
    .filter((line, i, all) => line.startsWith("|") && !isRule(line) && !isRule(all[i + 1] ?? ""))
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );

/** The cells of every table row under a heading, without the heads of the tables. */
export const rowsOf = (path: string, heading: string): string[][] => rowsIn(sectionOf(path, heading));

/** The words in backticks of a cell. */
export const namesIn = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);

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

/** The block of a document that has `words` in it, as it is printed. @throws Error unless there is one */
export const blockWith = (path: string, words: string): string => {
  const found = blocksOf(textOf(path)).filter(({ info, text }) => info === "sh" && text.includes(words));
  if (found.length !== 1) throw new Error(`${path} has ${found.length} blocks with ${words}`);
  return found[0]!.text;
};

/** The commands of a block, one of each line, without what is said about them. */
export const commandsOf = (block: string): string[] =>
  block
    .split("\n")
    .map((line) => line.replace(/(^|\s+)#.*$/, "").trim())
    .filter((line) => line !== "");

type Printed = { child: ChildProcess; output: () => string; ended: Promise<number | string> };

/** What a shell has of the network, without which a command may be unable to fetch anything. */
const OF_NETWORK = /^(node_extra_ca_certs|ssl_cert_file|ssl_cert_dir|https?_proxy|no_proxy)$/i;

/** Variables of this process that a reader's shell has too, and none of Laurel's settings. */
const shellVariables = (): NodeJS.ProcessEnv => {
  const { PATH, HOME } = process.env;
  const network = Object.entries(process.env).filter(([name]) => OF_NETWORK.test(name));
  return { PATH, HOME, ...Object.fromEntries(network) };
};

/** Runs a command as a reader of the documents would, in a shell in the checkout. */
export const runPrinted = (
  command: string,
  env: Record<string, string | undefined>,
  input: "ignore" | { text: string } = "ignore",
): Printed => {
  const child = spawn("bash", ["-c", command], {
    cwd: root,
    env: { ...shellVariables(), ...env },
    stdio: [input === "ignore" ? "ignore" : "pipe", "pipe", "pipe"],
  });
  if (input !== "ignore") child.stdin!.end(input.text);
  let text = "";
  for (const stream of [child.stdout!, child.stderr!])
    stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const ended = new Promise<number | string>((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? signal ?? "")),
  );
  return { child, output: () => text, ended };
};

/** Ends with the output of a command. @throws Error with it when the exit code is not `code` */
export const finished = async (printed: Printed, code = 0): Promise<string> => {
  const ended = await printed.ended;
  if (ended !== code) throw new Error(`ended with ${ended}, not ${code}:\n${printed.output()}`);
  return printed.output();
};

/** All processes that `pid` has started, and those that they have. */
export const descendantsOf = (pid: number): { pid: number; args: string }[] => {
  const { stdout } = spawnSync("ps", ["-e", "-o", "pid=,ppid=,args="], { encoding: "utf8" });
  const all = stdout.split("\n").flatMap((line) => {
    const [, own, parent, args = ""] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    return own === undefined ? [] : [{ pid: Number(own), parent: Number(parent), args }];
  });
  const below = (parent: number): { pid: number; args: string }[] =>
    all.filter((one) => one.parent === parent).flatMap((one) => [one, ...below(one.pid)]);
  return below(pid);
};

export const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
