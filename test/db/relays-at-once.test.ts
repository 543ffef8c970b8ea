import assert from "node:assert/strict";
import { finishRelay } from "../../src/domain/delivery/outbox/relay.ts";
import type { TakenCommit } from "../../src/domain/delivery/outbox/read-queue.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { ownServices } from "../support/processes/services.ts";

const ROUNDS = 8;
const COMMITS = 400;

describe("two relays that took the same commits", () => {
  const own = ownServices({ poolMax: 4 });
  let domain: Domain;
  before(() => {
    domain = openDomain(own.database);
  });

  const taken = async (projectId: string): Promise<TakenCommit[]> => {
    const rows = await domain.sql<
      Omit<TakenCommit, "waiting">
    >`select * from outbox_q where project_id = ${projectId}`;
    return rows.map((row) => ({ ...row, waiting: row.outbox_ids.length }));
  };

  it("end them once and without a deadlock, in whichever order they took them", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const projectId = await domain.addProject();
      await domain.sql`
        insert into outbox_q (project_id, part, outbox_ids)
        select ${projectId}::uuid, n % 8, array[gen_random_uuid()]
        from generate_series(1, ${COMMITS}::int) n`;
      const queued = await taken(projectId);
      assert.equal(queued.length, COMMITS);
      const finish = (order: readonly TakenCommit[]) =>
        domain.transact((work) => finishRelay(work, order, { rows: [], planned: [] }));
      await Promise.all([finish(queued), finish(queued.toReversed())]);
      assert.deepEqual(await taken(projectId), []);
    }
  });
});
