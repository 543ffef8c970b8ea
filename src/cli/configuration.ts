import { readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import type { Command } from "commander";
import { z } from "zod";
import {
  addCredentialOptions,
  type CredentialFlags,
  readCredentials,
  readUrl,
  UsageError,
} from "./api-flags.ts";
import { type Api, callApi, exitCodeOf } from "./call-api.ts";
import { canAsk, confirm } from "./ask.ts";

/** A change that an import makes, as the API shows it. */
export const Change = z.object({
  section: z.string(),
  key: z.string(),
  action: z.enum(["CREATE", "UPDATE", "ARCHIVE", "DELETE"]),
  fields: z.array(z.string()),
});
export type Change = z.output<typeof Change>;

const SIGNS = { CREATE: "+", UPDATE: "~", ARCHIVE: "-", DELETE: "-" } as const;

/** Settings, the time zone and the level curve have no key of their own. */
const nameOf = ({ section, key }: Change): string => (section === key ? section : `${section} ${key}`);

const lineOf = (change: Change): string => {
  const { action, fields } = change;
  const what = fields.length === 0 ? "" : `: ${fields.join(", ")}`;
  return `${SIGNS[action]} ${nameOf(change)}${what}`;
};

const countOf = (changes: readonly Change[]): string => {
  const count = (wanted: Change["action"]) => changes.filter(({ action }) => action === wanted).length;
  const deleted = count("DELETE");
  const counts = `${count("CREATE")} added, ${count("UPDATE")} changed, ${count("ARCHIVE")} archived`;
  return deleted === 0 ? counts : `${counts}, ${deleted} deleted`;
};

/** Lists changes for people: a line for each, with the fields that differ, and their number. */
export const changesText = (changes: readonly Change[]): string =>
  changes.length === 0 ? "no difference\n" : `${[...changes.map(lineOf), countOf(changes)].join("\n")}\n`;

/** An import of the largest document takes seconds, after those of the project before it. */
const TIMEOUT_MS = 120_000;

const DIFFERS_EXIT_CODE = 4;

type Flags = CredentialFlags & { url: string };
type ExportFlags = Flags & { out?: string };
type DiffFlags = Flags & { prune?: boolean; json?: boolean };
type ImportFlags = DiffFlags & { dryRun?: boolean; yes?: boolean };

const FILE = ["<file>", "a document as laurel config export writes it, or - for standard input"] as const;
const PRUNE = ["--prune", "also archive what a section of the document does not name"] as const;
const JSON_FLAG = ["--json", "show the changes as JSON"] as const;

/** Adds `laurel config export|diff|import`; they set the process's exit code. */
export const addConfigCommand = (program: Command): void => {
  const config = program
    .command("config")
    .summary("a project's definitions as one file")
    .description(
      "Takes a project's definitions out of a server, compares them with a file, and puts them in.",
    );
  const reading = (command: Command) => addCredentialOptions(command, "scope config:read");
  reading(config.command("export"))
    .description("write all definitions as one JSON document")
    .option("--out <file>", "write into this file (default: standard output)")
    .action((flags: ExportFlags) => ending(() => exportConfig(flags)));
  reading(config.command("diff").argument(...FILE))
    .summary("show what an import of a file would change")
    .description(
      "Shows what an import of the file would add (+), change (~) and archive (-). Changes nothing.\n" +
        `Exit codes: 0 no difference, 1 failed, 2 usage, ${DIFFERS_EXIT_CODE} something differs.`,
    )
    .option(...PRUNE)
    .option(...JSON_FLAG)
    .action((file: string, flags: DiffFlags) => ending(() => diffConfig(file, flags)));
  addCredentialOptions(
    config.command("import").argument(...FILE),
    "scopes config:manage, rules:manage, leaderboards:manage",
  )
    .summary("make the project match a file")
    .description(
      "Shows what the file would change, asks, and makes all of these changes or none.\n" +
        "Exit codes: 0 done or nothing to change, 1 failed or declined, 2 usage.",
    )
    .option(...PRUNE)
    .option("--dry-run", "only show the changes")
    .option("--yes", "do not ask; needed where there is no terminal")
    .option(...JSON_FLAG)
    .action((file: string, flags: ImportFlags) => ending(() => importConfig(file, flags)));
};

const ending = async (run: () => Promise<number>): Promise<void> => {
  process.exitCode = await exitCodeOf(run);
};

const open = (flags: Flags): Api => {
  const headers = readCredentials(flags);
  if (headers["X-API-Key"]?.startsWith("svc_test_"))
    process.stderr.write("a test key: this is the project's sandbox\n");
  return { url: readUrl(flags.url), headers, stop: new AbortController().signal, timeoutMs: TIMEOUT_MS };
};

/** @throws UsageError */
const readDocument = (file: string): unknown => {
  const name = file === "-" ? "standard input" : file;
  try {
    return JSON.parse(readFileSync(file === "-" ? 0 : file, "utf8").replace(/^\uFEFF/, ""));
  } catch (error) {
    const { message } = error as Error;
    throw new UsageError(
      error instanceof SyntaxError ? `${name} is not JSON: ${message}` : `cannot read ${name}: ${message}`,
    );
  }
};

const exportConfig = async ({ out, ...flags }: ExportFlags): Promise<number> => {
  const document = await callApi(open(flags), "/config/export", z.looseObject({ format: z.string() }));
  const text = `${JSON.stringify(document, null, 2)}\n`;
  if (out === undefined) process.stdout.write(text);
  else writeFileSync(out, text);
  return 0;
};

const diffConfig = async (file: string, flags: DiffFlags): Promise<number> => {
  const api = open(flags);
  const body = { document: readDocument(file), prune: flags.prune === true };
  const answer = await callApi(api, "/config/diff", z.object({ changes: z.array(Change) }), body);
  process.stdout.write(flags.json ? `${JSON.stringify(answer, null, 2)}\n` : changesText(answer.changes));
  return answer.changes.length === 0 ? 0 : DIFFERS_EXIT_CODE;
};

const Imported = z.object({ applied: z.boolean(), changes: z.array(Change) });
type Imported = z.output<typeof Imported>;

type Send = (dryRun: boolean) => Promise<Imported>;

const show = (answer: Imported, isJson: boolean): void =>
  void process.stdout.write(isJson ? `${JSON.stringify(answer, null, 2)}\n` : changesText(answer.changes));

const importConfig = async (file: string, flags: ImportFlags): Promise<number> => {
  const { dryRun = false, yes = false, json = false, prune = false } = flags;
  const isAsked = !dryRun && !yes;
  if (isAsked && (file === "-" || !canAsk()))
    throw new UsageError(
      "there is no terminal to ask on: --yes imports without a question, --dry-run only shows",
    );
  const api = open(flags);
  const document = readDocument(file);
  const send: Send = (isTried) =>
    callApi(api, "/config/import", Imported, { document, prune, dryRun: isTried });
  if (isAsked) return importAsked(send, json);
  show(await send(dryRun), json);
  return 0;
};

/** Imports after a question; what is said about it goes to standard error. */
const importAsked = async (send: Send, isJson: boolean): Promise<number> => {
  const planned = await send(true);
  process.stderr.write(changesText(planned.changes));
  if (planned.changes.length > 0 && !(await confirm("Import?"))) {
    process.stderr.write("nothing was changed\n");
    return 1;
  }
  const done = planned.changes.length === 0 ? planned : await send(false);
  if (isJson) show(done, true);
  else process.stderr.write(outcomeOf(planned, done));
  return 0;
};

const outcomeOf = (planned: Imported, done: Imported): string => {
  if (!done.applied) return "";
  if (isDeepStrictEqual(planned.changes, done.changes)) return "imported\n";
  return `the project had changed meanwhile; this was imported:\n${changesText(done.changes)}`;
};
