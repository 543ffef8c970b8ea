// Sends requests over HTTP/1.1 as fast as the server answers, from a process of its own. Requests are made by
// patching new keys into ready bytes, and of the answers only status and length are read, so that the sender
// does not become what is measured.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { percentile } from "./stats.ts";
import { KEY_LENGTH, KEY_MARK, PLAYERS, randomKey, sampleEvent } from "./sample.ts";

export type LoadJob = {
  port: number;
  path: string;
  headers: Record<string, string>;
  /** Events in a request; 0 sends single events, not a batch of one. */
  batch: number;
  /** Instead of events: whole requests that take turns. Every `KEY_MARK` in them becomes a fresh key. */
  requests?: readonly string[];
  /** The status that is a success; default 200. */
  status?: string;
  connections: number;
  warmMs: number;
  measureMs: number;
};

export type LoadResult = {
  /** Events, or whole requests, answered within the measured time, by second. */
  eventsPerSecond: number;
  /** Of every answered request, the warm-up included. */
  sent: number;
  failures: string[];
  /** Of one core, during the measured time. */
  cpu: number;
  p50Ms: number;
  p99Ms: number;
};

const TEMPLATES = 8;

/** Request bytes, and where in them the keys stand. */
type Template = { bytes: Buffer; keysAt: number[] };

const makeTemplate = ({ path, headers, batch }: LoadJob): Template => {
  const events = Array.from({ length: Math.max(1, batch) }, () =>
    sampleEvent(Math.floor(Math.random() * PLAYERS)),
  );
  const body = JSON.stringify(batch === 0 ? events[0] : { events });
  const head = Object.entries({ Host: "127.0.0.1", "Content-Type": "application/json", ...headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
  const text = `POST ${path} HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`;
  const keysAt = events.map(({ idempotencyKey }) => text.indexOf(idempotencyKey));
  return { bytes: Buffer.from(text, "latin1"), keysAt };
};

const templateOf = (text: string): Template => ({
  bytes: Buffer.from(text, "latin1"),
  keysAt: [...text.matchAll(new RegExp(KEY_MARK, "g"))].map(({ index }) => index),
});

const templatesOf = (job: LoadJob): Template[] => {
  if (job.requests) return job.requests.map(templateOf);
  return Array.from({ length: job.batch > 200 ? 2 : TEMPLATES }, () => makeTemplate(job));
};

type Totals = {
  sent: number;
  measured: number;
  latencies: number[];
  failures: string[];
  isMeasuring: boolean;
  isOver: boolean;
};

/** Reads answers off a socket: calls back with the status of each once its body is complete. */
const onAnswers = (socket: Socket, answered: (status: string) => void): void => {
  let left = 0;
  let head = "";
  let status = "";
  socket.on("data", (chunk: Buffer) => {
    let at = 0;
    while (at < chunk.length) {
      if (left === 0) {
        const end = chunk.indexOf("\r\n\r\n", at);
        if (end < 0) {
          head += chunk.toString("latin1", at);
          return;
        }
        head += chunk.toString("latin1", at, end);
        at = end + 4;
        left = Number(/content-length: (\d+)/i.exec(head)?.[1]);
        status = head.slice(9, 12);
        head = "";
      }
      const taken = Math.min(left, chunk.length - at);
      left -= taken;
      at += taken;
      if (left === 0) answered(status);
    }
  });
};

const runConnection = async (job: LoadJob, totals: Totals): Promise<void> => {
  const templates = templatesOf(job);
  const success = job.status ?? "200";
  const socket = connect(job.port, "127.0.0.1").setNoDelay(true);
  await once(socket, "connect");
  const done = Promise.withResolvers<void>();
  // Connections begin at different requests, so that they do not all send the same one.
  let turn = Math.floor(Math.random() * templates.length);
  let sentMs = 0;
  const send = () => {
    if (totals.isOver) {
      socket.end();
      return done.resolve();
    }
    const { bytes, keysAt } = templates[turn++ % templates.length]!;
    for (const at of keysAt) bytes.write(randomKey(), at, KEY_LENGTH, "latin1");
    sentMs = performance.now();
    socket.write(bytes);
  };
  onAnswers(socket, (status) => {
    const events = Math.max(1, job.batch);
    if (status === success) totals.sent += events;
    else totals.failures.push(status);
    if (status === success && totals.isMeasuring) {
      totals.measured += events;
      totals.latencies.push(performance.now() - sentMs);
    }
    send();
  });
  socket.on("error", done.reject);
  send();
  await done.promise;
};

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const run = async (job: LoadJob): Promise<LoadResult> => {
  const totals: Totals = {
    sent: 0,
    measured: 0,
    latencies: [],
    failures: [],
    isMeasuring: false,
    isOver: false,
  };
  const connections = Array.from({ length: job.connections }, () => runConnection(job, totals));
  await wait(job.warmMs);
  totals.isMeasuring = true;
  const [startMs, startCpu] = [performance.now(), process.cpuUsage()];
  await wait(job.measureMs);
  totals.isMeasuring = false;
  const seconds = (performance.now() - startMs) / 1000;
  const { user, system } = process.cpuUsage(startCpu);
  totals.isOver = true;
  await Promise.all(connections);
  const latencies = totals.latencies.toSorted((a, b) => a - b);
  return {
    eventsPerSecond: totals.measured / seconds,
    sent: totals.sent,
    failures: totals.failures.slice(0, 5),
    cpu: (user + system) / 1e6 / seconds,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
  };
};

process.on("message", (job: LoadJob) => void run(job).then((result) => process.send?.(result)));
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
