import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import { sql } from "kysely";
import { connectionSlots, Bulkhead } from "../../src/domain/kernel/bulkhead.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { RowScope } from "../../src/domain/kernel/work.ts";
import type { NewEvent } from "../../src/domain/tracking/event-input.ts";
import type { Sender } from "../../src/domain/tracking/meter.ts";
import { createIngest, type GroupCommitOptions } from "../../src/domain/tracking/group-commit.ts";
import type { Database } from "../../src/platform/database.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { pluck } from "../support/pluck.ts";

const refusal = (): Error => new Error("too many");

describe("what tenants share", () => {
  let database: Database;
  before(async () => {
    database = await openMemoryDatabase();
  });
  after(() => database.close());

  it("slots: an owner holds no more than its own, all no more than there are, and each has its turn", () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 40 }),
        async (ofOwner, ofProcess, owners) => {
          const bounds = { ofKey: { slots: ofOwner }, ofAll: { slots: ofProcess } };
          const slots = new Bulkhead({ ...bounds, waitMaxMs: 60_000, refusal });
          const held: string[] = [];
          const begun: number[] = [];
          const work = (owner: string, n: number) => async (): Promise<void> => {
            held.push(owner);
            begun.push(n);
            assert(held.length <= ofProcess);
            assert(held.filter((one) => one === owner).length <= ofOwner);
            for (let turn = 0; turn < n % 5; turn++) await Promise.resolve();
            held.splice(held.indexOf(owner), 1);
          };
          await Promise.all(owners.map((owner, n) => slots.run(owner, work(owner, n))));
          assert.equal(new Set(begun).size, owners.length);
        },
      ),
    ));

  it("connections: a request waits for those that another tenant holds, not for all it sent", async () => {
    const parts = {
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error: unknown) => assert.fail(String(error)),
      connections: connectionSlots({ connections: 1, connectionWaitMs: 60_000 }),
    };
    const of = (): RowScope => ({ role: "web", tenantId: randomUUID(), projectIds: [] });
    const [many, few] = [createTransact(parts, of()), createTransact(parts, of())];
    const done: string[] = [];
    const read = (name: string, transact: typeof many): Promise<void> =>
      transact(async ({ db }) => {
        await sql`select 1`.execute(db);
        done.push(name);
      });
    const flood = Array.from({ length: 60 }, () => read("many", many));
    await Promise.all([...flood, read("few", few)]);
    assert(done.indexOf("few") <= 2, done.join(" "));
  });

  describe("ingestion", () => {
    const eventOf = (projectId: string, user: string): NewEvent => ({
      id: newId(),
      p: projectId,
      u: user,
      t: "goal",
      d: "{}",
      ts: Date.now(),
      at: Date.now(),
      k: null,
      x: null,
      h: partitionOf(projectId, user),
    });
    const ids = new Map<string, string>();
    const senderOf = (name: string): Sender => {
      const tenantId = ids.get(name) ?? newId();
      ids.set(name, tenantId);
      return { tenantId, tenant: { plan: "ENTERPRISE", planOverrides: {} } };
    };
    const batchOf = (projectId: string, size: number): NewEvent[] =>
      Array.from({ length: size }, (_, n) => eventOf(projectId, `u${n}`));
    const ingestWith = (options: Partial<GroupCommitOptions>) => {
      const domain = openDomain(database);
      const ingest = createIngest({
        transact: domain.transact,
        maxEvents: 10,
        statementRows: 100,
        concurrency: 1,
        maxWaiting: 1_000,
        onStored: () => undefined,
        ...options,
      });
      return { ingest, addProject: domain.addProject };
    };

    it("stores a newcomer's event after one request of each other tenant, whatever waits", async () => {
      const { ingest, addProject } = ingestWith({});
      const [many, few] = [await addProject(), await addProject()];
      const done: string[] = [];
      const store = async (name: string, batch: NewEvent[]): Promise<void> => {
        await ingest(senderOf(name), batch);
        done.push(name);
      };
      const flood = Array.from({ length: 30 }, () => store("many", batchOf(many, 10)));
      await Promise.all([...flood, ...batchOf(few, 3).map((event) => store("few", [event]))]);
      assert.deepEqual(done.slice(0, 5).toSorted(), ["few", "few", "few", "many", "many"]);
      assert.equal(done.length, 33);
    });

    it("passes over a request that does not fit into the commit, and stores it with the next", async () => {
      const { ingest, addProject } = ingestWith({});
      const projects = [await addProject(), await addProject(), await addProject()];
      const done: string[] = [];
      const store = async (name: string, batch: NewEvent[]): Promise<void> => {
        await ingest(senderOf(name), batch);
        done.push(name);
      };
      const first = store("first", batchOf(projects[0]!, 1));
      const all = [
        store("small", batchOf(projects[1]!, 1)),
        store("large", batchOf(projects[2]!, 30)),
        store("small", batchOf(projects[1]!, 1)),
      ];
      await Promise.all([first, ...all]);
      assert.deepEqual(done, ["first", "small", "small", "large"]);
    });

    it("refuses requests that would wait for the same lock one after another", async () => {
      const { transact } = openDomain(database);
      let tries = 0;
      const slow: GroupCommitOptions["transact"] = async () => {
        tries++;
        await delay(1_500);
        throw Object.assign(new Error("canceling statement due to lock timeout"), { code: "55P03" });
      };
      const { ingest, addProject } = ingestWith({
        transact: (run) => (tries < 100 ? slow(run) : transact(run)),
      });
      const projects = await Promise.all(Array.from({ length: 8 }, () => addProject()));
      const outcomes = await Promise.allSettled(
        projects.map((projectId) => ingest(senderOf(projectId), batchOf(projectId, 1))),
      );
      assert.ok(outcomes.every(({ status }) => status === "rejected"));
      // The first alone, then a group of seven, of which a few are tried alone.
      assert.ok(tries <= 6, `${tries} tries`);
    });

    it("accepts a tenant's events while another's have reached their limit", async () => {
      const { ingest, addProject } = ingestWith({ maxWaiting: 100 });
      const [many, few] = [await addProject(), await addProject()];
      const flood = await Promise.allSettled([
        ...Array.from({ length: 12 }, () => ingest(senderOf("many"), batchOf(many, 10))),
        ...batchOf(few, 3).map((event) => ingest(senderOf("few"), [event])),
      ]);
      const refused = flood.flatMap((one, n) => (one.status === "rejected" ? [{ n, one }] : []));
      // The first is being stored already, and half of 100 events wait.
      assert.deepEqual(pluck(refused, "n"), [6, 7, 8, 9, 10, 11]);
      for (const { one } of refused)
        assert(one.reason instanceof DomainError && one.reason.reason === "SERVER_BUSY");
    });
  });
});
