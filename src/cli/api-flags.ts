import { readFileSync } from "node:fs";
import { Option } from "commander";

/** An invalid command line; the message is meant for the person at the terminal. */
export class UsageError extends Error {}

/** Sources of the API key for commands that call a server. */
export type KeyFlags = { key?: string; keyFile?: string };

/** `--url`, which the variable URL of the guides sets too. */
export const urlOption = (): Option =>
  new Option("--url <url>", "the server").env("URL").default("http://localhost:2567");

/** Parses the address of the server, or of its API. @throws UsageError */
export const readUrl = (text: string): string => {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) throw new UsageError("--url must be an http or https address");
  if (url.username || url.password || url.search)
    throw new UsageError("--url must not contain a user, password or query");
  return `${url.origin}${url.pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "")}`;
};

/** Reads the API key, given directly or in a file. @throws UsageError */
export const readKey = ({ key, keyFile }: KeyFlags): string => {
  const text = (key ?? (keyFile === undefined ? "" : readText(keyFile))).trim();
  if (text === "") throw new UsageError("an API key is needed: --key svc_live_… or --key-file FILE");
  if (!/^[\u0021-\u007e]+$/.test(text)) throw new UsageError("the key contains invalid characters");
  return text;
};

const readText = (file: string): string => {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`cannot read ${file}: ${(error as Error).message}`);
  }
};
