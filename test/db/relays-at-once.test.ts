import assert from "node:assert/strict";
import { sql } from "kysely";
import { finishRelay } from "../../src/domain/delivery/outbox/finish-relay.ts";
import type { TakenCommit } from "../../src/domain/delivery/outbox/read-queue.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { rowsOf } from "../support/domain/rule-projects.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { temporaryDir } from "../support/processes/process.ts";

const ROUNDS = 8;
const COMMITS = 400;

describe("two relays that took the same commits", function () {
  this.timeout(120_000);
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let domain: Domain;
  before(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path);
    database = await openPostgres(services.databaseUrl, 4);
    domain = openDomain(database);
  });
  after(async () => {
    await database?.close();
    await services?.remove();
    await dir?.remove();
  });

  const taken = async (projectId: string): Promise<TakenCommit[]> => {
    const rows = await rowsOf(
      domain,
      sql<Omit<TakenCommit, "waiting">>`select * from outbox_q where project_id = ${projectId}`,
    );
    return rows.map((row) => ({ ...row, waiting: row.outbox_ids.length }));
  };

  it("end them once and without a deadlock, in whichever order they took them", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const projectId = await domain.addProject();
      await domain.transact(({ db }) =>
        sql`
          insert into outbox_q (project_id, part, outbox_ids)
          select ${projectId}::uuid, n % 8, array[gen_random_uuid()]
          from generate_series(1, ${COMMITS}::int) n`.execute(db),
      );
      const queued = await taken(projectId);
      assert.equal(queued.length, COMMITS);
      const finish = (order: readonly TakenCommit[]) =>
        domain.transact((work) => finishRelay(work, order, { rows: [], planned: [] }));
      await Promise.all([finish(queued), finish(queued.toReversed())]);
      assert.deepEqual(await taken(projectId), []);
    }
  });
});
