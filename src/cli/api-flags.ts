import { readFileSync } from "node:fs";
import { type Command, Option } from "commander";

/** A command that was misused; the message is meant for the person at the terminal. */
export class UsageError extends Error {
  /** For main.ts, which loads no class of a command. */
  readonly exitCode = 2;
}

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

/** The header of a request by an API key. */
export const keyHeader = (key: string): Record<string, string> => ({ "X-API-Key": key });

/** Adds the flags of a command that takes a key. */
export const addKeyOptions = (command: Command, scopes: string): Command =>
  command
    .option("--key <key>", `the project's API key (${scopes})`)
    .option("--key-file <file>", "read the key from a file instead: it then shows in no process list");

/** Credentials of a key or of a person, who has to name the project. */
export type CredentialFlags = KeyFlags & { token?: string; tokenFile?: string; project?: string };

/** Adds the flags of a command that takes a key or an access token. */
export const addCredentialOptions = (command: Command, scopes: string): Command =>
  addKeyOptions(command, scopes)
    .option("--token <token>", "an access token instead of a key, with --project")
    .option("--token-file <file>", "read the access token from a file instead")
    .option("--project <id>", "the project's id, for an access token")
    .addOption(urlOption());

/** Reads the headers that say who calls. @throws UsageError */
export const readCredentials = (flags: CredentialFlags): Record<string, string> => {
  const isToken = flags.token !== undefined || flags.tokenFile !== undefined;
  const isKey = flags.key !== undefined || flags.keyFile !== undefined;
  if (isToken && isKey) throw new UsageError("a key or an access token is needed, not both");
  if (isToken) return readToken(flags);
  if (!isKey)
    throw new UsageError(
      "a key or an access token is needed: --key-file FILE, or --token-file FILE --project ID",
    );
  if (flags.project === undefined) return keyHeader(readKey(flags));
  throw new UsageError("--project is for access tokens: a key has its own");
};

const readToken = ({ token: given, tokenFile, project }: CredentialFlags): Record<string, string> => {
  if (project === undefined) throw new UsageError("an access token needs --project");
  const token = (given ?? readText(tokenFile!)).trim();
  if ([token, project].some((text) => !/^[\u0021-\u007e]+$/.test(text)))
    throw new UsageError("the access token or --project contains invalid characters");
  return { Authorization: `Bearer ${token}`, "X-Project-ID": project };
};

const readText = (file: string): string => {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`cannot read ${file}: ${(error as Error).message}`);
  }
};
