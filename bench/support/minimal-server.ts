// The smallest durable event server: Express, a JSON body, one INSERT a request. No credentials, no checks,
// no queue. `plain` adds rows to the events table as it is; `once` keeps the promise of one event for a key,
// by a unique index on a table of its own.
import type { AddressInfo } from "node:net";
import express from "express";
import { newId } from "../../src/domain/kernel/ids.ts";
import { openPostgres } from "../../src/platform/database.ts";
import { poolOf } from "./box.ts";

type Event = Record<string, unknown>;
const [projectId, kind] = process.argv.slice(2);
const [into, conflict] =
  kind === "once" ? ["bench_events", "on conflict do nothing"] : ["tracked_events", ""];
const CONNECTIONS = 8;
const database = await openPostgres(process.env["DATABASE_URL"]!, CONNECTIONS);
const pool = await poolOf(database);

const INSERT = `
  insert into ${into}
    (project_id, id, external_user_id, event_type, properties, occurred_at, received_at, idempotency_key)
  select '${projectId}', id, "externalUserId", "eventType", properties, timestamp, now(), "idempotencyKey"
  from json_to_recordset($1::json) as r(
    id uuid, "externalUserId" text, "eventType" text,
    properties jsonb, timestamp timestamptz, "idempotencyKey" text) ${conflict}`;

const app = express();
app.use(express.json({ limit: "5mb" }));
const store = async (body: Event & { events?: Event[] }) => {
  const events = (body.events ?? [body]).map((event) => ({ ...event, id: newId() }));
  await pool.query(INSERT, [JSON.stringify(events)]);
  return { accepted: events.length, results: events.map(({ id }) => ({ eventId: id })) };
};
app.post("/events", (request, response, next) => {
  store(request.body as Event).then((answer) => response.json(answer), next);
});
const server = app.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
