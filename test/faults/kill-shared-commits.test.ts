import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/crashing.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";

const PLAYERS = 20;
const CLIENTS = 32;
const KILLS = 3;
/** How long requests go on before a kill, in ms, and how many are answered by then. */
const BUSY_MS = 400;
const ANSWERED = 10;

type Request = { key: string; reference: string; player: number; answer?: string };

const answeredOf = (sent: readonly Request[]): Request[] => sent.filter(({ answer }) => answer !== undefined);

describe("a process that is killed in the midst of shared commits", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let tenant: Tenant;

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    database = await openPostgres(services.databaseUrl, 2);
  });
  after(async () => {
    await database.close();
    await services.remove();
    await directory.remove();
  });

  const start = async (): Promise<{ server: Laurel; client: Client }> => {
    const port = await freePort();
    const env = { ...services.env, PUBLIC_URL: "http://localhost", PORT: String(port) };
    return { server: await startProcess(["serve"], env), client: clientOf(`http://127.0.0.1:${port}`) };
  };

  const pathOf = (player: number): string => `/api/v1/players/ext:p${player}/xp`;
  const send = async (client: Client, request: Request): Promise<string> => {
    const { key, reference, player } = request;
    const headers = { "X-Idempotency-Key": key };
    const answer = await client.post(pathOf(player), { amount: 1, reference }, { key: tenant.key, headers });
    return JSON.stringify(must(answer, 201));
  };

  /** Sends without a pause until the process has gone. */
  const keepSending = async (client: Client, sent: Request[], isOver: () => boolean): Promise<void> => {
    while (!isOver()) {
      const request: Request = {
        key: randomUUID(),
        reference: randomUUID(),
        player: Math.floor(Math.random() * PLAYERS),
      };
      sent.push(request);
      try {
        request.answer = await send(client, request);
      } catch {
        return;
      }
    }
  };

  /** The requests that have their row under the key, and those that have their line in the ledger. */
  const done = async (sent: readonly Request[]) => {
    const db = database.em.fork().getKysely();
    const keys = await sql<{ key: string }>`
      select key from idempotency_keys where key = any(${sent.map(({ key }) => key)})`.execute(db);
    const lines = await sql<{ reference: string }>`
      select r as reference from unnest(${sent.map(({ reference }) => reference)}::text[]) as u(r)
      join ledger_entries l
        on l.idempotency_key = 'api:ref:' || encode(sha256(convert_to(r, 'UTF8')), 'hex')`.execute(db);
    const told = await sql<{ n: number }>`
      select count(*) as n from outbox where type = 'player.xp_granted'`.execute(db);
    return {
      keys: keys.rows.map(({ key }) => key).toSorted(),
      lines: lines.rows.map(({ reference }) => reference).toSorted(),
      told: told.rows[0]!.n,
    };
  };

  it("has done what it answered, and each other request as a whole or not at all, once", async () => {
    const sent: Request[] = [];
    for (let round = 0; round < KILLS; round++) {
      const { server, client } = await start();
      if (round === 0) {
        tenant = await aTenant(client);
        for (let n = 0; n < PLAYERS; n++)
          must(await client.post("/api/v1/players", { externalUserId: `p${n}` }, { key: tenant.key }), 201);
      }
      let isOver = false;
      const clients = Array.from({ length: CLIENTS }, () => keepSending(client, sent, () => isOver));
      const before = answeredOf(sent).length;
      await delay(BUSY_MS);
      await eventually(() => answeredOf(sent).length - before > ANSWERED);
      await kill(server);
      isOver = true;
      await Promise.all(clients);
    }
    // A transaction whose commit was sent may still be on its way.
    const open = sql<{ n: number }>`select count(*) as n from pg_stat_activity
      where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`;
    await eventuallyHolds(async () => {
      assert.equal((await open.execute(database.em.fork().getKysely())).rows[0]!.n, 0);
    });
    const answered = answeredOf(sent);
    assert.ok(answered.length > PLAYERS && answered.length < sent.length, "killed while it was busy");
    const { keys, lines, told } = await done(sent);
    const isDone = new Set(keys);
    for (const { key } of answered) assert.ok(isDone.has(key), "an answered request was done");
    const doneRequests = sent.filter(({ key }) => isDone.has(key));
    assert.deepEqual(lines, doneRequests.map(({ reference }) => reference).toSorted());
    assert.equal(told, lines.length);

    const { server, client } = await start();
    try {
      const repeat = async (request: Request): Promise<void> => {
        const again = await send(client, request);
        if (request.answer !== undefined) assert.equal(again, request.answer);
      };
      for (let i = 0; i < sent.length; i += CLIENTS)
        await Promise.all(sent.slice(i, i + CLIENTS).map(repeat));
      const all = await done(sent);
      assert.equal(all.lines.length, sent.length, "a repetition does what was not done, and nothing twice");
      await eventuallyHolds(() => assertInvariants(database.em), { timeoutMs: 60_000 });
    } finally {
      await kill(server);
    }
  });
});
