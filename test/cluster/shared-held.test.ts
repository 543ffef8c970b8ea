import assert from "node:assert/strict";
import { changeBalance } from "../../src/domain/economy/currencies/balances.ts";
import { lockPlayersById } from "../../src/domain/progression/load.ts";
import { WEB, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import type { Database } from "../../src/platform/database.ts";
import type { Domain } from "../support/domain/domain.ts";
import { aProjectOfChanges, openSharing, type Share } from "../support/domain/sharing.ts";
import { eventually } from "../support/eventually.ts";
import { startDatabase } from "../support/processes/services.ts";

describe("a player whose row is held", function () {
  this.timeout(60_000);
  let database: Database;
  let domain: Domain;
  let remove: () => Promise<void>;
  let projectId: string;
  let share: Share;
  const ids: string[] = [];

  before(async () => {
    ({ database, domain, remove } = await startDatabase(6));
    projectId = await aProjectOfChanges(domain);
    for (const name of ["held", "free", "other"]) ids.push(await domain.addPlayer(projectId, name));
    ({ share } = await openSharing(database, domain, projectId));
  });
  after(() => remove());

  const grant = (name: string, amount = 1): Promise<number> =>
    withTimeouts(WEB, () =>
      share(name, async (work) => {
        const key = { projectId, id: `ext:${name}` };
        const change = { currencyKey: "coins", amount, reason: "test", cause: { kind: "API" } as const };
        return (await changeBalance(work, key, change)).balance.balance;
      }),
    );

  /** Runs `run` while another transaction holds the player. */
  const whileHeld = async (run: () => Promise<void>): Promise<void> => {
    const released = Promise.withResolvers<void>();
    let isHeld = false;
    const holder = domain.transact(async (work) => {
      await lockPlayersById(work, projectId, [ids[0]!]);
      isHeld = true;
      await released.promise;
    });
    try {
      await eventually(() => isHeld);
      await run();
    } finally {
      released.resolve();
      await holder;
    }
  };

  it("does not keep the others waiting who share its transaction, nor those who come after", async () => {
    let first: Promise<number> | undefined;
    let isServed = false;
    await whileHeld(async () => {
      first = grant("held").finally(() => (isServed = true));
      // None of these is answered before it would be without the one that waits.
      assert.deepEqual(await Promise.all([grant("free"), grant("other")]), [101, 101]);
      assert.equal(await grant("free"), 102);
      assert.equal(isServed, false);
    });
    assert.equal(await first, 101);
  });

  it("is changed in the order of the requests once it is free", async () => {
    const order: number[] = [];
    let all: Promise<unknown> = Promise.resolve();
    await whileHeld(async () => {
      const requests = [1, 2, 3].map((n) => grant("held", n).then(() => void order.push(n)));
      all = Promise.all(requests);
      assert.equal(await grant("other"), 102);
      assert.deepEqual(order, []);
    });
    await all;
    assert.deepEqual(order, [1, 2, 3]);
  });

  it("that stays held is refused as busy after the limit of a wait, and nothing is changed", async () => {
    await whileHeld(async () => {
      await assert.rejects(grant("held", 50), { code: "55P03" });
    });
    assert.equal(await grant("held"), 108);
  });
});
