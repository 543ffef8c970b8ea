import { once } from "node:events";
import {
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
  type ServerOptions,
} from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import type { App } from "../../../src/app.ts";
import { readConfig } from "../../../src/config.ts";
import { guardedHttpServer } from "../../../src/http/guard.ts";
import type { AnyRoute } from "../../../src/http/route.ts";
import { createHttp } from "../../../src/http/server.ts";
import { createLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { KnownBlocks } from "../../../src/domain/accounts/rate-limits/ip-blocks.ts";
import { createLimiter } from "../../../src/platform/limiter.ts";
import { Refused } from "../checkers/checkers.ts";
import type { Answer } from "./client.ts";
import { listen } from "./listen.ts";

export type TinyAnswer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read bodies of every shape
  json: any;
};
type TinyRequest = { headers?: OutgoingHttpHeaders; body?: string | Buffer | readonly string[] };

/** A server of the given routes alone, with what it logged. */
export type TinyHttp = {
  port: number;
  lines: string[];
  /** A body that is a list of strings goes out in chunks, without a length. */
  send(method: string, path: string, request?: TinyRequest): Promise<TinyAnswer>;
  /** Sends bytes as they are and gives all that comes back. */
  raw(bytes: string): Promise<string>;
  /** The same, for answers that are no text. */
  rawBytes(bytes: string): Promise<Buffer>;
  close(): Promise<void>;
};

const logged = (lines: string[]) =>
  createLog({ logLevel: "debug" }, { write: (line) => void lines.push(line) });

const noDatabase: App["transact"] = async () => {
  throw new Error("these routes have no database");
};

/** As much of an App as routes without a database need; `parts` replaces any of it. */
export const tinyApp = (lines: string[], parts: Partial<App> = {}): App => {
  const app = {
    config: readConfig({ TRUSTED_PROXIES: "127.0.0.1/32" }),
    log: logged(lines),
    clock: () => new Date("2026-01-02T03:04:05.678Z"),
    metrics: createMetrics(),
    health: async () => [{ name: "database", ok: true }],
    limiter: createLimiter(),
    transact: noDatabase,
    transactAs: () => noDatabase,
    replicaAs: () => noDatabase,
    ...parts,
  } as App;
  return { ...app, blocks: parts.blocks ?? new KnownBlocks(app) };
};

const sendTo = (
  port: number,
  method: string,
  path: string,
  { headers, body }: TinyRequest,
): Promise<TinyAnswer> =>
  new Promise((resolve, reject) => {
    const chunks = typeof body === "string" || Buffer.isBuffer(body) ? [body] : (body ?? []);
    const isChunked = Array.isArray(body);
    const length =
      isChunked || body === undefined ? {} : { "Content-Length": Buffer.byteLength(chunks[0] ?? "") };
    const type = body === undefined ? {} : { "Content-Type": "application/json" };
    const outgoing = httpRequest({
      port,
      host: "127.0.0.1",
      method,
      path,
      agent: false,
      headers: { ...type, ...length, ...headers },
    });
    outgoing.once("error", reject);
    outgoing.once("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () => {
        const text = Buffer.concat(parts).toString();
        const isJson = response.headers["content-type"]?.includes("json") === true && text !== "";
        const json: unknown = isJson ? JSON.parse(text) : undefined;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
      });
    });
    for (const chunk of chunks) outgoing.write(chunk);
    outgoing.end();
  });

const rawTo = async (port: number, bytes: string): Promise<Buffer> => {
  const socket = connect(port, "127.0.0.1");
  const parts: Buffer[] = [];
  socket.on("data", (part: Buffer) => void parts.push(part));
  socket.on("error", () => undefined);
  socket.write(bytes);
  await once(socket, "close");
  return Buffer.concat(parts);
};

export const startTinyHttp = async (
  routes: readonly AnyRoute[],
  parts: Partial<App> = {},
  onUpgrade?: (request: IncomingMessage, socket: Duplex) => void,
  timing?: ServerOptions,
): Promise<TinyHttp> => {
  const lines: string[] = [];
  const server = guardedHttpServer(undefined, timing);
  if (onUpgrade) server.on("upgrade", onUpgrade);
  server.on("request", createHttp(tinyApp(lines, parts), routes));
  const { port, close } = await listen(server);
  return {
    port,
    lines,
    send: (method, path, request = {}) => sendTo(port, method, path, request),
    raw: async (bytes) => (await rawTo(port, bytes)).toString(),
    rawBytes: (bytes) => rawTo(port, bytes),
    close,
  };
};

/** Refusals that say nothing of an earlier attempt, or of this one. */
const UNSURE = new Set(["IDEMPOTENCY_IN_PROGRESS", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR"]);

type Fault = { code?: string; reason?: string };

const refusalOf = ({ code, reason }: Fault): Error => {
  const names = [reason, code].flatMap((name) => name ?? []);
  const text = names.join(" ");
  return names.some((name) => UNSURE.has(name)) ? new Error(text) : new Refused(text);
};

/** The body of a success. @throws Refused when nothing was done, another error when nobody knows */
export const answered = ({ status, body }: Answer): Answer["body"] => {
  if (status < 300) return body;
  if (status >= 500) throw new Error(`${status} ${JSON.stringify(body)}`);
  throw refusalOf(body?.error ?? {});
};

/** As `answered`, for a request to a room, or a join with the SDK. */
export const replied = async <T>(request: Promise<T>): Promise<T> => {
  try {
    return await request;
  } catch (error) {
    const { reason, code } = error as { reason?: Fault; code?: number };
    if (typeof reason === "object") throw refusalOf(reason);
    if (typeof code === "number" && code >= 400 && code < 500 && code !== 429)
      throw new Refused((error as Error).message);
    throw error;
  }
};
