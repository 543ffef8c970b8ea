import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createSharedCommits } from "../../src/domain/kernel/shared-commits.ts";
import { Apart, together } from "../../src/domain/kernel/together.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { createMetrics } from "../../src/metrics.ts";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";
import { madeOnce } from "../support/made.ts";

const onError = (error: unknown): void => assert.fail(String(error));

describe("requests that leave their shared transaction", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  before(async () => {
    const db = database.em.fork().getKysely();
    await sql`create table leavers (id int primary key)`.execute(db);
    await sql`grant all on leavers to public`.execute(db);
  });

  const note = together({
    phase: "WRITES",
    isWrite: true,
    run: async ({ db }, ids: readonly number[]) => {
      await sql`insert into leavers select unnest(${`{${ids.join(",")}}`}::int[])`.execute(db);
      return ids.map(() => ({ value: undefined }));
    },
  });

  it("are counted by how they leave: alone, for the next, or when it fails", async () => {
    const { commits: observer, registry } = createMetrics();
    const parts = { em: database.em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError };
    const shared = createSharedCommits({
      waitMaxMs: 10_000,
      observer,
      transactAs: (scope) => createTransact(parts, scope),
    });
    const scope = { role: "web", tenantId: newId(), projectIds: [newId()] } as const;
    const share = (player: string, run: (work: Work) => Promise<void>): Promise<void> =>
      shared(scope, { player, isPlain: true })(run);
    const left = async (): Promise<number[]> => {
      const found = await registry.getSingleMetric("laurel_shared_commit_left_total")!.get();
      return ["alone", "next", "failed"].map(
        (how) => found.values.find(({ labels }) => labels["how"] === how)?.value ?? 0,
      );
    };
    assert.deepEqual(await left(), [0, 0, 0]);

    const once = new Set<string>();
    const names = ["a", "alone-1", "next-1", "alone-2", "b"];
    const asked = names.map((name, id) =>
      share(name, async (work) => {
        if (name.startsWith("alone") && work.isShared) throw new Apart("ALONE", "not with others");
        if (name.startsWith("next") && !once.has(name)) {
          once.add(name);
          throw new Apart("NEXT", "not now");
        }
        await note(work, id);
      }),
    );
    await Promise.all(asked);
    assert.deepEqual(await left(), [2, 1, 0]);

    // Two rows have one id: the statement fails for all three, and then for one.
    const same = [10, 11, 10].map((id, n) => share(`same-${n}`, (work) => note(work, id)));
    const settled = await Promise.allSettled(same);
    assert.equal(settled.filter(({ status }) => status === "rejected").length, 1);
    assert.deepEqual(await left(), [2, 1, 3]);
  });
});
