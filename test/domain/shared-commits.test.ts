import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { sql } from "kysely";
import { conflict, type DomainError } from "../../src/domain/kernel/errors.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createSharedCommits, TENANT_WAITING_MAX } from "../../src/domain/kernel/shared-commits.ts";
import { Apart, together } from "../../src/domain/kernel/together.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

const onError = (error: unknown): void => assert.fail(String(error));
const TENANT = newId();
const PROJECT = newId();

describe("requests that share transactions", () => {
  /** Members of each transaction, by the step that all of them take. */
  let groups: string[][];
  let transactions: number;

  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  before(async () => {
    await sql`create table notes (id int primary key, by text not null)`.execute(
      database.em.fork().getKysely(),
    );
    await sql`grant all on notes to public`.execute(database.em.fork().getKysely());
  });
  beforeEach(async () => {
    groups = [];
    transactions = 0;
    await sql`delete from notes`.execute(database.em.fork().getKysely());
  });

  const meet = together({
    phase: "READS",
    isWrite: false,
    run: async (_work, names: readonly string[]) => {
      groups.push([...names]);
      return names.map((name) => (name.startsWith("bad") ? { error: refused(name) } : { value: name }));
    },
  });

  const note = together({
    phase: "WRITES",
    isWrite: true,
    run: async ({ db }, rows: readonly { id: number; by: string }[]) => {
      await sql`insert into notes select * from json_to_recordset(${JSON.stringify(rows)}::json)
        as r(id int, by text)`.execute(db);
      return rows.map(() => ({ value: undefined }));
    },
  });

  const refused = (name: string): DomainError => conflict("REFUSED", name);

  const commits = (waitMaxMs = 10_000) => {
    const parts = { em: database.em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError };
    const shared = createSharedCommits({
      waitMaxMs,
      transactAs: (scope) => {
        const transact = createTransact(parts, scope);
        return (run) =>
          transact((work) => {
            transactions++;
            return run(work);
          });
      },
    });
    return <T>(
      player: string,
      run: (work: Work) => Promise<T>,
      { isPlain = true, projectId = PROJECT, aheadMs = 0 } = {},
    ) =>
      shared({ role: "web", tenantId: TENANT, projectIds: [projectId], aheadMs }, { player, isPlain })(run);
  };

  it("runs each at the time of its project's clock, which may have been set in between", async () => {
    const share = commits();
    const aheadOf = async (work: Work): Promise<number> => {
      await meet(work, "");
      return work.now.getTime() - work.serverNow.getTime();
    };
    const asked = [0, 5_000, 5_000, 0].map((aheadMs, n) => share(`p${n}`, aheadOf, { aheadMs }));
    assert.deepEqual(await Promise.all(asked), [0, 5_000, 5_000, 0]);
    assert.equal(transactions, 2);
  });

  const notes = async (): Promise<number[]> => {
    const { rows } = await sql<{ id: number }>`select id from notes order by id`.execute(
      database.em.fork().getKysely(),
    );
    return rows.map(({ id }) => id);
  };

  /** The names of the results, or the messages of the errors. */
  const outcomes = async (asked: readonly Promise<unknown>[]): Promise<unknown[]> =>
    (await Promise.allSettled(asked)).map((one) =>
      one.status === "fulfilled" ? one.value : (one.reason as Error).message,
    );

  it("are refused one by one: one bad among 50 harms none, and leaves nothing", async () => {
    const share = commits();
    const emitted: number[] = [];
    const asked = Array.from({ length: 50 }, (_, id) =>
      share(`p${id}`, async (work) => {
        work.afterCommit(() => emitted.push(id));
        const met = await meet(work, id === 20 ? "bad" : "good");
        await note(work, { id, by: met });
        return id;
      }),
    );
    const expected = Array.from({ length: 50 }, (_, id) => (id === 20 ? "bad" : id));
    assert.deepEqual(await outcomes(asked), expected);
    assert.equal(transactions, 1);
    const good = expected.filter((one) => one !== "bad");
    assert.deepEqual(await notes(), good);
    assert.deepEqual(emitted, good);
  });

  it("that fail after they have written undo the transaction, and the others are repeated", async () => {
    const share = commits();
    const asked = Array.from({ length: 5 }, (_, id) =>
      share(`p${id}`, async (work) => {
        await note(work, { id, by: "x" });
        if (id === 2) throw refused("too late");
        return id;
      }),
    );
    assert.deepEqual(await outcomes(asked), [0, 1, "too late", 3, 4]);
    assert.equal(transactions, 6);
    assert.deepEqual(await notes(), [0, 1, 3, 4]);
  });

  it("that use the database by themselves are undone with the transaction as well", async () => {
    const share = commits();
    const asked = Array.from({ length: 3 }, (_, id) =>
      share(`p${id}`, async ({ db }) => {
        await sql`insert into notes values (${id}, 'own')`.execute(db);
        if (id === 1) throw refused("after its own statement");
        return id;
      }),
    );
    assert.deepEqual(await outcomes(asked), [0, "after its own statement", 2]);
    assert.deepEqual(await notes(), [0, 2]);
  });

  it("of one statement that fails are repeated one by one: only the one to blame fails", async () => {
    const share = commits();
    const ids = [1, 2, 2, 3];
    const asked = ids.map((id, i) => share(`p${i}`, (work) => note(work, { id, by: "x" })));
    const settled = await Promise.allSettled(asked);
    assert.equal(settled.filter(({ status }) => status === "rejected").length, 1);
    assert.deepEqual(await notes(), [1, 2, 3]);
  });

  it("that cannot share get a transaction of their own, or share the next one", async () => {
    const share = commits();
    const tries = new Map<string, number>();
    const asked = ["a", "alone", "b", "next"].map((name, id) =>
      share(name, async (work) => {
        const times = (tries.get(name) ?? 0) + 1;
        tries.set(name, times);
        if (name === "alone" && work.isShared) throw new Apart("ALONE", "not with others");
        if (name === "next" && times === 1) throw new Apart("NEXT", "not now");
        await note(work, { id, by: name });
        return name;
      }),
    );
    assert.deepEqual(await outcomes(asked), ["a", "alone", "b", "next"]);
    assert.deepEqual(await notes(), [0, 1, 2, 3]);
    assert.equal(transactions, 3);
  });

  it("of one player are served in their order; two that are not plain share no transaction", async () => {
    const share = commits();
    const served: string[] = [];
    const serve = (name: string, isPlain: boolean) =>
      share(
        "ann",
        async (work) => {
          await meet(work, name);
          served.push(name);
        },
        { isPlain },
      );
    const asked = [
      serve("1", true),
      serve("2", true),
      serve("3", false),
      serve("4", true),
      serve("5", false),
    ];
    await Promise.all(asked);
    assert.deepEqual(served, ["1", "2", "3", "4", "5"]);
    assert.deepEqual(groups, [["1", "2"], ["3"], ["4"], ["5"]]);
  });

  it("of another project never share", async () => {
    const share = commits();
    const other = newId();
    await Promise.all([
      share("a", (work) => meet(work, "a")),
      share("b", (work) => meet(work, "b"), { projectId: other }),
      share("c", (work) => meet(work, "c")),
    ]);
    assert.deepEqual(groups.map((group) => group.join("")).toSorted(), ["ac", "b"]);
  });

  it("that wait for too long are refused as by a busy server, and do nothing", async () => {
    const share = commits(20);
    const gate = Promise.withResolvers<void>();
    const first = share("a", () => gate.promise);
    await nextTurn();
    await nextTurn();
    const second = share("b", (work) => note(work, { id: 1, by: "b" }));
    await assert.rejects(second, { code: "SERVICE_UNAVAILABLE", reason: "SERVER_BUSY" });
    gate.resolve();
    await first;
    assert.deepEqual(await notes(), []);
  });

  it("are refused where too many of a tenant wait, and those of others are not", async () => {
    const share = commits();
    const gate = Promise.withResolvers<void>();
    const first = share("a", () => gate.promise);
    await nextTurn();
    await nextTurn();
    const waiting = Array.from({ length: TENANT_WAITING_MAX }, (_, i) => share(`p${i}`, async () => i));
    const busy = { code: "SERVICE_UNAVAILABLE", reason: "SERVER_BUSY" };
    await assert.rejects(
      share("b", async () => "too many"),
      busy,
    );
    gate.resolve();
    await first;
    assert.equal((await Promise.all(waiting)).length, TENANT_WAITING_MAX);
    assert.equal(await share("b", async () => "served"), "served");
  });
});
