import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { blocksOf } from "./steps.ts";
import { root, textOf } from "./documents.ts";

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

export type Printed = { child: ChildProcess; output: () => string; ended: Promise<number | string> };

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
