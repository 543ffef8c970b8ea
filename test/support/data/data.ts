import assert from "node:assert/strict";
import { sql } from "kysely";
import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";
import type { Tenant, TestApp } from "../app/app.ts";
import { allProcessed } from "../app/processed.ts";
import { eventually } from "../eventually.ts";
import { type Client, must } from "../http/client.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";

type Side = Pick<Tenant, "key">;

const BATCH = 1_000;

/** Sends events as batches, in their order, until they are processed; none may be refused. Returns their ids. */
export const trackAll = async (
  api: Client,
  { key }: Side,
  events: readonly object[],
  timeoutMs = 60_000,
): Promise<string[]> => {
  const ids: string[] = [];
  for (let at = 0; at < events.length; at += BATCH) {
    const batch = { events: events.slice(at, at + BATCH) };
    const { accepted, results } = must(await api.post("/api/v1/events/batch", batch, { key }), 200);
    assert.equal(accepted, batch.events.length, JSON.stringify(results.slice(0, 3)));
    ids.push(...results.map((one: { eventId: string }) => one.eventId));
  }
  await allProcessed(api, { key }, timeoutMs);
  return ids;
};

/** The text of an export by GET /analytics/export. */
export const exported = async (
  { url }: Pick<Client, "url">,
  { key }: Side,
  query: Record<string, string>,
): Promise<string> => {
  const answer = await fetch(`${url}/api/v1/analytics/export?${new URLSearchParams(query).toString()}`, {
    headers: { "X-API-Key": key },
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  assert.equal(answer.status, 200, bytes.toString());
  return bytes.toString();
};

/** An export of POST /analytics/exports whose file is complete. */
export const aStoredExport = async (
  api: Client,
  { key }: Side,
  body: object,
): Promise<{ id: string; rows: number; bytes: number; fileName: string }> => {
  const { id } = must(await api.post("/api/v1/analytics/exports", body, { key }), 201);
  const read = async () => must(await api.get(`/api/v1/analytics/exports/${id}`, { key }), 200);
  await eventually(async () => ["SUCCEEDED", "FAILED"].includes((await read()).status), {
    timeoutMs: 60_000,
    label: "the export is over",
  });
  const found = await read();
  assert.equal(found.status, "SUCCEEDED", found.error);
  return found;
};

/** The bytes of a stored export, or the part that `range` names. */
export const download = async (
  { url }: Pick<Client, "url">,
  { key }: Side,
  id: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; bytes: Buffer; headers: Headers }> => {
  const answer = await fetch(`${url}/api/v1/analytics/exports/${id}/download`, {
    headers: { "X-API-Key": key, ...headers },
  });
  return {
    status: answer.status,
    bytes: Buffer.from(await answer.arrayBuffer()),
    headers: answer.headers,
  };
};

/** The open cursors of the database that serves everybody by one session. */
export const openCursors = async ({ app }: TestApp): Promise<string[]> => {
  const { rows } = await app.transact(({ db }) =>
    sql<{ name: string }>`select name from pg_cursors where name like 'pages_%'`.execute(db),
  );
  return rows.map(({ name }) => name);
};

const TRAVEL = new URL("../../../../shared/data/travel-se-2011-2014.ndjson.gz", import.meta.url).pathname;

export const hasTravelData = existsSync(TRAVEL);

/** A line of the file, which is an event as the batch endpoint takes it. */
export type Line = {
  externalUserId: string;
  eventType: string;
  properties: Record<string, unknown>;
  timestamp: string;
  idempotencyKey: string;
};

/** Every line of a file of events, in its order. */
export async function* linesIn(path: string): AsyncGenerator<Line> {
  for await (const text of createInterface({ input: createReadStream(path).pipe(createGunzip()) }))
    yield JSON.parse(text) as Line;
}

/** The events before a date, in the order of the file. */
export const travelLines = async (until: string): Promise<Line[]> => {
  const lines: Line[] = [];
  for await (const line of linesIn(TRAVEL)) {
    if (line.timestamp >= until) break;
    lines.push(line);
  }
  return lines;
};

const ROWS = 5_000;

/**
 * Stores events with their players as if they had been taken in and processed in this order, straight into
 * their tables: for questions about events alone, of which the public way takes minutes.
 */
export const storePastEvents = async (
  { app }: TestApp,
  projectId: string,
  lines: readonly Line[],
): Promise<void> => {
  // Whom it knows already it leaves alone.
  const users = [...new Set(lines.map(({ externalUserId }) => externalUserId))];
  for (let at = 0; at < users.length; at += ROWS) {
    const rows = users.slice(at, at + ROWS).map((user) => ({ id: newId(), user }));
    await app.transact(({ db }) =>
      sql`
        insert into players (project_id, id, external_user_id, created_at, updated_at)
        select ${projectId}::uuid, id, "user", now(), now()
        from json_to_recordset(${JSON.stringify(rows)}::json) as x(id uuid, "user" text)
        on conflict do nothing`.execute(db),
    );
  }
  for (let at = 0; at < lines.length; at += ROWS) {
    const rows = lines.slice(at, at + ROWS).map((line) => ({ id: newId(), ...line }));
    await app.transact(({ db }) =>
      sql`
        insert into tracked_events
          (project_id, id, external_user_id, event_type, properties, occurred_at, received_at,
            idempotency_key)
        select ${projectId}::uuid, id, "externalUserId", "eventType", properties, timestamp, now(),
          "idempotencyKey"
        from json_to_recordset(${JSON.stringify(rows)}::json) as x(id uuid, "externalUserId" text,
          "eventType" text, properties jsonb, timestamp timestamptz, "idempotencyKey" text)`.execute(db),
    );
  }
};
