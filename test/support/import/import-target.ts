import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { createServer } from "node:http";
import { importCommand, type ImportFlags } from "../../../src/cli/import.ts";
import type { Verdict } from "../../../src/cli/import-client.ts";
import { type ImportOptions, runImport } from "../../../src/cli/import-run.ts";
import { aTenant, startApp } from "../app/app.ts";
import { listen } from "../http/listen.ts";
import { collector } from "../processes/command.ts";

/** The server of this process as an import sees it; each key is of a tenant of its own. */
export const importTarget = async () => {
  const api = await startApp();
  const projects = new Map<string, string>();
  return {
    url: api.url,
    newKey: async (): Promise<string> => {
      const { key, projectId } = await aTenant(api);
      projects.set(key, projectId);
      return key;
    },
    /** How many events a key's project holds. */
    countEvents: async (key: string): Promise<number> => {
      const rows = await api.sql<{ count: number }>`
        select count(*) as count from tracked_events where project_id = ${projects.get(key)}::uuid`;
      return rows[0]!.count;
    },
  };
};

/** Real data that the project does not contain; tests that need it skip where it is absent. */
export const DATA_DIR = join(import.meta.dirname, "../../../../shared/data");

/** A directory of one test. */
export const temporaryDirectory = () => {
  const path = mkdtempSync(join(tmpdir(), "laurel-import-"));
  return {
    path,
    file: (name: string, content: string | Buffer): string => {
      const file = join(path, name);
      writeFileSync(file, name.endsWith(".gz") ? gzipSync(content) : content);
      return file;
    },
    remove: (): void => rmSync(path, { recursive: true, force: true }),
  };
};

type EventLine = { player?: string; n: number; key?: string | null };

/** A line of a file: event `n` of a player, with a key unless it is null. */
export const eventLine = ({ player = "ann", n, key = `k-${player}-${n}` }: EventLine): string =>
  JSON.stringify({
    externalUserId: player,
    eventType: "level_finished",
    properties: { n },
    timestamp: new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString(),
    ...(key === null ? {} : { idempotencyKey: key }),
  });

/** `count` events that go around `players`. */
export const eventLines = (count: number, players = ["ann", "ben", "cho", "dev", "eve"]): string[] =>
  Array.from({ length: count }, (_, n) => eventLine({ player: players[n % players.length]!, n }));

export const never = () => ({ stop: new AbortController().signal, kill: new AbortController().signal });

type RunOptions = Partial<ImportOptions> & Pick<ImportOptions, "file" | "url" | "key">;
type RunExtras = { signals?: ReturnType<typeof never>; onLine?: (line: number, verdict: Verdict) => void };

/** Runs an import with quick pauses; the verdict of each line and what was noted come with the outcome. */
export const importFile = async (options: RunOptions, { signals = never(), onLine }: RunExtras = {}) => {
  const verdicts = new Map<number, Verdict>();
  const notes: string[] = [];
  const outcome = await runImport(
    {
      batch: 1_000,
      concurrency: 1,
      keyless: "stable",
      state: `${options.file}.state`,
      resume: true,
      rejected: `${options.file}.rejected`,
      retry: { attempts: 5, baseDelayMs: 5, maxDelayMs: 20 },
      ...options,
    },
    {
      onProgress: () => {},
      onNote: (text) => void notes.push(text),
      onLine: (line, verdict) => {
        if (verdicts.has(line)) throw new Error(`line ${line} was settled twice`);
        verdicts.set(line, verdict);
        onLine?.(line, verdict);
      },
    },
    signals,
  );
  return { ...outcome, verdicts, notes };
};

export const readRecords = <T>(file: string): T[] =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as T);

/** Runs the command as the command line would. */
export const runCommand = async (file: string, flags: Partial<ImportFlags>) => {
  const [out, err] = [collector(), collector()];
  const defaults = {
    url: "http://localhost:1",
    batch: "1000",
    concurrency: "1",
    keyless: "stable",
    resume: true,
  };
  const terminal = { out: out.stream, err: err.stream };
  const code = await importCommand(file, { rejected: `${file}.rejected`, ...defaults, ...flags }, terminal);
  return { code, out: out.text(), err: err.text() };
};

/** What to do to a request: pass it on, lose it, lose its answer, or answer in the server's place. */
export type Fault =
  | "pass"
  | "lose request"
  | "lose answer"
  | { status: number; headers?: Record<string, string>; body?: string };

type SentRequest = { atMs: number; events: Record<string, unknown>[] };

/**
 * A proxy in front of a running server that does what networks do.
 * @param plan the fault of request n, counted from 1
 */
export const startFaultProxy = async (target: string, plan: (n: number) => Fault = () => "pass") => {
  const requests: SentRequest[] = [];
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts);
      requests.push({ atMs: performance.now(), ...(JSON.parse(body.toString()) as { events: [] }) });
      const fault = plan(requests.length);
      if (fault === "lose request") return void request.socket.destroy();
      if (typeof fault === "object") {
        response.writeHead(fault.status, fault.headers).end(fault.body ?? "");
        return;
      }
      const { host: _host, connection: _connection, ...headers } = request.headers;
      const reply = await fetch(`${target}${request.url}`, {
        method: request.method ?? "POST",
        headers: headers as Record<string, string>,
        body,
      });
      const text = await reply.text();
      if (fault === "lose answer") return void request.socket.destroy();
      const { "content-type": type, "retry-after": retryAfter } = Object.fromEntries(reply.headers);
      const passed = {
        ...(type && { "content-type": type }),
        ...(retryAfter && { "retry-after": retryAfter }),
      };
      response.writeHead(reply.status, passed).end(text);
    };
    answer().catch((error: unknown) => response.destroy(error as Error));
  });
  const { url, close } = await listen(server);
  return { url, requests, stop: close };
};
