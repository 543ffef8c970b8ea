import assert from "node:assert/strict";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { sql } from "kysely";
import { z } from "zod";
import { isWebhookType, shapeOf } from "../../../src/domain/delivery/webhooks/catalogue.ts";
import { type Happened, webhookBody } from "../../../src/domain/delivery/webhooks/plan.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";

const ajv = new Ajv2020({ allErrors: true });
addFormats.default(ajv);
const validators = new Map<string, ValidateFunction>();

/** Checks an event against the schema of its type, closed: nothing may be in it that is not named there. */
export const problemsOf = (type: string, event: unknown): string[] => {
  const shape = shapeOf(type);
  if (!shape) return [`${type} is of no type that there is`];
  const validate = validators.get(type) ?? ajv.compile(z.toJSONSchema(shape, { io: "output" }));
  validators.set(type, validate);
  if (validate(event)) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${type} ${instancePath} ${message} ${JSON.stringify(params)}`,
  );
};

let lookedAt = "0";

/** Holds what was made to happen since the last look, as webhooks get it, against its schemas. */
export const assertEventShapes = async (transact: Transact): Promise<void> => {
  const { rows } = await transact(async ({ db }) => {
    // What is erased of a player is emptied.
    const found = await sql<Happened>`
      select id, project_id as "projectId", type, player_id as "playerId", data, created_at as "createdAt"
      from outbox where data <> '{}' and xmin::text::bigint >= ${lookedAt}::bigint`.execute(db);
    const next = await sql<{ at: string }>`
      select pg_snapshot_xmin(pg_current_snapshot())::text as at`.execute(db);
    lookedAt = next.rows[0]!.at;
    return found;
  });
  const problems = rows
    .filter(({ type }) => isWebhookType(type))
    .flatMap((row) => {
      const body = webhookBody(row);
      const event = body === undefined ? undefined : JSON.parse(body);
      // One that is too large is shortened, and says so.
      return !event || event.data.truncated === true ? [] : problemsOf(row.type, event);
    });
  assert.deepEqual([...new Set(problems)], []);
};
