import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { newId, partitionOf, PARTITIONS } from "../../../src/domain/kernel/ids.ts";
import { NewLeaderboard } from "../../../src/domain/evaluation/boards/definition.ts";
import type { Leaderboard } from "../../../src/domain/progression/load-plan.ts";
import { createLeaderboard, entrySource } from "../../../src/domain/leaderboards/leaderboards.ts";
import { createMemoryRanks } from "../../../src/domain/leaderboards/rank-index.ts";
import {
  createRankMoves,
  type RankMoves,
  withOwnChanges,
} from "../../../src/domain/leaderboards/rank-moves.ts";
import { BoardCache, type LeaderboardParts } from "../../../src/domain/leaderboards/live-list.ts";
import { OwnChanges, YoungCache } from "../../../src/domain/kernel/caches.ts";
import { readBy } from "../../../src/domain/kernel/read.ts";
import type { Turn } from "../../../src/domain/evaluation/turn.ts";
import { relayPartitions } from "../../../src/domain/delivery/outbox/relay.ts";
import { changePlayer } from "../../../src/domain/progression/change.ts";
import { createPlanCache, loadPlans } from "../../../src/domain/progression/plan.ts";
import { grantXp } from "../../../src/domain/evaluation/xp/xp.ts";
import { identifyPlayer } from "../../../src/domain/progression/players/players.ts";
import type { Topics } from "../../../src/domain/kernel/topics.ts";
import { storeEvents } from "../../../src/domain/tracking/event-input.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { type Database, openEmbeddedDatabase } from "../../../src/platform/database.ts";
import { migratedCluster } from "./migrated-cluster.ts";
import { madeOnce } from "../made.ts";
import { type Statement, statementsOf } from "../statement.ts";
import { outageOf } from "../../../src/domain/kernel/outages.ts";
import {
  processApart,
  type Processed,
  type ProcessOptions,
  processPartitions,
} from "../../../src/domain/progression/claim.ts";
import { groupsOf } from "../../../src/domain/progression/claim-notes.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../../src/domain/progression/queue.ts";
import { createDefinition } from "../../../src/domain/economy/definitions/definitions.ts";
import { reconcile } from "../../../src/domain/registries/reconcile/reconcile.ts";
import { DEFINITION_KINDS } from "../../../src/domain/registries/definition-kinds.ts";
import type { LoopHit } from "../../../src/domain/evaluation/rule-event.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../../src/domain/rules/rules.ts";
import type { App } from "../../../src/app.ts";

/** Connections of a database on PostgreSQL that stands for an embedded one. */
const POOL_MAX = 4;

/** Every partition of the queue; those of the outbox are fewer. */
export const ALL_PARTS: readonly number[] = Array.from({ length: PARTITIONS }, (_, part) => part);

/** External ids whose events wait in one partition. */
export const usersIn = (projectId: string, part: number, count: number, prefix = "u"): string[] => {
  const users: string[] = [];
  for (let n = 0; users.length < count; n++)
    if (partitionOf(projectId, `${prefix}${n}`) === part) users.push(`${prefix}${n}`);
  return users;
};

/** One of them. */
export const userIn = (projectId: string, part: number): string => usersIn(projectId, part, 1)[0]!;

/** Compiles the plans of all events that wait. */
const preparePlans = async ({
  transact,
  plans,
}: Pick<ProcessOptions, "transact" | "plans">): Promise<void> => {
  const { rows } = await transact(({ db }) =>
    sql<{ id: string }>`select distinct project_id as id from event_q`.execute(db),
  );
  for (const { id } of rows) await transact((work) => loadPlans(work, [id], plans));
};

/** As `processPartitions`, when the plans of all that waits are compiled. */
export const claimParts = async (
  options: ProcessOptions,
  places: readonly PartitionCursor[],
): Promise<Processed> => {
  await preparePlans(options);
  return processPartitions(options, places);
};

/** Claims that may be undone one after another because others were at work on the same rows. */
const BUSY_MAX = 20;

/** As a worker does: a claim that met others, in a deadlock say, is undone and made again. */
const retrying = () => {
  let busy = 0;
  return async <T>(claim: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await claim();
    } catch (error) {
      if (outageOf(error) !== "busy" || ++busy > BUSY_MAX) throw error;
      return undefined;
    }
  };
};

/**
 * Processes partitions as a worker does, claim by claim, until nothing waits in those that nobody else has.
 * @returns how many events those claims took
 */
export const processParts = async (
  options: Omit<ProcessOptions, "onLeft">,
  parts: Iterable<number>,
): Promise<number> => {
  let events = 0;
  const unlessBusy = retrying();
  let places: PartitionCursor[] = [...parts].map((part) => ({ part, afterProject: FIRST_PROJECT }));
  while (places.length > 0) {
    const left: PartitionCursor[] = [];
    const onLeft = (of: readonly PartitionCursor[]): void => void left.push(...of);
    const done = await unlessBusy(() => processPartitions({ ...options, onLeft }, places));
    if (!done) continue;
    events += done.events;
    const prepared = (await done.preparing) ?? [];
    const late = prepared.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    places = [...left, ...done.again, ...late];
    for (const group of groupsOf(done.apart)) {
      const { events: taken = 0 } = (await unlessBusy(() => processApart(options, group))) ?? {};
      events += taken;
      if (taken > 0) places.push({ part: group[0]!.part, afterProject: FIRST_PROJECT });
    }
  }
  return events;
};

/** `type` defaults to "goal", `at` to now. */
export type TestEvent = { user: string; type?: string; at?: Date; properties?: Json };

/** The domain over a database, without a server: a test says when events are processed and relayed. */
export type Domain = LeaderboardParts & {
  sql: Statement;
  rankMoves: RankMoves;
  /** Of which nobody hears. */
  topics: Topics;
  addProject(): Promise<string>;
  addPlayer(projectId: string, externalUserId: string): Promise<string>;
  addBoard(projectId: string, definition: object): Promise<Leaderboard>;
  /** Grants XP, as an API call would or, with `eventId`, as a rule would. */
  grant(projectId: string, playerId: string, amount: number, eventId?: string): Promise<void>;
  /** Answers the ids of the events. */
  track(projectId: string, events: readonly TestEvent[]): Promise<string[]>;
  /** Processes until the queue is empty. */
  process(): Promise<void>;
  relay(): Promise<void>;
  /** Entries as they are stored: external id to [rankScore, rankTie], by rankScore. */
  entries(board: Leaderboard): Promise<[externalUserId: string, rankScore: number, rankTie: number][]>;
};

const silent: Topics = {
  publish: () => undefined,
  publishIfSubscribed: async () => undefined,
  subscribe: async () => () => undefined,
};

/** @param mayDie whether the test ends processes: an event that was evaluated meanwhile has a try less */
export const openDomain = ({ em }: Database, clock = () => new Date(), mayDie = false): Domain => {
  const onError = (error: unknown): void => {
    if (!mayDie || !String(error).includes("PROCESS_DIED")) assert.fail(String(error));
  };
  const changes = new OwnChanges();
  const transact = createTransact({ em, clock, wakeUps: NO_WAKE_UPS, onError, changes });
  const ranks = withOwnChanges(createMemoryRanks(entrySource(transact)), { changes, topics: silent });
  const options = { transact, plans: createPlanCache(), claimLimit: 100, onError };
  return {
    transact,
    sql: statementsOf(transact),
    ranks,
    read: readBy(transact),
    clock,
    boards: new BoardCache(),
    listFacts: new YoungCache({ items: 100, bytes: 100_000, changes }),
    rankMoves: createRankMoves({ ranks, topics: silent }),
    topics: silent,
    addProject: () => transact(({ db }) => insertProject(db)),
    addPlayer: async (projectId, externalUserId) =>
      (await transact((work) => identifyPlayer(work, projectId, { externalUserId }))).player.id,
    addBoard: (projectId, definition) =>
      transact((work) => createLeaderboard(work, projectId, NewLeaderboard.parse(definition))),
    grant: async (projectId, playerId, amount, eventId) => {
      const cause = eventId === undefined ? { kind: "API" as const } : { kind: "RULE" as const, eventId };
      const grant = { amount, reason: "test", key: newId(), cause };
      const give = (turn: Turn) => {
        grantXp(turn, grant);
        return () => undefined;
      };
      await transact((work) => changePlayer(work, { projectId, id: playerId }, give));
    },
    track: async (projectId, events) => {
      const rows = events.map((event) => newEvent(projectId, event));
      await transact((work) => storeEvents(work, rows));
      return rows.map(({ id }) => id);
    },
    process: async () => {
      await processParts(options, ALL_PARTS);
    },
    relay: async () => {
      while ((await relayPartitions({ transact, ranks, topics: silent }, ALL_PARTS)).again.length > 0);
    },
    entries: (board) => transact(({ db }) => readEntries(db, board)),
  };
};

type Executor = Parameters<Parameters<Transact>[0]>[0]["db"];

const insertProject = async (db: Executor): Promise<string> => {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  await sql`
    insert into tenants (id, name, approval_status, plan, created_at, updated_at)
    values (${tenantId}, 'Test', 'APPROVED', 'FREE', now(), now())`.execute(db);
  await sql`
    insert into projects (id, tenant_id, name, created_at, updated_at)
    values (${projectId}, ${tenantId}, 'Test', now(), now())`.execute(db);
  return projectId;
};

const newEvent = (
  projectId: string,
  { user, type = "goal", at = new Date(), properties = {} }: TestEvent,
) => ({
  id: newId(),
  p: projectId,
  u: user,
  t: type,
  d: JSON.stringify(properties),
  ts: at.getTime(),
  at: Date.now(),
  k: null,
  x: null,
  h: partitionOf(projectId, user),
});

type Row = { external_user_id: string; rank_score: number; rank_tie: number };

const readEntries = async (db: Executor, board: Leaderboard): Promise<[string, number, number][]> => {
  const result = await sql<Row>`
    select p.external_user_id, e.rank_score, e.rank_tie from leaderboard_entries e
    join players p on p.project_id = e.project_id and p.id = e.player_id
    where e.project_id = ${board.projectId} and e.period_id = ${board.periodId}
    order by e.rank_score, e.rank_tie, p.external_user_id`.execute(db);
  return result.rows.map((row) => [row.external_user_id, row.rank_score, row.rank_tie]);
};

/** Whether tests of an embedded database run on PostgreSQL instead: TEST_DATABASE=postgres npm test. */
export const isOnPostgres = process.env["TEST_DATABASE"] === "postgres";

const openOnPostgres = async (): Promise<Database> => {
  // Loaded here, because it loads this file.
  const { startDatabase } = await import("../processes/services.ts");
  const { database, remove } = await startDatabase(POOL_MAX);
  return { ...database, close: remove };
};

/** A migrated database in memory, of a test's own; the caller closes it. */
export const openMemoryDatabase = async (): Promise<Database> =>
  isOnPostgres ? openOnPostgres() : openEmbeddedDatabase("memory://", await migratedCluster());

/** The domain over an embedded database of its own, for the tests of one `describe`. */
export const memoryDomain = (clock?: () => Date, mayDie = false) => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  return { database, domain: madeOnce(() => openDomain(database, clock, mayDie)) };
};

type Queryable = { query: (text: string, ...rest: unknown[]) => Promise<{ rows: unknown[] }> };
type Engine = { transaction: (run: (tx: Queryable) => Promise<unknown>) => Promise<unknown> };

/** The engine of an embedded database, for tests that reach into its transactions. */
export const engineOf = async ({ em }: Database): Promise<Engine> => {
  assert(!isOnPostgres, "this test reaches into the embedded engine: run it without TEST_DATABASE");
  const connection = em.getConnection() as unknown as { getNativeClient(): Promise<Engine> };
  return connection.getNativeClient();
};

/** Notes every statement that a transaction sends to the engine, and tells of the rows of each answer. */
export const listen = async (
  database: Database,
  onRows: (count: number) => void = () => undefined,
): Promise<string[]> => {
  const engine = await engineOf(database);
  const statements: string[] = [];
  const transaction = engine.transaction.bind(engine);
  engine.transaction = (run) =>
    transaction((tx) => {
      const query = tx.query.bind(tx);
      tx.query = async (text, ...rest) => {
        statements.push(text.replaceAll(/\s+/g, " ").trim().slice(0, 60));
        const result = await query(text, ...rest);
        onRows(result.rows.length);
        return result;
      };
      return run(tx);
    });
  return statements;
};

/** Makes a definition of a project, as designers write it. */
export const define = async (
  domain: Domain,
  projectId: string,
  kind: string,
  document: Json,
): Promise<void> => {
  const found = DEFINITION_KINDS.find((one) => one.kind === kind)!;
  const definition = found.schema.parse(document);
  await domain.transact((work) =>
    createDefinition(work, projectId, found, { definition, createdBy: "test" }),
  );
};

/** Creates and publishes a rule; answers its id. */
export const publish = async (
  domain: Domain,
  projectId: string,
  document: Json,
  mode: "ACTIVE" | "SHADOW" = "ACTIVE",
): Promise<string> => {
  const rule = RuleDocument.parse({
    name: "A rule",
    triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
    actions: [{ type: "grant_xp", amount: 1 }],
    ...document,
  });
  await domain.transact((work) => createRule(work, projectId, rule, "test"));
  const { id } = await domain.transact((work) =>
    publishRule(work, projectId, rule.key, { publishedBy: "test", mode }),
  );
  return id;
};

/** Processes until the queue is empty. */
export const processAll = async (
  { transact }: Domain,
  options: Partial<ProcessOptions> & { onLoop?: (hit: LoopHit) => void } = {},
  parts: readonly number[] = ALL_PARTS,
): Promise<void> => {
  const onError = (error: unknown): never => assert.fail(String(error));
  const all = { transact, plans: createPlanCache(), claimLimit: 100, onError, ...options };
  // One player's event may send another to a partition that was done before.
  while ((await processParts(all, parts)) > 0);
};

/** Rows of a query. */
export const rowsOf = async <T>({ transact }: Domain, query: RawBuilder<T>): Promise<T[]> =>
  transact(async ({ db }) => (await query.execute(db)).rows);

/** XP by external id. */
export const xpOf = async (domain: Domain, projectId: string): Promise<Record<string, number>> => {
  const rows = await domain.sql<{ u: string; xp: number }>`
    select external_user_id as u, xp from players where project_id = ${projectId} order by 1`;
  return Object.fromEntries(rows.map(({ u, xp }) => [u, xp]));
};

/** The error of events that tests have fail. */
export const MADE_TO_FAIL = "made to fail";

/** Has an event that was processed look as if it had been given up; its id. */
export const failed = async ({ transact }: Pick<App, "transact">, projectId: string, eventId: string) => {
  await transact(({ db }) =>
    sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      values (${projectId}, ${eventId}, 'FAILED', ${MADE_TO_FAIL}, 4, now())`.execute(db),
  );
  return eventId;
};

/** What the reconciliation of a project finds, which is nothing where all is sound. */
export const findingsOf = async (
  { transact }: Pick<App, "transact">,
  projectId: string,
): Promise<string[]> => {
  const found: string[] = [];
  await reconcile(transact, {
    projectId,
    repair: false,
    onFinding: ({ invariant, message }) => void found.push(`${invariant} ${message}`),
  });
  return found;
};
