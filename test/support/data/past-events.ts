import { sql } from "kysely";
import { newId } from "../../../src/domain/kernel/ids.ts";
import type { TestApp } from "../app/app.ts";
import type { Line } from "./travel.ts";

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
