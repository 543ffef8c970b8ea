// Loads events with COPY from Node, as fast as it goes: the rate that PostgreSQL takes rows at with these
// indexes.
import { openPostgres } from "../../src/platform/database.ts";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { type PoolClient, poolOf } from "./box.ts";
import { PLAYERS, randomKey, sampleEvent } from "./sample.ts";

export type CopyJob = {
  databaseUrl: string;
  projectId: string;
  /** Every table an accepted event goes into, or the events alone. */
  tables: "all" | "events";
  rows: number;
  connections: number;
  warmMs: number;
  measureMs: number;
};

export type CopyResult = { eventsPerSecond: number; sent: number; cpu: number };

/** One COPY as pg's client takes it: an object that submits itself and is told the answers. */
const copy = (client: PoolClient, statement: string, rows: string): Promise<void> =>
  new Promise((resolve, reject) => {
    type Wire = { query(text: string): void; sendCopyFromChunk(chunk: Buffer): void; endCopyFrom(): void };
    const ignore = () => undefined;
    let failure: Error | undefined;
    client.query({
      submit: (wire: Wire) => wire.query(statement),
      handleCopyInResponse: (wire: Wire) => {
        wire.sendCopyFromChunk(Buffer.from(rows));
        wire.endCopyFrom();
      },
      handleCommandComplete: ignore,
      handleError: (error: Error) => void (failure = error),
      handleReadyForQuery: () => (failure ? reject(failure) : resolve()),
    });
  });

const COPIES = {
  events:
    "copy tracked_events (project_id, id, external_user_id, event_type, properties, occurred_at, " +
    "received_at, idempotency_key) from stdin",
  dedupe: "copy event_dedupe (project_id, idempotency_key, event_id, payload_hash) from stdin",
  queue: "copy event_q (project_id, part, event_id) from stdin",
};

const escapeText = (text: string): string => text.replaceAll("\\", "\\\\");

const batchOf = (projectId: string, rows: number) => {
  const now = new Date().toISOString();
  let [events, dedupe, queue] = ["", "", ""];
  for (let i = 0; i < rows; i++) {
    const event = sampleEvent(Math.floor(Math.random() * PLAYERS));
    const { externalUserId, eventType, timestamp, idempotencyKey } = event;
    const id = newId();
    const properties = escapeText(JSON.stringify(event.properties));
    const row = [projectId, id, externalUserId, eventType, properties, timestamp, now, idempotencyKey];
    events += `${row.join("\t")}\n`;
    dedupe += `${projectId}\t${idempotencyKey}\t${id}\t${randomKey()}\n`;
    queue += `${projectId}\t${partitionOf(projectId, externalUserId)}\t${id}\n`;
  }
  return { events, dedupe, queue };
};

const run = async (job: CopyJob): Promise<CopyResult> => {
  const database = await openPostgres(job.databaseUrl, job.connections);
  const pool = await poolOf(database);
  const state = { sent: 0, measured: 0, isMeasuring: false, isOver: false };
  const lanes = Array.from({ length: job.connections }, async () => {
    const client = await pool.connect();
    while (!state.isOver) {
      const batch = batchOf(job.projectId, job.rows);
      await client.query("begin");
      await copy(client, COPIES.events, batch.events);
      if (job.tables === "all") {
        await copy(client, COPIES.dedupe, batch.dedupe);
        await copy(client, COPIES.queue, batch.queue);
      }
      await client.query("commit");
      state.sent += job.rows;
      if (state.isMeasuring) state.measured += job.rows;
    }
    client.release();
  });
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  await wait(job.warmMs);
  state.isMeasuring = true;
  const [startMs, startCpu] = [performance.now(), process.cpuUsage()];
  await wait(job.measureMs);
  state.isMeasuring = false;
  const seconds = (performance.now() - startMs) / 1000;
  const { user, system } = process.cpuUsage(startCpu);
  state.isOver = true;
  await Promise.all(lanes);
  return {
    eventsPerSecond: state.measured / seconds,
    sent: state.sent,
    cpu: (user + system) / 1e6 / seconds,
  };
};

process.on("message", (job: CopyJob) => void run(job).then((result) => process.send?.(result)));
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
