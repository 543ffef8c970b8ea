import { sql } from "kysely";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import type { Transact, Work } from "../../src/domain/kernel/work.ts";
import type { Database } from "../../src/platform/database.ts";
import { eventually } from "../support/eventually.ts";
import { bulkGrant } from "../../src/domain/economy/rewards/references.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { JOBS_MAX, queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { createRule, RULES_MAX } from "../../src/domain/rules/rules.ts";
import { createLobby, NewLobby } from "../../src/domain/social/lobbies/create.ts";
import { OPEN_LOBBIES_MAX } from "../../src/domain/social/lobbies/fields.ts";
import { putEventSchema, SCHEMAS_MAX } from "../../src/domain/tracking/event-schemas.ts";
import { startDatabase } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";

type Act = (work: Work) => Promise<unknown>;

/**
 * Commits one transaction once another has begun beside it, and waits for a lock or is over.
 * @returns the other, whatever becomes of it
 */
const commitBeside = async (
  { database, domain: { transact } }: { database: Database; domain: { transact: Transact } },
  first: Act,
  second: Act,
): Promise<Promise<unknown>[]> => {
  const isMade = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  // A busy machine may look later than a wait for a lock usually ends.
  const one = withTimeouts(LONG, () =>
    transact(async (work) => {
      await first(work);
      isMade.resolve();
      await mayCommit.promise;
    }),
  );
  await isMade.promise;
  let isOver = false;
  const two = withTimeouts(LONG, () => transact(second)).finally(() => {
    isOver = true;
  });
  two.catch(() => undefined);
  await eventually(async () => {
    if (isOver) return true;
    const { rows } = await sql`
      select from pg_locks l join pg_database d on d.oid = l.database
      where not l.granted and d.datname = current_database()`.execute(database.em.fork().getKysely());
    return rows.length > 0;
  });
  mayCommit.resolve();
  await one;
  // In a list, because a promise alone would be waited for.
  return [two];
};

const aRule = (key: string) =>
  RuleDocument.parse({
    key,
    name: key,
    triggers: [{ kind: "EVENT", eventTypes: ["done"] }],
    actions: [{ type: "grant_xp", amount: 1 }],
  });

type Case = {
  max: number;
  /** Reason of the refusal. */
  reason: string;
  add: (work: Work, projectId: string, name: string) => Promise<unknown>;
  /** Adds `count` copies of what `add` has added. */
  copy: (projectId: string, count: number) => ReturnType<typeof sql>;
};

/** Copies the row of a project in a table, each column as it is but for those of `changes`. */
const copies = (table: string, changes: string) => (projectId: string, count: number) =>
  sql`
  insert into ${sql.table(table)}
  select (jsonb_populate_record(t, ${sql.raw(changes)})).* from ${sql.table(table)} t,
    generate_series(1, ${count}::int) n
  where t.project_id = ${projectId}::uuid`;

const cases: Record<string, Case> = {
  jobs: {
    max: JOBS_MAX,
    reason: "JOB_LIMIT",
    add: (work, projectId) =>
      queueJob(work, projectId, { kind: bulkGrant, params: { playerIds: [] }, createdBy: "test" }),
    copy: copies("project_jobs", "jsonb_build_object('id', gen_random_uuid())"),
  },
  rules: {
    max: RULES_MAX,
    reason: "RULE_LIMIT",
    add: (work, projectId, name) => createRule(work, projectId, aRule(name), "test"),
    copy: (projectId, count) => sql`
      insert into rules (project_id, id, key, name, status, draft, draft_version, created_by, created_at,
        updated_at)
      select project_id, gen_random_uuid(), 'r' || n, name, status, draft, draft_version, created_by,
        created_at, updated_at
      from rules, generate_series(1, ${count}::int) n where project_id = ${projectId}::uuid`,
  },
  lobbies: {
    max: OPEN_LOBBIES_MAX,
    reason: "LOBBY_LIMIT",
    add: (work, projectId, name) => {
      const input = NewLobby.parse({ name, mode: "duel", minPlayers: 2, maxPlayers: 2 });
      return createLobby(work, projectId, input, { via: "API" });
    },
    copy: copies("lobbies", "jsonb_build_object('id', gen_random_uuid(), 'code', 'c' || n)"),
  },
  schemas: {
    max: SCHEMAS_MAX,
    reason: "SCHEMA_LIMIT",
    add: (work, projectId, name) =>
      putEventSchema(work, projectId, { name, schema: { type: "object" }, enforcement: "WARN" }),
    copy: copies("event_types", "jsonb_build_object('name', 't' || n)"),
  },
};

describe("the last place of what a project may have a number of", () => {
  const started = madeOnce(
    () => startDatabase(4),
    (made) => made.remove(),
  );

  for (const [name, { max, reason, add, copy }] of Object.entries(cases))
    it(`is taken by one of two that ask at once: ${name}`, async () => {
      const { domain } = started;
      const projectId = await domain.addProject();
      const { transact } = domain;
      const adding = (work: Work) => add(work, projectId, `n${randomUUID()}`);
      await transact(adding);
      await transact(({ db }) => copy(projectId, max - 2).execute(db));
      const [two] = await commitBeside(started, adding, adding);
      await assert.rejects(two!, { code: "CONFLICT", reason });
    });
});
